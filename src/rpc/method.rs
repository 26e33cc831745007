//! The closed set of methods: their names, and which of them change something.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! methods {
    ($($variant:ident $name:literal $class:ident $doc:literal,)*) => {
        /// Every method of the protocol. Those that are not built yet answer `unknown_method`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum Method { $(#[doc = $doc] #[serde(rename = $name)] $variant,)* }

        impl Method {
            /// All methods.
            pub const ALL: &[Method] = &[$(Method::$variant,)*];

            /// The method's name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Method::$variant => $name,)* }
            }

            /// What kind of call it is.
            pub const fn class(self) -> Class {
                match self { $(Method::$variant => Class::$class,)* }
            }

            /// The method with this name.
            pub fn from_name(name: &str) -> Option<Method> {
                match name { $($name => Some(Method::$variant),)* _ => None }
            }
        }
    };
}

/// What a method does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Only looks. May be repeated freely.
    Reads,
    /// Changes something, once for each `key`, and answers with `operation`.
    Mutates,
    /// Belongs to the connection or to the broker itself; has no key.
    Control,
}

methods! {
    Hello "hello" Control "The first call of every connection.",
    BrokerStatus "broker.status" Control "What the broker is and how it is.",
    BrokerShutdown "broker.shutdown" Control "Ask the broker to leave; live sessions go on in their hosts.",
    SessionSpawn "session.spawn" Mutates "Start a session.",
    SessionResume "session.resume" Mutates "Start the next episode of a session; a live one is returned as it is.",
    SessionFork "session.fork" Mutates "Start a session as a copy of another.",
    SessionStop "session.stop" Mutates "End a session's processes.",
    SessionInterrupt "session.interrupt" Mutates "Interrupt the running session turn.",
    SessionDelete "session.delete" Mutates "Remove a session and its files.",
    SessionGet "session.get" Reads "One session.",
    SessionList "session.list" Reads "Sessions, a page at a time.",
    SessionWait "session.wait" Reads "Return once a session is where the caller wants it.",
    SessionRead "session.read" Reads "A piece of a session's output.",
    SessionEndpoint "session.endpoint" Reads "Where a session's host answers.",
    SessionRegister "session.register" Mutates "A session's program announces itself.",
    SessionHeartbeat "session.heartbeat" Reads "A session's program is alive.",
    SessionReady "session.ready" Mutates "A session's program is ready.",
    SessionTurn "session.turn" Mutates "A session turn began or ended.",
    SessionReconcile "session.reconcile" Mutates "Settle an uncertain or fenced session by evidence.",
    SessionPrune "session.prune" Mutates "Forget ended sessions.",
    LedgerAccept "ledger.accept" Control "An operator accepts what is wrong with the ledger.",
    LedgerRetire "ledger.retire" Control "The oldest segments of the ledger leave it.",
    OperationGet "operation.get" Reads "One operation and its stored result.",
    OperationList "operation.list" Reads "Operations, a page at a time.",
    OperationResolve "operation.resolve" Mutates "An operator's decision about an uncertain operation.",
    MessageSend "message.send" Mutates "Send a message to a session.",
    MessageGet "message.get" Reads "One message.",
    MessageList "message.list" Reads "Messages of a session.",
    MessageCancel "message.cancel" Mutates "Withdraw a queued message.",
    MessageResolve "message.resolve" Mutates "Decide about an uncertain message.",
    InboxRead "inbox.read" Reads "A session pulls its messages.",
    InboxAck "inbox.ack" Mutates "A session acknowledges messages.",
    ReportPost "report.post" Mutates "A session hands its parent a report.",
    ReportRead "report.read" Reads "One report.",
    ReportList "report.list" Reads "Reports of a session.",
    EventsSubscribe "events.subscribe" Control "Notifications about sessions.",
    EventsUnsubscribe "events.unsubscribe" Control "No more notifications.",
    PoolAcquire "pool.acquire" Mutates "Lease a shared server.",
    PoolRelease "pool.release" Mutates "Give a lease back.",
    PoolStatus "pool.status" Reads "Shared servers and leases.",
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_named_once_and_serde_agrees() {
        let mut names: Vec<_> = Method::ALL.iter().map(|method| method.name()).collect();
        for method in Method::ALL {
            assert_eq!(serde_json::to_value(method).unwrap(), serde_json::json!(method.name()));
            assert_eq!(Method::from_name(method.name()), Some(*method));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Method::ALL.len());
        assert_eq!(Method::from_name("session.explode"), None);
    }
}
