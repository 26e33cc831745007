//! The journal of an episode: for each message that was to be written to the command's standard input, that it began, and
//! what became of it. It answers after a host's death whether a message may have gone out.
//!
//! A beginning is on disk before the message's first byte leaves, so what has none was never written. An end is written
//! behind the last byte, so a beginning without an end proves nothing. JSON lines in `EPISODE/journal`; a last line
//! without its end was never acknowledged. What is more than [`crate::host::journal::KEPT`] deliveries old is forgotten: ask about the latest.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use serde::{Deserialize, Serialize};

use super::files::{self, FileError, JOURNAL};
use super::wire::Delivery;
use crate::os::durable::{self, Point};

/// Deliveries whose end is known.
pub const KEPT: usize = 64;
/// Size at which the journal is written anew, with what is kept.
const BYTES_MAX: u64 = 64 * 1024;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    message: String,
    attempt: u64,
    #[serde(flatten)]
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// From here bytes may have been written.
    Begun { bytes: u64 },
    /// Nothing more will be.
    Ended(Delivery),
}

impl Entry {
    fn is_of(&self, message: &str, attempt: u64) -> bool {
        self.attempt == attempt && self.message == message
    }
}

/// What a journal says about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: it has not begun.
    Nothing,
    /// It has begun, and no more is known.
    Begun,
    /// How it ended.
    Ended(Delivery),
    /// Nothing, but a line cannot be read.
    Damaged,
}

/// Looks for an attempt in a journal's bytes.
#[must_use]
pub fn find(journal: &[u8], message: &str, attempt: u64) -> Found {
    // What stands behind the last line's end was never acknowledged.
    let whole = journal.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &journal[..end]);
    let mut found = Found::Nothing;
    let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for line in lines {
        found = match (serde_json::from_slice::<Entry>(line), found) {
            (Ok(entry), _) if entry.is_of(message, attempt) => match entry.step {
                Step::Begun { .. } => Found::Begun,
                Step::Ended(delivery) => Found::Ended(delivery),
            },
            (Err(_), Found::Nothing) => Found::Damaged,
            (Ok(_) | Err(_), found) => found,
        };
    }
    found
}

/// The journal of a living host.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// The file and its length; none once it could not be written: it is then made anew.
    file: Option<(File, u64)>,
    /// How the latest deliveries ended, the oldest first.
    ended: VecDeque<Entry>,
}

impl Journal {
    /// Makes it, empty. Its name gets durable with that of `host.json`, before the command runs.
    ///
    /// # Errors
    /// If it cannot be made; then nothing was started.
    pub fn create(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(JOURNAL);
        let file = open(&path, true).map_err(FileError::at("make", &path))?;
        Ok(Self { path, file: Some((file, 0)), ended: VecDeque::new() })
    }

    /// How an attempt has ended, if that is known.
    #[must_use]
    pub fn ended(&self, message: &str, attempt: u64) -> Option<&Delivery> {
        let entry = self.ended.iter().rfind(|entry| entry.is_of(message, attempt))?;
        match &entry.step {
            Step::Ended(delivery) => Some(delivery),
            Step::Begun { .. } => None,
        }
    }

    /// Writes durably that an attempt begins.
    ///
    /// # Errors
    /// If the disk does not take it; then it must not begin.
    pub fn begin(&mut self, message: &str, attempt: u64, bytes: u64) -> Result<(), FileError> {
        let entry = Entry { message: message.to_owned(), attempt, step: Step::Begun { bytes } };
        if !self.stands() {
            self.write_anew()?;
        }
        self.append(&entry, Point::HostJournalAttempt).map_err(FileError::at("write", &self.path))
    }

    /// An attempt has ended. That is known from here on; if the disk does not take it, until this host dies.
    pub fn end(&mut self, message: &str, attempt: u64, delivery: Delivery) {
        let entry = Entry { message: message.to_owned(), attempt, step: Step::Ended(delivery) };
        drop(self.append(&entry, Point::HostJournalEnd));
        if self.ended.len() == KEPT {
            self.ended.pop_front();
        }
        self.ended.push_back(entry);
    }

    /// Whether it can be appended to: whole, small enough, and still the file at its place.
    fn stands(&self) -> bool {
        let Some((file, length)) = &self.file else {
            return false;
        };
        let ours = file.metadata().map(|metadata| files::identity_of(&metadata)).ok();
        *length < BYTES_MAX && ours.is_some() && ours == files::identity_at(&self.path).ok()
    }

    /// Replaces it by what is kept.
    fn write_anew(&mut self) -> Result<(), FileError> {
        self.file = None;
        let bytes: Vec<u8> = self.ended.iter().flat_map(files::to_line).collect();
        files::replace(&self.path, &bytes, [Point::HostJournalContent, Point::HostJournalNamed])?;
        let file = open(&self.path, false).map_err(FileError::at("open", &self.path))?;
        self.file = Some((file, u64::try_from(bytes.len()).expect("a length in memory fits 64 bits")));
        Ok(())
    }

