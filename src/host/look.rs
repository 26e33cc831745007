//! A look at something costly, shared by all who asked for it before it began: each gets what was seen after it asked, and many who ask
//! at once cost about two looks, not one each.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is looked at by many.
#[derive(Debug)]
pub(super) struct Shared<T> {
    /// How many have asked.
    asked: AtomicU64,
    last: Mutex<Option<Seen<T>>>,
}

#[derive(Debug)]
struct Seen<T> {
    /// How many had asked when this look began.
    asked: u64,
    what: Arc<T>,
}

impl<T> Shared<T> {
    pub(super) const fn new() -> Self {
        Self { asked: AtomicU64::new(0), last: Mutex::new(None) }
    }

    /// What was seen after this call began: by this caller's own look, or by that of another one.
    ///
    /// # Errors
    /// That of this caller's own look.
    pub(super) fn see(&self, look: impl FnOnce() -> io::Result<T>) -> io::Result<Arc<T>> {
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = last.as_ref()
            && ticket < seen.asked
        {
            return Ok(Arc::clone(&seen.what));
        }
        let asked = self.asked.load(Ordering::SeqCst);
        let what = Arc::new(look()?);
        *last = Some(Seen { asked, what: Arc::clone(&what) });
        Ok(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn many_who_ask_during_a_look_share_the_next_one() {
        let shared = Shared::new();
        let looks = AtomicU64::new(0);
        let look = || Ok(looks.fetch_add(1, Ordering::SeqCst));
        let (go, wait) = mpsc::channel();
        std::thread::scope(|scope| {
            let (shared, look) = (&shared, &look);
            let first = scope.spawn(move || {
                let slow = || {
                    wait.recv().unwrap();
                    look()
                };
                *shared.see(slow).unwrap()
            });
            while shared.asked.load(Ordering::SeqCst) < 1 {
                std::thread::yield_now();
            }
            let rest: Vec<_> = (0..7).map(|_| scope.spawn(move || *shared.see(look).unwrap())).collect();
            while shared.asked.load(Ordering::SeqCst) < 8 {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            assert_eq!(first.join().unwrap(), 0);
            assert!(
                rest.into_iter().all(|each| each.join().unwrap() == 1),
                "nobody gets what was seen before it asked"
            );
        });
        assert_eq!(*shared.see(look).unwrap(), 2, "who comes later looks anew");
        assert!(shared.see(|| Err(io::Error::other("blind"))).is_err());
        assert_eq!(*shared.see(look).unwrap(), 3);
    }
}
