//! The only place in the tests that sleeps: polling a condition up to a deadline.
#![expect(clippy::disallowed_methods, reason = "polls with a pause, and measures its deadline")]

use std::time::{Duration, Instant};

/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; fails the test with `what` once `deadline` has passed.
#[track_caller]
pub(crate) fn wait_until(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(deadline, what, || condition().then_some(()));
}

/// Waits until `look` finds something and gives it back; fails the test with `what` once `deadline` has passed.
#[track_caller]
pub(crate) fn wait_for<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    match poll(deadline, &mut look) {
        Some(found) => found,
        None => panic!("not within {deadline:?}: {what}"),
    }
}

/// As [`wait_for`], but the passing of `deadline` is an answer too.
pub(crate) fn poll<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    loop {
        // The clock is read before the look, so that the last look comes after the deadline.
        let late = Instant::now() >= end;
        if let Some(found) = look() {
            return Some(found);
        }
        if late {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::poll;
    use crate::support::{wait_for, wait_until};
    use std::time::Duration;

    #[test]
    fn waiting_ends_when_the_condition_holds() {
        let mut looks = 0;
        let found = wait_for(Duration::from_secs(60), "three looks", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
        assert_eq!(poll(Duration::ZERO, || Some(1)), Some(1), "a condition that holds already needs no time");
    }

    #[test]
    #[should_panic(expected = "the moon is full")]
    fn waiting_past_the_deadline_fails_and_says_for_what() {
        wait_until(Duration::ZERO, "the moon is full", || false);
    }
}
