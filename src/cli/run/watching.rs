//! What the broker says of the session while `run` follows its host: one question, asked once, on the connection that started the session.
//! A broker that leaves or dies is not started again and not waited for: somebody may have meant it, and the host needs none.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::super::context::Broker;
use super::super::output::Output;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::method::Method;
use crate::rpc::wire::{Session, SessionResult, WaitFor, WaitParams};

/// What became of the question.
#[derive(Debug)]
pub(super) enum Word {
    /// The session has ended; as it is since.
    Ended(Box<Session>),
    /// There is no broker any more.
    Without,
    /// It does not tell.
    Refused(WireError),
}

/// The question under way.
#[derive(Debug)]
pub(super) struct Watching {
    word: Receiver<Word>,
}

/// Begins to wait for the broker's word. That it went is told at once.
///
/// # Errors
/// If no thread can be had.
pub(super) fn begin(session: &str, mut broker: Broker, output: Output) -> io::Result<Watching> {
    let (sender, word) = mpsc::sync_channel(1);
    let session = session.to_owned();
    let waiter = std::thread::Builder::new().name("broker".to_owned()).spawn(move || {
        let params = WaitParams { session: session.clone(), until: WaitFor::Ended, timeout_ms: None };
        let word = match broker.client.ask_here::<_, SessionResult>(Method::SessionWait, &params) {
            Ok(result) => Word::Ended(Box::new(result.session)),
            Err(error) => match without(error.code) {
                Some(how) => {
                    let goes_on = "this follows it to its end without one";
                    output
                        .progress(&format!("ostler: the broker {how}; session {session} is with its host, {goes_on}"));
                    Word::Without
                }
                None => Word::Refused(error),
            },
        };
        // Nobody waits for it any more only when the output ended first.
        drop(sender.send(word));
    });
    // Let go of: it ends with the answer, or with this process.
    drop(waiter?);
    Ok(Watching { word })
}

impl Watching {
    /// The word, if it comes in time.
    pub(super) fn word(&self, within: Duration) -> Option<Word> {
        self.word.recv_timeout(within).ok()
    }
}

/// How the broker went, if the error means that it did.
fn without(code: ErrorCode) -> Option<&'static str> {
    if code == ErrorCode::Draining {
        return Some("is being shut down");
    }
    (code == ErrorCode::BrokerUnreachable).then_some("is gone")
}
