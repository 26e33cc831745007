//! What the commands themselves wrote down when they started: the one account of effects that does not come from the broker.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One run of one session: its id and the episode.
pub(super) type Run = (String, u32);

/// The folder into which the fixture's step `witness` writes.
pub(super) struct Witness {
    folder: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Read up to here.
    at: u64,
    starts: BTreeMap<Run, Vec<i64>>,
}

impl Witness {
    pub(super) fn new(folder: PathBuf) -> Witness {
        fs::create_dir(&folder).expect("the folder is new");
        Witness { folder, seen: Mutex::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The pids of the commands that wrote down that they are this run.
    pub(super) fn of(&self, run: &Run) -> Vec<i64> {
        self.read().starts.get(run).cloned().unwrap_or_default()
    }

    /// Everything that was written down.
    pub(super) fn all(&self) -> BTreeMap<Run, Vec<i64>> {
        self.read().starts.clone()
    }

    /// What ran while another run of its session still did.
    pub(super) fn overlaps(&self) -> String {
        fs::read_to_string(self.folder.join("overlaps")).unwrap_or_default()
    }

    /// A session is gone: its lock is of no use any more.
    pub(super) fn forget(&self, session: &str) {
        // A command that never came so far made none.
        drop(fs::remove_file(self.folder.join(session)));
    }

    /// Reads on; each line was written at once.
    fn read(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if let Ok(mut file) = File::open(self.folder.join("starts")) {
            file.seek(SeekFrom::Start(seen.at)).and_then(|_| file.read_to_string(&mut text)).expect("it can be read");
        }
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        seen.at += u64::try_from(whole.len()).expect("a small file");
        for line in whole.lines() {
            let (run, pid) = parse(line).unwrap_or_else(|| panic!("no start: {line:?}"));
            seen.starts.entry(run).or_default().push(pid);
        }
        seen
    }
}

fn parse(line: &str) -> Option<(Run, i64)> {
    let mut words = line.split(' ');
    let run = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some((run, words.next()?.parse().ok()?))
}
