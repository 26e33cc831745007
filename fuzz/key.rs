//! Idempotency keys, as callers choose them: the wire, the machine and the ledger agree on what is one.

use ostler::machine;
use ostler::rpc::wire;

/// A text as a key.
pub fn key(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (on_the_wire, in_the_machine) = (text.parse::<wire::Key>(), machine::Key::parse(text));
    assert_eq!(on_the_wire.is_ok(), in_the_machine.is_ok(), "wire and machine differ on {text:?}");
    let Ok(key) = in_the_machine else { return false };
    assert_eq!(key.as_str(), text);
    let stored = serde_json::to_vec(&key).expect("a key is text");
    assert_eq!(crate::round_trip::<machine::Key>(&stored).as_ref(), Some(&key), "what is stored is the same key");
    true
}
