//! A spawn request from its options. It is made whole here: directory, environment, mask and limits are those of the calling client,
//! because the broker's own say nothing about what the caller meant.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::args;
use super::spawn::{self, InheritEnv, Options};
use crate::host::marker;
use crate::os::environment::Environment;
use crate::os::limits;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::{Adapter, Ambient, Arg, EnvVar, Frame, Key, Restart, SoftLimit, SpawnParams, Stdin};

/// What `--inherit-env minimal` passes on where the caller has it: what programs need to find others, their user and their language.
const MINIMAL: [&str; 11] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// What the host sets for each session; a caller that is itself in a session must not pass its own on.
const OF_SESSION: [&str; 6] = [
    "OSTLER_ROOT",
    "OSTLER_SESSION",
    "OSTLER_EPISODE",
    "OSTLER_CREDENTIAL",
    marker::COMMAND_VARIABLE,
    marker::HOST_VARIABLE,
];

/// Who feeds the command, and whether its output will be followed from the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attachment {
    pub(crate) stdin: Stdin,
    pub(crate) follow: bool,
}

/// The request.
///
/// # Errors
/// `invalid_input` for an option that cannot be meant; `spawn_failed`, phase `cwd`, if the current directory is gone, as for any other
/// directory that is not there.
pub(crate) fn build(
    options: &Options,
    key: Key,
    inherit: InheritEnv,
    environment: &Environment,
    attachment: Attachment,
) -> Result<SpawnParams, WireError> {
    Ok(SpawnParams {
        key,
        command: options.command.iter().map(|part| Arg::from(part.as_os_str())).collect(),
        cwd: Arg::from(directory(options.cwd.as_deref())?.as_path()),
        name: options.name.clone(),
        env: options.env.iter().map(|text| variable(text)).collect::<Result<_, _>>()?,
        ambient: Ambient { env: inherited(inherit, environment), umask: Some(limits::umask()), limits: soft_limits() },
        adapter: match options.adapter {
            spawn::Adapter::Inbox => Adapter::Inbox,
            spawn::Adapter::Lines => Adapter::Lines,
        },
        prompt: options.prompt.clone(),
        frame: options.frame.map(|frame| match frame {
            spawn::Frame::Line => Frame::Line,
            spawn::Frame::Json => Frame::Json,
        }),
        ready: options.ready.clone(),
        ready_within_ms: options.ready_within.map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
        restart: Restart::Never,
        labels: args::label_map(&options.labels)?,
        parent: None,
        stdin: attachment.stdin,
        follow: attachment.follow,
    })
}

/// The working directory, absolute. It is not resolved: a link that is named stays what the command sees.
fn directory(asked: Option<&Path>) -> Result<PathBuf, WireError> {
    if let Some(path) = asked.filter(|path| path.is_absolute()) {
        return Ok(path.to_owned());
    }
    let current = std::env::current_dir().map_err(|error| {
        let message = format!("the current directory cannot be named: {error}");
        WireError::new(ErrorCode::SpawnFailed, message).reason("cwd").with("cause", "not_found")
    })?;
    Ok(asked.map_or_else(|| current.clone(), |path| current.join(path)))
}

/// Reads `K=V`, both as bytes.
fn variable(text: &OsStr) -> Result<EnvVar, WireError> {
    let text = Arg::from(text);
    let bytes = text.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if at > 0 => Ok(EnvVar { name: arg(&bytes[..at]), value: arg(&bytes[at + 1..]) }),
        Some(_) | None => {
            let message = format!("--env {} is not K=V", super::text::shell(bytes));
            Err(WireError::new(ErrorCode::InvalidInput, message).reason("env"))
        }
    }
}

fn arg(bytes: &[u8]) -> Arg {
    Arg::from_bytes(bytes.to_vec())
}

/// The ambient part of the environment. Variables without a name, which a system may hand over, name nothing and are left out.
fn inherited(inherit: InheritEnv, environment: &Environment) -> Vec<EnvVar> {
    let wanted = |name: &OsStr| match inherit {
        InheritEnv::Caller => !name.is_empty() && !OF_SESSION.iter().any(|own| name == *own),
        InheritEnv::Minimal => MINIMAL.iter().any(|known| name == *known),
    };
    let chosen = environment.iter().filter(|(name, _)| wanted(name));
    chosen.map(|(name, value)| EnvVar { name: Arg::from(name), value: Arg::from(value) }).collect()
}

fn soft_limits() -> Vec<SoftLimit> {
    let limit = |(resource, value): (&str, Option<u64>)| SoftLimit { resource: resource.to_owned(), value };
    limits::soft().into_iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(variables: &[EnvVar]) -> Vec<&str> {
        variables.iter().map(|variable| variable.name.as_str().unwrap()).collect()
    }

    #[test]
    fn the_environment_is_the_caller_s_without_what_belongs_to_its_own_session() {
        let environment = Environment::of([("PATH", "/bin"), ("SECRET", "s"), ("OSTLER_SESSION", "x"), ("", "drive")]);
        assert_eq!(names(&inherited(InheritEnv::Caller, &environment)), ["PATH", "SECRET"]);
        assert_eq!(names(&inherited(InheritEnv::Minimal, &environment)), ["PATH"]);
        assert!(MINIMAL.is_sorted());
    }

    #[test]
    fn variables_are_bytes_and_need_a_name() {
        let read = variable(arg(b"A\xff=\xfe=b").as_os_str()).unwrap();
        assert_eq!((read.name.as_bytes(), read.value.as_bytes()), (&b"A\xff"[..], &b"\xfe=b"[..]));
        assert_eq!(variable(OsStr::new("A=")).unwrap().value.as_bytes(), b"");
        for bad in ["A", "=b", ""] {
            assert_eq!(variable(OsStr::new(bad)).unwrap_err().code, ErrorCode::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn a_relative_directory_is_below_the_current_one() {
        let current = std::env::current_dir().unwrap();
        assert_eq!(directory(Some(Path::new("a/../b"))).unwrap(), current.join("a/../b"));
        assert_eq!(directory(Some(Path::new("/x"))).unwrap(), Path::new("/x"));
        assert_eq!(directory(None).unwrap(), current);
    }
}
