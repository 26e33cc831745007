//! What the evidence about an episode means: the table of docs/ARCHITECTURE.md, "Host and life lock", literally. A test walks every combination
//! of evidence and proves that exactly one row matches.
//!
//! The kernel lock is the proof of life (law 10). Identities only keep a copied root, another boot or another container
//! from being mistaken for ours.

use crate::host::wire::{ExitRecord, HostRecord};

use super::evidence::{Evidence, HostFile, LockState};
use crate::os::identity::Liveness;

/// What an episode's evidence means, and so what is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The gate never opened: no effect. Start it again within its deadline, else settle as aborted.
    NeverOpened,
    /// It ended, with this exit.
    Ended(ExitRecord),
    /// The host died before its command: finish what it left ([`super::finish_dead_host`]), then it failed in phase host.
    HostDied(Box<HostRecord>),
    /// Lost with the machine or container: interrupted; signal nothing.
    LostWithMachine,
    /// It lives: adopt it once it answers hello. If it refuses the connection, judge again.
    Alive(Box<HostRecord>),
    /// Not ours, as in a copied root: fence, signal and adopt nothing.
    Foreign,
    /// A host is coming up: wait, bounded; then [`super::end_starting_host`] and judge again.
    StillStarting,
    /// Somebody removed `life.lock`, or put something in its place that is no file: go on with [`judge_without_lock`].
    MissingLock,
    /// The records are damaged and nothing can be proven: fence.
    Damaged(String),
}

/// `life.lock` is there, or its absence is the finding.
#[must_use]
pub fn judge(evidence: &Evidence) -> Verdict {
    verdict(decide(TABLE, &Signs::of(evidence)), evidence)
}

/// Somebody removed `life.lock`; identity and, for the living, hello judge. Never the missing file.
#[must_use]
pub fn judge_without_lock(evidence: &Evidence) -> Verdict {
    verdict(decide(TABLE_WITHOUT_LOCK, &Signs::of(evidence)), evidence)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Absent,
    Present,
    Damaged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boot {
    Same,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Same,
    Copied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
    Unknown,
}

/// The evidence without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signs {
    lock: LockState,
    host: File,
    exited: bool,
    boot: Boot,
    place: Place,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    NeverOpened,
    Ended,
    HostDied,
    LostWithMachine,
    Alive,
    Foreign,
    StillStarting,
    MissingLock,
    Damaged,
}

/// One row: what it asks of each sign (`None`: nothing), and what it means.
struct Row {
    lock: Option<LockState>,
    host: Option<File>,
    exited: Option<bool>,
    boot: Option<Boot>,
    place: Option<Place>,
    life: Option<&'static [Life]>,
    means: Finding,
}

macro_rules! table {
    ($($lock:tt $host:tt $exited:tt $boot:tt $place:tt $life:tt => $means:ident;)*) => {
        &[$(Row {
            lock: table!(@ LockState $lock), host: table!(@ File $host), exited: table!(@exited $exited),
            boot: table!(@ Boot $boot), place: table!(@ Place $place), life: table!(@life $life),
            means: Finding::$means,
        }),*]
    };
    (@exited any) => { None };
    (@exited yes) => { Some(true) };
    (@exited no) => { Some(false) };
    (@life any) => { None };
    (@life alive) => { Some(&[Life::Alive]) };
    // With a free lock the host is dead unless the system plainly shows it alive.
    (@life not_alive) => { Some(&[Life::Dead, Life::Unknown]) };
    (@life dead) => { Some(&[Life::Dead]) };
    (@life unknown) => { Some(&[Life::Unknown]) };
    (@ $kind:ident any) => { None };
    (@ $kind:ident $value:ident) => { Some($kind::$value) };
}

#[rustfmt::skip]
const TABLE: &[Row] = table! {
    // life.lock, host.json, exit.json complete, boot and namespace, device and inode, host's identity
    Free   Absent  no  any   any    any       => NeverOpened;
    Free   Absent  yes any   any    any       => Ended;
    Free   Present yes any   any    any       => Ended;
    Free   Damaged yes any   any    any       => Ended;
    Free   Damaged no  any   any    any       => Damaged;
    Free   Present no  Same  Same   not_alive => HostDied;
    Free   Present no  Same  Same   alive     => Foreign;
    Free   Present no  Same  Copied any       => Foreign;
    Free   Present no  Other any    any       => LostWithMachine;
    Held   Present any Same  Same   any       => Alive;
    Held   Present any Same  Copied any       => Foreign;
    Held   Present any Other any    any       => Foreign;
    Held   Absent  any any   any    any       => StillStarting;
    Held   Damaged any any   any    any       => Damaged;
    Absent any     any any   any    any       => MissingLock;
};

#[rustfmt::skip]
const TABLE_WITHOUT_LOCK: &[Row] = table! {
    any    Absent  yes any   any    any       => Ended;
    any    Damaged yes any   any    any       => Ended;
    any    Absent  no  any   any    any       => Damaged;
    any    Damaged no  any   any    any       => Damaged;
    any    Present any Same  Same   alive     => Alive;
    any    Present yes Same  Same   not_alive => Ended;
    any    Present no  Same  Same   dead      => HostDied;
    any    Present no  Same  Same   unknown   => Damaged;
    any    Present yes Same  Copied any       => Ended;
    any    Present no  Same  Copied any       => Foreign;
    any    Present yes Other any    any       => Ended;
    any    Present no  Other any    any       => LostWithMachine;
};

