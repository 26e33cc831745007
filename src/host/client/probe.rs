//! Asks the journal of an episode whose host is dead whether a message was accepted. A living host is asked instead: it
//! answers the same delivery again.

use std::fs;
use std::io;
use std::path::Path;

use super::prepare::{PrepareError, load_spec};
use crate::host::files::{self, HOST_JSON, JOURNAL};
use crate::host::journal::{Found, find};
use crate::host::spec::Adapter;
use crate::host::wire::Delivery;
use crate::os::errors::is_exhausted;

/// What is known of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The command's pipe had all of its bytes.
    Accepted {
        /// When, Unix microseconds.
        at_us: u64,
    },
    /// Not one byte of it was written.
    NotAccepted,
    /// Some or all of it may have been written.
    CannotTell,
}

/// What the journal of a dead host knows of an attempt; of one of its latest ([`crate::host::journal::KEPT`]).
///
/// # Errors
/// If this process or system is out of descriptors or memory: ask again.
pub fn probe(root: &Path, session: &str, episode: u32, message: &str, attempt: u64) -> io::Result<Probe> {
    let folder = files::episode_folder(root, session, episode);
    if !fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(Probe::CannotTell);
    }
    match files::read(&folder.join(JOURNAL)) {
        Ok(Some(journal)) => Ok(meaning(find(&journal, message, attempt))),
        Ok(None) if never_had_one(root, session, &folder)? => Ok(Probe::NotAccepted),
        Err(error) if is_exhausted(&error.source) => Err(error.source),
        Ok(None) | Err(_) => Ok(Probe::CannotTell),
    }
}

/// Whether no journal is missing where there is none: a host makes it before its record, and only for `lines`.
fn never_had_one(root: &Path, session: &str, folder: &Path) -> io::Result<bool> {
    let record = fs::symlink_metadata(folder.join(HOST_JSON));
    if record.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(true);
    }
    match load_spec(root, session) {
        Ok((spec, _)) => Ok(spec.adapter != Adapter::Lines),
        Err(PrepareError::File(error)) if is_exhausted(&error.source) => Err(error.source),
        Err(_) => Ok(false),
    }
}

fn meaning(found: Found) -> Probe {
    match found {
        Found::Ended(Delivery::Accepted { at_us }) => Probe::Accepted { at_us },
        Found::Ended(Delivery::Refused { .. }) | Found::Nothing => Probe::NotAccepted,
        Found::Ended(Delivery::Cut { .. }) | Found::Begun | Found::Damaged => Probe::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Probe, probe};
    use crate::host::client::{prepare_episode, prepare_session};
    use crate::host::files::{HOST_JSON, JOURNAL, SPEC_JSON, episode_folder, session_folder};
    use crate::host::journal::Journal;
    use crate::host::spec::{Adapter, Frame, Spec, Stdin};
    use crate::host::wire::Delivery;

    const SESSION: &str = "abcdefgh2345";

    fn prepare(root: &Path, adapter: Adapter) {
        let spec = Spec {
            command: vec!["true".into()],
            cwd: "/".into(),
            env: Vec::new(),
            umask: 0o22,
            limits: Vec::new(),
            adapter,
            frame: Frame::Line,
            prompt: None,
            sign: None,
            stdin: Stdin::Empty,
            follow: false,
        };
        prepare_session(root, SESSION, &spec).unwrap();
    }

    #[test]
    fn each_end_has_its_meaning() {
        let root = tempfile::tempdir().unwrap();
        let probed = |attempt| probe(root.path(), SESSION, 1, "m", attempt).unwrap();
        prepare(root.path(), Adapter::Lines);
        assert_eq!(probed(1), Probe::CannotTell, "there is no episode");
        prepare_episode(root.path(), SESSION, 1).unwrap();
        let mut journal = Journal::create(&episode_folder(root.path(), SESSION, 1)).unwrap();
        let ends = [
            (Some(Delivery::Accepted { at_us: 7 }), Probe::Accepted { at_us: 7 }),
            (Some(Delivery::Refused { reason: "closed".into() }), Probe::NotAccepted),
            (Some(Delivery::Cut { written: 1, total: 2 }), Probe::CannotTell),
            (None, Probe::CannotTell),
        ];
        for (attempt, (end, want)) in (1..).zip(ends) {
            assert_eq!(probed(attempt), Probe::NotAccepted, "{attempt} has not begun");
            journal.begin("m", attempt, 2).unwrap();
            assert_eq!(probed(attempt), Probe::CannotTell, "{attempt} has begun");
            if let Some(end) = end {
                journal.end("m", attempt, end);
            }
            assert_eq!(probed(attempt), want, "{attempt}");
        }
    }

    #[test]
    fn a_journal_that_is_not_there_says_no_only_where_there_never_was_one() {
        let root = tempfile::tempdir().unwrap();
        let episode = episode_folder(root.path(), SESSION, 1);
        let check = |want, why: &str| assert_eq!(probe(root.path(), SESSION, 1, "m", 1).unwrap(), want, "{why}");
        prepare(root.path(), Adapter::Lines);
        prepare_episode(root.path(), SESSION, 1).unwrap();
        check(Probe::NotAccepted, "no host has opened its gate");
        fs::write(episode.join(HOST_JSON), "{}").unwrap();
        check(Probe::CannotTell, "somebody took it away");
        fs::create_dir(episode.join(JOURNAL)).unwrap();
        check(Probe::CannotTell, "it is no file");
        fs::remove_dir(episode.join(JOURNAL)).unwrap();
        fs::write(episode.join(JOURNAL), "{\n").unwrap();
        check(Probe::CannotTell, "it is damaged");
        fs::remove_file(episode.join(JOURNAL)).unwrap();
        prepare(root.path(), Adapter::Inbox);
        check(Probe::NotAccepted, "its input takes nothing");
        fs::remove_file(session_folder(root.path(), SESSION).join(SPEC_JSON)).unwrap();
        check(Probe::CannotTell, "nobody knows what its input took");
    }
}
