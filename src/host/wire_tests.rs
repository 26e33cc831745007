//! The stored and spoken forms of `wire`, which other versions rely on.

use super::wire::{
    Cause, Delivery, Endpoint, ExitRecord, FileIdentity, HostRecord, Line, Push, Reply, Report, Request, RequestLine,
    SessionTurn, StartFailure, StartPhase, Status,
};
use crate::os::identity::ProcessIdentity;

fn record() -> HostRecord {
    let identity = |pid| ProcessIdentity { boot: "b".into(), ns: 1, pid, start: 2 };
    HostRecord {
        version: 1,
        product: "0.1.0".into(),
        session: "s".into(),
        episode: 3,
        host: identity(4),
        command: identity(5),
        endpoint: Endpoint { address: "unix:/x".into(), generation: 3, incarnation: "i".into() },
        nonce: "n".into(),
        secret: "planted".into(),
        lock: FileIdentity { device: 6, inode: 7 },
        folder: FileIdentity { device: 6, inode: 8 },
        marker: "m".into(),
        started_us: 9,
    }
}

#[test]
fn the_stored_record_is_fixed() {
    let json = concat!(
        r#"{"version":1,"product":"0.1.0","session":"s","episode":3,"host":{"boot":"b","ns":1,"pid":4,"start":2},"#,
        r#""command":{"boot":"b","ns":1,"pid":5,"start":2},"endpoint":{"address":"unix:/x","generation":3,"#,
        r#""incarnation":"i"},"nonce":"n","secret":"planted","lock":{"device":6,"inode":7},"#,
        r#""folder":{"device":6,"inode":8},"marker":"m","started_us":9}"#
    );
    assert_eq!(serde_json::to_string(&record()).unwrap(), json);
    assert_eq!(serde_json::from_str::<HostRecord>(json).unwrap(), record());
    // A later version may add members.
    assert!(serde_json::from_str::<HostRecord>(&json.replacen('{', r#"{"later":[],"#, 1)).is_ok());
}

#[test]
fn the_report_is_fixed() {
    let reason = "command not found".to_owned();
    let failure = StartFailure { phase: StartPhase::Exec, reason, errno: Some(2), cause: Some(Cause::NotFound) };
    let json = r#"{"report":"failed","phase":"exec","reason":"command not found","errno":2,"cause":"not_found"}"#;
    assert_eq!(serde_json::to_string(&Report::Failed { failure: failure.clone() }).unwrap(), json);
    assert_eq!(serde_json::from_str::<Report>(json).unwrap(), Report::Failed { failure });
    let started = Report::Started { host: Box::new(record()) };
    let json = serde_json::to_string(&started).unwrap();
    assert!(json.starts_with(r#"{"report":"started","host":{"version":1,"#), "{json}");
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), started);
}

#[test]
fn what_is_shown_holds_no_secret() {
    let hello = Request::Hello { version: 1, secret: "planted".into(), generation: Some(1) };
    let input = Request::Input { b64: "planted".into(), eof: false };
    let deliver = Request::Deliver { message: "m".into(), attempt: 1, b64: "planted".into() };
    for shown in [format!("{:?}", record()), format!("{hello:?}"), format!("{input:?}"), format!("{deliver:?}")] {
        assert!(!shown.contains("planted"), "{shown}");
    }
}

#[test]
fn lines_are_told_apart_by_their_members() {
    let reply: Line = serde_json::from_str(r#"{"id":1,"ok":"follow","from":2}"#).unwrap();
    assert!(matches!(reply, Line::Reply { id: 1, .. }));
    let refused: Line = serde_json::from_str(r#"{"id":null,"error":{"code":"denied","message":"m"}}"#).unwrap();
    assert!(matches!(refused, Line::Refused { id: None, .. }));
    let push: Line = serde_json::from_str(r#"{"push":"beat","last_seen_us":1}"#).unwrap();
    assert!(matches!(push, Line::Push(_)));
}

#[test]
fn session_turns_are_said_in_fixed_words() {
    let push = Line::Push(Push::Turn(SessionTurn { number: 7, runs: false }));
    let json = r#"{"push":"turn","number":7,"runs":false}"#;
    assert_eq!(serde_json::to_string(&push).unwrap(), json);
    assert_eq!(serde_json::from_str::<Line>(json).unwrap(), push);
    let status =
        r#"{"state":"running","last_seen_us":1,"output_from":0,"output_to":0,"turn":{"number":0,"runs":true}}"#;
    let read: Status = serde_json::from_str(status).unwrap();
    assert_eq!(read.turn, Some(SessionTurn { number: 0, runs: true }));
    assert_eq!(serde_json::to_string(&read).unwrap(), status);
    // A host that sees no turns says nothing of them.
    assert!(!serde_json::to_string(&Status { turn: None, ..read }).unwrap().contains("turn"));
}

#[test]
fn readiness_is_said_in_fixed_words() {
    let json = r#"{"push":"ready"}"#;
    assert_eq!(serde_json::to_string(&Line::Push(Push::Ready)).unwrap(), json);
    assert_eq!(serde_json::from_str::<Line>(json).unwrap(), Line::Push(Push::Ready));
    let status = r#"{"state":"running","last_seen_us":1,"output_from":0,"output_to":0,"ready":true}"#;
    let read: Status = serde_json::from_str(status).unwrap();
    assert_eq!(read.ready, Some(true));
    assert_eq!(serde_json::to_string(&read).unwrap(), status);
    // A host that looks for no sign says nothing of it, and neither does an end without one.
    assert!(!serde_json::to_string(&Status { ready: None, ..read }).unwrap().contains("ready"));
    let exit = r#"{"version":1,"exit":{"code":0},"ended_us":5}"#;
    let record: ExitRecord = serde_json::from_str(exit).unwrap();
    assert!(!record.was_ready && serde_json::to_string(&record).unwrap() == exit);
    let exit = exit.replace('}', "");
    let exit = format!("{}{}", exit.replace(r#""code":0"#, r#""code":0}"#), r#","was_ready":true}"#);
    assert!(serde_json::from_str::<ExitRecord>(&exit).unwrap().was_ready);
}

#[test]
fn deliveries_are_said_in_fixed_words() {
    let line = RequestLine { id: 7, request: Request::Deliver { message: "m".into(), attempt: 2, b64: "aGk=".into() } };
    let json = r#"{"id":7,"request":"deliver","message":"m","attempt":2,"b64":"aGk="}"#;
    assert_eq!(serde_json::to_string(&line).unwrap(), json);
    assert_eq!(serde_json::from_str::<RequestLine>(json).unwrap(), line);
    let interrupt = r#"{"id":8,"request":"interrupt"}"#;
    assert_eq!(
        serde_json::from_str::<RequestLine>(interrupt).unwrap().request,
        Request::Interrupt { attempt: 0, turn: None }
    );
    let cases = [
        (Delivery::Accepted { at_us: 5 }, r#"{"accepted":{"at_us":5}}"#),
        (Delivery::Refused { reason: "r".into() }, r#"{"refused":{"reason":"r"}}"#),
        (Delivery::Cut { written: 1, total: 2 }, r#"{"cut":{"written":1,"total":2}}"#),
    ];
    for (delivery, json) in cases {
        let line = Line::Reply { id: 7, reply: Reply::Deliver { delivery } };
        let json = format!(r#"{{"id":7,"ok":"deliver","delivery":{json}}}"#);
        assert_eq!(serde_json::to_string(&line).unwrap(), json);
        assert_eq!(serde_json::from_str::<Line>(&json).unwrap(), line);
    }
}
