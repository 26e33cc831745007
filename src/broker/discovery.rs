//! Publishing the discovery record, and taking back only our own.

use std::io;

use super::quarantine::{self, QuarantineError};
use crate::os::build::build;
use crate::os::deadline::Deadline;
use crate::os::durable::Point;
use crate::os::folder::{Folder, Kind, Standing};
use crate::os::paths::StateRoot;
use crate::os::{clock, entropy};
use crate::rpc::channel::{HelloError, Speaker, meet};
use crate::rpc::record::RECORD_NAME;
pub use crate::rpc::record::{Found, Record, SCHEMA, read};
use crate::rpc::wire::{Broker, ClientInfo, Role, RootId};

/// Publishes the record: 0600, whole or not at all, durable when this returns. What stands in its place and is no file is set aside first,
/// as what stands in the lock's place is. Only for the owner of the lock.
///
/// # Errors
/// What the system answers; then what was published before still is.
pub fn publish(root: &StateRoot, record: &Record) -> io::Result<()> {
    let folder = root.folder();
    if let Some(seen) = folder.look(RECORD_NAME)?.filter(|there| there.kind != Kind::File) {
        set_aside(folder, &seen)?;
    }
    folder.clear_temporary(RECORD_NAME)?;
    folder.replace(RECORD_NAME, &record.to_bytes(), [Point::PublishContent, Point::PublishNamed])
}

/// Only the owner of the lock publishes, so nobody races for the name; the retention is run as well, because this may happen once a second.
fn set_aside(folder: &Folder, seen: &Standing) -> io::Result<()> {
    let set_aside = quarantine::take_away(folder, RECORD_NAME, seen, &mut entropy::hex::<8>);
    let set_aside = set_aside.map_err(|error| match error {
        QuarantineError::Io(error) => error,
        QuarantineError::NoFreeName | QuarantineError::Exchanged => io::Error::other(error.to_string()),
    })?;
    tracing::warn!(kind = ?seen.kind, set_aside_as = set_aside.name, "something stood in place of {RECORD_NAME}");
    let now_s = i64::try_from(clock::wall_us() / 1_000_000).unwrap_or(i64::MAX);
    quarantine::sweep(folder, now_s).map(drop)
}

/// Removes the record if it is the one of this incarnation; says whether it was. To be called while the lock is held:
/// then nobody else publishes in between.
///
/// # Errors
/// What the system answers.
pub fn remove_if_mine(root: &StateRoot, incarnation: &str) -> io::Result<bool> {
    let is_mine = read(root.folder())?.record().is_some_and(|record| record.broker.incarnation == incarnation);
    if is_mine {
        root.folder().remove_file(RECORD_NAME)?;
        root.folder().sync(Point::ShutdownWithdrawn)?;
    }
    Ok(is_mine)
}

/// Takes back the record of whoever was the broker before. Only for the owner of the lock: nobody else is the broker then,
/// and until the new one has proven itself nothing may say otherwise.
///
/// # Errors
/// What the system answers; the new record replaces the old one all the same.
pub fn withdraw(root: &StateRoot) -> io::Result<()> {
    match root.folder().remove_file(RECORD_NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => root.folder().sync(Point::StartWithdrawn),
    }
}

/// Removes the record, whatever it says, and sets aside what stands in its place. Only for who keeps every broker from beginning. Says what
/// was done.
///
/// # Errors
/// What the system answers.
pub fn clear(root: &StateRoot) -> io::Result<String> {
    let Some(seen) = root.folder().look(RECORD_NAME)? else { return Ok("nothing was published".to_owned()) };
    if seen.kind != Kind::File {
        set_aside(root.folder(), &seen)?;
        return Ok(format!("what stood in place of {RECORD_NAME} was set aside"));
    }
    withdraw(root)?;
    Ok(format!("{RECORD_NAME} was removed; the next broker publishes its own"))
}

/// What keeps a broker from being found. One that lives moves it away by itself, unless the system does not let it.
pub fn obstacle(root: &StateRoot) -> Option<String> {
    let there = root.folder().look(RECORD_NAME).ok().flatten()?;
    let path = root.path().join(RECORD_NAME);
    (there.kind != Kind::File)
        .then(|| format!("{} is no file: no broker can be found until it is moved away", path.display()))
}

