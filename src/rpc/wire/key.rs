//! The caller's own name for one mutating request.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = 128;

/// An operation key: 1 to 128 printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Key(String);

impl Key {
    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 1 to 128 printable ASCII characters")]
pub struct NotAKey;

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Key, NotAKey> {
        let fits = !text.is_empty() && text.len() <= KEY_BYTES_MAX;
        let printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if fits && printable { Ok(Key(text.to_owned())) } else { Err(NotAKey) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Key {
    fn schema_name() -> Cow<'static, str> {
        "Key".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX, "pattern": "^[ -~]+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_at_its_edges() {
        for good in [" ", "~", "a b", &"k".repeat(KEY_BYTES_MAX)] {
            assert_eq!(good.parse::<Key>().unwrap().as_str(), good);
        }
        for bad in ["", "a\tb", "a\u{7f}", "ü", &"k".repeat(KEY_BYTES_MAX + 1)] {
            assert_eq!(bad.parse::<Key>(), Err(NotAKey), "{bad:?}");
        }
    }
}
