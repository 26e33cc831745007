//! One deadline for a whole command, and the pause between two tries under it.
//!
//! Promises: a pause never outlasts the deadline, and pauses of many waiters spread out instead of beating in step.

use std::time::{Duration, Instant};

use super::entropy;

/// A point in time after which nothing is waited for. Suspended time does not count: nobody could have answered.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

/// The longest deadline that is told apart from none.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

#[expect(clippy::disallowed_methods, reason = "os is where the clock is asked")]
impl Deadline {
    /// The point `duration` from now.
    pub fn after(duration: Duration) -> Deadline {
        Deadline(Instant::now() + duration.min(LONGEST))
    }

    /// What is left; zero once it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }

    /// The earlier of this one and the point `duration` from now.
    #[must_use]
    pub fn at_most(self, duration: Duration) -> Deadline {
        Deadline(self.0.min(Deadline::after(duration).0))
    }
}

/// Growing pauses between tries: each twice as long as the one before, up to a limit, and each drawn at random between
/// half of that and all of it.
#[derive(Clone, Debug)]
pub struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Pauses from `first` up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Pauses {
        Pauses { next: first.min(longest), longest }
    }

    /// The next pause.
    pub fn draw(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        let fraction = u32::from(u16::from_le_bytes(entropy::bytes::<2>()));
        let half = whole / 2;
        half + half * fraction / u32::from(u16::MAX)
    }

    /// Pauses once, no longer than the deadline; says whether there is time for another try.
    #[expect(clippy::disallowed_methods, reason = "the pause between two tries of what cannot be waited for")]
    pub fn pause(&mut self, deadline: Deadline) -> bool {
        std::thread::sleep(self.draw().min(deadline.remaining()));
        !deadline.has_passed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit_and_are_never_shorter_than_half() {
        let mut pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(45));
        for whole in [10, 20, 40, 45, 45] {
            let pause = pauses.draw();
            let whole = Duration::from_millis(whole);
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
        }
    }

    #[test]
    fn a_passed_deadline_leaves_nothing() {
        let passed = Deadline::after(Duration::ZERO);
        assert!(passed.has_passed());
        assert!(!Pauses::new(Duration::from_secs(60), Duration::from_secs(60)).pause(passed));
        let long = Deadline::after(Duration::MAX);
        assert!(!long.has_passed());
        assert!(long.at_most(Duration::ZERO).has_passed());
    }
}
