//! Rows, and the table that stands in the document.

use std::path::Path;

use crate::at;
use crate::machine::{self, Pressure};
use crate::measure::{Plan, Series};

/// Above this part of the time under pressure the best tenth is judged, below it the median.
const QUIET: f64 = 0.25;

/// What a row wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No goal: the row explains another.
    None,
    /// Times the floor's time, at most.
    AtMost(f64),
    /// Part of the floor's rate in processor time, at least.
    RateAtLeast(f64),
    /// The row is what nobody can save: whether it alone leaves [`Goal::AtMost`] of the same number in reach.
    InReach(f64),
    /// The same for [`Goal::RateAtLeast`].
    RateInReach(f64),
    /// Operations in a second of one processor, at least.
    PerCpuSecond(f64),
    /// Processor time of an operation, microseconds, at most.
    CpuUs(f64),
    /// The row is what nobody can save: whether it alone leaves [`Goal::CpuUs`] of the same number in reach.
    CpuInReach(f64),
    /// Seconds for the whole, at most, with the number of operations in it.
    Seconds(f64, f64),
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) goal: Goal,
    ours: Series,
    floor: Option<(String, Series)>,
    pressure: f64,
}

impl Row {
    pub(crate) fn new(name: &str, what: &str, goal: Goal, ours: &Series, pressure: f64) -> Row {
        Row { name: name.to_owned(), what: what.to_owned(), goal, ours: ours.clone(), floor: None, pressure }
    }

    #[must_use]
    pub(crate) fn against(self, what: &str, floor: &Series) -> Row {
        Row { floor: Some((what.to_owned(), floor.clone())), ..self }
    }

    /// What part of the operations the judgement looks at.
    fn judged(&self) -> f64 {
        if self.pressure > QUIET { 0.1 } else { 0.5 }
    }

    fn ratio(&self, part: f64) -> Option<f64> {
        self.floor.as_ref().map(|(_, floor)| self.ours.quantile_us(part) / floor.quantile_us(part))
    }

    /// Part of the floor's rate, both by processor time: what others take from the machine does not count.
    fn cpu_rate(&self) -> Option<f64> {
        self.floor.as_ref().map(|(_, floor)| floor.cpu_us() / self.ours.cpu_us())
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::None => "-".to_owned(),
            Goal::AtMost(times) => format!("at most {times} x"),
            Goal::RateAtLeast(part) => format!("at least {part} x the rate, of processor"),
            Goal::InReach(_) | Goal::RateInReach(_) | Goal::CpuInReach(_) => "the same".to_owned(),
            Goal::PerCpuSecond(rate) => format!("at least {} in a second of processor", thousands(rate)),
            Goal::CpuUs(us) => format!("at most {us} us of processor"),
            Goal::Seconds(seconds, _) => format!("at most {seconds} s"),
        }
    }

    fn is_met(&self) -> Option<bool> {
        let part = self.judged();
        let us = self.ours.quantile_us(part);
        Some(match self.goal {
            Goal::None => return None,
            Goal::AtMost(times) | Goal::InReach(times) => self.ratio(part)? <= times,
            Goal::RateAtLeast(least) | Goal::RateInReach(least) => self.cpu_rate()? >= least,
            Goal::PerCpuSecond(rate) => 1e6 / self.ours.cpu_us() >= rate,
            Goal::CpuUs(most) | Goal::CpuInReach(most) => self.ours.cpu_us() <= most,
            Goal::Seconds(most, count) => us * count / 1e6 <= most,
        })
    }

    fn measured(&self) -> String {
        let both = |say: &dyn Fn(f64) -> String| format!("{} ({})", say(0.5), say(0.1));
        match self.goal {
            Goal::AtMost(_) | Goal::InReach(_) => {
                both(&|part| format!("{:.2} x", self.ratio(part).unwrap_or(f64::NAN)))
            }
            Goal::RateAtLeast(_) | Goal::RateInReach(_) => format!("{:.2} x", self.cpu_rate().unwrap_or(f64::NAN)),
            Goal::PerCpuSecond(_) => thousands(1e6 / self.ours.cpu_us()),
            Goal::CpuUs(_) | Goal::CpuInReach(_) => format!("{:.1} us", self.ours.cpu_us()),
            Goal::Seconds(_, count) => both(&|part| format!("{:.2} s", self.ours.quantile_us(part) * count / 1e6)),
            Goal::None => both(&|part| format!("{:.2} us", self.ours.quantile_us(part))),
        }
    }

    fn cells(&self) -> [String; 8] {
        let us = |series: &Series| format!("{:.2} ({:.2})", series.quantile_us(0.5), series.quantile_us(0.1));
        let floor = self
            .floor
            .as_ref()
            .map_or("-".to_owned(), |(what, floor)| format!("{what}: {}, processor {:.2}", us(floor), floor.cpu_us()));
        let is_floor = matches!(self.goal, Goal::InReach(_) | Goal::RateInReach(_) | Goal::CpuInReach(_));
        let met = match (self.is_met(), is_floor) {
            (None, _) => "-",
            (Some(true), false) => "met",
            (Some(false), false) => "**missed**",
            (Some(true), true) => "leaves the goal in reach",
            (Some(false), true) => "above the goal: out of reach",
        };
        [
            self.what.clone(),
            self.goal_text(),
            self.measured(),
            met.to_owned(),
            us(&self.ours),
            format!("{:.2}", self.ours.cpu_us()),
            floor,
            format!("{:.0} %", self.pressure * 100.0),
        ]
    }

    /// For the terminal, as soon as it is known.
    pub(crate) fn line(&self) -> String {
        let [what, goal, measured, met, us, cpu, floor, pressure] = self.cells();
        format!(
            "{}: {what}\n    {measured}; goal {goal}: {met}\n    {us} us, processor {cpu} us; floor {floor}; pressure {pressure}",
            self.name
        )
    }
}

