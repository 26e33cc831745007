//! The names of things. Each is a type of its own, so that a session id can never stand where a key belongs,
//! and each is checked once, at the door: whoever holds one holds a valid one.
//!
//! Session ids and names never reach a path unchecked (report L12): their grammars have no separator and no dot.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is wrong with a text that should have been an id, a key or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(
    /// The rule that the text breaks, as one sentence fragment: "must be ...".
    pub &'static str,
);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $check:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks the grammar; the error names the rule.
            ///
            /// # Errors
            /// [`Malformed`] when the text breaks the grammar.
            pub fn parse(text: &str) -> Result<Self, Malformed> {
                if $check(text) { Ok(Self(text.into())) } else { Err(Malformed($rule)) }
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Malformed;
            fn try_from(text: String) -> Result<Self, Malformed> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.into()
            }
        }
    };
}

text_id!(
    /// A session's durable identity: 12 random base32 characters, never used again.
    SessionId,
    session_id_ok,
    "must be 12 characters of a-z and 2-7"
);

text_id!(
    /// A session's optional name, unique among sessions that are not deleted.
    Name,
    name_ok,
    "must match [a-z0-9][a-z0-9_-]{0,62} and be no device name"
);

text_id!(
    /// The caller's idempotency key: one operation, one outcome (law 5).
    Key,
    key_ok,
    "must be 1 to 128 printable ASCII characters"
);

impl Name {
    /// Whether a text is no name only because Windows opens a device for it.
    pub fn is_device(text: &str) -> bool {
        device_name(text)
    }
}

fn session_id_ok(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
}

fn name_ok(text: &str) -> bool {
    let first_ok = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let rest_ok = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    first_ok && rest_ok && text.len() <= 63 && !device_name(text)
}

