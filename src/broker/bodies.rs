//! Texts of messages and reports, in files of their session: `sessions/ID/bodies-N`. The ledger holds where each lies, and a digest of it and of its salt, so
//! that a ledger that is shown to somebody tells no text, and texts go with their session while every chain stays provable.
//!
//! Promise: a text is durable before the record that names it. What no record names is overgrown: a file is given up once it is long and
//! no open message and no report lies in it.

use crate::host::files::{self, FileError};
use crate::machine::{Body, Digest, SessionId};
use crate::os::durable::{self, Point};
use crate::os::entropy;
use nix::libc;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &str = "bodies-";
const SALT_BYTES: usize = 16;
/// A file that is longer is not written to any more.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Sessions whose files are remembered; beyond it those without a text on its way are looked up again.
const PLACES_KEPT: usize = 4_096;

/// The files of all sessions.
#[derive(Debug)]
pub struct Bodies {
    root: PathBuf,
    places: Mutex<HashMap<SessionId, Arc<Mutex<Place>>>>,
}

/// Where a session's next text goes.
#[derive(Debug)]
struct Place {
    number: u32,
    end: u64,
    /// The file whose name this broker has made durable. Who made the file may have died, or be about to fail, before that.
    named: Option<u32>,
    /// Files in which texts lie that no record names yet, with how many.
    held: BTreeMap<u32, usize>,
}

/// A text that is on disk. Its file stays while this lives; from then on the record has to hold it.
#[derive(Debug)]
pub struct Stored {
    /// Where it lies.
    pub body: Body,
    place: Arc<Mutex<Place>>,
}

impl Drop for Stored {
    fn drop(&mut self) {
        release(&mut lock(&self.place), self.body.file);
    }
}

/// A text that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The file.
    #[error("its text cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// What stands there is not what was recorded.
    #[error("it is damaged: it does not match the digest in the ledger")]
    Damaged,
}

impl Bodies {
    /// Of the sessions of this root.
    pub fn new(root: PathBuf) -> Self {
        Self { root, places: Mutex::default() }
    }

    /// Writes a text, durably. `needed` are the files in which something lies that is still needed. Blocking.
    ///
    /// # Errors
    /// What the disk says; what was written of it by then is written over.
    pub fn store(&self, session: &SessionId, text: &[u8], needed: &BTreeSet<u32>) -> Result<Stored, FileError> {
        let folder = files::session_folder(&self.root, session.as_str());
        let place = self.place(session, &folder);
        let mut bytes = entropy::bytes::<SALT_BYTES>().to_vec();
        bytes.extend_from_slice(text);
        let [length, of_text] =
            [bytes.len(), text.len()].map(|length| u64::try_from(length).expect("a length in memory fits 64 bits"));
        let (file, body) = {
            let mut at = lock(&place);
            at.move_on(&folder, needed);
            let path = folder.join(format!("{NAME}{}", at.number));
            let file = open(&path).map_err(FileError::at("open", &path))?;
            file.write_all_at(&bytes, at.end).map_err(FileError::at("write", &path))?;
            let digest = Digest(Sha256::digest(&bytes).into());
            let body = Body { file: at.number, offset: at.end, bytes: of_text, digest };
            at.end += length;
            let number = at.number;
            *at.held.entry(number).or_default() += 1;
            (file, body)
        };
        let stored = Stored { body, place };
        let number = stored.body.file;
        let path = folder.join(format!("{NAME}{number}"));
        durable::sync_data(&file, Point::BodyContent).map_err(FileError::at("sync", &path))?;
        let is_named = lock(&stored.place).named == Some(number);
        if !is_named {
            files::sync_folder(&folder, Point::BodyNamed)?;
            let mut at = lock(&stored.place);
            at.named = at.named.max(Some(number));
        }
        Ok(stored)
    }

    /// How many texts somebody holds that no record may name yet.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        lock(&self.places).values().flat_map(|place| lock(place).held.values().copied().collect::<Vec<_>>()).sum()
    }

    fn place(&self, session: &SessionId, folder: &Path) -> Arc<Mutex<Place>> {
        let mut places = lock(&self.places);
        if places.len() >= PLACES_KEPT {
            places.retain(|_, place| !lock(place).held.is_empty());
        }
        let place = places.entry(session.clone()).or_insert_with(|| Arc::new(Mutex::new(Place::find(folder))));
        Arc::clone(place)
    }
}

impl Place {
    fn find(folder: &Path) -> Self {
        let number = numbers(folder).into_iter().max().unwrap_or(1);
        let end = std::fs::metadata(folder.join(format!("{NAME}{number}"))).map_or(0, |file| file.len());
        Self { number, end, named: None, held: BTreeMap::new() }
    }

    /// On to the next file if this one is long, and away with those that nobody needs.
    fn move_on(&mut self, folder: &Path, needed: &BTreeSet<u32>) {
        if self.end < FILE_BYTES {
            return;
        }
        let long = self.number;
        (self.number, self.end) = (long + 1, 0);
        for number in numbers(folder) {
            if number < long && !needed.contains(&number) && !self.held.contains_key(&number) {
                // It is tried again with the next long file, and goes with its session at last.
                drop(std::fs::remove_file(folder.join(format!("{NAME}{number}"))));
            }
        }
    }
}

