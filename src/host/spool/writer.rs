//! The host's side of the spool. A write either appears whole or not at all; what cannot be written is either tried
//! again or declared lost by the caller, and lost bytes take part in the positions.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::frame::{HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, Stream};
use super::{SEGMENT_BYTES_MAX, SEGMENTS_MAX, SPOOL_BYTES_MAX, segment_name};

/// The spool of one episode, being written.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    segments: VecDeque<Segment>,
    /// The last segment, while frames may be added to it.
    open: Option<File>,
    position: u64,
}

/// A segment that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Position of its first byte.
    pub start: u64,
    /// Position after its last byte.
    pub end: u64,
    /// Bytes of its file.
    pub bytes: u64,
}

/// Room for a header and the longest payload: the caller reads a pipe into the part after the header.
#[derive(Debug)]
pub struct FrameBuffer(Vec<u8>);

impl Default for FrameBuffer {
    fn default() -> Self {
        Self(vec![0; HEADER_BYTES + PAYLOAD_BYTES_MAX])
    }
}

impl FrameBuffer {
    /// Where the payload goes.
    pub fn payload(&mut self) -> &mut [u8] {
        &mut self.0[HEADER_BYTES..]
    }

    /// All of it, for other uses between two frames.
    pub fn all(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Spool {
    /// The spool in the given folder, which is made when there is output. Only a host before its command calls this, so
    /// what an earlier, never started attempt may have left is nothing.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, segments: VecDeque::new(), open: None, position: 0 }
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Position after the last byte.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The oldest position kept.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.segments.front().map_or(self.position, |segment| segment.start)
    }

    /// The segments kept, oldest first.
    #[must_use]
    pub fn segments(&self) -> &VecDeque<Segment> {
        &self.segments
    }

    /// Whether any frame could be added now without dropping a segment that a holding follower still needs. `needed`:
    /// the start of the oldest segment that one needs.
    #[must_use]
    pub fn has_room(&self, needed: Option<u64>) -> bool {
        let longest = to_u64(HEADER_BYTES + PAYLOAD_BYTES_MAX);
        let Some(needed) = needed else {
            return true;
        };
        if self.open.is_some() && self.segments.back().is_some_and(|last| last.bytes + longest <= SEGMENT_BYTES_MAX) {
            return true;
        }
        let kept: u64 = self.segments.iter().filter(|segment| segment.end > needed).map(|segment| segment.bytes).sum();
        let count = self.segments.iter().filter(|segment| segment.end > needed).count();
        kept + SEGMENT_BYTES_MAX <= SPOOL_BYTES_MAX && count < SEGMENTS_MAX
    }

    /// Adds the first `length` bytes of the buffer's payload. Drops old segments as the limit demands, but none that is
    /// needed.
    ///
    /// # Errors
    /// What the disk says; then nothing has changed.
    ///
    /// # Panics
    /// If `length` is zero or more than a payload.
    pub fn write(
        &mut self,
        stream: Stream,
        at_us: u64,
        buffer: &mut FrameBuffer,
        length: usize,
        needed: Option<u64>,
    ) -> io::Result<()> {
        assert!((1..=PAYLOAD_BYTES_MAX).contains(&length), "a frame carries something and not too much");
        let header = Header { kind: Kind::Output(stream), length: to_u32(length), at_us };
        buffer.0[..HEADER_BYTES].copy_from_slice(&header.encode());
        let bytes = &buffer.0[..HEADER_BYTES + length];
        let fits = |segment: &Segment| segment.bytes + to_u64(bytes.len()) <= SEGMENT_BYTES_MAX;
        if self.open.is_none() || !self.segments.back().is_some_and(fits) {
            self.roll(needed)?;
        }
        let (Some(file), Some(segment)) = (self.open.as_mut(), self.segments.back_mut()) else {
            return Err(io::Error::other("rolling gave no segment"));
        };
        match file.write_all(bytes) {
            Ok(()) => {
                segment.bytes += to_u64(bytes.len());
                segment.end += to_u64(length);
                self.position = segment.end;
                Ok(())
            }
            Err(error) => {
                // A torn frame must not stay in the way of the next; if it does, the segment is over.
                if segment.bytes == 0 || file.set_len(segment.bytes).is_err() {
                    self.close();
                }
                Err(error)
            }
        }
    }

    /// Gives up the oldest segment that is not needed, to make room on a full disk; false if there is none. The newest
    /// output is worth more than the oldest.
    pub fn free_oldest(&mut self, needed: Option<u64>) -> bool {
        let spare = self.segments.len() > usize::from(self.open.is_some());
        match self.segments.front() {
            Some(oldest) if spare && needed.is_none_or(|needed| oldest.end <= needed) => {
                drop(fs::remove_file(self.folder.join(segment_name(oldest.start))));
                self.segments.pop_front();
                true
            }
            Some(_) | None => false,
        }
    }

    /// Declares bytes lost: they were read and could not be written.
    pub fn lose(&mut self, length: usize) {
        self.close();
        self.position += to_u64(length);
    }

    /// No more frames for the last segment; an empty one was never there.
    fn close(&mut self) {
        self.open = None;
        if let Some(last) = self.segments.back()
            && last.bytes == 0
        {
            drop(fs::remove_file(self.folder.join(segment_name(last.start))));
            self.segments.pop_back();
        }
    }

    /// Starts a segment at the current position and drops old ones.
    fn roll(&mut self, needed: Option<u64>) -> io::Result<()> {
        self.close();
        let mut options = OpenOptions::new();
        // Appending, so that a segment that was cut back goes on at its new end. A pipe in its place must not stop the host.
        options.append(true).create(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        let path = self.folder.join(segment_name(self.position));
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).create(&self.folder)?;
                options.open(&path)?
            }
            other => other?,
        };
        file.set_len(0)?;
        self.open = Some(file);
        self.segments.push_back(Segment { start: self.position, end: self.position, bytes: 0 });
        self.age(needed);
        Ok(())
    }

    fn age(&mut self, needed: Option<u64>) {
        loop {
            let kept: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
            let over = kept + SEGMENT_BYTES_MAX > SPOOL_BYTES_MAX || self.segments.len() > SEGMENTS_MAX;
            match self.segments.front() {
                Some(oldest) if over && needed.is_none_or(|needed| oldest.end <= needed) && oldest.bytes > 0 => {
                    // One that cannot be unlinked is out of the count all the same; the session's removal takes it.
                    drop(fs::remove_file(self.folder.join(segment_name(oldest.start))));
                    self.segments.pop_front();
                }
                Some(_) | None => return,
            }
        }
    }
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).expect("a length in memory fits 64 bits")
}

