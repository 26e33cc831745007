//! The prompt of a program: how a host sees that a session turn is over. It is a guess by the program's output, so it says exactly what it goes by.
//!
//! A program shows its prompt when the unfinished last line of its standard output or standard error, or the last 1,024 bytes of that line,
//! ends with what the pattern matches, and something of it was written after the turn began. What ends in a line feed is no prompt.
//!
//! The cost is bounded: a pattern is matched once for each piece of output that is read during a turn, in time that grows with pattern and tail
//! only, and what stands behind the last line feed is all that is looked at.

use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::spool::frame::Stream;

/// What is looked at of an unfinished line, in bytes.
const TAIL_BYTES: usize = 1024;
/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// What a pattern may grow to once it is compiled, in bytes: a host stays small.
const COMPILED_BYTES_MAX: usize = 64 * 1024;

/// A session turn as its host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTurn {
    /// 0 until the first prompt; then the attempt of the message that began it.
    pub number: u64,
    /// Whether it runs; if not, it is over.
    pub runs: bool,
}

/// Where in a text a pattern has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Up to its end.
    AtEnd,
    /// Anywhere.
    Anywhere,
}

/// A pattern that somebody looks for in the output.
///
/// # Errors
/// Why it is none, for a person.
pub fn compile(pattern: &str, at: Where) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("it has {} bytes, the limit is {PATTERN_BYTES_MAX}", pattern.len()));
    }
    // By itself first: what closes its own group must not close ours.
    let build = |text: &str| RegexBuilder::new(text).size_limit(COMPILED_BYTES_MAX).build();
    let itself = build(pattern).map_err(|error| error.to_string())?;
    let whole = match at {
        Where::AtEnd => build(&format!("(?:{pattern})\\z")).map_err(|error| error.to_string())?,
        Where::Anywhere => itself,
    };
    if whole.is_match("") {
        return Err("it matches where nothing is written".to_owned());
    }
    Ok(whole)
}

/// Looks for a program's prompt.
#[derive(Debug)]
pub struct Prompt {
    pattern: Regex,
    /// The unfinished last line of each stream, as far as it was written in this turn.
    tails: [Vec<u8>; 2],
    turn: SessionTurn,
}

impl Prompt {
    /// Of a program that has just been started.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn new(pattern: &str) -> Result<Self, String> {
        let turn = SessionTurn { number: 0, runs: true };
        Ok(Self { pattern: compile(pattern, Where::AtEnd)?, tails: [Vec::new(), Vec::new()], turn })
    }

    /// The turn that runs, or ran last.
    #[must_use]
    pub fn turn(&self) -> SessionTurn {
        self.turn
    }

    /// The program has got something to do.
    pub fn begin(&mut self, number: u64) {
        self.turn = SessionTurn { number, runs: true };
        self.tails.iter_mut().for_each(Vec::clear);
    }

    /// The program has written this. True: by that the turn is over.
    pub fn saw(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        if !self.turn.runs || bytes.is_empty() {
            return false;
        }
        let tail = match stream {
            Stream::Stdout => &mut self.tails[0],
            Stream::Stderr => &mut self.tails[1],
        };
        let fresh = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => {
                tail.clear();
                &bytes[end + 1..]
            }
            None => bytes,
        };
        tail.extend_from_slice(&fresh[fresh.len().saturating_sub(TAIL_BYTES)..]);
        tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
        let is_there = !tail.is_empty() && self.pattern.is_match(&String::from_utf8_lossy(tail));
        self.turn.runs = !is_there;
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{PATTERN_BYTES_MAX, Prompt, SessionTurn, TAIL_BYTES, Where, compile};
    use crate::host::spool::frame::Stream;

    /// Which of these pieces ends the turn, if one does.
    fn ends_at(pattern: &str, pieces: &[(Stream, &str)]) -> Option<usize> {
        let mut prompt = Prompt::new(pattern).unwrap();
        pieces.iter().position(|(stream, piece)| prompt.saw(*stream, piece.as_bytes()))
    }

    #[test]
    fn a_prompt_is_an_unfinished_line_that_ends_with_it() {
        use Stream::{Stderr, Stdout};
        for (pattern, pieces, end) in [
            (">>> $", &[(Stdout, "11\n>>> ")][..], Some(0)),
            (">>> ", &[(Stdout, "11\n"), (Stderr, ">>"), (Stderr, "> ")], Some(2)),
            (">>> ", &[(Stdout, ">>> and more"), (Stdout, "\n"), (Stdout, ">>> \n")], None),
            // Two streams are two lines.
            (">>> ", &[(Stdout, ">>"), (Stderr, "> ")], None),
            ("^>>> ", &[(Stdout, "x>>> "), (Stdout, "\n>>> ")], Some(1)),
            ("(>>>|\\.\\.\\.) ", &[(Stderr, "... ")], Some(0)),
            ("(?i)ready> ?", &[(Stdout, "\u{1b}[1mREADY> ")], Some(0)),
        ] {
            assert_eq!(ends_at(pattern, pieces), end, "{pattern} {pieces:?}");
        }
    }

    #[test]
    fn what_was_written_before_a_turn_does_not_end_it() {
        let mut prompt = Prompt::new("> ").unwrap();
        assert!(prompt.saw(Stream::Stdout, b"> "));
        assert_eq!(prompt.turn(), SessionTurn { number: 0, runs: false });
        assert!(!prompt.saw(Stream::Stdout, b"> "), "a turn ends once");
        prompt.begin(7);
        assert!(!prompt.saw(Stream::Stderr, b"working"), "the prompt of before stands in the other stream");
        assert_eq!(prompt.turn(), SessionTurn { number: 7, runs: true });
        assert!(prompt.saw(Stream::Stdout, b"> "));
    }

    #[test]
    fn what_is_looked_at_is_bounded_and_need_not_be_text() {
        let mut prompt = Prompt::new("> ").unwrap();
        for _ in 0..100 {
            assert!(!prompt.saw(Stream::Stdout, &[0xff; 4096]));
            assert_eq!(prompt.tails[0].len(), TAIL_BYTES);
        }
        assert!(prompt.saw(Stream::Stdout, b"\xff> "));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (pattern, why) in [
            ("(", "group"),
            ("a)(b", "without matching"),
            ("$", "nothing is written"),
            (".*", "nothing is written"),
            ("", "nothing is written"),
            (&"x".repeat(PATTERN_BYTES_MAX + 1), "257 bytes"),
            ("(a{100}){100}", "size"),
        ] {
            let said = compile(pattern, Where::AtEnd).unwrap_err();
            assert!(said.contains(why), "{pattern}: {said}");
        }
    }
}
