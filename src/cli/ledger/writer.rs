//! Who can write the ledger for a command that changes it: the broker, or where none runs, this process under the writer lock.

use super::super::context::Context;
use super::super::failure::Failure;
use super::super::status;
use super::source::Look;
use crate::os::paths::StateRoot;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::RunState;

/// Who can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// The broker of this root; it is to be asked.
    Broker,
    /// Nobody does; this process can.
    This,
}

/// The root whose ledger is looked at, and who can write there.
///
/// # Errors
/// `broker_blocked` where nobody can now; what keeps the root from being opened.
pub(super) fn of(look: &Look, context: &Context) -> Result<(StateRoot, Writer), Failure> {
    let path = context.root_path(&look.attempt)?;
    let root = StateRoot::open(&path).map_err(|error| look.failure(WireError::from(&error)))?;
    let root = root.ok_or_else(|| look.missing("ledger", "there is no state root", "another --root"))?;
    let state = status::look(&root, context, context.bounded(status::ANSWER_WITHIN));
    match state.map_err(|error| look.failure(error))?.state {
        RunState::Running => Ok((root, Writer::Broker)),
        RunState::Absent => Ok((root, Writer::This)),
        state @ (RunState::Starting | RunState::Draining | RunState::Unresponsive | RunState::Blocked) => {
            let (name, _tone) = status::state_name(state);
            let message = format!("the broker is {name}, so nobody can write now; nothing was done");
            let error = WireError::new(ErrorCode::BrokerBlocked, message).reason(name);
            Err(look.failure(error.with("remedy", "ostler status, and the same command again")))
        }
    }
}