fn to_u32(length: usize) -> u32 {
    u32::try_from(length).expect("a payload fits 32 bits")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::reader::{Piece, SpoolReader};
    use super::super::{SEGMENT_BYTES_MAX, SPOOL_BYTES_MAX};
    use super::{FrameBuffer, Spool, Stream};

    fn write(spool: &mut Spool, text: &[u8], needed: Option<u64>) {
        let mut buffer = FrameBuffer::default();
        buffer.payload()[..text.len()].copy_from_slice(text);
        spool.write(Stream::Stdout, 1, &mut buffer, text.len(), needed).unwrap();
    }

    /// 50,000 bytes, different for each number.
    fn block(number: usize) -> Vec<u8> {
        format!("{number:010}").repeat(5_000).into_bytes()
    }

    fn bytes_on_disk(spool: &Spool) -> u64 {
        fs::read_dir(spool.folder()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn old_segments_go_and_positions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path().join("output"));
        assert_eq!((spool.first(), spool.position()), (0, 0));
        for number in 0..400 {
            write(&mut spool, &block(number), None);
            assert!(bytes_on_disk(&spool) <= SPOOL_BYTES_MAX);
        }
        assert_eq!(spool.position(), 20_000_000);
        assert!(spool.first() > 0 && spool.position() - spool.first() > SPOOL_BYTES_MAX - 2 * SEGMENT_BYTES_MAX);
        let mut reader = SpoolReader::new(spool.folder(), 0);
        assert_eq!(reader.next_piece().unwrap(), Some(Piece::Gap { from: 0, to: spool.first() }));
        let mut at = spool.first();
        while let Some(Piece::Output { position, bytes, .. }) = reader.next_piece().unwrap() {
            assert_eq!((position, &bytes), (at, &block(usize::try_from(at / 50_000).unwrap())));
            at += 50_000;
        }
        assert_eq!(at, spool.position());
    }

    #[test]
    fn a_needed_segment_is_not_dropped_and_there_is_no_room_until_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path().join("output"));
        let mut number = 0;
        while spool.has_room(Some(0)) {
            write(&mut spool, &block(number), Some(0));
            number += 1;
        }
        assert_eq!(spool.first(), 0);
        assert!(bytes_on_disk(&spool) <= SPOOL_BYTES_MAX);
        assert!(spool.position() > SPOOL_BYTES_MAX - 2 * SEGMENT_BYTES_MAX);
        // The follower finishes the first segment, and one segment's worth of room is there again.
        let second = spool.segments()[1].start;
        assert!(spool.has_room(Some(second)));
        write(&mut spool, &block(number), Some(second));
        assert_eq!(spool.first(), second);
        // Whatever happens, a needed one stays: the last drain of an episode writes beyond the limit.
        for number in 0..200 {
            write(&mut spool, &block(number), Some(second));
        }
        assert_eq!(spool.first(), second);
    }

    #[test]
    fn room_is_made_by_the_oldest_but_never_by_what_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path().join("output"));
        assert!(!spool.free_oldest(None));
        for number in 0..50 {
            write(&mut spool, &block(number), None);
        }
        assert_eq!(spool.segments().len(), 3);
        assert!(!spool.free_oldest(Some(0)));
        assert!(spool.free_oldest(Some(spool.segments()[1].start)));
        assert!(spool.free_oldest(None) && !spool.free_oldest(None));
        write(&mut spool, &block(50), None);
        assert_eq!(spool.position(), 51 * 50_000);
    }

    #[test]
    fn lost_bytes_are_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path().join("output"));
        spool.lose(7);
        write(&mut spool, b"one", None);
        spool.lose(10);
        spool.lose(5);
        write(&mut spool, b"two", None);
        let mut reader = SpoolReader::new(spool.folder(), 0);
        let output =
            |position, text: &[u8]| Piece::Output { position, stream: Stream::Stdout, at_us: 1, bytes: text.to_vec() };
        assert_eq!(reader.next_piece().unwrap(), Some(Piece::Gap { from: 0, to: 7 }));
        assert_eq!(reader.next_piece().unwrap(), Some(output(7, b"one")));
        assert_eq!(reader.next_piece().unwrap(), Some(Piece::Gap { from: 10, to: 25 }));
        assert_eq!(reader.next_piece().unwrap(), Some(output(25, b"two")));
        assert_eq!(reader.next_piece().unwrap(), None);
        assert_eq!(spool.position(), 28);
    }
}
