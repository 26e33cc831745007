//! The command's standard input: nothing, or a pipe that one connection feeds (`run -i`) or messages (`delivery`). What
//! the pipe does not take waits here, and its sender with it.

use std::io::{self, PipeWriter, Write};

/// Room for bytes that is kept while none wait.
const KEPT_BYTES: usize = 4096;

/// Standard input.
#[derive(Debug, Default)]
pub(super) struct Input {
    pipe: Option<PipeWriter>,
    waiting: Vec<u8>,
    eof: bool,
    total: u64,
}

impl Input {
    /// Fed through a pipe that does not block.
    pub(super) fn piped(pipe: PipeWriter) -> Self {
        Self { pipe: Some(pipe), ..Self::default() }
    }

    /// Whether the command can still be fed.
    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some() && !self.eof
    }

    /// The pipe, while something waits for room in it.
    pub(super) fn wants_room(&self) -> Option<&PipeWriter> {
        self.pipe.as_ref().filter(|_| !self.waiting.is_empty())
    }

    /// Bytes handed over, ever.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether everything that was given has been handed over.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives bytes, and says whether they are the last.
    pub(super) fn give(&mut self, bytes: Vec<u8>, eof: bool) {
        self.waiting.extend(bytes);
        self.eof |= eof;
        self.push();
    }

    /// Hands over what the pipe takes now. False once the command has closed its end.
    pub(super) fn push(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        while !self.waiting.is_empty() {
            match pipe.write(&self.waiting) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    self.total += u64::try_from(count).expect("a length in memory fits 64 bits");
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.close();
                    return false;
                }
            }
        }
        // A large message must not stay with a host that lives for weeks.
        self.waiting.shrink_to(KEPT_BYTES);
        if self.eof {
            self.close();
        }
        true
    }

    /// No more input, ever.
    pub(super) fn close(&mut self) {
        self.pipe = None;
        self.waiting = Vec::new();
        self.eof = true;
    }
}