/// The section of the document.
pub(crate) fn document(rows: &[Row], plan: &Plan, folder: &Path, before: Pressure) -> String {
    let mut text = format!(
        "{}. {} rounds; the contenders of a row take turns. Each figure is the median, in brackets the best tenth; where something waited for a \
         processor for more than {:.0} % of a row's time, the best tenth is judged. Over the whole run that was {:.0} % of the time (the \
         clients of the benchmark count, too).\n\n\
         | what | goal | measured | | us each | processor, us each | floor, us each | pressure |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        machine::kind(folder),
        plan.rounds,
        QUIET * 100.0,
        before.share_since() * 100.0,
    );
    for row in rows {
        text.push_str(&format!("| {} |\n", row.cells().join(" | ")));
    }
    text
}

const END: &str = "<!-- up to here -->";

/// The mark before the table of this benchmark.
fn begin(bench: &str) -> String {
    format!("<!-- written by cargo xtask bench {bench} -->")
}

/// Replaces what stands between the marks of the document.
pub(crate) fn write(document: &Path, bench: &str, text: &str) -> Result<(), String> {
    let name = document.display().to_string();
    let old = at(&name, std::fs::read_to_string(document))?;
    let begin = begin(bench);
    let new =
        replaced(&old, &begin, text).ok_or_else(|| format!("{name} has no place for the table: {begin} ... {END}"))?;
    at(&name, std::fs::write(document, new))
}

fn replaced(old: &str, begin: &str, text: &str) -> Option<String> {
    let (before, rest) = old.split_once(begin)?;
    let (_, behind) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n\n{text}\n{END}{behind}"))
}

fn thousands(number: f64) -> String {
    if number >= 1e6 { format!("{:.2} M", number / 1e6) } else { format!("{:.0} k", number / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::{END, Goal, Row, begin, replaced};
    use crate::measure::Series;
    use std::time::Duration;

    fn series(us: u64) -> Series {
        let mut series = Series::default();
        series.add(1, Duration::from_micros(us), Duration::from_micros(us));
        series
    }

    #[test]
    fn goals_are_judged() {
        let row = |goal| Row::new("r", "r", goal, &series(20), 0.0).against("floor", &series(10)).is_met();
        assert_eq!(row(Goal::None), None);
        assert_eq!([row(Goal::AtMost(2.1)), row(Goal::AtMost(1.9))], [Some(true), Some(false)]);
        assert_eq!([row(Goal::RateAtLeast(0.4)), row(Goal::RateAtLeast(0.6))], [Some(true), Some(false)]);
        assert_eq!([row(Goal::InReach(2.1)), row(Goal::InReach(1.9))], [Some(true), Some(false)]);
        assert_eq!([row(Goal::RateInReach(0.4)), row(Goal::RateInReach(0.6))], [Some(true), Some(false)]);
        assert_eq!([row(Goal::PerCpuSecond(49_000.0)), row(Goal::PerCpuSecond(51_000.0))], [Some(true), Some(false)]);
        assert_eq!([row(Goal::CpuUs(21.0)), row(Goal::CpuUs(19.0))], [Some(true), Some(false)]);
        assert_eq!([row(Goal::Seconds(2.1, 1e5)), row(Goal::Seconds(1.9, 1e5))], [Some(true), Some(false)]);
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let (begin, other) = (begin("ledger"), begin("storm"));
        let old = format!("a\n{begin}\nold\n{END}\nb\n");
        assert_eq!(replaced(&old, &begin, "new\n"), Some(format!("a\n{begin}\n\nnew\n\n{END}\nb\n")));
        assert_eq!(replaced(&old, &other, "new"), None);
    }
}
