//! One run: a root in which every process was told to die or stop at one point, once, and a caller that repeats what was not answered.
//!
//! Passes are counted over all processes of the root, so the N-th pass of a point happens once, whoever is there first.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use ostler::os::points::Point;
use serde_json::Value;

use crate::support::{Output, Root, SOON, finish, wait_for};

/// Where each start of a command is noted: session and episode.
pub(super) const MARKS: &str = "marks";

/// Where each line that a session was sent is noted.
pub(super) const GOT: &str = "got";

/// A root in which something is planned.
pub(super) struct Run {
    pub(super) root: Root,
    /// What was answered under each key.
    pub(super) answers: Vec<Answer>,
    /// Hosts may die, and a start with them.
    pub(super) host_may_die: bool,
    /// Keys are let go on purpose: asking again is asking anew.
    pub(super) forgets: bool,
}

/// A request that was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) key: String,
    pub(super) words: Vec<String>,
    /// `succeeded`, `failed` or `aborted`.
    pub(super) state: String,
    /// Its id, where it bound its key.
    pub(super) operation: Value,
}

/// What happens at a pass of a point: `kill` or `stop`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) point: Point,
    pub(super) number: u64,
    pub(super) act: &'static str,
}

impl Run {
    /// A new root with these limits; nothing is planned if there is no plan.
    pub(super) fn new(limits: &str, plan: Option<Plan>) -> Run {
        let mut root = Root::with_limits(limits);
        let counts = root.folder().join("points");
        fs::create_dir(&counts).expect("the folder is ours");
        root.tell("OSTLER_TEST_POINTS", counts.to_str().expect("a temp folder is text"));
        if let Some(Plan { point, number, act }) = plan {
            root.tell("OSTLER_TEST_FAIL", &format!("{}={act}@{number}", point.name()));
        }
        let host_may_die = plan.is_some_and(|plan| plan.point.name().starts_with("host."));
        Run { root, answers: Vec::new(), host_may_die, forgets: false }
    }

    fn counts(&self) -> PathBuf {
        self.root.folder().join("points")
    }

    /// How often each point was passed.
    pub(super) fn passes(&self) -> BTreeMap<String, u64> {
        let entries = fs::read_dir(self.counts()).expect("the folder is there").flatten();
        let of = |entry: fs::DirEntry| {
            (entry.file_name().to_string_lossy().into_owned(), entry.metadata().map_or(0, |it| it.len()))
        };
        entries.map(of).collect()
    }

    /// Whether a point was passed this often.
    pub(super) fn reached(&self, plan: Plan) -> bool {
        fs::metadata(self.counts().join(plan.point.name())).is_ok_and(|counted| counted.len() >= plan.number)
    }

    /// Asks until there is an answer, as any caller does who wants one: as long as that may help. Whoever was killed asks again.
    pub(super) fn insist(&self, words: &[String]) -> Output {
        wait_for(SOON * 2, &format!("an answer to {words:?}"), || {
            let output = finish(&mut self.root.command(words), b"");
            let answered = match output.code() {
                None => false,
                Some(0) => true,
                // What came to another end than was hoped for is an answer and no error.
                Some(_) => {
                    let error = &output.json()["error"];
                    error.is_null() || error["retry"] == "never"
                }
            };
            answered.then_some(output)
        })
    }

    /// As [`Run::insist`], for what must succeed.
    pub(super) fn does(&self, line: &str) -> Value {
        let mut words = split(line);
        words.push("--json".to_owned());
        self.insist(&words).exits(0).json_lines().pop().unwrap_or_default()
    }

    /// Asks under a key until there is an answer, and keeps that. Its document.
    pub(super) fn asks(&mut self, key: &str, words: Vec<String>) -> Value {
        let mut asked = words.clone();
        asked.splice(1..1, ["--json", "--key", key].map(str::to_owned));
        let document = self.insist(&asked).json();
        let Told { operation, state, .. } = operation_of(&document);
        self.answers.push(Answer { key: key.to_owned(), words: asked, state, operation });
        document
    }

    /// As [`Run::asks`], for what must succeed, unless a host that it needs may die.
    pub(super) fn changes(&mut self, key: &str, line: &str) -> Option<Value> {
        self.changes_words(key, split(line))
    }

    /// Starts a session `name` that notes its start and then runs this script.
    pub(super) fn spawns(&mut self, key: &str, name: &str, script: &str) -> Option<Value> {
        self.spawns_with(key, &format!("spawn --name {name}"), script)
    }

    /// The same with a line of one's own up to the dashes.
    pub(super) fn spawns_with(&mut self, key: &str, line: &str, script: &str) -> Option<Value> {
        let marks = self.root.folder().join(MARKS);
        let noting = format!("echo $OSTLER_SESSION $OSTLER_EPISODE >> {}; {script}", marks.display());
        let mut words = split(&format!("{line} -- sh -c"));
        words.push(noting);
        self.changes_words(key, words)
    }

    fn changes_words(&mut self, key: &str, words: Vec<String>) -> Option<Value> {
        let document = self.asks(key, words);
        let answer = self.answers.last().expect("it was just kept");
        if answer.state == "succeeded" {
            return Some(document);
        }
        assert!(self.host_may_die, "{answer:?}: {document}");
        None
    }
}

fn split(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// What a document tells of an operation.
pub(super) struct Told {
    pub(super) operation: Value,
    pub(super) state: String,
    pub(super) replayed: bool,
}

/// Whether it was done, came to nothing, or has been overtaken by what happened since.
pub(super) fn operation_of(document: &Value) -> Told {
    let data = &document["error"]["data"];
    let told = [&document["operation"], &data["result"]["operation"]].into_iter().find(|told| told.is_object());
    let (id, of) = told.map_or((&data["operation"], data), |told| (&told["id"], told));
    let state = of["state"].as_str().unwrap_or("refused").to_owned();
    Told { operation: id.clone(), state, replayed: of["replayed"] == true }
}
