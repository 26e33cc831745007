//! `broker.log`: where `tracing` writes. Bounded: rotated by size within a run, and the previous run's is kept.
//!
//! Promises: a log that cannot be written never stops the broker; at most three files of `LOG_BYTES_MAX` stand in the
//! state root; what the process prints to its standard error (a panic) lands here too.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::os::clock;
use crate::os::detach;
use crate::os::paths::StateRoot;
use crate::rpc::wire::Timestamp;

/// Name of the current log.
pub const LOG_NAME: &str = "broker.log";
/// What this run wrote before the last rotation.
pub const ROTATED_NAME: &str = "broker.log.1";
/// The end of the previous run.
pub const PREVIOUS_NAME: &str = "broker.log.previous";
/// Size at which a log is rotated, bytes.
pub const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The log of one run.
#[derive(Clone, Debug)]
pub struct Log {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    root: Arc<StateRoot>,
    file: Option<File>,
    bytes: u64,
    bytes_max: u64,
    is_process_log: bool,
}

impl Log {
    /// Begins the log of this run and sends the process's standard error there. Only for the owner of the lock.
    pub fn begin(root: Arc<StateRoot>) -> Log {
        Log::begin_with(root, LOG_BYTES_MAX, true)
    }

    fn begin_with(root: Arc<StateRoot>, bytes_max: u64, is_process_log: bool) -> Log {
        let has_content = root.folder().look(LOG_NAME).ok().flatten().is_some_and(|there| there.bytes > 0);
        if has_content {
            // What cannot be kept is lost with the next rotation; the broker starts all the same.
            drop(root.folder().rename(LOG_NAME, PREVIOUS_NAME));
        }
        let mut inner = Inner { root, file: None, bytes: 0, bytes_max, is_process_log };
        inner.open();
        Log { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Makes this the destination of `tracing` for the whole process; says whether it was the first to do so.
    pub fn install(&self) -> bool {
        let subscriber = tracing_subscriber::fmt()
            .with_writer(self.clone())
            .with_timer(WallTime)
            .with_ansi(false)
            .with_target(false)
            .finish();
        tracing::subscriber::set_global_default(subscriber).is_ok()
    }
}

impl Inner {
    fn open(&mut self) {
        self.file = self.root.folder().append_file(LOG_NAME).ok();
        self.bytes = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |found| found.len());
        if let Some(file) = self.file.as_ref().filter(|_| self.is_process_log) {
            // A panic is printed there; if it cannot be, the exit status still tells.
            drop(detach::redirect_stderr(file));
        }
    }

    fn write(&mut self, line: &[u8]) {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.bytes.saturating_add(length) > self.bytes_max && self.bytes > 0 {
            if self.root.folder().rename(LOG_NAME, ROTATED_NAME).is_err() {
                // It stays bounded even where the old lines cannot be kept.
                drop(self.file.as_ref().map(|file| file.set_len(0)));
            }
            self.open();
        }
        // A full disk loses lines, not the broker.
        if self.file.as_mut().is_some_and(|file| file.write_all(line).is_ok()) {
            self.bytes = self.bytes.saturating_add(length);
        }
    }
}

impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Log;

    fn make_writer(&'a self) -> &'a Log {
        self
    }
}

struct WallTime;

impl FormatTime for WallTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        write!(writer, "{}", Timestamp::from_us(clock::wall_us()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Arc<StateRoot>) {
        let home = tempfile::tempdir().unwrap();
        let root = StateRoot::open_or_create(&home.path().join("root")).unwrap();
        (home, Arc::new(root))
    }

    fn size(root: &StateRoot, name: &str) -> Option<u64> {
        root.folder().look(name).unwrap().map(|there| there.bytes)
    }

    #[test]
    fn it_is_rotated_by_size_and_the_previous_run_is_kept() {
        let (_home, root) = root();
        let log = Log::begin_with(Arc::clone(&root), 100, false);
        for _ in 0..1001 {
            (&log).write_all(b"0123456789\n").unwrap();
        }
        assert_eq!(size(&root, LOG_NAME), Some(22));
        assert_eq!(size(&root, ROTATED_NAME), Some(99));
        assert_eq!(size(&root, PREVIOUS_NAME), None);
        let next = Log::begin_with(Arc::clone(&root), 100, false);
        (&next).write_all(b"new\n").unwrap();
        assert_eq!(size(&root, LOG_NAME), Some(4));
        assert_eq!(size(&root, PREVIOUS_NAME), Some(22));
        assert_eq!(root.folder().look(LOG_NAME).unwrap().unwrap().mode, 0o600);
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_nothing() {
        let (_home, root) = root();
        std::os::unix::fs::symlink("/victim", root.path().join(LOG_NAME)).unwrap();
        std::fs::create_dir_all(root.path().join(PREVIOUS_NAME).join("x")).unwrap();
        let log = Log::begin_with(Arc::clone(&root), 100, false);
        (&log).write_all(b"lost\n").unwrap();
        assert!(!std::path::Path::new("/victim").exists());
    }

    #[test]
    fn it_stays_bounded_where_the_rotated_name_is_taken() {
        let (_home, root) = root();
        std::fs::create_dir_all(root.path().join(ROTATED_NAME).join("x")).unwrap();
        let log = Log::begin_with(Arc::clone(&root), 100, false);
        for _ in 0..1000 {
            (&log).write_all(b"0123456789\n").unwrap();
        }
        assert!(size(&root, LOG_NAME).unwrap() <= 100);
    }

    #[test]
    fn lines_carry_the_wall_time() {
        let (_home, root) = root();
        let log = Log::begin_with(Arc::clone(&root), 10_000, false);
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log)
            .with_timer(WallTime)
            .with_ansi(false)
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || tracing::warn!(session = "abc", "something"));
        let text = String::from_utf8(root.folder().read(LOG_NAME, 10_000).unwrap().unwrap()).unwrap();
        let (time, rest) = text.split_once(' ').unwrap();
        time.parse::<Timestamp>().unwrap();
        assert_eq!(rest.trim_start(), "WARN something session=\"abc\"\n");
    }
}
