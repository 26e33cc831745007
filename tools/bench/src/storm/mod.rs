//! Find-or-start under a storm of clients, beside programs that start their daemon on demand, too.
//!
//! All clients of a storm are started and held at a gate; then the scene is set (nothing there, a daemon that runs, one that was just
//! shut down, one that was just killed) and the gate opens. What counts: when the last one is done, how many failed, how many daemons
//! there are afterwards. Contenders take turns within each round. Every client has a deadline, and whatever a storm leaves is
//! found by its environment and ended.

mod client;
mod contender;
mod left;
mod table;

use std::path::PathBuf;

use crate::machine::Pressure;
use crate::report;
use client::{Gathered, storm};
use contender::{Contender, Place, contenders};
use table::{Cell, Table};

/// What is there when the gate opens.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scene {
    Cold,
    Warm,
    AfterShutdown,
    AfterKill,
}

impl Scene {
    const ALL: [Scene; 4] = [Scene::Cold, Scene::Warm, Scene::AfterShutdown, Scene::AfterKill];

    fn name(self) -> &'static str {
        match self {
            Scene::Cold => "cold",
            Scene::Warm => "warm",
            Scene::AfterShutdown => "right after shutdown",
            Scene::AfterKill => "right after kill -9",
        }
    }
}

const USAGE: &str = "\
storm --program FILE --folder FOLDER [--document FILE] [--rounds N] [--clients N,N...] [--only NAME,NAME...]";

/// What was asked for on the command line.
struct Asked {
    program: PathBuf,
    folder: PathBuf,
    document: Option<PathBuf>,
    rounds: u64,
    clients: Vec<usize>,
    only: Option<Vec<String>>,
}

/// Runs the storms that the arguments ask for.
///
/// # Errors
/// What could not be measured; and if one of our own clients failed, or the storm left not exactly one broker of ours.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let asked = parse(arguments)?;
    std::fs::create_dir_all(&asked.folder).map_err(|error| format!("{}: {error}", asked.folder.display()))?;
    let scratch = crate::Scratch::new(&asked.folder)?;
    let (mut present, absent) = contenders(&asked.program);
    if let Some(only) = &asked.only {
        present.retain(|contender| only.iter().any(|name| *name == contender.name()));
    }
    let before = Pressure::now();
    let mut table = Table::default();
    for round in 0..asked.rounds {
        for scene in Scene::ALL {
            for clients in &asked.clients {
                for place in 0..present.len() {
                    let turn = usize::try_from(round).unwrap_or(0);
                    let contender = &present[(place + turn) % present.len()];
                    let place = Place::new(&scratch.0)?;
                    let gathered = one(contender, &place, scene, *clients)?;
                    println!(
                        "round {}: {} {}, {clients} clients: {gathered}",
                        round + 1,
                        contender.name(),
                        scene.name()
                    );
                    table.add(Cell { clients: *clients, scene, contender: contender.name() }, gathered);
                }
            }
        }
    }
    let text = table.text(&present, &absent, &scratch.0, asked.rounds, before);
    println!("\n{text}");
    if let (Some(document), None) = (&asked.document, &asked.only) {
        report::write(document, "storm", &text)?;
    }
    table.judge()
}

/// One storm on a place of its own.
fn one(contender: &Contender, place: &Place, scene: Scene, clients: usize) -> Result<Gathered, String> {
    contender.prepare(place)?;
    if scene != Scene::Cold {
        let first = storm(contender, place, 1, || Ok(()))?;
        if first.failed > 0 {
            return Err(format!("{} does not even start once", contender.name()));
        }
    }
    storm(contender, place, clients, || match scene {
        Scene::Cold | Scene::Warm => Ok(()),
        Scene::AfterShutdown => contender.stop(place),
        Scene::AfterKill => {
            left::kill(place.mark());
            Ok(())
        }
    })
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut words = arguments.iter().map(String::as_str);
    if words.next() != Some("storm") {
        return Err(USAGE.to_owned());
    }
    let (mut program, mut folder, mut document) = (None, None, None);
    let (mut rounds, mut clients, mut only) = (5, vec![8, 50, 200], None);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        match word {
            "--program" => program = Some(PathBuf::from(value)),
            "--folder" => folder = Some(PathBuf::from(value)),
            "--document" => document = Some(PathBuf::from(value)),
            "--rounds" => rounds = number(value).ok_or_else(|| format!("{word} needs a number above zero"))?,
            "--clients" => {
                let each = value.split(',').map(|text| usize::try_from(number(text)?).ok());
                clients = each.collect::<Option<_>>().ok_or_else(|| format!("{word} needs numbers above zero"))?;
            }
            "--only" => only = Some(value.split(',').map(str::to_owned).collect()),
            _ => return Err(format!("`{word}`?\n{USAGE}")),
        }
    }
    Ok(Asked { program: program.ok_or(USAGE)?, folder: folder.ok_or(USAGE)?, document, rounds, clients, only })
}

#[cfg(test)]
mod tests {
    use super::{parse, run};

    #[test]
    fn what_it_does_not_understand_it_says() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for wrong in ["", "storm", "storm --program p", "storm --program p --folder f --clients 0", "storm --rounds"] {
            assert!(run(&words(wrong)).is_err(), "{wrong}");
        }
        let asked = parse(&words("storm --program p --folder f --clients 8,50 --only ostler,tmux")).unwrap();
        assert_eq!((asked.clients, asked.rounds), (vec![8, 50], 5));
        assert_eq!(asked.only, Some(vec!["ostler".to_owned(), "tmux".to_owned()]));
    }
}
