//! The calls in flight of one connection. They are polled by the connection's own task: most are answered by the next turn, and a
//! task of their own would cost more than they do.
//!
//! Promise: a call that changes something goes on to its end when its connection ends; any other is dropped where it stands.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde_json::Value;
use tokio::runtime::Handle;

use super::error::WireError;
use super::wire::Encoded;

/// What a call comes to: the id of its request, and the answer.
pub(super) type Call = (Value, Result<Encoded, WireError>);

type Running = Pin<Box<dyn Future<Output = Call> + Send>>;

#[derive(Default)]
pub(super) struct Calls {
    changing: Vec<Running>,
    looking: Vec<Running>,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.changing.len() + self.looking.len()
    }

    /// Adds a call; [`Calls::next`] begins it.
    pub(super) fn add(&mut self, changes: bool, call: impl Future<Output = Call> + Send + 'static) {
        let calls = if changes { &mut self.changing } else { &mut self.looking };
        calls.push(Box::pin(call));
    }

    /// The next one that is done; none if none is in flight. May be dropped at any point and asked again.
    pub(super) async fn next(&mut self) -> Option<Call> {
        poll_fn(|context| match (done(&mut self.changing, context), self.len()) {
            (Some(call), _) => Poll::Ready(Some(call)),
            (None, 0) => Poll::Ready(None),
            (None, _) => done(&mut self.looking, context).map_or(Poll::Pending, |call| Poll::Ready(Some(call))),
        })
        .await
    }
}

/// Takes out one that is done. Polls all before it: there are few, and a wake does not tell whose it is.
fn done(calls: &mut Vec<Running>, context: &mut Context<'_>) -> Option<Call> {
    for at in 0..calls.len() {
        if let Poll::Ready(call) = calls[at].as_mut().poll(context) {
            drop(calls.swap_remove(at));
            return Some(call);
        }
    }
    None
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the caller's key finds out what became of it.
        if let Ok(runtime) = Handle::try_current() {
            self.changing.drain(..).for_each(|call| drop(runtime.spawn(call)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::error::ErrorCode;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn what_changes_something_goes_on_wherever_its_connection_ends_and_what_looks_does_not() {
        for (changes, polls) in [true, false].into_iter().flat_map(|changes| (0..=3).map(move |polls| (changes, polls)))
        {
            let ended = Arc::new(AtomicBool::new(false));
            let end = Arc::clone(&ended);
            let mut calls = Calls::default();
            calls.add(changes, async move {
                for _ in 0..3 {
                    yield_now().await;
                }
                end.store(true, Ordering::Relaxed);
                (Value::Null, Err(WireError::new(ErrorCode::Internal, "")))
            });
            for _ in 0..polls {
                let next = std::pin::pin!(calls.next());
                assert!(next.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            drop(calls);
            for _ in 0..10 {
                yield_now().await;
            }
            assert_eq!(ended.load(Ordering::Relaxed), changes, "changes: {changes}, after {polls} polls");
        }
    }
}
