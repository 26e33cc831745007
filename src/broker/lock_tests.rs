//! The lock in one process: flock(2) belongs to the open file, so two opens contend as two processes do. The storms of
//! real processes are in `tests/door/`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::broker::holder::lock_state;
use crate::rpc::wire::LockState;

thread_local! {
    /// What somebody does to the name between open and lock.
    static MEANWHILE: std::cell::RefCell<Option<Box<dyn FnOnce()>>> = const { std::cell::RefCell::new(None) };
}

pub(super) fn between_open_and_lock() {
    if let Some(meanwhile) = MEANWHILE.take() {
        meanwhile();
    }
}

struct Home {
    _folder: tempfile::TempDir,
    root: StateRoot,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let root = StateRoot::open_or_create(&folder.path().join("root")).unwrap();
        Home { _folder: folder, root }
    }

    fn lock(&self) -> PathBuf {
        self.root.path().join(LOCK_NAME)
    }

    /// One attempt that waits for nothing.
    fn try_now(&self) -> Result<Outcome<()>, LockError> {
        acquire(&self.root, Deadline::after(Duration::ZERO), || Ok(Some(())), || None)
    }

    /// Enough attempts to move something out of the way.
    fn try_soon(&self) -> Result<Outcome<()>, LockError> {
        acquire(&self.root, Deadline::after(Duration::from_secs(30)), || Ok(Some(())), || None)
    }

    fn take(&self) -> Acquired {
        match self.try_now().unwrap() {
            Outcome::Acquired(acquired) => *acquired,
            other @ (Outcome::Lost(()) | Outcome::Held) => panic!("{other:?}"),
        }
    }

    fn set_aside(&self) -> Vec<String> {
        let names = self.root.folder().names().unwrap();
        names.into_iter().filter(|name| name.starts_with(".broker.lock.stale-")).collect()
    }
}

#[test]
fn one_has_it_and_the_next_learns_how_the_last_one_left() {
    let home = Home::new();
    let mut first = home.take();
    assert_eq!(first.reclaimed, None);
    assert!(matches!(home.try_now(), Ok(Outcome::Held)));
    first.release_mark().unwrap();
    drop(first);

    let second = home.take();
    assert_eq!(second.reclaimed, None, "the first left in order");
    let second_owner = second.owner().clone();
    drop(second);

    let third = home.take();
    let dead = third.reclaimed.as_ref().unwrap();
    assert_eq!(dead.record.as_ref(), Some(&second_owner));
    assert_eq!(dead.liveness, Some(Liveness::Alive), "which decided nothing");
    assert_eq!(home.set_aside(), std::slice::from_ref(&dead.set_aside_as));
    let copy = home.root.folder().read(&dead.set_aside_as, 10_000).unwrap().unwrap();
    assert_eq!(copy, second_owner.to_bytes());
    assert_ne!(third.owner().nonce, second_owner.nonce);
    assert_eq!(std::fs::read(home.lock()).unwrap(), third.owner().to_bytes());
    assert_eq!(std::fs::metadata(home.lock()).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_refused_try_asks_the_holder_and_loses_to_one_that_answers() {
    let home = Home::new();
    let _held = home.take();
    let mut asked = 0;
    let outcome = acquire(
        &home.root,
        Deadline::after(Duration::from_secs(30)),
        || Ok(Some(())),
        || {
            asked += 1;
            (asked == 3).then_some("winner")
        },
    );
    assert!(matches!(outcome, Ok(Outcome::Lost("winner"))));
}

/// What a starter may find in the lock file. Each is overcome in one attempt, without waiting and without a hand.
#[test]
fn no_left_over_record_stops_or_delays_a_start() {
    let me = ProcessIdentity::current().unwrap();
    let record = |change: &dyn Fn(&mut Owner)| {
        let mut owner = Owner::new(me.clone(), "00".repeat(32), "0.1.0", Timestamp::from_us(0));
        change(&mut owner);
        owner.to_bytes()
    };
    let whole = record(&|_| {});
    let cases: &[(&str, Vec<u8>, bool)] = &[
        ("an unrelated living process", record(&|owner| owner.identity.start += 1), true),
        ("this very process", whole.clone(), true),
        ("init, with a wrong start", record(&|owner| (owner.identity.pid, owner.identity.start) = (1, 99)), true),
        ("no process", record(&|owner| owner.identity.pid = 4_194_304), true),
        ("pid 0", record(&|owner| owner.identity.pid = 0), true),
        ("another boot", record(&|owner| owner.identity.boot = "other".into()), true),
        ("another namespace", record(&|owner| owner.identity.ns += 1), true),
        ("a stamp in the future", record(&|owner| owner.acquired_at = Timestamp::from_us(u64::MAX)), true),
        ("torn", whole[..whole.len() / 2].to_vec(), true),
        ("filled with NUL", vec![0; 4096], true),
        ("another program's", b"4711\n".to_vec(), true),
        ("larger than any record", vec![b'x'; 1 << 20], false),
        ("empty", Vec::new(), false),
        ("released in order", record(&|owner| owner.released = true), false),
    ];
    for (name, bytes, is_set_aside) in cases {
        let home = Home::new();
        home.root.folder().create_file(LOCK_NAME).unwrap().write_all(bytes).unwrap();
        let acquired = home.take();
        assert_eq!(acquired.reclaimed.is_some(), *is_set_aside, "{name}");
        assert_eq!(home.set_aside().len(), usize::from(*is_set_aside), "{name}");
        assert_eq!(std::fs::read(home.lock()).unwrap(), acquired.owner().to_bytes(), "{name}");
    }
}

#[test]
fn sixty_old_records_are_swept_down_to_ten_by_the_one_start() {
    let home = Home::new();
    for old in 0..60 {
        quarantine::copy(home.root.folder(), format!("{old}").as_bytes(), &mut entropy::hex::<8>).unwrap();
    }
    let acquired = home.take();
    assert_eq!(*acquired.swept.as_ref().unwrap(), Swept { kept: 10, removed: 50, stuck: 0 });
    assert_eq!(home.set_aside().len(), 10);
}

#[test]
fn what_is_no_file_is_moved_aside_under_the_writer_lock_only() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 5] = [
        ("a folder", |path| std::fs::create_dir_all(path.join("inner")).unwrap()),
        ("a link to a file", |path| {
            std::fs::write(path.with_extension("victim"), "precious").unwrap();
            symlink(path.with_extension("victim"), path).unwrap();
        }),
        ("a link to nothing", |path| symlink("/nowhere/at/all", path).unwrap()),
        ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("a fifo", |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap()),
    ];
    for (name, plant) in plants {
        let home = Home::new();
        plant(&home.lock());
        let before = home.root.folder().look(LOCK_NAME).unwrap().unwrap();

        let deadline = Deadline::after(Duration::ZERO);
        let guarded = acquire(&home.root, deadline, || Ok(None::<()>), || None::<()>);
        assert!(matches!(guarded, Ok(Outcome::Held)), "{name}: somebody appends to the ledger");
        assert!(home.root.folder().look(LOCK_NAME).unwrap().unwrap().is_same(&before), "{name}");
        let failing = acquire(&home.root, deadline, || Err::<Option<()>, _>(io::Error::other("x")), || None::<()>);
        assert!(matches!(failing, Err(LockError::WriterLock { .. })), "{name}");

        assert!(matches!(home.try_soon(), Ok(Outcome::Acquired(_))), "{name}");
        let aside = home.set_aside();
        assert_eq!(aside.len(), 1, "{name}");
        assert!(home.root.folder().look(&aside[0]).unwrap().unwrap().is_same(&before), "{name}");
        if let Ok(victim) = std::fs::read(home.lock().with_extension("victim")) {
            assert_eq!(victim, b"precious");
        }
    }
}