/// Windows opens a device for these names, whatever folder they stand in.
fn device_name(text: &str) -> bool {
    let numbered = |stem: &str| {
        text.strip_prefix(stem).is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!(text, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

fn key_ok(text: &str) -> bool {
    (1..=super::limits::KEY_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
}

impl Key {
    /// When it was made, in milliseconds since the Unix epoch, if it is a UUIDv7: those tell it themselves.
    pub fn made_ms(&self) -> Option<u64> {
        let text = self.as_str();
        let formed = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                14 => byte == b'7',
                19 => matches!(byte, b'8' | b'9' | b'a' | b'b' | b'A' | b'B'),
                _ => byte.is_ascii_hexdigit(),
            });
        let part = |part: &str| u64::from_str_radix(part, 16).ok();
        let (high, low) = (text.get(..8)?, text.get(9..13)?);
        if formed { Some(part(high)? << 16 | part(low)?) } else { None }
    }
}

macro_rules! position_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub u64);

        impl $name {
            #[doc = concat!("Reads `", $prefix, "N`.")]
            ///
            /// # Errors
            /// [`Malformed`] for anything else.
            pub fn parse(text: &str) -> Result<Self, Malformed> {
                let digits = text.strip_prefix($prefix).ok_or(Malformed($rule))?;
                let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
                let number = if plain { digits.parse().ok() } else { None };
                number.map(Self).ok_or(Malformed($rule))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Malformed;
            fn try_from(text: String) -> Result<Self, Malformed> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

position_id!(
    /// An operation's id: the ledger position of the record that accepted it, so that `op-417` is record 417.
    OperationId,
    "op-",
    "must be op-N"
);

position_id!(
    /// A message's id: the ledger position of the record that accepted it, so that `msg-417` was sent by `op-417`.
    MessageId,
    "msg-",
    "must be msg-N"
);

position_id!(
    /// A report's id: the ledger position of the record that it came with, so that `rep-417` was posted by `op-417`.
    ReportId,
    "rep-",
    "must be rep-N"
);

/// 32 bytes, written as 64 lower-case hex characters: a record digest, a request digest, an incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Reads 64 lower-case hex characters.
    ///
    /// # Errors
    /// [`Malformed`] for anything else.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        const RULE: Malformed = Malformed("must be 64 lower-case hex characters");
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| RULE)?;
        let (mut values, mut wrong, mut out) = ([0; 64], false, [0; 32]);
        // Without a way out of the loop the compiler reads many digits at once.
        for (value, digit) in values.iter_mut().zip(digits) {
            let (number, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
            wrong |= number >= 10 && letter >= 6;
            *value = if number < 10 { number } else { letter.wrapping_add(10) };
        }
        for (byte, [high, low]) in out.iter_mut().zip(values.as_chunks::<2>().0) {
            *byte = high << 4 | low;
        }
        if wrong { Err(RULE) } else { Ok(Self(out)) }
    }

    /// In one piece: every record and every answer holds some.
    fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0; 64];
        for (pair, byte) in out.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        out
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.hex();
        f.write_str(std::str::from_utf8(&hex).expect("hex digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Digest {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// Who may use a key, and whose keys are compared: the owner of the root, or one session (ledger rule 3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The uid that owns the state root.
    Owner,
    /// A session that uses its own credential.
    Session(SessionId),
}

/// Boot id, PID namespace, pid and kernel start time. A bare pid identifies nothing (law 10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The kernel's boot id.
    pub boot: String,
    /// Inode of the PID namespace.
    pub ns: u64,
    /// The pid inside that namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_or_devices_are_refused() {
        for bad in ["", ".", "..", "../x", "a/b", "/abs", "A", "-a", "_a", "con", "lpt1", "a.", "a ", "a\0", "é"] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Name::parse(&"a".repeat(64)).is_err());
        for good in ["a", "0", "agent-1_b", "com10", "console", &"a".repeat(63)] {
            assert!(Name::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn keys_are_printable_ascii_of_bounded_length() {
        assert!(Key::parse(&"k".repeat(128)).is_ok());
        for bad in ["", "tab\t", "é", &"k".repeat(129)] {
            assert!(Key::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_uuid_of_version_7_tells_when_it_was_made_and_nothing_else_does() {
        let made = |text: &str| Key::parse(text).unwrap().made_ms();
        // The example of RFC 9562, appendix A.6: February 22, 2022 2:22:22 PM GMT-05:00.
        assert_eq!(made("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), Some(0x017f_22e2_79b0));
        assert_eq!(made("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), Some(1_645_557_742_000));
        for other in [
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f",
            "017f22e279b07cc398c4dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
            "{17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            "k",
        ] {
            assert_eq!(made(other), None, "{other}");
        }
    }

    #[test]
    fn ids_and_digests_read_back_what_they_print() {
        assert_eq!(OperationId::parse("op-417"), Ok(OperationId(417)));
        for bad in ["op-", "op-01", "417", "op--1", "op-1x"] {
            assert!(OperationId::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(MessageId::parse(&MessageId(417).to_string()), Ok(MessageId(417)));
        assert!(MessageId::parse("op-417").is_err());
        let digest = Digest([0xa5; 32]);
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        assert!(Digest::parse(&digest.to_string().to_uppercase()).is_err());
        let hex = "0123456789abcdef".repeat(4);
        for (at, byte) in (0..64).flat_map(|at| (0..0x80).map(move |byte| (at, byte))) {
            let text: String =
                hex.chars().enumerate().map(|(i, c)| if i == at { char::from(byte) } else { c }).collect();
            let read = Digest::parse(&text).ok().map(|digest| digest.to_string());
            assert_eq!(read, matches!(byte, b'0'..=b'9' | b'a'..=b'f').then_some(text), "{byte} at {at}");
        }
        assert!(Digest::parse(&hex[1..]).is_err() && Digest::parse(&format!("{hex}0")).is_err());
        assert!(SessionId::parse("abcdefgh2345").is_ok());
        assert!(SessionId::parse("abcdefgh2341").is_err());
    }
}
