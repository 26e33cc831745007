//! What happened, line by line. The same seed gives the same text, which a test compares; a failure shows its end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// How much of a trace a failure shows.
const SHOWN_LINES: usize = 80;

/// A trace. Clones share it, so that it outlives a panic in what it traces.
#[derive(Clone, Default)]
pub(super) struct Trace {
    lines: Rc<RefCell<Vec<String>>>,
    /// Situations that were reached, each once.
    marks: Rc<RefCell<BTreeSet<String>>>,
}

impl Trace {
    pub(super) fn line(&self, line: String) {
        self.lines.borrow_mut().push(line);
    }

    /// Notes that a situation was reached.
    pub(super) fn mark(&self, what: String) {
        self.marks.borrow_mut().insert(what);
    }

    pub(super) fn marks(&self) -> BTreeSet<String> {
        self.marks.borrow().clone()
    }

    /// The whole text.
    pub(super) fn text(&self) -> String {
        self.lines.borrow().join("\n")
    }

    /// The last lines.
    pub(super) fn end(&self) -> String {
        let lines = self.lines.borrow();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

/// The oracle's finding: a promise that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) String);

/// What a step says: go on, or a broken promise.
pub(super) type Checked<T = ()> = Result<T, Broken>;

/// Claims that something holds.
pub(super) fn claim(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Broken(otherwise())) }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
