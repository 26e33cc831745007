//! The table of all storms, and the verdict on ours.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::Scene;
use super::client::Gathered;
use super::contender::Contender;
use crate::machine::{self, Pressure};

/// Which storm.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Cell {
    pub(crate) clients: usize,
    pub(crate) scene: Scene,
    pub(crate) contender: &'static str,
}

/// What came of every storm, over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<Cell, Vec<Gathered>>);

impl Table {
    pub(crate) fn add(&mut self, cell: Cell, gathered: Gathered) {
        self.0.entry(cell).or_default().push(gathered);
    }

    /// The section of the document.
    pub(crate) fn text(
        &self,
        present: &[Contender],
        absent: &[&str],
        folder: &Path,
        rounds: u64,
        before: Pressure,
    ) -> String {
        let versions: Vec<String> = present.iter().map(|of| format!("{}: {}", of.version(), of.way())).collect();
        let mut text = format!(
            "{}. {rounds} rounds, in which the contenders take turns. Something waited for a processor for {:.0} % of the time (the clients of the \
             storm count, too).\n\n",
            machine::kind(folder),
            before.share_since() * 100.0,
        );
        for version in versions {
            writeln!(text, "- {version}").expect("it is memory");
        }
        if !absent.is_empty() {
            writeln!(text, "- not installed there: {}", absent.join(", ")).expect("it is memory");
        }
        let names: Vec<&str> = present.iter().map(Contender::name).collect();
        let columns =
            |cell: &dyn Fn(&str) -> String| names.iter().map(|name| cell(name)).collect::<Vec<_>>().join(" | ");
        writeln!(text, "\n| clients | | {} |", columns(&str::to_owned)).expect("it is memory");
        writeln!(text, "| --- | --- | {} |", columns(&|_| "---".to_owned())).expect("it is memory");
        let mut rows: Vec<(usize, Scene)> = self.0.keys().map(|cell| (cell.clients, cell.scene)).collect();
        rows.dedup();
        for (clients, scene) in rows {
            let cell = |contender: &str| {
                let found =
                    self.0.iter().find(|(at, _)| (at.clients, at.scene, at.contender) == (clients, scene, contender));
                found.map_or_else(String::new, |(_, gathered)| shown(gathered))
            };
            writeln!(text, "| {clients} | {} | {} |", scene.name(), columns(&cell)).expect("it is memory");
        }
        text
    }

    /// Ours: nobody fails, and one broker is left, every time.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let ours = self.0.iter().filter(|(cell, _)| cell.contender == "ostler");
        let bad = ours.flat_map(|(cell, gathered)| gathered.iter().map(move |each| (cell, each)));
        let bad: Vec<String> = bad
            .filter(|(_, each)| each.failed > 0 || each.daemons != 1)
            .map(|(cell, each)| format!("{} clients, {}: {each}", cell.clients, cell.scene.name()))
            .collect();
        if bad.is_empty() { Ok(()) } else { Err(format!("ours does not hold:\n{}", bad.join("\n"))) }
    }
}

/// Milliseconds until the last client was done, the median; and what failed or was left over in all rounds together.
fn shown(gathered: &[Gathered]) -> String {
    let mut last: Vec<f64> = gathered.iter().map(|each| each.last_ms).collect();
    last.sort_by(f64::total_cmp);
    let failed: usize = gathered.iter().map(|each| each.failed).sum();
    let mut daemons: Vec<usize> = gathered.iter().map(|each| each.daemons).collect();
    daemons.sort_unstable();
    let (fewest, most) = (daemons.first().copied().unwrap_or(0), daemons.last().copied().unwrap_or(0));
    let daemons = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    format!("{:.0} ms, {failed} failed, {daemons} left", last.get(last.len() / 2).copied().unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::{Cell, Gathered, Scene, Table, shown};

    fn gathered(last_ms: f64, failed: usize, daemons: usize) -> Gathered {
        Gathered { last_ms, failed, daemons }
    }

    #[test]
    fn rounds_come_to_a_median_a_sum_and_a_span() {
        let rounds = [gathered(30.0, 0, 1), gathered(10.0, 2, 1), gathered(20.4, 1, 3)];
        assert_eq!(shown(&rounds), "20 ms, 3 failed, 1 to 3 left");
        assert_eq!(shown(&rounds[..1]), "30 ms, 0 failed, 1 left");
    }

    #[test]
    fn only_ours_is_judged() {
        let cell = |contender| Cell { clients: 8, scene: Scene::Cold, contender };
        let mut table = Table::default();
        table.add(cell("tmux"), gathered(1.0, 8, 0));
        table.add(cell("ostler"), gathered(1.0, 0, 1));
        assert_eq!(table.judge(), Ok(()));
        table.add(cell("ostler"), gathered(1.0, 0, 2));
        assert!(table.judge().unwrap_err().contains("8 clients, cold"));
    }
}
