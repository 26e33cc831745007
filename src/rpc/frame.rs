//! Lines of bounded length out of a stream of bytes, and JSON of bounded depth out of a line.
//!
//! Promise: what is kept of a line is never longer than the limit that is in force when it is asked for, plus one read.

/// Longest line before hello, bytes, the newline included: a stranger costs no memory.
pub const HELLO_FRAME_BYTES_MAX: usize = 4 * 1024;
/// Longest line after hello, bytes, the newline included.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Deepest nesting of arrays and objects in a line.
pub const DEPTH_MAX: usize = 32;

/// Splits a stream of bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the current line begins.
    start: usize,
    /// Up to where there is no newline.
    searched: usize,
}

/// The line is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// Takes more bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line, without its newline (and without a carriage return before it).
    ///
    /// # Errors
    /// [`TooLong`] if the line, whole or not, is longer than `bytes_max`.
    pub fn next_line(&mut self, bytes_max: usize) -> Result<Option<&[u8]>, TooLong> {
        let newline = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = newline.map_or(self.buffer.len(), |at| self.searched + at + 1);
        if end - self.start > bytes_max {
            return Err(TooLong);
        }
        self.searched = end;
        if newline.is_none() {
            return Ok(None);
        }
        let line = &self.buffer[self.start..end - 1];
        self.start = end;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Whether a line has begun and not ended.
    pub fn has_partial(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Gives memory back that one large line took.
    pub fn relax(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(HELLO_FRAME_BYTES_MAX);
            (self.start, self.searched) = (0, 0);
        }
    }
}

/// Whether the arrays and objects of a JSON text nest no deeper than `depth_max`. Says nothing of whether it is JSON.
pub fn is_shallow(json: &[u8], depth_max: usize) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > depth_max {
                    return false;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines, bytes_max: usize) -> Result<Vec<String>, TooLong> {
        let mut all = Vec::new();
        while let Some(line) = lines.next_line(bytes_max)? {
            all.push(String::from_utf8(line.to_vec()).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = "one\ntwo\r\n\nfour\nrest";
        for cut in 1..=stream.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for piece in stream.as_bytes().chunks(cut) {
                lines.push(piece);
                seen.extend(all(&mut lines, 100).unwrap());
            }
            assert_eq!(seen, ["one", "two", "", "four"], "{cut}");
            assert!(lines.has_partial());
        }
    }

    #[test]
    fn the_limit_counts_the_newline_and_needs_no_newline_to_hold() {
        let mut lines = Lines::default();
        lines.push(b"123\n");
        assert_eq!(all(&mut lines, 4).unwrap(), ["123"]);
        assert!(!lines.has_partial());
        lines.push(b"1234\n");
        assert_eq!(all(&mut lines, 4), Err(TooLong));
        let mut lines = Lines::default();
        lines.push(b"1234");
        assert_eq!(all(&mut lines, 4).unwrap(), Vec::<String>::new());
        lines.push(b"5");
        assert_eq!(all(&mut lines, 4), Err(TooLong));
        assert_eq!(all(&mut lines, 4), Err(TooLong), "and stays so");
    }

    #[test]
    fn memory_of_a_large_line_is_given_back() {
        let mut lines = Lines::default();
        lines.push(&[b'x'; 100_000]);
        lines.push(b"\n");
        assert!(lines.next_line(FRAME_BYTES_MAX).unwrap().is_some());
        lines.relax();
        assert!(lines.buffer.capacity() <= HELLO_FRAME_BYTES_MAX);
        lines.push(b"a\n");
        assert_eq!(all(&mut lines, 10).unwrap(), ["a"]);
    }

    #[test]
    fn depth_is_counted_outside_of_text() {
        assert!(is_shallow(br#"{"a":[1,{"b":"[[[[\"[[["}]}"#, 3));
        assert!(!is_shallow(br#"{"a":[1,{"b":1}]}"#, 2));
        assert!(is_shallow(b"[][][][]", 1));
        assert!(!is_shallow(&[b'['; 1000], DEPTH_MAX));
    }
}
