//! What a session runs: command, place, surroundings. It is kept in `sessions/ID/spec.json` (0600, because an
//! environment may hold secrets) so that a resume runs the same; the ledger holds only its salted digest.

use serde::{Deserialize, Serialize};

use crate::os::arg::Arg;
use crate::os::limits;

use super::prompt::Where;

/// Most bytes of command line and environment together (contract section 4).
pub const COMMAND_BYTES_MAX: usize = 512 * 1024;

/// A session's spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The command line; the first is looked up in the `PATH` of `env`.
    pub command: Vec<Arg>,
    /// The working directory, absolute.
    pub cwd: Arg,
    /// The whole environment, in order; a later entry of a name wins. The host adds `OSTLER_*`.
    pub env: Vec<EnvVar>,
    /// The file mode mask of the command.
    pub umask: u32,
    /// Soft limits to restore; those not named stay as the host has them.
    #[serde(default)]
    pub limits: Vec<SoftLimit>,
    /// How messages reach the program.
    #[serde(default)]
    pub adapter: Adapter,
    /// How a message is framed for `lines`.
    #[serde(default, skip_serializing_if = "Frame::is_line")]
    pub frame: Frame,
    /// For `lines`: what the program's prompt matches; see [`super::prompt`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What the program's output matches once it is ready, where that is looked for; see [`super::sign`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<String>,
    /// Who owns standard input.
    #[serde(default)]
    pub stdin: Stdin,
    /// Until a holding follower came and went, the first episode waits instead of dropping output.
    #[serde(default)]
    pub follow: bool,
}

/// One variable of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvVar {
    /// Its name.
    pub name: Arg,
    /// Its value.
    pub value: Arg,
}

/// A soft resource limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftLimit {
    /// Its name in lower case without prefix: `nofile`, `core`, `stack` ...
    pub resource: String,
    /// Its value; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

/// How messages reach a session's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// It pulls them.
    #[default]
    Inbox,
    /// They are written to its standard input, a line each.
    Lines,
    /// It speaks the Agent Client Protocol.
    Acp,
}

/// How a message is framed for [`Adapter::Lines`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// As one line of text.
    #[default]
    Line,
    /// As one JSON document on a line.
    Json,
}

impl Frame {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_line(&self) -> bool {
        *self == Self::Line
    }
}

/// Who owns a program's standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// It is empty, or the adapter's.
    #[default]
    Empty,
    /// A client feeds it through the host (`run -i`).
    Client,
}

/// Why a spec cannot be run by any system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing to run.
    #[error("the command is empty")]
    EmptyCommand,
    /// A system call ends a string at a NUL byte.
    #[error("{0} holds a NUL byte")]
    Nul(&'static str),
    /// A variable's name is empty or holds `=`.
    #[error("{0:?} is no name of an environment variable")]
    VariableName(Arg),
    /// Relative to what?
    #[error("the working directory {0:?} is not absolute")]
    RelativeCwd(Arg),
    /// Bits beyond the file modes.
    #[error("umask {0:#o} has bits beyond 0777")]
    Umask(u32),
    /// A limit that this system does not have.
    #[error("there is no resource limit {0:?}")]
    Limit(String),
    /// Two would write to one pipe.
    #[error("the adapter lines writes to the command's standard input, so no client can feed it")]
    StdinTaken,
    /// Nothing is framed.
    #[error("a frame is for the adapter lines")]
    Frame,
    /// It is none, or nobody looks for it.
    #[error("the prompt: {0}")]
    Prompt(String),
    /// It is none.
    #[error("the sign of readiness: {0}")]
    Sign(String),
    /// More than [`COMMAND_BYTES_MAX`].
    #[error("command line and environment have {bytes} bytes, more than {COMMAND_BYTES_MAX}")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
}

impl Spec {
    /// Checks what can be said without trying: shape and sizes. Whether the command exists only exec knows.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.command.first() {
            Some(name) if !name.as_bytes().is_empty() => {}
            Some(_) | None => return Err(SpecError::EmptyCommand),
        }
        if self.command.iter().any(Arg::has_nul) {
            return Err(SpecError::Nul("the command"));
        }
        if self.cwd.has_nul() {
            return Err(SpecError::Nul("the working directory"));
        }
        if !self.cwd.as_path().is_absolute() {
            return Err(SpecError::RelativeCwd(self.cwd.clone()));
        }
        for variable in &self.env {
            let name = variable.name.as_bytes();
            if name.is_empty() || name.contains(&b'=') {
                return Err(SpecError::VariableName(variable.name.clone()));
            }
            if variable.name.has_nul() || variable.value.has_nul() {
                return Err(SpecError::Nul("the environment"));
            }
        }
        if self.umask > 0o777 {
            return Err(SpecError::Umask(self.umask));
        }
        if let Some(unknown) = self.limits.iter().find(|limit| limits::find(&limit.resource).is_none()) {
            return Err(SpecError::Limit(unknown.resource.clone()));
        }
        if self.adapter == Adapter::Lines && self.stdin == Stdin::Client {
            return Err(SpecError::StdinTaken);
        }
        if self.adapter != Adapter::Lines && self.frame != Frame::Line {
            return Err(SpecError::Frame);
        }
        if let Some(pattern) = &self.prompt {
            if self.adapter != Adapter::Lines {
                return Err(SpecError::Prompt("it is for the adapter lines".to_owned()));
            }
            super::prompt::compile(pattern, Where::AtEnd).map_err(SpecError::Prompt)?;
        }
        if let Some(pattern) = &self.sign {
            super::prompt::compile(pattern, Where::Anywhere).map_err(SpecError::Sign)?;
        }
        let bytes = self.bytes();
        if bytes > COMMAND_BYTES_MAX {
            return Err(SpecError::TooLarge { bytes });
        }
        Ok(())
    }

    /// Bytes of command line and environment as exec counts them, without its pointers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let command: usize = self.command.iter().map(|arg| arg.as_bytes().len() + 1).sum();
        let env: usize = self.env.iter().map(|var| var.name.as_bytes().len() + var.value.as_bytes().len() + 2).sum();
        command + env
    }
}

