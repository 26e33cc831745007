//! Words of the world: how the trace calls them, and which of them stay true.

use ostler::machine::{Carried, Word};

/// Whether it is certain that a word will still hold when it is heard late or twice.
pub(super) fn lasts(word: &Word) -> bool {
    match word {
        Word::Started(_)
        | Word::Exited { .. }
        | Word::HostLost
        | Word::MachineLost
        | Word::Removed
        | Word::Turn { .. }
        | Word::Ready
        | Word::Mail { .. } => true,
        Word::LaunchFailed { .. }
        | Word::NeverOpened
        | Word::Adopted(_)
        | Word::Foreign { .. }
        | Word::Interrupted { .. } => false,
    }
}

/// What a word says, as a situation.
pub(super) fn word(word: &Word) -> &'static str {
    match word {
        Word::Started(_) => "started",
        Word::LaunchFailed { .. } => "launch failed",
        Word::NeverOpened => "never opened",
        Word::Exited { .. } => "exited",
        Word::HostLost => "host lost",
        Word::MachineLost => "machine lost",
        Word::Adopted(_) => "adopted",
        Word::Foreign { .. } => "foreign",
        Word::Turn { .. } => "session turn",
        Word::Ready => "ready",
        Word::Mail { carried: Carried::Taken { .. }, .. } => "mail taken",
        Word::Mail { carried: Carried::NotTaken, .. } => "mail not taken",
        Word::Mail { carried: Carried::Refused { .. }, .. } => "mail refused",
        Word::Mail { carried: Carried::Unknown { .. }, .. } => "mail unknown",
        Word::Interrupted { .. } => "interrupted",
        Word::Removed => "removed",
    }
}
