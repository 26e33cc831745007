//! Stale-lock quarantine: what a dead owner left in `broker.lock`, and what does not belong at that name, is set aside
//! as `.broker.lock.stale-<sha256>-<16 random hex>`, as evidence.
//!
//! Promises: a name is created exclusively and drawn anew when it is taken, so that no debris ever blocks a start; what
//! was set aside is kept for 24 hours, and of that the newest 10.

use std::io::{self, Write};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::os::durable::{self, Point};
use crate::os::folder::{Folder, Standing};

/// First part of every quarantined name.
const PREFIX: &str = ".broker.lock.stale-";
/// How many names are drawn before giving up; each has 64 random bits.
const DRAWS_MAX: usize = 8;
/// How long something is kept after it was set aside, seconds.
pub const KEPT_FOR_S: i64 = 24 * 3600;
/// How many are kept.
pub const KEPT_MAX: usize = 10;

/// Something that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its name in the state root.
    pub name: String,
    /// SHA-256 of the record, or of kind, device and inode of what was no record; 64 hex digits.
    pub digest: String,
}

/// Why nothing could be set aside.
#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    /// Every name drawn was taken, which chance does not explain.
    #[error("none of {DRAWS_MAX} random names for a stale lock record was free")]
    NoFreeName,
    /// What stood at the name was exchanged while it was being moved.
    #[error("what stands at the lock's name changed while it was set aside")]
    Exchanged,
    /// The system refused.
    #[error("a stale lock record cannot be set aside: {0}")]
    Io(#[from] io::Error),
}

/// What the retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Still there.
    pub kept: usize,
    /// Removed.
    pub removed: usize,
    /// Should be removed and cannot be.
    pub stuck: usize,
}

/// Draws 64 random bits as 16 hex digits.
pub type Draw<'a> = &'a mut dyn FnMut() -> String;

/// Copies a record aside and makes the copy durable, before anything overwrites it.
///
/// # Errors
/// [`QuarantineError::NoFreeName`], [`QuarantineError::Io`].
pub fn copy(folder: &Folder, record: &[u8], draw: Draw<'_>) -> Result<SetAside, QuarantineError> {
    let digest = HEXLOWER.encode(&Sha256::digest(record));
    let (name, mut file) = with_free_name(&digest, draw, |name| folder.create_file(name))?;
    let synced = file.write_all(record).and_then(|()| durable::sync(&file, Point::LockAsideContent));
    let written = synced.and_then(|()| folder.sync(Point::LockAside));
    if let Err(error) = written {
        // Half a copy is no evidence; on a full disk its bytes are needed elsewhere.
        drop(folder.remove_file(&name));
        return Err(error.into());
    }
    Ok(SetAside { name, digest })
}

/// Renames what stands at `name` and was seen as `seen` aside. Only for a caller that nobody else can race for the
/// name: the holder of the ledger's writer lock.
///
/// # Errors
/// Everything of [`QuarantineError`].
pub fn take_away(folder: &Folder, name: &str, seen: &Standing, draw: Draw<'_>) -> Result<SetAside, QuarantineError> {
    let description = format!("{:?} {:x}:{:x}", seen.kind, seen.device, seen.inode);
    let digest = HEXLOWER.encode(&Sha256::digest(description));
    let (aside, ()) = with_free_name(&digest, draw, |aside| folder.rename_to_free(name, aside))?;
    let moved = folder.look(&aside)?;
    if !moved.is_some_and(|moved| moved.is_same(seen) && moved.kind == seen.kind) {
        // Somebody replaced it by hand between look and rename; what was moved may be a held lock.
        folder.rename_to_free(&aside, name)?;
        return Err(QuarantineError::Exchanged);
    }
    folder.touch(&aside)?;
    folder.sync(Point::MovedAside)?;
    Ok(SetAside { name: aside, digest })
}

