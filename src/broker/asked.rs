//! Parameters become requests: checked once, digested once. The digest covers the method, the target as the caller
//! named it and what the caller named explicitly; not the key, and not the ambient rest (ledger rule 3), so that a
//! retry from another shell is a retry. It is keyed with a secret of the root: environment values cannot be guessed
//! from the ledger.

use super::refused::{bad_name, malformed};
use crate::host::spec;
use crate::machine::{self, Action, Digest, Key, Name, Parcel, Refusal, SessionId, State, Target, limits};
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::{Adapter, Frame, Restart, SpawnParams, Stdin};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use std::collections::BTreeMap;

/// Default grace of a stop, in milliseconds.
pub const STOP_GRACE_MS: u64 = 10_000;
/// Command line and environment together, in bytes.
pub const COMMAND_BYTES: usize = 512 * 1024;
/// Shortest prefix of an id that names a session: a slip of the finger must not stop or delete one.
pub const PREFIX_MIN: usize = 3;
/// So many of the sessions that an ambiguous prefix fits are named.
const NAMED_MAX: usize = 5;
/// Ended sessions younger than this are kept by a prune that names no age, in milliseconds.
pub const RETENTION_MS: u64 = 7 * 24 * 3_600 * 1_000;
/// Greatest age that a prune may name, in milliseconds: integers of the ledger stay below 2^53.
const OLDER_MS_MAX: u64 = (1 << 53) - 1;

