//! The publication watch: is this still the broker of its root, and can clients still find it? Asked every second and
//! before each release of effects.
//!
//! ```text
//! lock name   | discovery | socket    | then
//! not ours    | any       | any       | fence: leave everything as it is and exit
//! ours        | foreign   | any       | fence
//! ours        | ours      | ours      | fine
//! ours        | otherwise | otherwise | publish again what is gone
//! ```

use std::io;

use crate::os::folder::{self, Standing};
use crate::os::paths::StateRoot;
use crate::rpc::record::{self, Found};

use super::lock::LOCK_NAME;

/// What a name holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// What we put there.
    Ours,
    /// Something else.
    Foreign,
    /// Nothing, or nothing that means anything.
    Gone,
}

/// What the watch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// At the lock's name.
    pub lock: Name,
    /// At the discovery record's name.
    pub discovery: Name,
    /// At the socket's path.
    pub socket: Name,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// Publish again.
    Republish {
        /// The discovery record.
        discovery: bool,
        /// The socket, which means to listen anew; the record follows.
        socket: bool,
    },
    /// This is no longer the broker of this root. Release nothing, remove nothing, exit.
    Fence(Fenced),
}

/// Why a broker fences itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// The lock's name leads elsewhere or nowhere: whoever starts next takes another lock.
    LockReplaced,
    /// The discovery record names another broker.
    ForeignRecord,
}

/// The table of this module.
pub fn judge(seen: Seen) -> Verdict {
    match (seen.lock, seen.discovery, seen.socket) {
        (Name::Foreign | Name::Gone, _, _) => Verdict::Fence(Fenced::LockReplaced),
        (Name::Ours, Name::Foreign, _) => Verdict::Fence(Fenced::ForeignRecord),
        (Name::Ours, Name::Ours, Name::Ours) => Verdict::Fine,
        (Name::Ours, Name::Gone, Name::Ours) => Verdict::Republish { discovery: true, socket: false },
        (Name::Ours, Name::Ours | Name::Gone, Name::Foreign | Name::Gone) => {
            Verdict::Republish { discovery: true, socket: true }
        }
    }
}

/// What was published, to compare with what is there.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Device and inode of the lock that is held.
    pub lock: Standing,
    /// Our incarnation.
    pub incarnation: String,
    /// The folder of our socket.
    pub socket_folder: std::path::PathBuf,
    /// The socket's name in it.
    pub socket_name: String,
    /// Device and inode of the socket that we listen on.
    pub socket: Standing,
}

impl Watch {
    /// Looks and judges.
    ///
    /// # Errors
    /// If this process cannot look (no descriptor left, say); nothing follows from that but a line in the log.
    pub fn check(&self, root: &StateRoot) -> io::Result<Verdict> {
        self.look(root).map(judge)
    }

    /// Looks.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub fn look(&self, root: &StateRoot) -> io::Result<Seen> {
        // By the root's path, not by its open folder: sessions' files go by the path too, and a root that was moved away
        // belongs to whoever starts at its new place, its old place to whoever makes a new one there.
        let lock = compare(folder::look_at(&root.path().join(LOCK_NAME))?, &self.lock);
        let discovery = match record::read(root.folder())? {
            Found::Record(record) if record.broker.incarnation == self.incarnation => Name::Ours,
            Found::Record(_) => Name::Foreign,
            Found::Absent | Found::Damaged(_) => Name::Gone,
        };
        let socket = match folder::look_at(&self.socket_folder.join(&self.socket_name)) {
            Ok(there) => compare(there, &self.socket),
            // A folder that is no longer ours to enter is a socket that is gone.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Name::Gone,
            Err(error) => return Err(error),
        };
        Ok(Seen { lock, discovery, socket })
    }
}

