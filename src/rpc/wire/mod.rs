//! Every JSON document of the protocol, as Rust types with their JSON Schema.
//!
//! Promises: unknown members of parameters are refused, unknown members of results are ignored, the type of a member
//! never depends on its value (an [`Arg`](crate::os::arg::Arg) is the one union, as the contract has it), times are RFC 3339 UTC with
//! microseconds, durations whole milliseconds named `..._ms`.

use crate::os::build::build;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{ErrorCode, WireError};

mod broker;
mod events;
mod hello;
mod key;
mod ledger;
mod message;
mod notice;
mod operation;
mod output;
mod report;
mod schema;
mod session;
mod spawn;
mod timestamp;

pub use crate::os::arg::Arg;
pub use broker::{
    Broker, BrokerStatusParams, BrokerStatusResult, LedgerHead, LockState, OwnerRecord, RunState, SessionCounts,
    ShutdownParams, ShutdownResult,
};
pub use events::{
    Event, EventsSubscribeParams, EventsSubscribeResult, EventsUnsubscribeParams, EventsUnsubscribeResult,
};
pub use hello::{ClientInfo, HelloParams, HelloResult, Identity, IdentityDoc, IdentityKind, Limits, Role, RootId};
pub use key::{KEY_BYTES_MAX, Key};
pub use ledger::{
    HeldFor, LedgerAcceptParams, LedgerAcceptResult, LedgerFinding, LedgerHeld, LedgerRetireParams, LedgerRetireResult,
};
pub use message::{
    CancelOutcome, Delivery, InboxAckParams, InboxAckResult, InboxReadParams, InboxReadResult, Letter,
    MESSAGE_BYTES_MAX, Message, MessageCancelParams, MessageCancelResult, MessageDecision, MessageGetParams,
    MessageListParams, MessageListResult, MessageMode, MessageResolveParams, MessageResult, MessageSendParams,
    MessageSendResult, MessageState, Patience,
};
pub use notice::{Envelope, Notice, NoticeKind, Origin, REPORT_ENVELOPE_BYTES_MAX};
pub use operation::{
    Operation, OperationGetParams, OperationGetResult, OperationListParams, OperationListResult,
    OperationResolveParams, OperationResolveResult, OperationState, Resolution,
};
pub use output::{Chunk, EndpointParams, EndpointResult, ReadParams, ReadResult, Stream};
pub use report::{
    REPORT_ABSTRACT_BYTES_MAX, REPORT_BYTES_MAX, REPORT_HEAD_BYTES_MAX, REPORT_PAGE_BYTES_MAX, REPORT_TITLE_BYTES_MAX,
    Report, ReportListParams, ReportListResult, ReportOrigin, ReportPostParams, ReportPostResult, ReportReadParams,
    ReportReadResult, ReportStatus,
};
pub use schema::schema;
pub use session::{
    Adapter, DeleteParams, EndedResult, Endpoint, Exit, Fence, ForkParams, GetParams, InterruptParams, ListParams,
    ListResult, PruneParams, PruneResult, Queue, ReadyOutcome, ReadyParams, ReadyResult, ReconcileParams, ResumeParams,
    Session, SessionResult, SessionStatus, StartFailure, StartPhase, Stop, StopParams, Survivor, TurnEvent,
    TurnOutcome, TurnParams, TurnResult, WaitFor, WaitParams,
};
pub use spawn::{Ambient, EnvVar, Frame, Ready, Restart, SoftLimit, SpawnParams, SpawnResult, Stdin};
pub use timestamp::Timestamp;

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ProtocolRange {
    /// Lowest version spoken.
    pub min: u32,
    /// Highest version spoken.
    pub max: u32,
}

impl ProtocolRange {
    /// What the build of this process speaks.
    pub fn of_build() -> ProtocolRange {
        let (min, max) = build().protocol;
        ProtocolRange { min, max }
    }

    /// Whether it holds this version.
    pub fn holds(self, version: u32) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// The highest version both speak.
    pub fn common(self, other: ProtocolRange) -> Option<u32> {
        let version = self.max.min(other.max);
        (version >= self.min && version >= other.min).then_some(version)
    }
}

impl std::fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// Reads a method's parameters.
///
/// # Errors
/// `invalid_input`, naming the member and what was expected.
pub fn decode<P: DeserializeOwned>(params: Value) -> Result<P, WireError> {
    serde_json::from_value(params).map_err(|error| {
        WireError::new(ErrorCode::InvalidInput, format!("the parameters are not valid: {error}")).reason("parameters")
    })
}

/// A document as it goes on the wire.
pub type Encoded = Box<RawValue>;

/// Writes a document. Every document of this module is a struct whose maps have text keys, so this cannot fail.
pub fn encode<D: Serialize>(document: &D) -> Encoded {
    serde_json::value::to_raw_value(document).expect("the documents of the protocol are all representable in JSON")
}

/// The same as a value, to stand in another document.
pub fn encode_value<D: Serialize>(document: &D) -> Value {
    serde_json::to_value(document).expect("the documents of the protocol are all representable in JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_version_is_the_highest_both_speak() {
        let range = |min, max| ProtocolRange { min, max };
        assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
        assert_eq!(range(1, 1).common(range(1, 1)), Some(1));
        assert_eq!(range(1, 1).common(range(2, 2)), None);
        assert_eq!(range(3, 4).common(range(1, 2)), None);
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        let error = decode::<GetParams>(serde_json::json!({"session": "a", "sesion": "b"})).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidInput);
        assert!(error.message.contains("sesion"), "{}", error.message);
    }
}
