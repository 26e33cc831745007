//! One record of the ledger: as the document of the contract, as a line, and as a page for eyes.

use ostler_ledger::Record;
use serde_json::Value;

use super::super::text;

/// RECORD: the stored members and the digest.
pub(crate) fn document(record: &Record) -> Value {
    let mut members: Value = serde_json::from_str(record.raw()).expect("a sound record is a JSON object");
    members["digest"] = Value::from(record.digest.to_string());
    members
}

/// One line: where, when, what, about whom, with which outcome.
pub(crate) fn line(record: &Record) -> String {
    let header = &record.header;
    let mut shown = format!("{:>8}  {}  {:<10}", header.seq, text::plain(&header.at), text::plain(&header.t));
    let about = [
        header.sid.clone(),
        header.ep.map(|episode| format!("episode {episode}")),
        header.kind.clone(),
        header.st.clone(),
        header.err.clone(),
    ];
    for word in about.into_iter().flatten() {
        shown.push_str("  ");
        shown.push_str(&text::plain(&word));
    }
    shown.push('\n');
    shown
}

/// All members, one a line, long ones too.
pub(crate) fn whole(record: &Record) -> String {
    let document = document(record);
    let members = document.as_object().into_iter().flatten();
    members.map(|(name, value)| format!("{name:<6} {}\n", text::plain(&shown(value)))).collect()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