/// The second look: what was judged under no lock may be gone, or be somebody's fresh lock, by the time it is had.
#[test]
fn a_lock_that_appears_before_the_second_look_is_left_alone() {
    let home = Home::new();
    std::fs::create_dir(home.lock()).unwrap();
    let rival = std::cell::RefCell::new(None);
    let outcome = acquire(
        &home.root,
        Deadline::after(Duration::ZERO),
        || {
            std::fs::remove_dir(home.lock())?;
            *rival.borrow_mut() = Some(home.take());
            Ok(Some(()))
        },
        || None::<()>,
    );
    assert!(matches!(outcome, Ok(Outcome::Held)));
    let rival = rival.into_inner().unwrap();
    assert!(home.root.folder().look(LOCK_NAME).unwrap().unwrap().is_same(rival.standing()));
    assert!(home.set_aside().is_empty());
}

/// flock(2) belongs to the inode, and the name is not the lock.
#[test]
fn a_lock_on_an_inode_that_lost_its_name_is_no_lock() {
    let home = Home::new();
    drop(home.take());
    let lock = home.lock();
    MEANWHILE.set(Some(Box::new(move || std::fs::remove_file(lock).unwrap())));
    assert!(matches!(home.try_now(), Ok(Outcome::Held)), "the one attempt came to nothing");
    let acquired = home.take();
    assert!(home.root.folder().look(LOCK_NAME).unwrap().unwrap().is_same(acquired.standing()));
}

