//! The watch over the ledger's files. A file that was removed, replaced or cut while the broker runs would be found by nobody until the next
//! start, and what is acknowledged meanwhile would be gone with it.
//!
//! It looks from outside, once a second, so that an idle turn sleeps. What it sees is a suspicion: of the segment that is written to the turn
//! itself says what is so (and does before each batch), of the others the whole ledger is verified again, behind everything else.

use super::accept::Standing;
use super::front::Front;
use super::inbox::Post;
use super::scrub::Scrub;
use crate::os::folder::{Folder, Standing as There};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// The newest segment by name, and how its file stands.
type Newest = Option<(String, There)>;

/// The names and the newest file of a ledger's segments, from one look to the next.
#[derive(Debug)]
struct Segments {
    folder: PathBuf,
    /// All that have been there and were not retired.
    known: BTreeSet<String>,
    missing: BTreeSet<String>,
    newest: Newest,
}

/// What may be wrong since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Suspicion {
    /// With the segment that was the newest.
    newest: bool,
    /// Segments are gone, or back.
    names: bool,
}

impl Segments {
    fn of(folder: PathBuf) -> Self {
        Self { folder, known: BTreeSet::new(), missing: BTreeSet::new(), newest: None }
    }

    /// `retired`: the last record that left the ledger in order.
    fn look(&mut self, retired: u64) -> Suspicion {
        // Who cannot look has seen nothing.
        let Ok((names, newest)) = self.see() else { return Suspicion::default() };
        self.known.extend(names.iter().cloned());
        self.known.retain(|name| first_seq(name).is_some_and(|first_seq| first_seq > retired));
        let missing = &self.known - &names;
        let before = std::mem::replace(&mut self.newest, newest);
        let suspicion = Suspicion {
            newest: before.is_some_and(|(name, before)| match &self.newest {
                Some((now, there)) if *now == name => !there.is_same(&before) || there.bytes < before.bytes,
                Some(_) | None => missing.contains(&name),
            }),
            names: missing != self.missing,
        };
        self.missing = missing;
        suspicion
    }

    fn see(&self) -> io::Result<(BTreeSet<String>, Newest)> {
        let folder = match Folder::open(&self.folder) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((BTreeSet::new(), None)),
            Err(error) => return Err(error),
        };
        let names: BTreeSet<String> = folder.names()?.into_iter().filter(|name| first_seq(name).is_some()).collect();
        let newest = match names.last() {
            Some(name) => folder.look(name)?.map(|there| (name.clone(), there)),
            None => None,
        };
        Ok((names, newest))
    }
}

/// By a segment's name, which tells its first record.
fn first_seq(name: &str) -> Option<u64> {
    name.strip_suffix(".jsonl")?.parse().ok()
}

/// The watch with what it sets going.
#[derive(Debug)]
pub(super) struct LedgerWatch {
    segments: Segments,
    scrub: Scrub,
    found: watch::Sender<Vec<Standing>>,
    /// The ledger is to be verified.
    due: bool,
}

impl LedgerWatch {
    /// `due`: the ledger was not read whole at the start.
    pub(super) fn new(scrub: Scrub, due: bool, found: watch::Sender<Vec<Standing>>) -> Self {
        Self { segments: Segments::of(scrub.ledger.clone()), scrub, found, due }
    }

    /// Looks, and has looked into what is suspicious.
    pub(super) fn look(&mut self, front: &Front) {
        let Suspicion { newest, names } = self.segments.look(front.retired.load(Ordering::Relaxed));
        if names {
            tracing::warn!(missing = ?self.segments.missing, "segments of the ledger are gone, or back");
        }
        if newest {
            front.inbox.post_if_room(Post::Look);
        }
        self.due |= names;
        // One at a time, however often files come and go.
        self.due = self.due && !self.scrub.begin(&self.found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_suspicious() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("ledger");
        let at = |name: &str| folder.join(name);
        let [first, second, third] = [1, 70, 95].map(|seq: u64| format!("{seq:020}.jsonl"));
        fs::create_dir(&folder).unwrap();
        fs::write(at("writer.lock"), "").unwrap();
        fs::write(at(&first), "ten bytes\n").unwrap();
        let mut segments = Segments::of(folder.clone());
        let (nothing, newest) = (Suspicion::default(), Suspicion { newest: true, names: false });
        let (names, both) = (Suspicion { newest: false, names: true }, Suspicion { newest: true, names: true });
        assert_eq!(segments.look(0), nothing);
        fs::write(at(&first), "ten bytes\nand more\n").unwrap();
        assert_eq!(segments.look(0), nothing, "it has grown");
        fs::write(at(&first), "ten bytes\n").unwrap();
        assert_eq!(segments.look(0), newest, "it was cut");
        assert_eq!(segments.look(0), nothing, "said once");
        fs::write(at("copy"), "ten bytes\n").unwrap();
        fs::rename(at("copy"), at(&first)).unwrap();
        assert_eq!(segments.look(0), newest, "it was replaced");
        fs::write(at(&second), "").unwrap();
        assert_eq!(segments.look(0), nothing, "the next one began");
        fs::rename(at(&first), at("away")).unwrap();
        assert_eq!(segments.look(0), names, "an old one is gone");
        fs::rename(at("away"), at(&first)).unwrap();
        assert_eq!(segments.look(0), names, "and back");
        fs::write(at(&third), "").unwrap();
        assert_eq!(segments.look(0), nothing);
        fs::remove_file(at(&first)).unwrap();
        fs::remove_file(at(&second)).unwrap();
        assert_eq!(segments.look(70), nothing, "these were retired");
        fs::rename(&folder, home.path().join("away")).unwrap();
        assert_eq!(segments.look(70), both, "nothing is there");
        fs::rename(home.path().join("away"), &folder).unwrap();
        assert_eq!(segments.look(70), names, "all is back");
    }
}
