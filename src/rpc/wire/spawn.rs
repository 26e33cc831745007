//! `session.spawn`: what a caller says about a new session.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Adapter, Arg, Key, Operation, Session};

/// Parameters of `session.spawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnParams {
    /// Key of this request.
    pub key: Key,
    /// The command line; the first is looked up in the session's PATH.
    pub command: Vec<Arg>,
    /// The working directory, absolute.
    pub cwd: Arg,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The environment that the caller named; stands above `ambient` and belongs to the request's digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// What comes from the caller's surroundings; no part of the request's digest.
    #[serde(default)]
    pub ambient: Ambient,
    /// How messages reach the program.
    #[serde(default)]
    pub adapter: Adapter,
    /// For `lines`: a regular expression that the program's prompt matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// For `lines`: how a message is framed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Frame>,
    /// When the session counts as ready.
    #[serde(default)]
    pub ready: Ready,
    /// How long that may take: 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_within_ms: Option<u64>,
    /// Whether it starts again by itself.
    #[serde(default)]
    pub restart: Restart,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The session that it belongs to: id, name or unique prefix of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Who owns the program's standard input.
    #[serde(default)]
    pub stdin: Stdin,
    /// The caller will follow the output and wants every byte: until a follower came and went, a full spool makes the
    /// program wait instead of dropping the oldest bytes.
    #[serde(default)]
    pub follow: bool,
}

/// One variable of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvVar {
    /// Its name.
    pub name: Arg,
    /// Its value.
    pub value: Arg,
}

/// What a session takes from its caller's surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ambient {
    /// The caller's environment, as far as it is inherited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// The caller's umask; absent: 077.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The caller's soft limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<SoftLimit>,
}

/// A soft resource limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoftLimit {
    /// Its name in lower case without prefix: `nofile`, `core`, `stack` ...
    pub resource: String,
    /// Its value; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

/// How a message is framed for `lines`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// As one line of text.
    Line,
    /// As one JSON document.
    Json,
}

/// Who owns a program's standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// It is empty, or the adapter's.
    #[default]
    Empty,
    /// A client feeds it through the host (`run -i`).
    Client,
}

/// When a session counts as ready: `exec`, `notify` or `output:RE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// The command is executing.
    #[default]
    Exec,
    /// It says so.
    Notify,
    /// Its output matches this regular expression.
    Output(String),
}

/// Whether a session starts again by itself: `never` or `on-failure:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Never.
    #[default]
    Never,
    /// After a failure, this often at most.
    OnFailure(u32),
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::Exec => f.write_str("exec"),
            Ready::Notify => f.write_str("notify"),
            Ready::Output(pattern) => write!(f, "output:{pattern}"),
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Restart::Never => f.write_str("never"),
            Restart::OnFailure(times) => write!(f, "on-failure:{times}"),
        }
    }
}

/// Why a text is no readiness or restart rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct NotARule(&'static str);

const READY_RULES: NotARule = NotARule("exec, notify or output:RE");
const RESTART_RULES: NotARule = NotARule("never or on-failure:N");

impl FromStr for Ready {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Ready, NotARule> {
        match (text, text.strip_prefix("output:")) {
            ("exec", _) => Ok(Ready::Exec),
            ("notify", _) => Ok(Ready::Notify),
            (_, Some(pattern)) if !pattern.is_empty() => Ok(Ready::Output(pattern.to_owned())),
            _ => Err(READY_RULES),
        }
    }
}

impl FromStr for Restart {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Restart, NotARule> {
        match (text, text.strip_prefix("on-failure:").map(str::parse)) {
            ("never", _) => Ok(Restart::Never),
            (_, Some(Ok(times))) => Ok(Restart::OnFailure(times)),
            _ => Err(RESTART_RULES),
        }
    }
}

macro_rules! as_text {
    ($name:ident $title:literal $pattern:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $title.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

as_text!(Ready "Ready" "^(exec|notify|output:.+)$");
as_text!(Restart "Restart" "^(never|on-failure:[0-9]+)$");

/// Result of `session.spawn` and `session.resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnResult {
    /// The session.
    pub session: Session,
    /// What was done.
    pub operation: Operation,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_text_on_the_wire() {
        for text in ["exec", "notify", "output:^ready: .*$"] {
            assert_eq!(text.parse::<Ready>().unwrap().to_string(), text);
        }
        for text in ["never", "on-failure:3"] {
            assert_eq!(text.parse::<Restart>().unwrap().to_string(), text);
        }
        for text in ["", "output:", "exec ", "Exec"] {
            assert!(text.parse::<Ready>().is_err(), "{text}");
        }
        for text in ["", "on-failure:", "on-failure:-1", "always"] {
            assert!(text.parse::<Restart>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_smallest_spawn_has_every_default() {
        let params: SpawnParams = serde_json::from_value(json!({"key": "k", "command": ["true"], "cwd": "/"})).unwrap();
        assert_eq!((params.ready, params.restart), (Ready::Exec, Restart::Never));
        assert_eq!((params.adapter, params.stdin), (Adapter::Inbox, Stdin::Empty));
        assert_eq!(params.ambient, Ambient::default());
        let unknown = json!({"key": "k", "command": ["true"], "cwd": "/", "ambient": {"umsk": 0}});
        assert!(serde_json::from_value::<SpawnParams>(unknown).unwrap_err().to_string().contains("umsk"));
    }
}