    fn append(&mut self, entry: &Entry, point: Point) -> io::Result<()> {
        // Kept again only if all went well: after a failed sync nobody knows what the file holds.
        let (file, length) = self.file.take().ok_or_else(|| io::Error::other("it could not be written before"))?;
        let line = files::to_line(entry);
        let written = file.write_all_at(&line, length).and_then(|()| durable::sync_data(&file, point));
        if let Err(error) = written {
            // What has not happened shall not stand there, as far as the disk still does what it is told.
            drop(file.set_len(length));
            return Err(error);
        }
        self.file = Some((file, length + u64::try_from(line.len()).expect("a length in memory fits 64 bits")));
        Ok(())
    }
}

fn open(path: &Path, make: bool) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().write(true).create(make).truncate(make).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{BYTES_MAX, Delivery, Found, Journal, KEPT, find};
    use crate::host::files::JOURNAL;

    const ACCEPTED: Delivery = Delivery::Accepted { at_us: 7 };
    const CUT: Delivery = Delivery::Cut { written: 1, total: 2 };

    fn refused() -> Delivery {
        Delivery::Refused { reason: "closed".into() }
    }

    fn check(journal: &str, want: &Found) {
        assert_eq!(find(journal.as_bytes(), "m", 1), *want, "{journal:?}");
    }

    #[test]
    fn what_is_found_follows_from_the_whole_lines() {
        let begun = "{\"message\":\"m\",\"attempt\":1,\"begun\":{\"bytes\":2}}\n";
        let ended = "{\"message\":\"m\",\"attempt\":1,\"ended\":{\"accepted\":{\"at_us\":7}}}\n";
        let other = "{\"message\":\"m\",\"attempt\":2,\"ended\":{\"cut\":{\"written\":1,\"total\":2}}}\n";
        check("", &Found::Nothing);
        check(other, &Found::Nothing);
        check(begun, &Found::Begun);
        check(&format!("{begun}{ended}{other}"), &Found::Ended(ACCEPTED));
        // Begun is acknowledged with its line's end, and an end with its own.
        check(begun.trim_end(), &Found::Nothing);
        check(&format!("{begun}{}", ended.trim_end()), &Found::Begun);
        check(&format!("{begun}\0\0\0"), &Found::Begun);
        // A line that cannot be read may have been about it; what can be read still counts.
        check(&format!("{{\n{other}"), &Found::Damaged);
        check(&format!("{{\n{begun}"), &Found::Begun);
        check(&format!("{begun}{{\n"), &Found::Begun);
        check(&format!("{begun}{ended}{{\n"), &Found::Ended(ACCEPTED));
        check(&begun.replacen('{', "{\"later\":[],", 1), &Found::Begun);
        assert_eq!(find(other.as_bytes(), "m", 2), Found::Ended(CUT));
    }

    #[test]
    fn what_is_written_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        let found = |message, attempt| find(&fs::read(&path).unwrap(), message, attempt);
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.begin("m", 1, 2).unwrap();
        assert_eq!((found("m", 1), journal.ended("m", 1)), (Found::Begun, None));
        journal.end("m", 1, refused());
        journal.begin("m", 2, 2).unwrap();
        assert_eq!((found("m", 1), journal.ended("m", 1)), (Found::Ended(refused()), Some(&refused())));
        assert_eq!((found("m", 2), found("n", 1)), (Found::Begun, Found::Nothing));
        // A new episode begins with nothing.
        drop(Journal::create(folder.path()).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn it_stays_small_and_keeps_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        let mut journal = Journal::create(folder.path()).unwrap();
        let message = "m".repeat(128);
        for attempt in 0..400 {
            journal.begin(&message, attempt, 2).unwrap();
            journal.end(&message, attempt, ACCEPTED);
            assert!(fs::metadata(&path).unwrap().len() < BYTES_MAX + 1024);
        }
        let bytes = fs::read(&path).unwrap();
        let first = 400 - u64::try_from(KEPT).unwrap();
        for attempt in first..400 {
            assert_eq!(find(&bytes, &message, attempt), Found::Ended(ACCEPTED), "{attempt}");
            assert_eq!(journal.ended(&message, attempt), Some(&ACCEPTED), "{attempt}");
        }
        assert_eq!(journal.ended(&message, first - 1), None);
        assert_eq!(find(&bytes, &message, 0), Found::Nothing);
    }

    #[test]
    fn a_journal_that_was_taken_away_is_written_anew_with_what_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        let found = |attempt| find(&fs::read(&path).unwrap(), "m", attempt);
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.begin("m", 1, 2).unwrap();
        journal.end("m", 1, CUT);
        fs::remove_file(&path).unwrap();
        journal.begin("m", 2, 2).unwrap();
        assert_eq!((found(1), found(2)), (Found::Ended(CUT), Found::Begun));
        // Nor is anything written to what has another's name: a folder stands in the way, and nothing begins.
        fs::rename(&path, folder.path().join("aside")).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(journal.begin("m", 3, 2).is_err());
        fs::remove_dir(&path).unwrap();
        journal.begin("m", 3, 2).unwrap();
        assert_eq!((found(1), found(3)), (Found::Ended(CUT), Found::Begun));
    }
}
