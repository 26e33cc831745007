//! Bytes of the system (arguments, paths, environment values) that are usually, but not always, text.
//!
//! Promise: bytes in, the same bytes out. In JSON an [`Arg`] is `"text"`, or `{"b64":"..."}` where the bytes are not UTF-8.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One string of the system.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arg(OsString);

impl Arg {
    /// As the system wants it.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// As text, where it is text.
    pub fn as_str(&self) -> Option<&str> {
        self.0.to_str()
    }
}

impl fmt::Debug for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Arg {
        Arg(text.into())
    }
}

impl From<OsString> for Arg {
    fn from(text: OsString) -> Arg {
        Arg(text)
    }
}

impl From<&OsStr> for Arg {
    fn from(text: &OsStr) -> Arg {
        Arg(text.to_owned())
    }
}

impl From<&Path> for Arg {
    fn from(path: &Path) -> Arg {
        Arg(path.into())
    }
}

impl From<Arg> for OsString {
    fn from(arg: Arg) -> OsString {
        arg.0
    }
}

impl From<Arg> for PathBuf {
    fn from(arg: Arg) -> PathBuf {
        arg.0.into()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Text(Cow<'a, str>),
    Bytes(Encoded<'a>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded<'a> {
    b64: Cow<'a, str>,
}

impl Serialize for Arg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => Form::Text(text.into()),
            None => Form::Bytes(Encoded { b64: BASE64.encode(self.as_bytes()).into() }),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Arg {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arg, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Arg(text.into_owned().into())),
            Form::Bytes(Encoded { b64 }) => {
                let bytes = BASE64.decode(b64.as_bytes()).map_err(|_| de::Error::custom("b64 is not base64"))?;
                Ok(Arg(OsString::from_vec(bytes)))
            }
        }
    }
}

impl JsonSchema for Arg {
    fn schema_name() -> Cow<'static, str> {
        "Arg".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"oneOf": [
            {"type": "string"},
            {"type": "object", "required": ["b64"], "additionalProperties": false, "properties": {"b64": {"type": "string"}}},
        ]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_bytes_come_back() {
        for (bytes, form) in [
            (b"-n\t\n\x1b".as_slice(), json!("-n\t\n\u{1b}")),
            (b"".as_slice(), json!("")),
            (b"\xff\xfe/x".as_slice(), json!({"b64": "//4veA=="})),
        ] {
            let arg = Arg::from(OsStr::from_bytes(bytes));
            assert_eq!(serde_json::to_value(&arg).unwrap(), form);
            assert_eq!(serde_json::from_value::<Arg>(form).unwrap().as_bytes(), bytes);
        }
        assert!(serde_json::from_value::<Arg>(json!({"b64": "!"})).is_err());
        assert!(serde_json::from_value::<Arg>(json!(3)).is_err());
    }
}
