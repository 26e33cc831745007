//! An argument, path or environment value as the system has it: bytes, not text. What goes in comes out byte for byte,
//! through JSON too (`"text"`, or `{"b64":"..."}` where the bytes are not UTF-8).

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One argument (ARG of the contract).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Arg(OsString);

impl Arg {
    /// The bytes, exactly as the system will see them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// As the standard library names it.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// As a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// As text, where it is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.0.to_str()
    }

    /// For eyes only: what is not UTF-8 is replaced.
    #[must_use]
    pub fn display(&self) -> Cow<'_, str> {
        self.0.to_string_lossy()
    }

    /// Whether a NUL byte stands in it; no system call can pass such an argument on.
    #[must_use]
    pub fn has_nul(&self) -> bool {
        self.as_bytes().contains(&0)
    }

    /// From bytes.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(OsString::from_vec(bytes))
    }
}

impl std::fmt::Debug for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<OsString> for Arg {
    fn from(value: OsString) -> Self {
        Self(value)
    }
}

impl From<PathBuf> for Arg {
    fn from(value: PathBuf) -> Self {
        Self(value.into_os_string())
    }
}

impl From<&Path> for Arg {
    fn from(value: &Path) -> Self {
        Self(value.into())
    }
}

impl From<&OsStr> for Arg {
    fn from(value: &OsStr) -> Self {
        Self(value.to_os_string())
    }
}

impl From<&str> for Arg {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl From<String> for Arg {
    fn from(value: String) -> Self {
        Self(value.into())
    }
}

impl From<Arg> for OsString {
    fn from(value: Arg) -> Self {
        value.0
    }
}

impl From<Arg> for PathBuf {
    fn from(value: Arg) -> Self {
        value.0.into()
    }
}

impl Serialize for Arg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => Encoded { b64: BASE64.encode(self.as_bytes()) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Arg {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Stored::deserialize(deserializer)? {
            Stored::Text(text) => Ok(Self(text.into())),
            Stored::Bytes(encoded) => {
                let bytes = BASE64.decode(encoded.b64.as_bytes());
                bytes.map(Self::from_bytes).map_err(|_| de::Error::custom("b64 is not base64"))
            }
        }
    }
}

impl JsonSchema for Arg {
    fn schema_name() -> Cow<'static, str> {
        "Arg".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An argument as the system has it: text, or base64 where the bytes are not UTF-8.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "b64": { "type": "string", "contentEncoding": "base64" } },
                    "required": ["b64"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    b64: String,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an argument is text or {\"b64\":\"...\"}")]
enum Stored {
    Text(String),
    Bytes(Encoded),
}

#[cfg(test)]
mod tests {
    use super::Arg;

    fn check(bytes: &[u8], json: &str) {
        let arg = Arg::from_bytes(bytes.to_vec());
        assert_eq!(serde_json::to_string(&arg).unwrap(), json);
        let back: Arg = serde_json::from_str(json).unwrap();
        assert_eq!(back.as_bytes(), bytes);
    }

    #[test]
    fn every_byte_string_survives_json() {
        check(b"", r#""""#);
        check("grüße\n".as_bytes(), r#""grüße\n""#);
        check(b"\xff\x00a", r#"{"b64":"/wBh"}"#);
        let all: Vec<u8> = (0..=255).collect();
        let back: Arg = serde_json::from_str(&serde_json::to_string(&Arg::from_bytes(all.clone())).unwrap()).unwrap();
        assert_eq!(back.as_bytes(), all);
    }

    #[test]
    fn text_in_the_bytes_form_reads_as_text() {
        let arg: Arg = serde_json::from_str(r#"{"b64":"YWI="}"#).unwrap();
        assert_eq!(arg, Arg::from("ab"));
    }

    #[test]
    fn other_shapes_are_refused() {
        for bad in ["1", "null", "[]", r#"{"b64":"?"}"#, r#"{"b64":"","x":1}"#, "{}"] {
            assert!(serde_json::from_str::<Arg>(bad).is_err(), "{bad}");
        }
    }
}
