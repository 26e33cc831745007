//! Passing a point (`points`), where a test build can be told to pause, to fail or to die. A release build has no trace of
//! it: the functions are empty there.
//!
//! `OSTLER_TEST_FAIL=start.beat=pause:5000,start.publish=error,record.spawn=kill@2`; times in milliseconds. `@2` means the second time
//! that any process passes it. For that, and to tell which points were passed at all, the passes are counted in the folder
//! `OSTLER_TEST_POINTS`, one byte each in a file of the point's name. Everything that is started inherits both variables.

pub use super::points::Point;
use std::io;

/// Passes a point, or does what the test build was told to do there.
///
/// # Errors
/// In a test build that was told so.
#[cfg(not(feature = "testing"))]
#[inline]
pub fn point(_point: Point) -> io::Result<()> {
    Ok(())
}

/// Passes a point, or does what the test build was told to do there.
///
/// # Errors
/// If it was told to fail here.
#[cfg(feature = "testing")]
pub fn point(point: Point) -> io::Result<()> {
    told::plan().map_or(Ok(()), |plan| plan.pass(point))
}

/// As [`point`], where no step can fail: an error that was told is no matter.
pub fn pass(at: Point) {
    drop(point(at));
}

/// What a child is given, so that it does what this process was told.
#[cfg(feature = "testing")]
pub use told::inherited;

#[cfg(feature = "testing")]
mod told {
    use super::super::environment::Environment;
    use super::Point;
    use nix::sys::signal::{Signal, raise};
    use std::ffi::{OsStr, OsString};
    use std::fs::OpenOptions;
    use std::io::{self, Seek, Write};
    use std::path::PathBuf;
    use std::sync::OnceLock;

    const ACTS: &str = "OSTLER_TEST_FAIL";
    const COUNTS: &str = "OSTLER_TEST_POINTS";

    /// What this process was told; none if it was told nothing.
    ///
    /// # Panics
    /// If what it was told makes no sense: a test must not pass because of a slip of the pen.
    pub(super) fn plan() -> Option<&'static Plan> {
        static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
        let read = || {
            let variable = |name| Environment::process().get(name);
            let acts = variable(ACTS).and_then(OsStr::to_str).unwrap_or_default();
            let counts = variable(COUNTS).map(PathBuf::from);
            let plan = Plan { acts: acts.split(',').filter(|each| !each.is_empty()).map(act).collect(), counts };
            (plan.counts.is_some() || !plan.acts.is_empty()).then_some(plan)
        };
        PLAN.get_or_init(read).as_ref()
    }

    /// What a child is given, so that it does what this process was told.
    #[must_use]
    pub fn inherited() -> Vec<OsString> {
        let of = |name| Environment::process().get(name).map(|value| [OsStr::new(name), value].join(OsStr::new("=")));
        [ACTS, COUNTS].into_iter().filter_map(of).collect()
    }

    #[derive(Debug)]
    pub(super) struct Plan {
        acts: Vec<Planned>,
        counts: Option<PathBuf>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Planned {
        point: Point,
        act: Act,
        /// At the pass of this number only.
        at: Option<u64>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Act {
        Pause(u64),
        Error,
        /// As the kernel's out-of-memory killer ends it.
        Kill,
        /// As a machine stops it that has no time for it; whoever tests sends CONT.
        Stop,
    }

    impl Plan {
        pub(super) fn pass(&self, point: Point) -> io::Result<()> {
            let number = self.count(point);
            let is_meant = |of: &&Planned| of.point == point && (of.at.is_none() || of.at == number);
            match self.acts.iter().find(is_meant).map(|planned| planned.act) {
                None => Ok(()),
                Some(Act::Pause(ms)) => {
                    pause(ms);
                    Ok(())
                }
                Some(Act::Error) => Err(io::Error::other(format!("told to fail at {}", point.name()))),
                Some(Act::Kill) => Ok(raise(Signal::SIGKILL)?),
                Some(Act::Stop) => Ok(raise(Signal::SIGSTOP)?),
            }
        }

        /// The number of this pass among those of all processes: the end of what is appended is one's own.
        fn count(&self, point: Point) -> Option<u64> {
            let path = self.counts.as_ref()?.join(point.name());
            let mut file = OpenOptions::new().append(true).create(true).open(path).ok()?;
            file.write_all(b".").ok()?;
            file.stream_position().ok()
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a point that pauses is asleep on purpose")]
    fn pause(ms: u64) {
        std::thread::sleep(std::time::Duration::from_millis(ms));
    }

    fn act(told: &str) -> Planned {
        let read = || {
            let (name, rest) = told.split_once('=')?;
            let (word, at) = match rest.split_once('@') {
                Some((word, number)) => (word, Some(number.parse().ok()?)),
                None => (rest, None),
            };
            let act = match word {
                "error" => Act::Error,
                "kill" => Act::Kill,
                "stop" => Act::Stop,
                pause => Act::Pause(pause.strip_prefix("pause:")?.parse().ok()?),
            };
            let point = Point::ALL.iter().copied().find(|point| point.name() == name)?;
            Some(Planned { point, act, at })
        };
        read().unwrap_or_else(|| panic!("{ACTS}: no such point or act: {told}"))
    }

    #[cfg(test)]
    mod tests {
        use super::{Act, Plan, Planned, Point, act};

        #[test]
        fn a_point_does_only_what_it_was_told() {
            let planned = |told| {
                let Planned { point, act, at } = act(told);
                (point, act, at)
            };
            assert_eq!(planned("start.beat=pause:5000"), (Point::StartBeat, Act::Pause(5000), None));
            assert_eq!(planned("start.publish=error"), (Point::StartPublish, Act::Error, None));
            assert_eq!(planned("record.spawn=kill@2"), (Point::RecordSpawn, Act::Kill, Some(2)));
            assert_eq!(planned("host.bound=stop@1"), (Point::HostBound, Act::Stop, Some(1)));
            for nonsense in ["start.beat", "start.beat=nonsense", "nowhere.at_all=kill", "start.beat=kill@x"] {
                assert!(std::panic::catch_unwind(|| act(nonsense)).is_err(), "{nonsense}");
            }
        }

        #[test]
        fn passes_are_counted_and_only_the_one_that_is_meant_counts() {
            let folder = tempfile::tempdir().unwrap();
            let plan = Plan { acts: vec![act("start.beat=error@2")], counts: Some(folder.path().to_owned()) };
            let passes = [Point::StartBeat; 3].map(|point| plan.pass(point).is_err());
            assert_eq!(passes, [false, true, false]);
            assert!(plan.pass(Point::StartPublish).is_ok());
            let counted = |name| std::fs::metadata(folder.path().join(name)).unwrap().len();
            assert_eq!((counted("start.beat"), counted("start.publish")), (3, 1));
        }
    }
}
