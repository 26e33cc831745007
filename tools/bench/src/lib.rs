//! The benchmark: every figure is measured beside its floor, in the same run, in turns, on the same folder.
//!
//! `cargo xtask bench ledger`, `bench storm` and `bench messages` build and run it. It is a library, so that the ordinary checks cover it; the program of the
//! first lies in `sqlite/`, a package of its own, because it brings SQLite to compare with and nothing else of the project needs that.
#![expect(clippy::print_stdout, reason = "a tool for people")]
#![expect(clippy::disallowed_methods, reason = "a tool that measures time and starts programs")]

mod append;
mod broker;
mod echo;
mod floor;
mod history;
mod machine;
mod measure;
/// Messages to programs.
pub mod messages;
mod parts;
mod replay;
mod report;
mod socket;
/// Find-or-start under a storm of clients.
pub mod storm;

use std::path::{Path, PathBuf};

use measure::Plan;
use report::Row;

/// Another store of durable rows, to be measured beside the ledger.
pub trait Store {
    /// Inserts the rows in one transaction and returns once they are durable.
    ///
    /// # Errors
    /// One sentence.
    fn insert(&mut self, rows: &[&[u8]]) -> Result<(), String>;
}

/// Opens another store in an empty folder.
pub type OpenStore<'a> = &'a dyn Fn(&Path) -> Result<Box<dyn Store>, String>;

/// What was asked for on the command line.
struct Asked {
    plan: Plan,
    /// Only rows whose name begins so.
    only: Option<String>,
    /// Where the data goes; it decides which file system is measured.
    folder: PathBuf,
    /// The release build of the product.
    program: PathBuf,
    /// So little is measured that only the way is tested.
    is_brief: bool,
    /// The document to write the table into.
    document: Option<PathBuf>,
}

const USAGE: &str = "\
ledger|messages --program FILE --folder FOLDER [--document FILE] [--rounds N] [--records N] [--only NAME] [--brief]";

/// Runs the benchmark that the arguments ask for.
///
/// # Errors
/// What could not be measured and why.
pub fn run(arguments: &[String], other: OpenStore<'_>) -> Result<(), String> {
    let asked = parse("ledger", arguments)?;
    std::fs::create_dir_all(&asked.folder).map_err(|error| format!("{}: {error}", asked.folder.display()))?;
    let scratch = Scratch::new(&asked.folder)?;
    let before = machine::Pressure::now();
    let wanted = |name: &str| asked.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |more: Vec<Row>| {
        more.iter().for_each(|row| println!("{}", row.line()));
        rows.extend(more);
    };
    if wanted("append") {
        add(append::run(&scratch.0, &asked.plan, other)?);
    }
    if wanted("socket") {
        add(socket::run(&scratch.0, &asked.program, &asked.plan)?);
    }
    if wanted("verify") || wanted("replay") {
        add(replay::run(&scratch.0, &asked.plan, &wanted)?);
    }
    let text = report::document(&rows, &asked.plan, &scratch.0, before);
    println!("\n{text}");
    if let (Some(document), None) = (&asked.document, &asked.only) {
        report::write(document, "ledger", &text)?;
    }
    Ok(())
}

fn parse(bench: &str, arguments: &[String]) -> Result<Asked, String> {
    let mut words = arguments.iter().map(String::as_str);
    if words.next() != Some(bench) {
        return Err(USAGE.to_owned());
    }
    let (mut plan, mut only, mut document, mut is_brief) = (Plan::usual(), None, None, false);
    let (mut folder, mut program) = (None, None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{word} needs a number"));
        match word {
            "--program" => program = Some(PathBuf::from(value()?)),
            "--folder" => folder = Some(PathBuf::from(value()?)),
            "--document" => document = Some(PathBuf::from(value()?)),
            "--only" => only = Some(value()?.to_owned()),
            "--rounds" => plan.rounds = number(value()?)?.max(1),
            "--records" => plan.records = number(value()?)?.max(1_000),
            "--brief" => (plan, is_brief) = (Plan::brief(), true),
            _ => return Err(format!("`{word}`?\n{USAGE}")),
        }
    }
    let program = program.ok_or(USAGE)?;
    Ok(Asked { plan, only, folder: folder.ok_or(USAGE)?, program, is_brief, document })
}

/// A folder that is removed with everything in it at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch, String> {
        let path = parent.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        path.canonicalize().map(Scratch).map_err(|error| error.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays says itself where it is.
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            println!("{} stays: {error}", self.0.display());
        }
    }
}

/// Says where something failed.
fn at<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{Store, run};
    use std::path::Path;

    struct File(std::fs::File);

    impl Store for File {
        fn insert(&mut self, rows: &[&[u8]]) -> Result<(), String> {
            std::io::Write::write_all(&mut self.0, &rows.concat()).map_err(|error| error.to_string())
        }
    }

    fn open(folder: &Path) -> Result<Box<dyn Store>, String> {
        let file = std::fs::File::create(folder.join("rows")).map_err(|error| error.to_string())?;
        Ok(Box::new(File(file)))
    }

    /// Everything but the rows that need the built product, with so little data that only the way is tested.
    #[test]
    fn it_measures_without_a_broker() {
        let folder = std::env::temp_dir().join(format!("ostler-bench-{}", std::process::id()));
        for only in ["append", "verify", "replay"] {
            let folder = folder.to_str().unwrap();
            let words = ["ledger", "--program", "none", "--folder", folder, "--brief"];
            let words: Vec<String> = words.into_iter().chain(["--only", only]).map(str::to_owned).collect();
            run(&words, &open).unwrap();
        }
        std::fs::remove_dir(&folder).expect("it leaves nothing");
    }

    #[test]
    fn what_it_does_not_understand_it_says() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for wrong in ["", "other", "ledger", "ledger --program p --folder", "ledger --program p --folder f --rounds x"]
        {
            assert!(run(&words(wrong), &open).is_err(), "{wrong}");
        }
    }
}