/// Six starters meet a folder in the lock's place. Without the writer lock and the second look under it, most of these
/// runs have two owners.
#[test]
fn rounds_with_a_folder_in_place_have_one_owner_at_a_time() {
    use std::sync::atomic::{AtomicU32, Ordering};
    const STARTERS: usize = 6;
    const ROUNDS: usize = 30;
    let home = Home::new();
    let barrier = std::sync::Barrier::new(STARTERS);
    let (owners, overlaps, writer) = (AtomicU32::new(0), AtomicU32::new(0), std::sync::Mutex::new(()));
    let try_writer_lock = || Ok(writer.try_lock().ok());
    std::thread::scope(|scope| {
        for _ in 0..STARTERS {
            let (home, barrier, owners, overlaps) = (&home, &barrier, &owners, &overlaps);
            let try_writer_lock = &try_writer_lock;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    if barrier.wait().is_leader() {
                        drop(std::fs::remove_file(home.lock()));
                        std::fs::create_dir(home.lock()).unwrap();
                    }
                    barrier.wait();
                    let deadline = Deadline::after(Duration::from_secs(60));
                    let outcome = acquire(&home.root, deadline, try_writer_lock, || None::<()>);
                    // Whatever happens, everybody comes to the barrier again.
                    if let Ok(Outcome::Acquired(mut acquired)) = outcome {
                        overlaps.fetch_add(owners.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        std::thread::yield_now();
                        owners.fetch_sub(1, Ordering::SeqCst);
                        acquired.release_mark().unwrap();
                    } else {
                        overlaps.fetch_add(1, Ordering::SeqCst);
                    }
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(overlaps.into_inner(), 0, "rounds with two owners, or with none");
    assert!(home.set_aside().len() <= quarantine::KEPT_MAX);
}

#[test]
fn a_file_that_others_may_touch_is_refused_with_its_mode_and_stays_as_it_is() {
    let home = Home::new();
    std::fs::write(home.lock(), "evidence").unwrap();
    std::fs::set_permissions(home.lock(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = home.try_now().unwrap_err().to_string();
    assert!(text.contains("mode 0644") && text.contains("chmod 600"), "{text}");
    assert_eq!(std::fs::read(home.lock()).unwrap(), b"evidence");

    std::fs::set_permissions(home.lock(), std::fs::Permissions::from_mode(0o600)).unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(home.lock(), Some(4242), None).is_ok() {
        let text = home.try_now().unwrap_err().to_string();
        assert!(text.contains("uid 4242"), "{text}");
        std::fs::remove_file(home.lock()).unwrap();
        std::fs::create_dir(home.lock()).unwrap();
        std::os::unix::fs::chown(home.lock(), Some(4242), None).unwrap();
        assert!(matches!(home.try_now(), Err(LockError::Path(PathError::NotOurs { owner: 4242, .. }))));
        assert!(home.lock().is_dir(), "a stranger's folder is not moved");
    }
}

#[test]
fn looking_says_who_and_whether_it_lives() {
    let home = Home::new();
    let free = LockState { held: Some(false), owner: None, owner_lives: None };
    assert_eq!(lock_state(&home.root).unwrap(), free);
    let acquired = home.take();
    let state = lock_state(&home.root).unwrap();
    assert_eq!((state.held, state.owner_lives), (Some(true), Some(true)));
    assert_eq!(state.owner, Some(acquired.owner().document()));
    drop(acquired);
    let reused = Owner {
        identity: ProcessIdentity { start: 1, ..ProcessIdentity::current().unwrap() },
        ..home.take().owner().clone()
    };
    std::fs::write(home.lock(), reused.to_bytes()).unwrap();
    let state = lock_state(&home.root).unwrap();
    assert_eq!((state.held, state.owner_lives), (Some(false), Some(false)));
}

#[test]
fn the_incarnation_is_canonical_and_differs_in_each_part() {
    let identity = ProcessIdentity { boot: "b".into(), ns: 4, pid: 42, start: 7 };
    let owner = Owner::new(identity, "ab".repeat(32), "0.1.0", Timestamp::from_us(0));
    let of = |ledger: &str, owner: &Owner| incarnation(ledger, owner);
    // sha256 of {"identity":{"boot":"b","ns":4,"pid":42,"start":7},"ledger":"l","nonce":"abab..."}
    assert_eq!(of("l", &owner), "bda37c251bd3087ced644c33d449c15567dadcca6233a4511bf29201e2d74aac");
    let other_nonce = Owner { nonce: "cd".repeat(32), ..owner.clone() };
    let other_version = Owner { version: "9".into(), ..owner.clone() };
    assert_ne!(of("l", &owner), of("m", &owner));
    assert_ne!(of("l", &owner), of("l", &other_nonce));
    assert_eq!(of("l", &owner), of("l", &other_version));
}

/// What is full or used up is said as such, not as a lock that stands in the way.
#[test]
fn a_lack_at_the_lock_stage_is_called_by_its_name() {
    use nix::errno::Errno;
    let code = |errno: Errno| {
        let path = PathBuf::from("/r/broker.lock");
        [
            LockError::WriterLock { path: path.clone(), source: errno.into() },
            LockError::Unlockable { path: path.clone(), source: errno.into() },
            LockError::Identity(errno.into()),
            LockError::Path(PathError::io("open", path, errno)),
        ]
        .map(|error| WireError::from(&error).code)
    };
    assert_eq!(code(Errno::ENOSPC), [ErrorCode::StorageFull; 4]);
    assert_eq!(code(Errno::EMFILE), [ErrorCode::Capacity; 4]);
    let blocked = ErrorCode::BrokerBlocked;
    assert_eq!(code(Errno::ENOLCK), [blocked, blocked, blocked, ErrorCode::StorageFailed]);
}
