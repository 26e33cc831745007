//! Rounds and figures: contenders take turns, each round in another order, so that whatever else the machine does
//! meets all of them alike.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::machine::Pressure;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rounds of each row; at least 10 for a figure that is written down.
    pub(crate) rounds: u64,
    /// Single operations of each contender in a round.
    pub(crate) single: u64,
    /// Requests of many clients in a round.
    pub(crate) many: u64,
    /// Records of the history that is verified and replayed.
    pub(crate) records: u64,
    /// Sessions that are deleted in all rounds together.
    pub(crate) sessions: u64,
}

impl Plan {
    pub(crate) fn usual() -> Plan {
        Plan { rounds: 12, single: 250, many: 6_400, records: 1_000_000, sessions: 120 }
    }

    /// So little that only the way is tested.
    pub(crate) fn brief() -> Plan {
        Plan { rounds: 2, single: 4, many: 64, records: 2_000, sessions: 4 }
    }
}

/// What one contender took, over all rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Nanoseconds of each operation, or of each round over its operations.
    wall: Vec<f64>,
    cpu: Duration,
    operations: u64,
}

impl Series {
    /// Times one operation.
    pub(crate) fn single<T>(&mut self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        self.many(1, work)
    }

    /// Times `count` operations together; the figure is that of one.
    pub(crate) fn many<T>(&mut self, count: u64, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let (began, cpu) = (Instant::now(), thread_cpu());
        let done = work()?;
        let (wall, cpu) = (began.elapsed(), thread_cpu().saturating_sub(cpu));
        self.add(count, wall, cpu);
        Ok(done)
    }

    /// Adds what was timed elsewhere: `count` operations, the wall time and the processor time of all of them.
    pub(crate) fn add(&mut self, count: u64, wall: Duration, cpu: Duration) {
        self.wall.push(nanoseconds(wall) / as_float(count));
        self.cpu += cpu;
        self.operations += count;
    }

    /// Microseconds of an operation below which this part of them stayed.
    pub(crate) fn quantile_us(&self, part: f64) -> f64 {
        let mut sorted = self.wall.clone();
        sorted.sort_by(f64::total_cmp);
        let index = (as_float(sorted.len().saturating_sub(1)) * part).round();
        let index = (0..sorted.len()).find(|at| as_float(*at) >= index).unwrap_or(0);
        sorted.get(index).copied().unwrap_or(f64::NAN) / 1_000.0
    }

    /// Processor time of an operation, microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        nanoseconds(self.cpu) / 1_000.0 / as_float(self.operations)
    }
}

/// One contender of a row: does one round's work and adds it to its series.
pub(crate) type Contender<'a> = &'a mut dyn FnMut(&mut Series) -> Result<(), String>;

/// Lets the contenders take turns. Returns their series in the order in which they were given, and how much of the time
/// something waited for a processor.
pub(crate) fn in_turns(rounds: u64, contenders: &mut [Contender<'_>]) -> Result<(Vec<Series>, f64), String> {
    let mut series = vec![Series::default(); contenders.len()];
    let before = Pressure::now();
    // The first round warms caches and files and is not counted.
    for contender in contenders.iter_mut() {
        contender(&mut Series::default())?;
    }
    for round in 0..rounds {
        for place in 0..contenders.len() {
            let turn = usize::try_from(round).unwrap_or(0);
            let index = (place + turn) % contenders.len();
            contenders[index](&mut series[index])?;
        }
    }
    Ok((series, before.share_since()))
}

/// Processor time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Counts as floats: far below 2^53 here.
#[expect(clippy::as_conversions, reason = "there is no other way from an integer to a float")]
pub(crate) fn as_float(count: impl TryInto<u64>) -> f64 {
    count.try_into().map_or(f64::NAN, |count: u64| count as f64)
}

#[cfg(test)]
mod tests {
    use super::{Series, in_turns};
    use std::time::Duration;

    #[test]
    fn quantiles_are_those_of_single_operations() {
        let mut series = Series::default();
        for us in [5, 1, 4, 2, 3] {
            series.add(1, Duration::from_micros(us), Duration::from_micros(us));
        }
        assert_eq!([0.0, 0.5, 1.0].map(|part| series.quantile_us(part)), [1.0, 3.0, 5.0]);
        assert!((series.cpu_us() - 3.0).abs() < 1e-9);
        series.add(10, Duration::from_micros(70), Duration::ZERO);
        assert_eq!(series.quantile_us(1.0), 7.0);
    }

    #[test]
    fn every_contender_has_every_round_and_goes_first_in_turn() {
        let order = std::cell::RefCell::new(String::new());
        let contender = |name: char| {
            let order = &order;
            move |series: &mut Series| {
                series.single(|| {
                    order.borrow_mut().push(name);
                    Ok(())
                })
            }
        };
        let (mut first, mut second) = (contender('a'), contender('b'));
        let (series, _pressure) = in_turns(3, &mut [&mut first, &mut second]).unwrap();
        assert_eq!(order.into_inner(), "ababbaab");
        assert!(series.iter().all(|series| series.operations == 3));
    }
}