/// The broker that is published in this root, if it answers hello by the deadline. A starter that finds the lock held asks
/// this: only a holder that answers has won.
pub fn answering(root: &StateRoot, deadline: Deadline) -> Option<Broker> {
    let record = read(root.folder()).ok()?.record()?;
    if record.root_id != RootId::new(root.device(), root.inode()) {
        return None;
    }
    hello(&record, deadline).ok()
}

/// Says hello where a record leads, as its owner; what answers has to be the broker that the record names.
///
/// # Errors
/// [`HelloError`].
pub fn hello(record: &Record, deadline: Deadline) -> Result<Broker, HelloError> {
    let client = ClientInfo { name: "ostler-broker".to_owned(), version: build().version.to_owned() };
    let speaker = Speaker { client: &client, token: &record.token, role: Role::Owner };
    meet(record, speaker, deadline).map(|(_, hello)| hello.broker)
}

#[cfg(test)]
pub(super) fn example(incarnation: &str) -> Record {
    use crate::rpc::wire::{ProtocolRange, Timestamp};
    Record {
        schema: SCHEMA,
        broker: Broker {
            pid: 1,
            generation: 1,
            incarnation: incarnation.to_owned(),
            version: "0.1.0".to_owned(),
            protocol: ProtocolRange::of_build(),
            endpoint: "unix:/nowhere".to_owned(),
            root: "/nowhere".into(),
            started_at: Timestamp::from_us(0),
        },
        root_id: RootId::new(1, 2),
        token: "secret".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ones_own_record_is_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let root = StateRoot::open_or_create(&home.path().join("root")).unwrap();
        assert!(!remove_if_mine(&root, "a").unwrap());
        publish(&root, &example("a")).unwrap();
        assert!(!remove_if_mine(&root, "b").unwrap());
        assert_eq!(read(root.folder()).unwrap().record(), Some(example("a")));
        assert!(remove_if_mine(&root, "a").unwrap());
        assert_eq!(read(root.folder()).unwrap(), Found::Absent);
        assert!(!format!("{:?}", example("a")).contains("secret"));
    }

    #[test]
    fn what_stands_in_the_record_s_place_is_set_aside() {
        let home = tempfile::tempdir().unwrap();
        let root = StateRoot::open_or_create(&home.path().join("root")).unwrap();
        let there = root.path().join(RECORD_NAME);
        for _ in 0..quarantine::KEPT_MAX + 3 {
            std::fs::create_dir_all(there.join("inner")).unwrap();
            publish(&root, &example("a")).unwrap();
            assert_eq!(read(root.folder()).unwrap().record(), Some(example("a")));
            std::fs::remove_file(&there).unwrap();
        }
        std::os::unix::fs::symlink("/nowhere", &there).unwrap();
        publish(&root, &example("a")).unwrap();
        let kept = root.folder().names().unwrap().into_iter().filter(|name| quarantine::is_quarantined(name));
        assert_eq!(kept.count(), quarantine::KEPT_MAX);
    }

    /// Report opencode#27843: a reader met a half-written record.
    #[test]
    fn field_b16_twenty_readers_never_meet_half_a_record() {
        let home = tempfile::tempdir().unwrap();
        let root = StateRoot::open_or_create(&home.path().join("root")).unwrap();
        publish(&root, &example("0")).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..20)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = std::collections::BTreeSet::new();
                        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                            let found = read(root.folder()).unwrap();
                            let record = found.clone().record().unwrap_or_else(|| panic!("{found:?}"));
                            seen.insert(record.broker.incarnation.clone());
                            assert_eq!(record, example(&record.broker.incarnation));
                        }
                        seen.len()
                    })
                })
                .collect();
            for round in 1..300 {
                publish(&root, &example(&"x".repeat(round))).unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            let seen: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
            assert!(seen > 20, "the readers saw it change");
        });
        let names = root.folder().names().unwrap();
        assert_eq!(names, [RECORD_NAME], "no temporary file is left");
    }
}
