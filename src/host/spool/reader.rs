//! Reads a spool from its files, while a host writes or afterwards. It locks nothing and asks nobody: what is half
//! written is not there yet, and what has aged out meanwhile is a gap.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::frame::{HEADER_BYTES, Header, Kind, Stream};
use super::{segment_name, segment_start};

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the command.
    Output {
        /// Position of the first.
        position: u64,
        /// Which stream.
        stream: Stream,
        /// When the host read them, Unix microseconds.
        at_us: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that are not to be had any more.
    Gap {
        /// Position of the first.
        from: u64,
        /// Position after the last.
        to: u64,
    },
}

/// A reader of a spool's files.
#[derive(Debug)]
pub struct SpoolReader {
    folder: PathBuf,
    /// Position of the next byte to hand out.
    position: u64,
    segment: Option<Open>,
}

/// A segment being read.
#[derive(Debug)]
struct Open {
    file: File,
    start: u64,
    /// Offset in the file of the next frame, and the position of its first byte.
    offset: u64,
    position: u64,
}

impl SpoolReader {
    /// Reads the spool of the given folder from a position on. A folder that is not there yet is an empty spool.
    #[must_use]
    pub fn new(folder: &Path, from: u64) -> Self {
        Self { folder: folder.to_path_buf(), position: from, segment: None }
    }

