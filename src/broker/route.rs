//! Where each method of the protocol goes in this version. A new method breaks this match, so that none is forgotten.

use crate::rpc::method::Method;

/// What does a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The connection itself; never reaches the broker.
    Hello,
    /// The broker, of itself.
    Status,
    /// The broker, leaving.
    Shutdown,
    /// The ledger, about itself: findings.
    Accept,
    /// The ledger, about itself: its beginning.
    Retire,
    /// What is told of records as they come.
    Subscribe,
    /// The same, no more.
    Unsubscribe,
    /// The turn.
    Change(Change),
    /// The view.
    Read(Read),
    /// Nothing yet: `unknown_method`.
    Absent,
}

/// Calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the methods")]
pub enum Change {
    Spawn,
    Fork,
    Resume,
    Stop,
    Delete,
    Prune,
    Reconcile,
    Resolve,
    Send,
    Cancel,
    ResolveMessage,
    Acknowledge,
    Report,
    Interrupt,
    Turn,
    Ready,
}

/// Calls that only look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the methods")]
pub enum Read {
    Get,
    List,
    Wait,
    Output,
    Endpoint,
    Operation,
    Operations,
    Message,
    Messages,
    Inbox,
    Report,
    Reports,
}

/// Looks it up.
pub fn route(method: Method) -> Route {
    match method {
        Method::Hello => Route::Hello,
        Method::BrokerStatus => Route::Status,
        Method::BrokerShutdown => Route::Shutdown,
        Method::SessionSpawn => Route::Change(Change::Spawn),
        Method::SessionFork => Route::Change(Change::Fork),
        Method::SessionResume => Route::Change(Change::Resume),
        Method::SessionStop => Route::Change(Change::Stop),
        Method::SessionDelete => Route::Change(Change::Delete),
        Method::SessionPrune => Route::Change(Change::Prune),
        Method::SessionReconcile => Route::Change(Change::Reconcile),
        Method::OperationResolve => Route::Change(Change::Resolve),
        Method::SessionGet => Route::Read(Read::Get),
        Method::SessionList => Route::Read(Read::List),
        Method::SessionWait => Route::Read(Read::Wait),
        Method::SessionRead => Route::Read(Read::Output),
        Method::SessionEndpoint => Route::Read(Read::Endpoint),
        Method::LedgerAccept => Route::Accept,
        Method::LedgerRetire => Route::Retire,
        Method::OperationGet => Route::Read(Read::Operation),
        Method::OperationList => Route::Read(Read::Operations),
        Method::MessageSend => Route::Change(Change::Send),
        Method::MessageCancel => Route::Change(Change::Cancel),
        Method::MessageResolve => Route::Change(Change::ResolveMessage),
        Method::InboxAck => Route::Change(Change::Acknowledge),
        Method::MessageGet => Route::Read(Read::Message),
        Method::MessageList => Route::Read(Read::Messages),
        Method::ReportPost => Route::Change(Change::Report),
        Method::ReportRead => Route::Read(Read::Report),
        Method::ReportList => Route::Read(Read::Reports),
        Method::InboxRead => Route::Read(Read::Inbox),
        Method::SessionInterrupt => Route::Change(Change::Interrupt),
        Method::SessionTurn => Route::Change(Change::Turn),
        Method::SessionReady => Route::Change(Change::Ready),
        Method::EventsSubscribe => Route::Subscribe,
        Method::EventsUnsubscribe => Route::Unsubscribe,
        Method::SessionRegister
        | Method::SessionHeartbeat
        | Method::PoolAcquire
        | Method::PoolRelease
        | Method::PoolStatus => Route::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::method::Class;

    #[test]
    fn what_changes_something_goes_to_the_turn_and_what_looks_does_not() {
        for method in Method::ALL {
            match route(*method) {
                Route::Change(_) => assert_eq!(method.class(), Class::Mutates, "{}", method.name()),
                Route::Read(_) => assert_eq!(method.class(), Class::Reads, "{}", method.name()),
                Route::Hello
                | Route::Status
                | Route::Shutdown
                | Route::Accept
                | Route::Retire
                | Route::Subscribe
                | Route::Unsubscribe => {
                    assert_eq!(method.class(), Class::Control, "{}", method.name());
                }
                Route::Absent => {}
            }
        }
    }
}
