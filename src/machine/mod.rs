//! The pure core: what is true, what may be asked, what follows (laws 1, 2, 4, 5, 7, 8).
//!
//! ```text
//! input + state --decide--> events or refusal      events --apply--> state
//! state --owed--> effects    state --next_deadline--> when to look again    state --violations--> our own bugs
//! ```
//! No clock, file, process, thread, randomness, environment or async: time comes with the input, and the same
//! inputs give the same events. Everything here is total: no input makes it fail, at worst it is refused or late.

mod apply;
mod apply_mail;
mod deadline;
mod decide;
mod effect;
mod ending;
mod event;
mod family;
mod footprint;
mod id;
mod input;
mod interrupts;
mod invariants;
mod keyed;
mod lane;
mod leave;
pub mod limits;
mod mail;
mod message;
mod notice;
mod observe;
mod operation;
mod packed;
mod past;
mod ready;
mod recall;
mod reconcile;
mod refusal;
mod replay;
mod report;
mod retain;
mod rows;
mod session;
mod state;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod turns;

pub use apply::{At, Illegal, apply};
pub use deadline::next_deadline;
pub use decide::{Answer, Decision, decide, prunable};
pub use effect::{Effect, Hand, open_operations, outstanding, owed};
pub use ending::Halt;
pub use event::{
    Beat, Conflict, Decided, Event, FenceChange, Generation, HostChange, MessageChange, MessageEvent, Plan,
    QueueChange, Reclaimed, SessionChange,
};
pub use family::Family;
pub use footprint::{Footprint, Runs};
pub use id::{Digest, Key, Malformed, MessageId, Name, OperationId, Process, ReportId, Scope, SessionId};
pub use input::{Action, Carried, Input, Observation, PreparedSession, Recalled, Request, Target, Word};
pub use interrupts::Interrupts;
pub use invariants::violations;
pub use keyed::is_settled_by;
pub use lane::{Lane, follow};
pub use leave::chain_ended;
pub use mail::{Parcel, may_know, stored};
pub use message::{Adapter, Body, Message, MessageState, Mode, Sender};
pub use notice::{Notice, news};
pub use operation::{Actor, Failure, Gained, Kind, Operation, Outcome, Readied, Turned, Withdrawal};
pub use past::Past;
pub use ready::{Readiness, Sign};
pub use recall::recalled;
pub use reconcile::{Ended, Evidence, Lock, Marks, Part, Trace};
pub use refusal::Refusal;
pub use replay::{Stale, replayable};
pub use report::{Content, Post, Report, Verdict, may_read};
pub use retain::{Known, Needed};
pub use session::{
    Ask, Cause, Exit, ExitError, Fence, Move, Obstacle, Phase, REQUESTS, Run, Session, Status, Survivor, on_request,
};
pub use state::State;
pub use stored::{Counted, Stored};
pub use table::Table;
pub use time::Time;
pub use turns::Turn;