/// Removes what is older than its time or beyond the newest. Only for the owner of the lock.
///
/// # Errors
/// If the folder cannot be read. What cannot be removed is counted, not an error: debris never stops a start.
pub fn sweep(folder: &Folder, now_s: i64) -> io::Result<Swept> {
    let mut found = Vec::new();
    for name in folder.names()? {
        if is_quarantined(&name)
            && let Some(standing) = folder.look(&name)?
        {
            found.push((standing.modified_s, name));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    let mut swept = Swept::default();
    for (rank, (set_aside_s, name)) in found.iter().enumerate() {
        let is_old = now_s.saturating_sub(*set_aside_s) >= KEPT_FOR_S;
        if rank < KEPT_MAX && !is_old {
            swept.kept += 1;
        } else if folder.remove_all(name).is_ok() {
            swept.removed += 1;
        } else {
            swept.stuck += 1;
        }
    }
    Ok(swept)
}

/// Whether a name is one of ours.
pub fn is_quarantined(name: &str) -> bool {
    let is_hex = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(digest, suffix)| is_hex(digest, 64) && is_hex(suffix, 16))
}

fn with_free_name<T>(
    digest: &str,
    draw: Draw<'_>,
    mut create: impl FnMut(&str) -> io::Result<T>,
) -> Result<(String, T), QuarantineError> {
    for _ in 0..DRAWS_MAX {
        let name = format!("{PREFIX}{digest}-{}", draw());
        match create(&name) {
            Ok(made) => return Ok((name, made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(QuarantineError::NoFreeName)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::folder::Kind;

    fn folder() -> (tempfile::TempDir, Folder) {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        (home, folder)
    }

    fn numbered() -> impl FnMut() -> String {
        let mut next = 0_u64;
        move || {
            next += 1;
            format!("{next:016x}")
        }
    }

    #[test]
    fn a_record_is_copied_under_its_digest() {
        let (_home, folder) = folder();
        let set_aside = copy(&folder, b"abc", &mut numbered()).unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(set_aside.name, format!(".broker.lock.stale-{digest}-0000000000000001"));
        assert_eq!(folder.read(&set_aside.name, 10).unwrap().unwrap(), b"abc");
        assert_eq!(folder.look(&set_aside.name).unwrap().unwrap().mode, 0o600);
        assert!(is_quarantined(&set_aside.name));
    }

    #[test]
    fn a_taken_name_is_drawn_anew_and_the_eighth_is_the_last() {
        let (_home, folder) = folder();
        let mut same = || "00000000000000aa".to_owned();
        copy(&folder, b"abc", &mut same).unwrap();
        assert!(matches!(copy(&folder, b"abc", &mut same), Err(QuarantineError::NoFreeName)));
        let mut draws = 0;
        let mut late = || {
            draws += 1;
            if draws < 8 { "00000000000000aa".to_owned() } else { "00000000000000bb".to_owned() }
        };
        let set_aside = copy(&folder, b"abc", &mut late).unwrap();
        assert!(set_aside.name.ends_with("bb"));
    }

    #[test]
    fn what_is_no_file_is_renamed_aside_only_as_it_was_seen() {
        let (home, folder) = folder();
        std::fs::create_dir_all(home.path().join("broker.lock/inner")).unwrap();
        let seen = folder.look("broker.lock").unwrap().unwrap();
        let other = Standing { inode: seen.inode + 1, ..seen };
        let refused = take_away(&folder, "broker.lock", &other, &mut numbered());
        assert!(matches!(refused, Err(QuarantineError::Exchanged)));
        assert!(folder.look("broker.lock").unwrap().unwrap().is_same(&seen));
        let set_aside = take_away(&folder, "broker.lock", &seen, &mut numbered()).unwrap();
        assert_eq!(folder.look(&set_aside.name).unwrap().unwrap().kind, Kind::Folder);
        assert!(folder.look("broker.lock").unwrap().is_none());
    }

    #[test]
    fn the_newest_ten_of_a_day_stay_and_nothing_else_is_touched() {
        let (home, folder) = folder();
        let mut draw = numbered();
        let mut names = Vec::new();
        for age_h in 0_u64..60 {
            let name = copy(&folder, &age_h.to_le_bytes(), &mut draw).unwrap().name;
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age_h * 3600);
            std::fs::File::open(home.path().join(&name)).unwrap().set_modified(at).unwrap();
            names.push(name);
        }
        std::fs::write(home.path().join(".broker.lock.stale-mine"), "").unwrap();
        std::fs::create_dir_all(home.path().join(format!("{PREFIX}{}-{}/x", "0".repeat(64), "0".repeat(16)))).unwrap();
        // The folder was made just now, which is in the future of this clock: it counts as the newest.
        assert_eq!(sweep(&folder, 1_000_000).unwrap(), Swept { kept: 10, removed: 51, stuck: 0 });
        let left = |folder: &Folder| names.iter().filter(|name| folder.look(name).unwrap().is_some()).count();
        assert_eq!(left(&folder), 9);
        assert!(names[..9].iter().all(|name| folder.look(name).unwrap().is_some()));
        assert_eq!(sweep(&folder, 1_000_000 + 20 * 3600).unwrap(), Swept { kept: 5, removed: 5, stuck: 0 });
        assert!(folder.look(".broker.lock.stale-mine").unwrap().is_some());
    }
}
