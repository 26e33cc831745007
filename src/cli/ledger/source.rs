//! Which ledger is looked at: the state root's own, or a copy anywhere (`--ledger DIR`). Nothing here takes a lock, makes or changes a file, or
//! needs a broker; whole turns only, so a broker may write meanwhile.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ostler_ledger::storage::Disk;
use ostler_ledger::{Onward, ReadError, Record, Records, is_segment, record_at};

use super::super::context::Context;
use super::super::failure::Failure;
use super::super::text;
use super::record;
use crate::os::paths::StateRoot;
use crate::os::process::boot_id;
use crate::rpc::error::{ErrorCode, WireError};

/// Where the ledger is.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Source {
    /// A ledger folder to look at, a copy for instance [default: that of the state root]
    #[arg(long = "ledger", value_name = "DIR", global = true, display_order = 899)]
    folder: Option<PathBuf>,
}

/// A ledger to read, and what it is read for, so that a failure can say it.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) attempt: String,
    pub(crate) storage: Disk,
    folder: PathBuf,
    is_copy: bool,
}

impl Source {
    /// Whether another ledger is meant than the state root's own.
    pub(crate) fn is_copy(&self) -> bool {
        self.folder.is_some()
    }

    /// Opens it.
    ///
    /// # Errors
    /// `not_found` if there is none, or a folder without any segment file: of nothing nobody can say that it is sound, and it is easily
    /// another folder than the one that was meant. Also what keeps the root from being named.
    pub(crate) fn look(&self, attempt: impl Into<String>, context: &Context) -> Result<Look, Failure> {
        let look = self.look_even_at_nothing(attempt, context)?;
        if has_segment(&look.folder) { Ok(look) } else { Err(look.empty()) }
    }

    /// As [`Source::look`], also of a folder without any segment file: for who knows what should be there.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn look_even_at_nothing(&self, attempt: impl Into<String>, context: &Context) -> Result<Look, Failure> {
        let attempt = attempt.into();
        let folder = match &self.folder {
            Some(folder) => named(folder, &attempt)?,
            None => own(context, &attempt)?,
        };
        Ok(Look { storage: Disk::reading(&folder), attempt, folder, is_copy: self.folder.is_some() })
    }
}

impl Look {
    /// Its records in order, whole turns only.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Record, Failure>> {
        Records::new(&self.storage).map(|found| found.map_err(|error| self.unreadable(&error)))
    }

    /// The records behind one, without reading what lies before it; after the end it can be asked again.
    pub(crate) fn records_behind(&self, seq: u64) -> impl Iterator<Item = Result<Record, Failure>> {
        Onward::behind(&self.storage, seq).map(|found| found.map_err(|error| self.unreadable(&error)))
    }

    /// One record, if it is sound and its turn is whole.
    pub(crate) fn record(&self, seq: u64) -> Result<Option<Record>, Failure> {
        record_at(&self.storage, seq).map_err(|error| self.unreadable(&error))
    }

    /// The record that it begins with, if what stood before that was retired.
    pub(crate) fn begins_late(&self) -> Result<Option<u64>, Failure> {
        let Some(first) = self.records().next().transpose()?.map(|found| found.header.seq).filter(|first| *first > 1)
        else {
            return Ok(None);
        };
        for found in self.records() {
            let found = found?;
            if found.header.t == "retire" && record::document(&found)["body"]["last"].as_u64() >= Some(first - 1) {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// The folder of its segments.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The boot that the ledger's newest segment may have been written in. Of a copy nobody knows whose it is.
    pub(crate) fn boot(&self) -> Option<String> {
        if self.is_copy { None } else { boot_id().ok() }
    }

    /// What keeps the ledger from being read, as an error of the contract.
    pub(crate) fn unreadable(&self, error: &ReadError) -> Failure {
        let code = match error {
            ReadError::Io(_) => ErrorCode::StorageFailed,
            ReadError::TooNew { .. } => ErrorCode::ProtocolMismatch,
        };
        self.failure(WireError::new(code, error.to_string()).reason("ledger"))
    }

    /// What was looked for is not there; it may have been retired.
    pub(crate) fn missing(&self, reason: &str, message: impl Into<String>, remedy: &str) -> Failure {
        let mut error = WireError::new(ErrorCode::NotFound, message).reason(reason).with("remedy", remedy);
        if let Ok(Some(first)) = self.begins_late() {
            error.message.push_str(&format!("; the records before {first} were retired"));
            let archived = "if they were kept, the same command with --ledger DIR, a folder with copies of the files in ledger/archive and in ledger";
            error = error.with("retired_before", first).with("remedy", format!("{remedy}; {archived}"));
        }
        self.failure(error)
    }

    /// There is no segment file.
    fn empty(&self) -> Failure {
        let inner = self.folder.join("ledger");
        let remedy = match (self.is_copy, has_segment(&inner)) {
            (true, true) => {
                format!("the same command with --ledger {}", text::shell_str(&inner.display().to_string()))
            }
            (true, false) => "another --ledger DIR, one with files like 00000000000000000001.jsonl".to_owned(),
            (false, _) => "ostler doctor, another --root, or --ledger DIR for a copy".to_owned(),
        };
        let error = WireError::new(ErrorCode::NotFound, format!("no segment file in {}", self.folder.display()));
        self.failure(error.reason("ledger").with("remedy", remedy))
    }

    /// This error, as a failure of what is being tried.
    pub(crate) fn failure(&self, error: WireError) -> Failure {
        Failure::new(self.attempt.clone(), error)
    }
}

/// Whether any file in the folder is a segment by its name. What cannot be listed is left to the reader, who says why.
pub(crate) fn has_segment(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_segment)))
        }
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// A folder that was named.
fn named(folder: &Path, attempt: &str) -> Result<PathBuf, Failure> {
    if folder.is_dir() {
        return Ok(folder.to_owned());
    }
    let message = format!("there is no folder {}", folder.display());
    Err(Failure::new(
        attempt,
        WireError::new(ErrorCode::NotFound, message).reason("ledger").with("remedy", "another --ledger DIR"),
    ))
}

/// The state root's own.
fn own(context: &Context, attempt: &str) -> Result<PathBuf, Failure> {
    let root = context.root_path(attempt)?;
    let folder = root.join("ledger");
    if folder.is_dir() {
        return Ok(folder);
    }
    // A root that is refused has no ledger for a reason that says more.
    if let Err(error) = StateRoot::open(&root) {
        return Err(Failure::new(attempt, WireError::from(&error)));
    }
    let message = format!("there is no ledger at {}", folder.display());
    let remedy = "another --root, or --ledger DIR for a copy";
    Err(Failure::new(attempt, WireError::new(ErrorCode::NotFound, message).reason("ledger").with("remedy", remedy)))
}