/// The request's digest under the root's secret.
pub fn digest(secret: &[u8; 32], method: &str, params: &Value) -> Digest {
    let mut named = params.clone();
    if let Some(members) = named.as_object_mut() {
        members.remove("key");
        members.remove("ambient");
        members.remove("wait_for");
        members.remove("wait_ms");
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(method.as_bytes());
    mac.update(b"\n");
    // serde_json keeps members sorted, so equal requests have equal bytes whatever order they came in.
    mac.update(named.to_string().as_bytes());
    Digest(mac.finalize().into_bytes().into())
}

/// The caller's key, in the machine's type.
///
/// # Errors
/// `invalid_input`.
pub fn key(text: &str) -> Result<Key, WireError> {
    Key::parse(text).map_err(|rule| malformed("key", rule))
}

/// The key under which a broker of this generation stops a session as it is shut down with its sessions.
pub fn shutdown_key(generation: u64, session: &str) -> String {
    format!("shutdown-{generation}-{session}")
}

/// A session by exact id, exact name or unique prefix of the id (at least [`PREFIX_MIN`] characters), tried in this order.
///
/// # Errors
/// [`Refusal::NoSession`] or [`Refusal::Ambiguous`].
pub fn find(state: &State, given: &str) -> Target {
    let missing = || missing(given);
    if let Ok(id) = SessionId::parse(given)
        && state.sessions.get(&id).is_some()
    {
        return Ok(id);
    }
    if let Ok(name) = Name::parse(given)
        && let Some(id) = state.names.get(&name)
    {
        return Ok(id.clone());
    }
    if !(PREFIX_MIN..12).contains(&given.len()) {
        return Err(missing());
    }
    // Ids are in order, so those with this prefix stand together.
    let padded = format!("{given:2<12}");
    let from = SessionId::parse(&padded).map_err(|_| missing())?;
    let at_from = state.sessions.get(&from).map(|_| &from);
    let rest = state.sessions.after(Some(&from)).map(|(id, _)| id);
    let fits: Vec<_> =
        at_from.into_iter().chain(rest).take_while(|id| id.as_str().starts_with(given)).take(1_000).collect();
    match fits.as_slice() {
        [] => Err(missing()),
        [id] => Ok((*id).clone()),
        many => {
            let some = many.iter().take(NAMED_MAX).map(|id| (*id).clone()).collect();
            Err(Refusal::Ambiguous { given: given.to_owned(), fits: many.len(), some })
        }
    }
}

/// Nobody is named so, as far as the caller may know.
pub fn missing(given: &str) -> Refusal {
    Refusal::NoSession { given: given.chars().take(64).collect() }
}

/// A session's name, in the machine's type.
///
/// # Errors
/// `invalid_input`.
pub fn name(text: &str) -> Result<Name, WireError> {
    Name::parse(text).map_err(|rule| bad_name(text, rule))
}

/// What a spawn's parameters come to.
#[derive(Debug)]
pub struct Wanted {
    /// What is run.
    pub spec: spec::Spec,
    /// The wanted name.
    pub name: Option<Name>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// When it counts as ready, if not as soon as its command executes.
    pub readiness: Option<machine::Readiness>,
}

/// Checks a spawn's parameters.
///
/// # Errors
/// `invalid_input`, `too_large` or `capability_missing`; nothing was done.
pub fn wanted(params: &SpawnParams) -> Result<Wanted, WireError> {
    let missing = |what: &str| {
        WireError::new(ErrorCode::CapabilityMissing, format!("this version cannot do {what} yet; nothing was done"))
            .with("capability", what)
    };
    if params.restart != Restart::Never {
        return Err(missing("restart policies"));
    }
    if params.adapter == Adapter::Acp {
        return Err(missing("the adapter acp"));
    }
    if params.prompt.is_some() && params.adapter != Adapter::Lines {
        let error = spec::SpecError::Prompt("it is for the adapter lines".to_owned());
        let message = format!("{error}; nothing was done");
        return Err(WireError::new(ErrorCode::InvalidInput, message).reason("prompt"));
    }
    if params.frame.is_some() && params.adapter != Adapter::Lines {
        let message = format!("{}; nothing was done", spec::SpecError::Frame);
        return Err(WireError::new(ErrorCode::InvalidInput, message).reason("frame"));
    }
    if params.parent.is_some() {
        return Err(missing("a parent other than the calling session"));
    }
    let name = params.name.as_deref().map(name).transpose()?;
    labels_ok(&params.labels)?;
    let readiness = super::readiness::wanted(params)?;
    Ok(Wanted { spec: spec_of(params)?, name, labels: params.labels.clone(), readiness })
}

/// How messages reach a session with this spec.
pub fn adapter(spec: &spec::Spec) -> machine::Adapter {
    match (spec.adapter, spec.frame, spec.prompt.is_some()) {
        (spec::Adapter::Inbox | spec::Adapter::Acp, ..) => machine::Adapter::Inbox,
        (spec::Adapter::Lines, spec::Frame::Line, false) => machine::Adapter::Lines,
        (spec::Adapter::Lines, spec::Frame::Json, false) => machine::Adapter::JsonLines,
        (spec::Adapter::Lines, spec::Frame::Line, true) => machine::Adapter::PromptedLines,
        (spec::Adapter::Lines, spec::Frame::Json, true) => machine::Adapter::PromptedJsonLines,
    }
}

fn labels_ok(labels: &BTreeMap<String, String>) -> Result<(), WireError> {
    let fits = labels.len() <= limits::LABELS
        && labels.iter().all(|(key, value)| {
            let plain = |text: &str| !text.chars().any(char::is_control);
            (1..=limits::LABEL_KEY_BYTES).contains(&key.len())
                && value.len() <= limits::LABEL_VALUE_BYTES
                && plain(key)
                && plain(value)
        });
    if fits {
        return Ok(());
    }
    let rule = "labels: at most 32, keys of 1 to 63 bytes, values of up to 255, no control characters";
    Err(WireError::new(ErrorCode::InvalidInput, format!("{rule}; nothing was done")).reason("labels"))
}

fn spec_of(params: &SpawnParams) -> Result<spec::Spec, WireError> {
    let ambient = params.ambient.env.iter().map(|var| (&var.name, &var.value));
    let named = params.env.iter().map(|var| (&var.name, &var.value));
    // What is named stands above what is inherited; a later name above an earlier one.
    let env: BTreeMap<_, _> = ambient.chain(named).collect();
    let env_bytes: usize = env.iter().map(|(name, value)| name.as_bytes().len() + value.as_bytes().len() + 2).sum();
    let command_bytes: usize = params.command.iter().map(|arg| arg.as_bytes().len() + 1).sum();
    if env_bytes + command_bytes > COMMAND_BYTES {
        let bytes = env_bytes + command_bytes;
        let message =
            format!("command line and environment take {bytes} bytes, the limit is {COMMAND_BYTES}; nothing was done");
        return Err(
            WireError::new(ErrorCode::TooLarge, message).with("limit", u64::try_from(COMMAND_BYTES).unwrap_or(0))
        );
    }
    let spec = spec::Spec {
        command: params.command.clone(),
        cwd: params.cwd.clone(),
        env: env.into_iter().map(|(name, value)| spec::EnvVar { name: name.clone(), value: value.clone() }).collect(),
        umask: params.ambient.umask.unwrap_or(0o077),
        limits: params
            .ambient
            .limits
            .iter()
            .map(|limit| spec::SoftLimit { resource: limit.resource.clone(), value: limit.value })
            .collect(),
        adapter: match params.adapter {
            Adapter::Inbox => spec::Adapter::Inbox,
            Adapter::Lines => spec::Adapter::Lines,
            Adapter::Acp => spec::Adapter::Acp,
        },
        frame: match params.frame {
            None | Some(Frame::Line) => spec::Frame::Line,
            Some(Frame::Json) => spec::Frame::Json,
        },
        prompt: params.prompt.clone(),
        sign: super::readiness::sign(&params.ready),
        stdin: match params.stdin {
            Stdin::Empty => spec::Stdin::Empty,
            Stdin::Client => spec::Stdin::Client,
        },
        follow: params.follow,
    };
    spec.check().map_err(|error| {
        let reason = match error {
            spec::SpecError::Prompt(_) => "prompt",
            spec::SpecError::Sign(_) => "ready",
            spec::SpecError::EmptyCommand
            | spec::SpecError::Nul(_)
            | spec::SpecError::VariableName(_)
            | spec::SpecError::RelativeCwd(_)
            | spec::SpecError::Umask(_)
            | spec::SpecError::Limit(_)
            | spec::SpecError::StdinTaken
            | spec::SpecError::Frame
            | spec::SpecError::TooLarge { .. } => "command",
        };
        WireError::new(ErrorCode::InvalidInput, format!("{error}; nothing was done")).reason(reason)
    })?;
    Ok(spec)
}

/// A stop's grace, checked.
///
/// # Errors
/// `invalid_input` beyond the limit.
pub fn grace(given: Option<u64>) -> Result<u64, WireError> {
    match given.unwrap_or(STOP_GRACE_MS) {
        fits if fits <= limits::STOP_GRACE_MS_MAX => Ok(fits),
        _ => Err(WireError::new(
            ErrorCode::InvalidInput,
            format!("the grace is at most {} ms; nothing was done", limits::STOP_GRACE_MS_MAX),
        )
        .reason("grace_ms")),
    }
}

/// Why something is to end, checked: a person reads it, and a program is told it.
///
/// # Errors
/// `invalid_input` for nothing, too much, or what is no plain text.
pub fn reason(given: Option<String>) -> Result<Option<String>, WireError> {
    let fits =
        |text: &String| (1..=limits::STOP_REASON_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    match given {
        Some(text) if !fits(&text) => {
            let rule = format!("the reason has 1 to {} bytes and no control characters", limits::STOP_REASON_BYTES);
            Err(WireError::new(ErrorCode::InvalidInput, format!("{rule}; nothing was done")).reason("reason"))
        }
        fits => Ok(fits),
    }
}

/// A prune's age, checked.
///
/// # Errors
/// `invalid_input` beyond what a record of the ledger can hold.
pub fn older(given: Option<u64>) -> Result<u64, WireError> {
    match given.unwrap_or(RETENTION_MS) {
        fits if fits <= OLDER_MS_MAX => Ok(fits),
        _ => Err(WireError::new(
            ErrorCode::InvalidInput,
            format!("the age is at most {OLDER_MS_MAX} ms; nothing was done"),
        )
        .reason("older_ms")),
    }
}

/// The action with its files prepared for this episode.
pub fn prepared(action: Action, session: &SessionId, spec: Option<Digest>, episode: u32) -> Action {
    match action {
        Action::Spawn { name, labels, adapter, readiness, source, .. } => {
            let prepared = spec.map(|spec| crate::machine::PreparedSession { id: session.clone(), spec });
            Action::Spawn { prepared, name, labels, adapter, readiness, source }
        }
        Action::Resume { target, .. } => Action::Resume { target, prepared: Some(episode) },
        Action::Send(parcel) => Action::Send(Box::new(Parcel { prepared: Some(episode), ..*parcel })),
        Action::Stop { .. }
        | Action::Delete { .. }
        | Action::Prune { .. }
        | Action::Reconcile { .. }
        | Action::Resolve { .. }
        | Action::Cancel { .. }
        | Action::ResolveMessage { .. }
        | Action::Interrupt { .. }
        | Action::Turn { .. }
        | Action::Ready { .. }
        | Action::Report(_)
        | Action::Acknowledge { .. } => action,
    }
}