fn compare(there: Option<Standing>, ours: &Standing) -> Name {
    match there {
        None => Name::Gone,
        Some(there) if there.is_same(ours) => Name::Ours,
        Some(_) => Name::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::discovery::{example, publish};
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_table_is_complete() {
        const ALL: [Name; 3] = [Name::Ours, Name::Foreign, Name::Gone];
        let mut lines = String::new();
        for lock in ALL {
            for discovery in ALL {
                for socket in ALL {
                    let verdict = judge(Seen { lock, discovery, socket });
                    if lock == Name::Ours {
                        lines += &format!("{discovery:?} {socket:?}: {verdict:?}\n");
                    } else {
                        assert_eq!(verdict, Verdict::Fence(Fenced::LockReplaced));
                    }
                }
            }
        }
        let expected = "\
Ours Ours: Fine
Ours Foreign: Republish { discovery: true, socket: true }
Ours Gone: Republish { discovery: true, socket: true }
Foreign Ours: Fence(ForeignRecord)
Foreign Foreign: Fence(ForeignRecord)
Foreign Gone: Fence(ForeignRecord)
Gone Ours: Republish { discovery: true, socket: false }
Gone Foreign: Republish { discovery: true, socket: true }
Gone Gone: Republish { discovery: true, socket: true }
";
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_seen_on_disk() {
        let home = tempfile::Builder::new().prefix("w").tempdir_in("/tmp").unwrap();
        let root = StateRoot::open_or_create(&home.path().join("root")).unwrap();
        let sockets = StateRoot::open_or_create(&home.path().join("run")).unwrap();
        // Held open as the broker holds it: its inode number is not given to another file.
        let _lock = root.folder().create_file(LOCK_NAME).unwrap();
        let _listener = UnixListener::bind(sockets.path().join("b-1")).unwrap();
        publish(&root, &example("me")).unwrap();
        let watch = Watch {
            lock: root.folder().look(LOCK_NAME).unwrap().unwrap(),
            incarnation: "me".to_owned(),
            socket_folder: sockets.path().to_owned(),
            socket_name: "b-1".to_owned(),
            socket: sockets.folder().look("b-1").unwrap().unwrap(),
        };
        let check = || watch.check(&root).unwrap();
        assert_eq!(check(), Verdict::Fine);

        root.folder().remove_file("broker.json").unwrap();
        assert_eq!(check(), Verdict::Republish { discovery: true, socket: false });
        std::fs::write(root.path().join("broker.json"), "{\"torn").unwrap();
        assert_eq!(check(), Verdict::Republish { discovery: true, socket: false });
        publish(&root, &example("me")).unwrap();
        assert_eq!(check(), Verdict::Fine);

        std::fs::remove_dir_all(sockets.path()).unwrap();
        assert_eq!(check(), Verdict::Republish { discovery: true, socket: true });

        publish(&root, &example("another")).unwrap();
        assert_eq!(check(), Verdict::Fence(Fenced::ForeignRecord));
        publish(&root, &example("me")).unwrap();
        root.folder().remove_file(LOCK_NAME).unwrap();
        assert_eq!(check(), Verdict::Fence(Fenced::LockReplaced));
        root.folder().create_file(LOCK_NAME).unwrap();
        assert_eq!(check(), Verdict::Fence(Fenced::LockReplaced));
    }

    #[test]
    fn a_root_that_is_not_at_its_path_any_more_is_not_ours() {
        let home = tempfile::Builder::new().prefix("w").tempdir_in("/tmp").unwrap();
        let (here, there) = (home.path().join("root"), home.path().join("moved"));
        let root = StateRoot::open_or_create(&here).unwrap();
        let _lock = root.folder().create_file(LOCK_NAME).unwrap();
        let lock = root.folder().look(LOCK_NAME).unwrap().unwrap();
        let names = (here.clone(), "b-1".to_owned());
        let watch =
            Watch { lock, incarnation: "me".to_owned(), socket_folder: names.0, socket_name: names.1, socket: lock };
        publish(&root, &example("me")).unwrap();
        assert_eq!(watch.look(&root).unwrap().lock, Name::Ours);
        std::fs::rename(&here, &there).unwrap();
        assert_eq!(watch.check(&root).unwrap(), Verdict::Fence(Fenced::LockReplaced));
        let other = StateRoot::open_or_create(&here).unwrap();
        let _other_lock = other.folder().create_file(LOCK_NAME).unwrap();
        assert_eq!(watch.check(&root).unwrap(), Verdict::Fence(Fenced::LockReplaced));
    }
}
