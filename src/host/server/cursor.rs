//! Where a follower is in the spool: hands out frames as the files hold them, without parsing them, and a frame of its
//! own wherever the output does not go on where it was.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::host::spool::frame::{Header, Kind, position_frame};
use crate::host::spool::reader::{HEADER_LENGTH, locate, open_segment};
use crate::host::spool::writer::{Segment, Spool};

/// A follower's place.
#[derive(Debug)]
pub(super) struct Cursor {
    wanted: u64,
    segment: Option<Open>,
    /// Frames that stand in no file.
    made: VecDeque<u8>,
    ended: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    start: u64,
    offset: u64,
    /// End and size of the segment when it was last seen in the spool.
    seen: Segment,
}

impl Cursor {
    /// At a position, at most the end.
    pub(super) fn new(spool: &Spool, from: u64) -> Self {
        Self { wanted: from.min(spool.position()), segment: None, made: VecDeque::new(), ended: false }
    }

    /// Where it began.
    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Start of the oldest segment that it still needs.
    pub(super) fn needed(&self) -> u64 {
        self.segment.as_ref().map_or(self.wanted, |open| open.start)
    }

    /// Whether there is something to hand out now.
    pub(super) fn has_more(&self, spool: &Spool) -> bool {
        if !self.made.is_empty() {
            return true;
        }
        let mut later = spool.segments().iter().filter(|segment| segment.bytes > 0);
        match &self.segment {
            None => later.any(|segment| segment.end > self.wanted),
            Some(open) => {
                let current = spool.segments().iter().find(|segment| segment.start == open.start);
                open.offset < current.unwrap_or(&open.seen).bytes || later.any(|segment| segment.start > open.start)
            }
        }
    }

    /// Says after everything else that there will be no more.
    pub(super) fn end(&mut self, spool: &Spool, at_us: u64) {
        if !self.ended && !self.has_more(spool) {
            self.ended = true;
            self.made.extend(position_frame(Kind::End, spool.position(), at_us));
        }
    }

    /// Whether the end was said and handed out.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.made.is_empty()
    }

    /// Fills a buffer with what comes next; 0 if there is nothing now. [`Self::advance`] takes it.
    ///
    /// # Errors
    /// If a segment cannot be read.
    pub(super) fn peek(&mut self, spool: &Spool, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.made.is_empty() {
                let count = self.made.len().min(buffer.len());
                for (target, byte) in buffer.iter_mut().zip(&self.made) {
                    *target = *byte;
                }
                return Ok(count);
            }
            if self.segment.is_none() && !self.enter_first(spool)? {
                return Ok(0);
            }
            let Some(open) = &mut self.segment else {
                return Ok(0);
            };
            if let Some(segment) = spool.segments().iter().find(|segment| segment.start == open.start) {
                open.seen = *segment;
            }
            let left = usize::try_from(open.seen.bytes - open.offset).unwrap_or(usize::MAX).min(buffer.len());
            if left > 0 {
                return match open.file.read_at(&mut buffer[..left], open.offset)? {
                    0 => Err(io::Error::other("a segment is shorter than it was")),
                    count => Ok(count),
                };
            }
            if self.made.is_empty() && !self.enter_next(spool)? {
                return Ok(0);
            }
        }
    }

    /// Takes what was handed out.
    pub(super) fn advance(&mut self, count: usize) {
        if !self.made.is_empty() {
            self.made.drain(..count);
        } else if let Some(open) = &mut self.segment {
            open.offset += u64::try_from(count).expect("a length in memory fits 64 bits");
        }
    }

    fn enter_first(&mut self, spool: &Spool) -> io::Result<bool> {
        let first = spool.segments().iter().find(|segment| segment.bytes > 0 && segment.end > self.wanted).copied();
        let Some(segment) = first else {
            return Ok(false);
        };
        let Some(file) = open_segment(spool.folder(), segment.start)? else {
            return Err(io::Error::other("a segment is missing"));
        };
        let mut offset = 0;
        if segment.start > self.wanted {
            self.made.extend(position_frame(Kind::Gap, segment.start, 0));
        } else {
            let at = locate(&file, segment.start, self.wanted)?;
            offset = at.offset;
            if let Some(header) = at.header
                && at.position < self.wanted
            {
                // In the middle of a frame: the rest of it gets a header of its own.
                let skip = u32::try_from(self.wanted - at.position).map_err(io::Error::other)?;
                self.made.extend(Header { length: header.length - skip, ..header }.encode());
                offset += HEADER_LENGTH + u64::from(skip);
            }
        }
        self.segment = Some(Open { file, start: segment.start, offset, seen: segment });
        Ok(true)
    }

    fn enter_next(&mut self, spool: &Spool) -> io::Result<bool> {
        let Some(open) = &self.segment else {
            return Ok(false);
        };
        let (after, end) = (open.start, open.seen.end);
        let next = spool.segments().iter().find(|segment| segment.start > after && segment.bytes > 0).copied();
        let Some(segment) = next else {
            return Ok(false);
        };
        let Some(file) = open_segment(spool.folder(), segment.start)? else {
            return Err(io::Error::other("a segment is missing"));
        };
        if segment.start > end {
            self.made.extend(position_frame(Kind::Gap, segment.start, 0));
        }
        self.segment = Some(Open { file, start: segment.start, offset: 0, seen: segment });
        Ok(true)
    }
}
