//! How hard a seed's life is, drawn from the seed.

use super::clients::Habits;
use super::random::Random;
use ostler::machine::limits::Retention;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) steps: u32,
    pub(super) segment_bytes: u64,
    pub(super) snapshot_tail_bytes: u64,
    pub(super) kills: usize,
    pub(super) stops: usize,
    pub(super) reboots: usize,
    pub(super) faults: usize,
    pub(super) host_kills: usize,
    pub(super) tampering: usize,
    pub(super) leaps: usize,
    /// How often somebody wants the oldest segments retired.
    pub(super) retirements: usize,
    /// Once, so many spawns come at once that their turn needs several appends.
    pub(super) crowd: bool,
    /// What the broker keeps of what is settled: as the product does, or so little that it lets go and forgets.
    pub(super) retention: Retention,
    pub(super) habits: Habits,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut dose = |weight: usize| random.pick(&[0, weight, weight, weight * 3]).unwrap_or(0);
        let (kills, stops, reboots) = (dose(1), dose(3), dose(1));
        let (faults, host_kills, tampering, leaps) = (dose(4), dose(4), dose(1) / 2, dose(3));
        let steps = u32::try_from(random.between(100, 300)).unwrap_or(200);
        let segment_bytes = random.pick(&[6_000, 40_000, 8_388_608]).unwrap_or(40_000);
        let crowd = random.chance(40);
        let habits = Habits {
            reused_keys: random.pick(&[0, 60, 200]).unwrap_or(60),
            timed_keys: random.pick(&[0, 500, 900]).unwrap_or(500),
            long_records: random.pick(&[0, 100, 500]).unwrap_or(100),
            sessions_ask: random.pick(&[0, 100]).unwrap_or(0),
            messages: random.pick(&[0, 300, 850]).unwrap_or(300),
            prompts: random.pick(&[0, 500, 950]).unwrap_or(500),
        };
        let snapshot_tail_bytes = random.pick(&[1, 10_000, 1_048_576]).unwrap_or(10_000);
        let mut retention = if random.chance(500) { Retention::default() } else { little(random) };
        let (mut retirements, mut segment_bytes) = (random.below(2), segment_bytes);
        if random.chance(300) {
            // Of little that is known, soon.
            (retirements, segment_bytes) = (4, 4_000);
            retention = Retention { window_us: 1_000_000, settled: 2, batch: 1, ..little(random) };
        }
        let plan = Self {
            steps,
            segment_bytes,
            snapshot_tail_bytes,
            kills,
            stops,
            reboots,
            faults,
            host_kills,
            tampering,
            leaps,
            retirements,
            crowd,
            retention,
            habits,
        };
        if random.chance(300) { plan.quiet() } else { plan }
    }

    /// So little goes wrong that programs come to work at one message after the other.
    fn quiet(self) -> Self {
        Self {
            steps: 300,
            kills: self.kills.min(1),
            stops: self.stops.min(1),
            reboots: 0,
            faults: self.faults.min(1),
            host_kills: self.host_kills.min(1),
            leaps: self.leaps.min(1),
            habits: Habits { messages: 850, prompts: 950, ..self.habits },
            ..self
        }
    }
}

fn little(random: &mut Random) -> Retention {
    Retention {
        recent: random.pick(&[1, 3, 6]).unwrap_or(3),
        of_session: random.pick(&[1, 2]).unwrap_or(1),
        batch: random.pick(&[1, 4]).unwrap_or(4),
        settled: random.between(1, 8),
        window_us: random.pick(&[5_000_000, 86_400_000_000]).unwrap_or(5_000_000),
        free_form: random.pick(&[12, 100]).unwrap_or(100),
        ..Retention::default()
    }
}