fn release(place: &mut Place, file: u32) {
    if let Some(count) = place.held.get_mut(&file) {
        *count -= 1;
        if *count == 0 {
            place.held.remove(&file);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

fn numbers(folder: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix(NAME)?.parse().ok()).collect()
}

/// Reads a text of at most so many bytes back. Blocking.
///
/// # Errors
/// [`Lost`]
pub fn read(root: &Path, session: &SessionId, body: &Body, most: u64) -> Result<Vec<u8>, Lost> {
    let path = files::session_folder(root, session.as_str()).join(format!("{NAME}{}", body.file));
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if body.bytes > most {
        return Err(Lost::Damaged);
    }
    let length = usize::try_from(body.bytes).unwrap_or(usize::MAX).saturating_add(SALT_BYTES);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, body.offset)?;
    if Digest(Sha256::digest(&bytes).into()) != body.digest {
        return Err(Lost::Damaged);
    }
    bytes.drain(..SALT_BYTES);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bed() -> (tempfile::TempDir, Bodies, SessionId) {
        let root = tempfile::tempdir().unwrap();
        let session = SessionId::parse("aaaaaaaaaaaa").unwrap();
        std::fs::create_dir_all(files::session_folder(root.path(), session.as_str())).unwrap();
        let bodies = Bodies::new(root.path().to_owned());
        (root, bodies, session)
    }

    #[test]
    fn what_is_stored_is_read_back_and_damage_is_seen() {
        let (root, bodies, session) = bed();
        let texts = ["one", "", "zwei \u{2013} drei", &"x".repeat(100_000)];
        let stored = texts.map(|text| bodies.store(&session, text.as_bytes(), &BTreeSet::new()).unwrap());
        for (text, stored) in texts.iter().zip(&stored) {
            assert_eq!(read(root.path(), &session, &stored.body, u64::MAX).unwrap(), text.as_bytes());
        }
        // The same text twice has two digests, so that a guess cannot be tried against the ledger.
        let again = bodies.store(&session, b"one", &BTreeSet::new()).unwrap();
        assert_ne!(again.body.digest, stored[0].body.digest);
        let path = files::session_folder(root.path(), session.as_str()).join("bodies-1");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"O", 16).unwrap();
        assert!(matches!(read(root.path(), &session, &stored[0].body, u64::MAX), Err(Lost::Damaged)));
        std::fs::remove_file(path).unwrap();
        assert!(matches!(read(root.path(), &session, &stored[0].body, u64::MAX), Err(Lost::Unreadable(_))));
    }

    #[test]
    fn a_later_broker_goes_on_behind_what_is_there() {
        let (root, bodies, session) = bed();
        let first = bodies.store(&session, b"first", &BTreeSet::new()).unwrap();
        let later = Bodies::new(root.path().to_owned());
        let second = later.store(&session, b"second", &BTreeSet::new()).unwrap();
        assert_eq!((second.body.file, second.body.offset), (1, 16 + 5));
        assert_eq!(read(root.path(), &session, &first.body, u64::MAX).unwrap(), b"first");
    }

    /// A folder that is a link cannot be synced here, while files in it can be written.
    #[test]
    fn no_text_is_durable_before_the_name_of_its_file_is() {
        let (root, bodies, session) = bed();
        let folder = files::session_folder(root.path(), session.as_str());
        let aside = root.path().join("aside");
        let store = |bodies: &Bodies| bodies.store(&session, b"text", &BTreeSet::new());
        std::fs::rename(&folder, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &folder).unwrap();
        store(&bodies).unwrap_err();
        store(&bodies).expect_err("the file is there, and its name not durable");
        let later = Bodies::new(root.path().to_owned());
        store(&later).expect_err("nor does a later broker know that it is");
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&aside, &folder).unwrap();
        for bodies in [&bodies, &later] {
            let stored = store(bodies).unwrap();
            assert_eq!(lock(&stored.place).named, Some(1));
        }
    }

    #[test]
    fn long_files_go_once_nothing_in_them_is_open_or_on_its_way() {
        let (root, bodies, session) = bed();
        let text = vec![b'x'; 256 * 1024];
        let there = || {
            let mut there = numbers(&files::session_folder(root.path(), session.as_str()));
            there.sort_unstable();
            there
        };
        let held = bodies.store(&session, b"on its way", &BTreeSet::new()).unwrap();
        let open: BTreeSet<u32> = [2].into();
        while there().last() != Some(&4) {
            drop(bodies.store(&session, &text, &open).unwrap());
        }
        assert_eq!(
            there(),
            [1, 2, 3, 4],
            "one holds a text on its way, two an open message, and three has just become long"
        );
        drop(held);
        while there().last() != Some(&5) {
            drop(bodies.store(&session, &text, &BTreeSet::new()).unwrap());
        }
        assert_eq!(there(), [4, 5]);
    }
}