#[cfg(test)]
mod tests {
    use super::{Adapter, COMMAND_BYTES_MAX, EnvVar, Frame, SoftLimit, Spec, SpecError, Stdin};
    use crate::os::arg::Arg;

    fn spec() -> Spec {
        Spec {
            command: vec!["true".into()],
            cwd: "/".into(),
            env: Vec::new(),
            umask: 0o22,
            limits: Vec::new(),
            adapter: Adapter::Inbox,
            frame: Frame::Line,
            prompt: None,
            sign: None,
            stdin: Stdin::Empty,
            follow: false,
        }
    }

    fn variable(name: &str, value: &str) -> Vec<EnvVar> {
        vec![EnvVar { name: name.into(), value: value.into() }]
    }

    #[test]
    fn each_fault_is_named() {
        assert_eq!(spec().check(), Ok(()));
        let nul = || Arg::from_bytes(b"a\0b".to_vec());
        let limits = vec![SoftLimit { resource: "colour".into(), value: None }];
        let big = "x".repeat(COMMAND_BYTES_MAX);
        let cases = [
            (Spec { command: vec![], ..spec() }, SpecError::EmptyCommand),
            (Spec { command: vec!["".into()], ..spec() }, SpecError::EmptyCommand),
            (Spec { command: vec!["a".into(), nul()], ..spec() }, SpecError::Nul("the command")),
            (Spec { cwd: nul(), ..spec() }, SpecError::Nul("the working directory")),
            (Spec { cwd: "a".into(), ..spec() }, SpecError::RelativeCwd("a".into())),
            (Spec { env: variable("", "v"), ..spec() }, SpecError::VariableName("".into())),
            (Spec { env: variable("a=b", "v"), ..spec() }, SpecError::VariableName("a=b".into())),
            (Spec { env: variable("a", "\0"), ..spec() }, SpecError::Nul("the environment")),
            (Spec { umask: 0o1000, ..spec() }, SpecError::Umask(0o1000)),
            (Spec { limits, ..spec() }, SpecError::Limit("colour".into())),
            (Spec { adapter: Adapter::Lines, stdin: Stdin::Client, ..spec() }, SpecError::StdinTaken),
            (Spec { frame: Frame::Json, ..spec() }, SpecError::Frame),
            (Spec { prompt: Some("> ".into()), ..spec() }, SpecError::Prompt("it is for the adapter lines".into())),
            (Spec { sign: Some("".into()), ..spec() }, SpecError::Sign("it matches where nothing is written".into())),
            (Spec { env: variable("a", &big), ..spec() }, SpecError::TooLarge { bytes: 5 + 3 + COMMAND_BYTES_MAX }),
        ];
        for (spec, want) in cases {
            assert_eq!(spec.check(), Err(want));
        }
    }

    #[test]
    fn the_stored_form_is_fixed_and_bytes_survive_it() {
        let spec = Spec {
            command: vec!["sh".into(), Arg::from_bytes(b"\xff".to_vec())],
            env: variable("A", "1"),
            limits: vec![SoftLimit { resource: "nofile".into(), value: Some(1024) }],
            ..spec()
        };
        let json = r#"{"command":["sh",{"b64":"/w=="}],"cwd":"/","env":[{"name":"A","value":"1"}],"umask":18,"limits":[{"resource":"nofile","value":1024}],"adapter":"inbox","stdin":"empty","follow":false}"#;
        assert_eq!(serde_json::to_string(&spec).unwrap(), json);
        assert_eq!(serde_json::from_str::<Spec>(json).unwrap(), spec);
        let framed = Spec { adapter: Adapter::Lines, frame: Frame::Json, prompt: Some("> $".into()), ..spec };
        let json = json.replace(r#""adapter":"inbox""#, r#""adapter":"lines","frame":"json","prompt":"> $""#);
        assert_eq!(serde_json::to_string(&framed).unwrap(), json);
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), framed);
        assert_eq!(framed.check(), Ok(()));
        let signed = Spec { sign: Some("^up$".into()), ..framed };
        let json = json.replace(r#""> $""#, r#""> $","sign":"^up$""#);
        assert_eq!(serde_json::to_string(&signed).unwrap(), json);
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), signed);
    }
}