    /// Position of the next byte to hand out.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next piece, or `None` if there is no more for now; asked again later it goes on.
    ///
    /// # Errors
    /// If a file cannot be read, or holds something else than frames.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if self.segment.is_none() && !self.open_first()? {
                return Ok(None);
            }
            if let Some(piece) = self.next_in_segment()? {
                return Ok(Some(piece));
            }
            let Some(next) = self.later_segment()? else {
                return Ok(None);
            };
            // The writer had closed this segment before it began the next; see what it added since we looked.
            if let Some(piece) = self.next_in_segment()? {
                return Ok(Some(piece));
            }
            if !self.open(next)? {
                // Aged out since it was listed; list again.
                self.segment = None;
            }
            if let Some(gap) = self.gap_before_segment() {
                return Ok(Some(gap));
            }
        }
    }

    /// Opens the segment that holds the position, or the first after it; false if there is none.
    fn open_first(&mut self) -> io::Result<bool> {
        loop {
            let starts = segment_starts(&self.folder)?;
            let held = starts.iter().rfind(|start| **start <= self.position).or(starts.first());
            let Some(start) = held.copied() else {
                return Ok(false);
            };
            if self.open(start)? {
                return Ok(true);
            }
        }
    }

    fn open(&mut self, start: u64) -> io::Result<bool> {
        match open_segment(&self.folder, start)? {
            Some(file) => {
                self.segment = Some(Open { file, start, offset: 0, position: start });
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn later_segment(&self) -> io::Result<Option<u64>> {
        let Some(current) = &self.segment else {
            return Ok(None);
        };
        Ok(segment_starts(&self.folder)?.into_iter().find(|start| *start > current.start))
    }

    fn gap_before_segment(&mut self) -> Option<Piece> {
        let open = self.segment.as_ref()?;
        let (from, to) = (self.position, open.start);
        if open.offset > 0 || to <= from {
            return None;
        }
        self.position = to;
        Some(Piece::Gap { from, to })
    }

    /// The next wanted piece of the open segment.
    fn next_in_segment(&mut self) -> io::Result<Option<Piece>> {
        if let Some(gap) = self.gap_before_segment() {
            return Ok(Some(gap));
        }
        // A segment in which nothing could be written is taken away and made again: look at what has its name now.
        if let Some(Open { start, offset: 0, .. }) = self.segment {
            self.open(start)?;
        }
        let Some(open) = &mut self.segment else {
            return Ok(None);
        };
        while let Some(header) = read_header(&open.file, open.offset)? {
            let Kind::Output(stream) = header.kind else {
                return Err(io::Error::other("a frame that is never stored"));
            };
            let end = open.position + u64::from(header.length);
            let skip = self.position.saturating_sub(open.position).min(u64::from(header.length));
            let mut bytes = vec![0; usize::try_from(u64::from(header.length) - skip).map_err(io::Error::other)?];
            if !read_whole(&open.file, &mut bytes, open.offset + HEADER_LENGTH + skip)? {
                return Ok(None);
            }
            open.offset += HEADER_LENGTH + u64::from(header.length);
            open.position = end;
            if bytes.is_empty() {
                continue;
            }
            let position = self.position;
            self.position = end;
            return Ok(Some(Piece::Output { position, stream, at_us: header.at_us, bytes }));
        }
        Ok(None)
    }
}

/// As an offset counts it.
pub(crate) const HEADER_LENGTH: u64 = 16;
const _: () = assert!(HEADER_BYTES == 16, "both forms of the same length");

/// Oldest position kept and position after the last byte, as the files tell; both 0 for an empty spool.
///
/// # Errors
/// If a file cannot be read.
pub fn extent(folder: &Path) -> io::Result<(u64, u64)> {
    let starts = segment_starts(folder)?;
    let (Some(first), Some(last)) = (starts.first().copied(), starts.last().copied()) else {
        return Ok((0, 0));
    };
    match open_segment(folder, last)? {
        Some(file) => Ok((first, locate(&file, last, u64::MAX)?.position)),
        None => Ok((first, last)),
    }
}

/// A frame in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// Offset of its header in the file.
    pub(crate) offset: u64,
    /// Position of its first byte.
    pub(crate) position: u64,
    /// Its header; absent after the last frame.
    pub(crate) header: Option<Header>,
}

/// The frame of a segment that holds a position, or the end of the segment.
pub(crate) fn locate(file: &File, start: u64, wanted: u64) -> io::Result<Located> {
    let mut at = Located { offset: 0, position: start, header: None };
    let bytes = file.metadata()?.len();
    while let Some(header) = read_header(file, at.offset)? {
        let next = at.offset + HEADER_LENGTH + u64::from(header.length);
        if next > bytes {
            break;
        }
        if at.position + u64::from(header.length) > wanted {
            return Ok(Located { header: Some(header), ..at });
        }
        at = Located { offset: next, position: at.position + u64::from(header.length), header: None };
    }
    Ok(at)
}

/// First positions of the segments, ascending; none if there is no folder.
pub(crate) fn segment_starts(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut starts = Vec::new();
    for entry in entries {
        starts.extend(segment_start(&entry?.file_name()));
    }
    starts.sort_unstable();
    Ok(starts)
}

/// Opens a segment; `None` if it has aged out.
pub(crate) fn open_segment(folder: &Path, start: u64) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    match options.open(folder.join(segment_name(start))) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The header at an offset, or `None` if it is not there (yet).
fn read_header(file: &File, offset: u64) -> io::Result<Option<Header>> {
    let mut bytes = [0; HEADER_BYTES];
    if !read_whole(file, &mut bytes, offset)? {
        return Ok(None);
    }
    match Header::decode(&bytes) {
        Ok(header) => Ok(Some(header)),
        // A machine crash leaves zeros where data was not written back: the output ends here.
        Err(_) if bytes == [0; HEADER_BYTES] => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn read_whole(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::super::writer::{FrameBuffer, Spool};
    use super::{Piece, SpoolReader, Stream, extent};

    fn spool(folder: &std::path::Path, pieces: &[(Stream, &str)]) -> Spool {
        let mut spool = Spool::new(folder.join("output"));
        let mut buffer = FrameBuffer::default();
        for (stream, text) in pieces {
            buffer.payload()[..text.len()].copy_from_slice(text.as_bytes());
            spool.write(*stream, 5, &mut buffer, text.len(), None).unwrap();
        }
        spool
    }

    /// What a reader from a position gets, as text.
    fn check(folder: &std::path::Path, from: u64, want: &str) {
        let mut reader = SpoolReader::new(&folder.join("output"), from);
        let mut got = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            got.push(match piece {
                Piece::Output { position, stream, bytes, .. } => {
                    format!("{position}:{stream:?}:{}", String::from_utf8(bytes).unwrap())
                }
                Piece::Gap { from, to } => format!("{from}..{to}"),
            });
        }
        assert_eq!(got.join(" "), want);
    }

    #[test]
    fn any_position_can_be_read_from() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path(), 0, "");
        assert_eq!(extent(&folder.path().join("output")).unwrap(), (0, 0));
        spool(folder.path(), &[(Stream::Stdout, "abc"), (Stream::Stderr, "de")]);
        check(folder.path(), 0, "0:Stdout:abc 3:Stderr:de");
        check(folder.path(), 2, "2:Stdout:c 3:Stderr:de");
        check(folder.path(), 3, "3:Stderr:de");
        check(folder.path(), 5, "");
        check(folder.path(), 9, "");
        assert_eq!(extent(&folder.path().join("output")).unwrap(), (0, 5));
    }

    #[test]
    fn half_a_frame_is_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let spool = spool(folder.path(), &[(Stream::Stdout, "abc"), (Stream::Stdout, "defg")]);
        let path = spool.folder().join("00000000000000000000");
        let whole = fs::read(&path).unwrap();
        let mut reader = SpoolReader::new(spool.folder(), 0);
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(matches!(reader.next_piece().unwrap(), Some(Piece::Output { position: 0, .. })));
        assert_eq!(reader.next_piece().unwrap(), None);
        assert_eq!(extent(spool.folder()).unwrap(), (0, 3));
        OpenOptions::new().append(true).open(&path).unwrap().write_all(&whole[whole.len() - 1..]).unwrap();
        assert!(matches!(reader.next_piece().unwrap(), Some(Piece::Output { position: 3, .. })));
        assert_eq!(reader.next_piece().unwrap(), None);
        fs::write(&path, [b'x'; 40]).unwrap();
        assert!(SpoolReader::new(spool.folder(), 0).next_piece().is_err());
    }

    #[test]
    fn a_segment_that_was_made_again_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output/00000000000000000000");
        fs::create_dir(folder.path().join("output")).unwrap();
        fs::write(&path, "").unwrap();
        let mut reader = SpoolReader::new(&folder.path().join("output"), 0);
        assert_eq!(reader.next_piece().unwrap(), None);
        fs::remove_file(&path).unwrap();
        spool(folder.path(), &[(Stream::Stdout, "abc")]);
        assert!(matches!(reader.next_piece().unwrap(), Some(Piece::Output { position: 0, .. })));
    }

    #[test]
    fn a_reader_keeps_up_with_segments_that_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path().join("output"));
        let mut buffer = FrameBuffer::default();
        let mut reader = SpoolReader::new(spool.folder(), 0);
        let (mut seen, mut lost) = (0, 0);
        for round in 0..1_200_u64 {
            spool.write(Stream::Stdout, 0, &mut buffer, 50_000, None).unwrap();
            // It falls behind and catches up again.
            while (round / 300) % 2 == 1
                && let Some(piece) = reader.next_piece().unwrap()
            {
                match piece {
                    Piece::Output { position, bytes, .. } => {
                        assert_eq!(position, seen + lost);
                        seen += u64::try_from(bytes.len()).unwrap();
                    }
                    Piece::Gap { from, to } => {
                        assert_eq!(from, seen + lost);
                        lost += to - from;
                    }
                }
            }
        }
        assert_eq!((seen + lost, reader.position()), (60_000_000, 60_000_000));
        assert!(lost > 0 && seen > 8_000_000);
    }
}
