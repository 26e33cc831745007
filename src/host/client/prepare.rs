//! What must be durable before a start is accepted: the spec, the session's credential, the episode's folder and its
//! `life.lock`. Every step can be repeated; recovery never makes a missing `life.lock`, only this does.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use data_encoding::HEXLOWER;
use nix::libc;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::host::files::{self, CREDENTIAL, FileError, LIFE_LOCK, SPEC_JSON};
use crate::host::spec::{Spec, SpecError};
use crate::os::durable::{self, Point};
use crate::os::entropy;

/// A session's files are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Salted digest of the spec, 64 hex digits: the ledger's proof of what was to be run, without telling it.
    pub spec_digest: String,
}

/// Why a session cannot be prepared, or its spec not be read.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// No name of a folder.
    #[error("{0:?} is no session id")]
    SessionId(String),
    /// No system could run it.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The disk did not take it.
    #[error(transparent)]
    File(#[from] FileError),
    /// `spec.json` is not what was written.
    #[error("spec.json of {session} is damaged: {reason}")]
    Damaged {
        /// Whose.
        session: String,
        /// How.
        reason: String,
    },
}

/// Writes `sessions/ID/spec.json` and a new credential, durably; the root must be there.
///
/// # Errors
/// [`PrepareError`]; what was written by then may stay and is written over by a repetition.
pub fn prepare_session(root: &Path, session: &str, spec: &Spec) -> Result<Prepared, PrepareError> {
    check_id(session)?;
    spec.check()?;
    files::make_folder(&files::sessions_folder(root), Point::SpawnSessions)?;
    let folder = files::session_folder(root, session);
    files::make_folder(&folder, Point::SpawnFolder)?;
    let stored = StoredSpec { version: VERSION, salt: entropy::hex::<16>(), spec: spec.clone() };
    let bytes = files::to_line(&stored);
    // It names its session, so that a broker finds whom to compare it with.
    let credential = format!("{session}.{}\n", entropy::hex::<32>());
    files::replace_but_name(&folder.join(CREDENTIAL), credential.as_bytes(), Point::SpawnCredential)?;
    files::replace(&folder.join(SPEC_JSON), &bytes, [Point::SpawnSpecContent, Point::SpawnSpecNamed])?;
    Ok(Prepared { spec_digest: digest(&bytes) })
}

/// Makes `sessions/ID/EPISODE/life.lock`, durably.
///
/// # Errors
/// [`PrepareError`].
pub fn prepare_episode(root: &Path, session: &str, episode: u32) -> Result<(), PrepareError> {
    check_id(session)?;
    let folder = files::episode_folder(root, session, episode);
    files::make_folder(&folder, Point::EpisodeFolder)?;
    let path = folder.join(LIFE_LOCK);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(&path);
    let synced = made.and_then(|lock| {
        if !lock.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        durable::sync(&lock, Point::EpisodeLock)
    });
    synced.map_err(FileError::at("make", &path))?;
    Ok(files::sync_folder(&folder, Point::EpisodeLockNamed)?)
}

/// Reads `spec.json` and its digest.
///
/// # Errors
/// [`PrepareError`]; an absent file is [`PrepareError::Damaged`] too, because an accepted session has one.
pub fn load_spec(root: &Path, session: &str) -> Result<(Spec, String), PrepareError> {
    check_id(session)?;
    let damaged = |reason| PrepareError::Damaged { session: session.to_owned(), reason };
    let bytes = files::read(&files::session_folder(root, session).join(SPEC_JSON))?;
    let bytes = bytes.ok_or_else(|| damaged("it is missing".into()))?;
    let stored: StoredSpec = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if stored.version != VERSION {
        return Err(damaged(format!("it has version {}, this program knows {VERSION}", stored.version)));
    }
    Ok((stored.spec, digest(&bytes)))
}

/// The session's credential, `ID.SECRET`; none if it cannot be read.
#[must_use]
pub fn read_credential(root: &Path, session: &str) -> Option<String> {
    check_id(session).ok()?;
    let bytes = files::read(&files::session_folder(root, session).join(CREDENTIAL)).ok()??;
    Some(String::from_utf8(bytes).ok()?.trim_end().to_owned())
}

/// Version of `spec.json`.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSpec {
    version: u32,
    /// Without it the digest in the ledger would tell who guesses a secret in the environment that he guessed right.
    salt: String,
    spec: Spec,
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

pub(super) fn check_id(session: &str) -> Result<(), PrepareError> {
    if files::is_session_id(session) { Ok(()) } else { Err(PrepareError::SessionId(session.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{PrepareError, load_spec, prepare_episode, prepare_session};
    use crate::host::spec::{Adapter, EnvVar, Frame, Spec, Stdin};

    fn spec() -> Spec {
        Spec {
            command: vec!["true".into()],
            cwd: "/".into(),
            env: vec![EnvVar { name: "TOKEN".into(), value: "planted-secret".into() }],
            umask: 0o77,
            limits: Vec::new(),
            adapter: Adapter::Inbox,
            frame: Frame::Line,
            prompt: None,
            sign: None,
            stdin: Stdin::Empty,
            follow: false,
        }
    }

    #[test]
    fn what_is_prepared_can_be_loaded_and_is_for_the_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let prepared = prepare_session(root.path(), "abc", &spec()).unwrap();
        assert_eq!(load_spec(root.path(), "abc").unwrap(), (spec(), prepared.spec_digest.clone()));
        prepare_episode(root.path(), "abc", 1).unwrap();
        prepare_episode(root.path(), "abc", 1).unwrap();
        let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
        for folder in ["sessions", "sessions/abc", "sessions/abc/1"] {
            assert_eq!(mode(folder), 0o700, "{folder}");
        }
        for file in ["sessions/abc/spec.json", "sessions/abc/credential", "sessions/abc/1/life.lock"] {
            assert_eq!(mode(file), 0o600, "{file}");
        }
        // The same spec again has another salt, so equal specs cannot be told by their digests.
        assert_ne!(prepare_session(root.path(), "abc", &spec()).unwrap(), prepared);
    }

    #[test]
    fn bad_ids_bad_specs_and_damage_are_errors() {
        let root = tempfile::tempdir().unwrap();
        for id in ["", "..", "a/b", "a.b", &"x".repeat(65)] {
            assert!(matches!(prepare_session(root.path(), id, &spec()), Err(PrepareError::SessionId(_))), "{id}");
        }
        let empty = Spec { command: Vec::new(), ..spec() };
        assert!(matches!(prepare_session(root.path(), "a", &empty), Err(PrepareError::Spec(_))));
        assert!(matches!(load_spec(root.path(), "a"), Err(PrepareError::Damaged { .. })));
        prepare_session(root.path(), "a", &spec()).unwrap();
        fs::write(root.path().join("sessions/a/spec.json"), "{}").unwrap();
        assert!(matches!(load_spec(root.path(), "a"), Err(PrepareError::Damaged { .. })));
    }
}
