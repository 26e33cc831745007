//! The sign in a program's output that it is ready (`--ready output:RE`): how a host sees it.
//!
//! A program is ready when the first 1,024 bytes of a line of its standard output or standard error match the pattern somewhere. A line counts as it
//! stands, finished or not, so a sign without a line feed is one. Once is enough: nothing is looked for afterwards.
//!
//! The cost is bounded: what is kept is 1,024 bytes for each stream, and each piece of output is matched line by line, in time that grows with pattern and
//! output only.

use regex_lite::Regex;

use super::prompt::{Where, compile};
use super::spool::frame::Stream;

/// What is looked at of a line, in bytes.
const LINE_BYTES: usize = 1024;

/// Looks for it.
#[derive(Debug)]
pub struct Sign {
    /// None once it was there.
    pattern: Option<Regex>,
    /// The unfinished last line of each stream, from its beginning.
    lines: [Vec<u8>; 2],
}

impl Sign {
    /// Of a program that has just been started.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn new(pattern: &str) -> Result<Self, String> {
        Ok(Self { pattern: Some(compile(pattern, Where::Anywhere)?), lines: [Vec::new(), Vec::new()] })
    }

    /// Whether it was there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.pattern.is_none()
    }

    /// The program has written this. True: by that it is ready, and was not before.
    pub fn saw(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        let Some(pattern) = &self.pattern else { return false };
        let line = match stream {
            Stream::Stdout => &mut self.lines[0],
            Stream::Stderr => &mut self.lines[1],
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let fresh = &text[..text.len().min(LINE_BYTES.saturating_sub(line.len()))];
            line.extend_from_slice(fresh);
            if !fresh.is_empty() && pattern.is_match(&String::from_utf8_lossy(line)) {
                (self.pattern, self.lines) = (None, [Vec::new(), Vec::new()]);
                return true;
            }
            if is_whole {
                line.clear();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES, Sign};
    use crate::host::spool::frame::Stream::{self, Stderr, Stdout};

    /// Which of these pieces makes the program ready, if one does.
    fn ready_at(pattern: &str, pieces: &[(Stream, &str)]) -> Option<usize> {
        let mut sign = Sign::new(pattern).unwrap();
        let at = pieces.iter().position(|(stream, piece)| sign.saw(*stream, piece.as_bytes()));
        assert_eq!(sign.is_there(), at.is_some());
        assert!(at.is_none() || !sign.saw(Stdout, b"\nready listening on port 80\n>>> "), "once");
        at
    }

    #[test]
    fn a_sign_is_in_a_line_of_either_stream() {
        for (pattern, pieces, at) in [
            ("listening on port [0-9]+", &[(Stdout, "boot\nnow listening on port 80\n")][..], Some(0)),
            ("ready", &[(Stderr, "not yet\n"), (Stderr, "rea"), (Stderr, "dy")], Some(2)),
            // Two streams are two lines, and a line feed ends one.
            ("ready", &[(Stdout, "rea"), (Stderr, "dy"), (Stdout, "\ndy\n")], None),
            ("^ready", &[(Stdout, "un"), (Stdout, "ready\n"), (Stdout, "\nready")], Some(2)),
            ("^>>> ", &[(Stderr, ">>> ")], Some(0)),
        ] {
            assert_eq!(ready_at(pattern, pieces), at, "{pattern} {pieces:?}");
        }
    }

    #[test]
    fn what_is_looked_at_is_bounded_and_need_not_be_text() {
        let mut sign = Sign::new("ready").unwrap();
        for _ in 0..100 {
            assert!(!sign.saw(Stdout, &[0xff; 4096]));
            assert_eq!(sign.lines[0].len(), LINE_BYTES);
        }
        assert!(!sign.saw(Stdout, b"ready"), "of a long line the beginning is looked at");
        assert!(sign.saw(Stdout, b"\n\xff ready"));
        assert_eq!(sign.lines[0].capacity(), 0, "nothing is kept afterwards");
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (pattern, why) in [("(", "group"), ("x*", "nothing is written"), ("(a{100}){100}", "size")] {
            let said = Sign::new(pattern).unwrap_err();
            assert!(said.contains(why), "{pattern}: {said}");
        }
    }
}
