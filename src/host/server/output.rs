//! From the command's pipes to the spool. A pipe's end says nothing about the command: it may close its output and live
//! on, or end while a grandchild keeps the pipe.

use std::io::{self, PipeReader, Read};

use crate::host::prompt::{Prompt, SessionTurn};
use crate::host::sign::Sign;
use crate::host::spool::frame::Stream;
use crate::host::spool::writer::{FrameBuffer, Spool};
use crate::os::clock;

use super::limits::{DISK_RETRY_MS, DRAIN_BYTES_MAX};

/// The pipes, the spool, and what could not be written yet.
#[derive(Debug)]
pub(super) struct Output {
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    pub(super) spool: Spool,
    /// Looks for the command's prompt, where it has one.
    pub(super) prompt: Option<Prompt>,
    /// A session turn has ended, and nobody was told.
    turn_ended: Option<SessionTurn>,
    /// Looks for the sign that the command is ready, where there is to be one.
    pub(super) sign: Option<Sign>,
    /// It was there, and nobody was told.
    is_ready: bool,
    buffer: FrameBuffer,
    pending: Option<Pending>,
}

/// Output that the disk refused while a follower makes the command wait.
#[derive(Debug)]
struct Pending {
    stream: Stream,
    at_us: u64,
    buffer: FrameBuffer,
    length: usize,
    retry_us: u64,
}

impl Output {
    /// Both pipes do not block.
    pub(super) fn new(stdout: PipeReader, stderr: PipeReader, spool: Spool) -> Self {
        let (stdout, stderr, buffer) = (Some(stdout), Some(stderr), FrameBuffer::default());
        let (prompt, turn_ended, sign, is_ready, pending) = (None, None, None, false, None);
        Self { stdout, stderr, spool, prompt, turn_ended, sign, is_ready, buffer, pending }
    }

    /// The session turn that has ended, once.
    pub(super) fn take_turn_ended(&mut self) -> Option<SessionTurn> {
        self.turn_ended.take()
    }

    /// Whether the sign that the command is ready was there; once.
    pub(super) fn take_ready(&mut self) -> bool {
        std::mem::take(&mut self.is_ready)
    }

    /// The pipes that may be read now. `needed`: see [`Spool::has_room`].
    pub(super) fn readable(&self, needed: Option<u64>) -> impl Iterator<Item = (Stream, &PipeReader)> {
        let open = self.pending.is_none() && self.spool.has_room(needed);
        let pipes = [(Stream::Stdout, &self.stdout), (Stream::Stderr, &self.stderr)];
        pipes.into_iter().filter_map(move |(stream, pipe)| Some((stream, pipe.as_ref().filter(|_| open)?)))
    }

    /// Whether the command waits because the spool has no room for it.
    pub(super) fn is_blocked(&self, needed: Option<u64>) -> bool {
        (self.stdout.is_some() || self.stderr.is_some()) && !self.spool.has_room(needed)
    }

    /// When to try the disk again, boot microseconds.
    pub(super) fn retry_us(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.retry_us)
    }

    /// Reads a pipe once; the number of bytes, 0 if there was nothing or it is closed.
    pub(super) fn read(&mut self, stream: Stream, needed: Option<u64>) -> usize {
        let pipe = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(reader) = pipe else {
            return 0;
        };
        let length = match reader.read(self.buffer.payload()) {
            Ok(0) => {
                *pipe = None;
                return 0;
            }
            Ok(length) => length,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return 0,
            // A pipe of ours that cannot be read is over; whatever it is, the command's end is seen elsewhere.
            Err(_) => {
                *pipe = None;
                return 0;
            }
        };
        if let Some(prompt) = self.prompt.as_mut().filter(|_| self.turn_ended.is_none())
            && prompt.saw(stream, &self.buffer.payload()[..length])
        {
            self.turn_ended = Some(prompt.turn());
        }
        if let Some(sign) = &mut self.sign {
            self.is_ready |= sign.saw(stream, &self.buffer.payload()[..length]);
        }
        let at_us = clock::wall_us();
        if write(&mut self.spool, (stream, at_us), &mut self.buffer, length, needed).is_err() {
            if needed.is_some() {
                let buffer = std::mem::take(&mut self.buffer);
                let retry_us = clock::boot_us() + DISK_RETRY_MS * 1_000;
                self.pending = Some(Pending { stream, at_us, buffer, length, retry_us });
            } else {
                self.spool.lose(length);
            }
        }
        length
    }

    /// Reads what stands in the pipes now, bounded, where somebody looks for something in it.
    pub(super) fn catch_up(&mut self, needed: Option<u64>) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let looks = self.prompt.is_some() || self.sign.as_ref().is_some_and(|sign| !sign.is_there());
            let mut left = if looks { DRAIN_BYTES_MAX } else { 0 };
            while left > 0 && self.readable(needed).any(|(of, _)| of == stream) {
                let count = self.read(stream, needed);
                if count == 0 {
                    break;
                }
                left = left.saturating_sub(count);
            }
        }
    }

    /// Tries again what the disk refused; without a follower that waits for it, it is lost.
    pub(super) fn retry(&mut self, needed: Option<u64>, now_us: u64) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        if pending.retry_us > now_us && needed.is_some() {
            self.pending = Some(pending);
            return;
        }
        let what = (pending.stream, pending.at_us);
        let written = write(&mut self.spool, what, &mut pending.buffer, pending.length, needed);
        match (written, needed) {
            (Ok(()), _) => self.buffer = pending.buffer,
            (Err(_), Some(_)) => {
                pending.retry_us = now_us + DISK_RETRY_MS * 1_000;
                self.pending = Some(pending);
            }
            (Err(_), None) => {
                self.spool.lose(pending.length);
                self.buffer = pending.buffer;
            }
        }
    }

    /// The last look at both pipes: what stands in them now, bounded, and then they are closed, whoever holds their
    /// other ends.
    pub(super) fn drain(&mut self, needed: Option<u64>) {
        self.retry(None, u64::MAX);
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut left = DRAIN_BYTES_MAX;
            while left > 0 {
                let count = self.read(stream, needed);
                self.retry(None, u64::MAX);
                if count == 0 {
                    break;
                }
                left = left.saturating_sub(count);
            }
        }
        self.stdout = None;
        self.stderr = None;
    }
}

/// Writes a frame, making room on a full disk where that is possible.
fn write(
    spool: &mut Spool,
    (stream, at_us): (Stream, u64),
    buffer: &mut FrameBuffer,
    length: usize,
    needed: Option<u64>,
) -> io::Result<()> {
    loop {
        match spool.write(stream, at_us, buffer, length, needed) {
            Err(error) if !spool.free_oldest(needed) => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}
