//! The broker's own looks at session files that are no part of a host's life: waiting for a host to let go, sweeping
//! folders that no record names.

use crate::host::client::{PrepareError, has_host};
use crate::host::files::{self, Document};
use crate::host::wire::HostRecord;
use crate::machine::{SessionId, State};
use crate::os::fail::{Point, pass};
use crate::os::identity::ProcessIdentity;
use crate::rpc::convert::storage_code;
use crate::rpc::error::{ErrorCode, WireError};
use std::io;
use std::path::Path;

/// Most sessions that a notice of lost records names.
const LOST_NAMED_MAX: usize = 5;

/// Whether a host is at work in an episode of this session before this one. Blocking.
pub fn held(root: &Path, session: &str, before: u32) -> bool {
    episodes(root, session, before).into_iter().any(|episode| has_host(root, session, episode).unwrap_or(false))
}

/// The newest two episodes before this one that have a folder; older ones were waited for before the next began.
fn episodes(root: &Path, session: &str, before: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(files::session_folder(root, session)) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
    let mut episodes: Vec<u32> = names.filter_map(|name| name.parse().ok()).filter(|of| *of < before).collect();
    episodes.sort_unstable_by(|a, b| b.cmp(a));
    episodes.truncate(2);
    episodes
}

/// The record of an episode's host, if it can be read.
pub fn host_record(root: &Path, session: &str, episode: u32) -> Option<HostRecord> {
    match files::read_json(&files::episode_folder(root, session, episode).join(files::HOST_JSON)) {
        Document::Present(record) => Some(record),
        Document::Absent | Document::Damaged(_) => None,
    }
}

/// Asks a host whose socket or record is gone to make it again. A host that is gone by now is no matter: the evidence tells.
pub fn ask_to_bind(host: &ProcessIdentity) {
    use crate::os::signal;
    if let Err(error) = signal::send(host, nix::sys::signal::Signal::SIGUSR1) {
        tracing::info!(%error, "a host could not be asked to bind again");
    }
    pass(Point::AdoptAsked);
}

/// The last sign of life that an episode left on disk, without a conversation: wall clock, microseconds.
pub fn last_sign(root: &Path, session: &str, episode: u32) -> Option<u64> {
    let folder = files::episode_folder(root, session, episode);
    let newest = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).filter_map(|entry| {
        let modified = entry.metadata().ok()?.modified().ok()?;
        u64::try_from(modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_micros()).ok()
    });
    newest.max()
}

/// Removes session folders that no record names and in which no host ever was: what a crash left between the files and
/// the record. A host is started for a synced record only, so one that was there without a record means that the ledger
/// lost it. Such a folder stays, with whatever still runs in it (laws 11 and 12). Says so if there are any.
pub fn sweep(root: &Path, state: &State) -> Option<String> {
    let entries = std::fs::read_dir(files::sessions_folder(root)).ok()?;
    let mut lost = Vec::new();
    for name in entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok()) {
        let Ok(id) = SessionId::parse(&name) else { continue };
        if state.sessions.get(&id).is_some() || state.removals.get(&id).is_some() {
            continue;
        }
        if had_host(root, id.as_str()) {
            tracing::error!(
                session = id.as_str(),
                "the ledger does not know a session that ran here; its folder stays"
            );
            lost.push(id.to_string());
            continue;
        }
        match crate::host::client::remove_session_files(root, id.as_str()) {
            Ok(()) => tracing::info!(session = id.as_str(), "removed a folder that no record names"),
            Err(error) => tracing::warn!(session = id.as_str(), %error, "a folder that no record names stays"),
        }
    }
    lost.sort_unstable();
    let named = lost.iter().take(LOST_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    (!lost.is_empty()).then(|| {
        format!(
            "the ledger does not know {} sessions that ran here ({named}): its records of them were lost. Their folders \
             under sessions/ stay, and what still runs of them runs on unmanaged",
            lost.len()
        )
    })
}

/// Whether a host was ever at work in a folder of this session. What cannot be looked at counts as a trace.
fn had_host(root: &Path, session: &str) -> bool {
    let entries = match std::fs::read_dir(files::session_folder(root, session)) {
        Ok(entries) => entries,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let names = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).any(|episode| {
        let folder = files::episode_folder(root, session, episode);
        let is_there = |name| std::fs::symlink_metadata(folder.join(name)).is_ok();
        is_there(files::HOST_JSON) || is_there(files::EXIT_JSON) || has_host(root, session, episode).unwrap_or(false)
    })
}

/// Files could not be prepared; nothing was recorded.
pub fn unprepared(error: &PrepareError) -> WireError {
    let code = match error {
        PrepareError::Spec(_) | PrepareError::SessionId(_) => ErrorCode::InvalidInput,
        PrepareError::File(error) => storage_code(&error.source),
        PrepareError::Damaged { .. } => ErrorCode::StorageFailed,
    };
    WireError::new(code, format!("its files could not be prepared: {error}; nothing was done"))
}