impl Row {
    fn matches(&self, signs: &Signs) -> bool {
        self.lock.is_none_or(|lock| lock == signs.lock)
            && self.host.is_none_or(|host| host == signs.host)
            && self.exited.is_none_or(|exited| exited == signs.exited)
            && self.boot.is_none_or(|boot| boot == signs.boot)
            && self.place.is_none_or(|place| place == signs.place)
            && self.life.is_none_or(|life| life.contains(&signs.life))
    }
}

fn decide(table: &[Row], signs: &Signs) -> Finding {
    table.iter().find(|row| row.matches(signs)).expect("the tables are proved complete by test").means
}

impl Signs {
    fn of(evidence: &Evidence) -> Self {
        // Without a readable record the last three say nothing and no row asks for them.
        let (host, boot, place, life) = match &evidence.host {
            HostFile::Absent => (File::Absent, Boot::Same, Place::Same, Life::Dead),
            HostFile::Damaged(_) => (File::Damaged, Boot::Same, Place::Same, Life::Dead),
            HostFile::Present { record, liveness } => {
                let boot = match liveness {
                    Liveness::Foreign => Boot::Other,
                    Liveness::Alive | Liveness::Dead | Liveness::Unknown => Boot::Same,
                };
                let life = match liveness {
                    Liveness::Alive => Life::Alive,
                    Liveness::Dead | Liveness::Foreign => Life::Dead,
                    Liveness::Unknown => Life::Unknown,
                };
                let same = match evidence.lock_identity {
                    Some(identity) => identity == record.lock,
                    None => evidence.folder_identity == Some(record.folder),
                };
                (File::Present, boot, if same { Place::Same } else { Place::Copied }, life)
            }
        };
        Self { lock: evidence.lock, host, exited: evidence.exit.is_some(), boot, place, life }
    }
}

fn verdict(finding: Finding, evidence: &Evidence) -> Verdict {
    let record = || match &evidence.host {
        HostFile::Present { record, .. } => record.clone(),
        HostFile::Absent | HostFile::Damaged(_) => panic!("rows that need the record ask for it"),
    };
    match finding {
        Finding::NeverOpened => Verdict::NeverOpened,
        Finding::Ended => Verdict::Ended(evidence.exit.clone().expect("rows that end ask for the exit")),
        Finding::HostDied => Verdict::HostDied(record()),
        Finding::LostWithMachine => Verdict::LostWithMachine,
        Finding::Alive => Verdict::Alive(record()),
        Finding::Foreign => Verdict::Foreign,
        Finding::StillStarting => Verdict::StillStarting,
        Finding::MissingLock => Verdict::MissingLock,
        Finding::Damaged => Verdict::Damaged(match &evidence.host {
            HostFile::Absent => "life.lock and host.json are missing".into(),
            HostFile::Damaged(reason) => reason.clone(),
            HostFile::Present { .. } => {
                "life.lock is missing and the system does not say whether the host lives".into()
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Boot, File, Finding, Life, LockState, Place, Row, Signs, TABLE, TABLE_WITHOUT_LOCK, decide};

    fn every_combination() -> Vec<Signs> {
        let mut all = Vec::new();
        for lock in [LockState::Free, LockState::Held, LockState::Absent] {
            for host in [File::Absent, File::Present, File::Damaged] {
                for exited in [false, true] {
                    for boot in [Boot::Same, Boot::Other] {
                        for place in [Place::Same, Place::Copied] {
                            for life in [Life::Alive, Life::Dead, Life::Unknown] {
                                all.push(Signs { lock, host, exited, boot, place, life });
                            }
                        }
                    }
                }
            }
        }
        all
    }

    fn check_exactly_one(table: &[Row]) {
        let combinations = every_combination();
        assert_eq!(combinations.len(), 216);
        for signs in &combinations {
            let rows = table.iter().filter(|row| row.matches(signs)).count();
            assert_eq!(rows, 1, "{signs:?}");
        }
        for (index, row) in table.iter().enumerate() {
            assert!(combinations.iter().any(|signs| row.matches(signs)), "row {index} never matches");
        }
    }

    #[test]
    fn exactly_one_row_matches_every_combination() {
        check_exactly_one(TABLE);
        check_exactly_one(TABLE_WITHOUT_LOCK);
    }

    #[test]
    fn nothing_but_a_held_lock_is_life_and_nothing_of_another_boot_is_signalled() {
        for signs in every_combination() {
            let finding = decide(TABLE, &signs);
            if finding == Finding::Alive {
                assert_eq!(signs.lock, LockState::Held, "{signs:?}");
            }
            for finding in [finding, decide(TABLE_WITHOUT_LOCK, &signs)] {
                if signs.host == File::Present && (signs.boot == Boot::Other || signs.place == Place::Copied) {
                    assert_ne!(finding, Finding::HostDied, "{signs:?}");
                    assert!(finding != Finding::Alive, "{signs:?}");
                }
                if finding == Finding::Ended {
                    assert!(signs.exited, "{signs:?}");
                }
            }
            assert_ne!(decide(TABLE_WITHOUT_LOCK, &signs), Finding::MissingLock, "{signs:?}");
        }
    }
}
