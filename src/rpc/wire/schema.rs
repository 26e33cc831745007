//! JSON Schema of the whole protocol, derived from the same types that read and write it: `ostler schema`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::super::error::{ErrorCode, WireError};
use super::super::method::Method;
use super::*;

/// One JSON document: for each built method the schema of its parameters and its result, for each notification that of its parameters, and
/// the error document.
/// Shared definitions stand under `$defs`.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut methods = Map::new();
    for method in Method::ALL {
        if let Some((params, result)) = method_schemas(*method, &mut generator) {
            methods.insert(method.name().to_owned(), json!({ "params": params, "result": result }));
        }
    }
    let (hello, event) = (generator.subschema_for::<HelloResult>(), generator.subschema_for::<Event>());
    let notifications = json!({ "event": { "params": event }, "hello": { "params": hello } });
    let error = generator.subschema_for::<WireError>();
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ostler protocol",
        "protocol": ProtocolRange::of_build(),
        "methods": methods,
        "notifications": notifications,
        "error": error,
        "error_codes": codes,
        "$defs": definitions,
    })
}

/// The schemas of one method; none for a method that is not built yet.
fn method_schemas(method: Method, generator: &mut SchemaGenerator) -> Option<(Value, Value)> {
    Some(match method {
        Method::Hello => pair::<HelloParams, HelloResult>(generator),
        Method::BrokerStatus => pair::<BrokerStatusParams, BrokerStatusResult>(generator),
        Method::BrokerShutdown => pair::<ShutdownParams, ShutdownResult>(generator),
        Method::SessionSpawn => pair::<SpawnParams, SpawnResult>(generator),
        Method::SessionFork => pair::<ForkParams, SpawnResult>(generator),
        Method::SessionResume => pair::<ResumeParams, SpawnResult>(generator),
        Method::SessionStop => pair::<StopParams, EndedResult>(generator),
        Method::SessionDelete => pair::<DeleteParams, EndedResult>(generator),
        Method::SessionGet => pair::<GetParams, SessionResult>(generator),
        Method::SessionList => pair::<ListParams, ListResult>(generator),
        Method::SessionWait => pair::<WaitParams, SessionResult>(generator),
        Method::SessionRead => pair::<ReadParams, ReadResult>(generator),
        Method::SessionEndpoint => pair::<EndpointParams, EndpointResult>(generator),
        Method::SessionPrune => pair::<PruneParams, PruneResult>(generator),
        Method::LedgerAccept => pair::<LedgerAcceptParams, LedgerAcceptResult>(generator),
        Method::LedgerRetire => pair::<LedgerRetireParams, LedgerRetireResult>(generator),
        Method::OperationGet => pair::<OperationGetParams, OperationGetResult>(generator),
        Method::OperationList => pair::<OperationListParams, OperationListResult>(generator),
        Method::SessionReconcile => pair::<ReconcileParams, EndedResult>(generator),
        Method::OperationResolve => pair::<OperationResolveParams, OperationResolveResult>(generator),
        Method::MessageSend => pair::<MessageSendParams, MessageSendResult>(generator),
        Method::MessageGet => pair::<MessageGetParams, MessageResult>(generator),
        Method::MessageList => pair::<MessageListParams, MessageListResult>(generator),
        Method::MessageCancel => pair::<MessageCancelParams, MessageCancelResult>(generator),
        Method::MessageResolve => pair::<MessageResolveParams, MessageResult>(generator),
        Method::InboxRead => pair::<InboxReadParams, InboxReadResult>(generator),
        Method::InboxAck => pair::<InboxAckParams, InboxAckResult>(generator),
        Method::ReportPost => pair::<ReportPostParams, ReportPostResult>(generator),
        Method::ReportRead => pair::<ReportReadParams, ReportReadResult>(generator),
        Method::ReportList => pair::<ReportListParams, ReportListResult>(generator),
        Method::SessionInterrupt => pair::<InterruptParams, SpawnResult>(generator),
        Method::SessionTurn => pair::<TurnParams, TurnResult>(generator),
        Method::SessionReady => pair::<ReadyParams, ReadyResult>(generator),
        Method::EventsSubscribe => pair::<EventsSubscribeParams, EventsSubscribeResult>(generator),
        Method::EventsUnsubscribe => pair::<EventsUnsubscribeParams, EventsUnsubscribeResult>(generator),
        Method::SessionRegister
        | Method::SessionHeartbeat
        | Method::PoolAcquire
        | Method::PoolRelease
        | Method::PoolStatus => return None,
    })
}

fn pair<P: JsonSchema, R: JsonSchema>(generator: &mut SchemaGenerator) -> (Value, Value) {
    (generator.subschema_for::<P>().to_value(), generator.subschema_for::<R>().to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_closed_and_references_resolve() {
        let schema = schema();
        let spawn = &schema["$defs"]["SpawnParams"];
        assert_eq!(spawn["additionalProperties"], json!(false));
        assert_eq!(schema["methods"]["session.spawn"]["params"]["$ref"], json!("#/$defs/SpawnParams"));
        let text = schema.to_string();
        for reference in text.split("\"#/$defs/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schema["$defs"][name].is_object(), "{name}");
        }
        for document in ["Session", "Operation", "Broker", "Endpoint", "Exit", "WireError"] {
            assert!(schema["$defs"][document].is_object(), "{document}");
        }
    }
}
