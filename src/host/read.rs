//! Output for readers, blocking: a follower takes it from the living host as it comes, and from the files where there
//! is no host (any more). It ends when the output does, and hands out every byte that was kept, in order, once.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::poll::poll;

use super::files::{self, Document, HOST_JSON, OUTPUT};
pub use super::spool::frame::Stream;
use super::spool::frame::{HEADER_BYTES, Header, Kind};
pub use super::spool::reader::Piece;
use super::spool::reader::{SpoolReader, extent};
use super::wire::{HostRecord, Line, Reply, Request, RequestLine, version};
use crate::os::identity::Liveness;
use crate::os::signal::{Handle, Opened};

/// How long to wait for a living host that does not answer, before looking again.
const LOOK_AGAIN_MS: u16 = 200;
/// Longest line of a host.
const LINE_BYTES_MAX: u64 = 256 * 1024;

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The episode's host has not written its record: the command has never run.
    #[error("the episode in {0} has not started")]
    NotStarted(PathBuf),
    /// `host.json` is not what a host wrote.
    #[error("host.json is damaged: {0}")]
    Damaged(String),
    /// The files cannot be read.
    #[error("the output cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The output that an episode's files hold from a position on, as it is now.
#[must_use]
pub fn read_spool(folder: &Path, from: u64) -> SpoolReader {
    SpoolReader::new(&folder.join(OUTPUT), from)
}

/// Oldest position that an episode's files hold, and the position after the last byte.
///
/// # Errors
/// If they cannot be read.
pub fn spool_extent(folder: &Path) -> io::Result<(u64, u64)> {
    extent(&folder.join(OUTPUT))
}

/// Follows an episode's output to its end, across a rebound endpoint and the end of the host.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    position: u64,
    hold: bool,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The host hands it out.
    Live(BufReader<UnixStream>),
    /// The files, while the host does not answer. `Some(host)`: look for the host again when they have no more.
    Files(SpoolReader, Option<Box<HostRecord>>),
    /// All was handed out.
    Over,
}

impl Follower {
    /// Follows from a position on. `hold`: the command rather waits than that this follower loses bytes, as long as it
    /// is connected.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(folder: &Path, from: u64, hold: bool) -> Result<Self, ReadError> {
        let mut follower = Self { folder: folder.to_path_buf(), position: from, hold, source: Source::Over };
        follower.connect()?;
        Ok(follower)
    }

    /// Position of the next byte to hand out.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next piece; blocks until there is one. `None` at the end of the episode's output.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ReadError> {
        loop {
            match &mut self.source {
                Source::Over => return Ok(None),
                Source::Live(stream) => match next_frame(stream, self.position) {
                    Ok(Frame::Piece(piece)) => return Ok(Some(self.take(piece))),
                    Ok(Frame::Nothing) => {}
                    Ok(Frame::End(gap)) => {
                        self.source = Source::Over;
                        return Ok(gap.map(|gap| self.take(gap)));
                    }
                    // The host is gone, or cut us off: whatever it was, the position says where to go on.
                    Err(_) => self.connect()?,
                },
                Source::Files(reader, host) => {
                    if let Some(piece) = reader.next_piece()? {
                        return Ok(Some(self.take(piece)));
                    }
                    match host.take() {
                        None => self.source = Source::Over,
                        Some(host) => {
                            wait_a_little(&host);
                            self.connect()?;
                        }
                    }
                }
            }
        }
    }

    fn take(&mut self, piece: Piece) -> Piece {
        self.position = match &piece {
            Piece::Output { position, bytes, .. } => {
                position + u64::try_from(bytes.len()).expect("a length in memory fits 64 bits")
            }
            Piece::Gap { to, .. } => *to,
        };
        piece
    }

    fn connect(&mut self) -> Result<(), ReadError> {
        let record = match files::read_json::<Box<HostRecord>>(&self.folder.join(HOST_JSON)) {
            Document::Present(record) => record,
            Document::Absent => return Err(ReadError::NotStarted(self.folder.clone())),
            Document::Damaged(reason) => return Err(ReadError::Damaged(reason)),
        };
        // Looked at before the files are: a host that is dead now has written all that it ever will.
        let is_dead = matches!(record.host.liveness(), Liveness::Dead | Liveness::Foreign);
        self.source = match follow(&record, self.position, self.hold) {
            Ok(stream) => Source::Live(stream),
            Err(_) => Source::Files(read_spool(&self.folder, self.position), (!is_dead).then_some(record)),
        };
        Ok(())
    }
}

/// Waits for the end of a host that does not answer, but not long.
fn wait_a_little(host: &HostRecord) {
    match Handle::open(&host.host) {
        Ok(Opened::Process(handle)) => drop(handle.wait_end(u64::from(LOOK_AGAIN_MS))),
        Ok(Opened::Gone | Opened::Foreign) => {}
        // It cannot be watched: nothing to wait for but the time.
        Err(_) => {
            let _ = poll(&mut [], LOOK_AGAIN_MS);
        }
    }
}

/// Connects to a host as a reader.
fn follow(record: &HostRecord, from: u64, hold: bool) -> io::Result<BufReader<UnixStream>> {
    let mut connection = Connection::open(record)?;
    connection.ask(Request::Follow { from, hold })?;
    Ok(connection.stream)
}

/// A blocking connection to a host, for readers and for who feeds a command's standard input.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
    next: u64,
}

impl Connection {
    /// Connects and says hello as a reader. Pushes are skipped.
    ///
    /// # Errors
    /// If the host does not answer, or is another than the record names.
    pub fn open(record: &HostRecord) -> io::Result<Self> {
        let path = record.endpoint.address.strip_prefix("unix:");
        let path = path.ok_or_else(|| io::Error::other("an address of another kind"))?;
        let stream = UnixStream::connect(path)?;
        let mut connection = Self { stream: BufReader::with_capacity(128 * 1024, stream), next: 0 };
        let hello =
            Request::Hello { version: record.version.min(version()), secret: record.secret.clone(), generation: None };
        let reply = connection.ask(hello)?;
        let meant = matches!(&reply, Reply::Hello(hello) if hello.incarnation == record.endpoint.incarnation);
        if meant { Ok(connection) } else { Err(io::Error::other("another host answers at that address")) }
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// If the host refuses, with its words, or the connection ends.
    pub fn ask(&mut self, request: Request) -> io::Result<Reply> {
        self.next += 1;
        let id = self.next;
        self.stream.get_mut().write_all(&files::to_line(&RequestLine { id, request }))?;
        loop {
            let mut line = Vec::new();
            (&mut self.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match serde_json::from_slice(&line)? {
                Line::Push(_) => {}
                Line::Reply { id: answered, reply } if answered == id => return Ok(reply),
                Line::Reply { .. } => return Err(io::Error::other("an answer that nobody asked for")),
                Line::Refused { error, .. } => return Err(io::Error::other(error.message)),
            }
        }
    }
}

/// What a frame means to a follower.
enum Frame {
    Piece(Piece),
    /// A gap of no length.
    Nothing,
    /// The end, with the gap before it.
    End(Option<Piece>),
}

fn next_frame(stream: &mut impl Read, position: u64) -> io::Result<Frame> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let header = Header::decode(&header).map_err(io::Error::other)?;
    let mut bytes = vec![0; usize::try_from(header.length).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes)?;
    let gap_to = |bytes: &[u8]| {
        let to = u64::from_le_bytes(bytes.try_into().map_err(io::Error::other)?);
        Ok::<_, io::Error>((to > position).then_some(Piece::Gap { from: position, to }))
    };
    match header.kind {
        Kind::Output(stream) => Ok(Frame::Piece(Piece::Output { position, stream, at_us: header.at_us, bytes })),
        Kind::Gap => Ok(gap_to(&bytes)?.map_or(Frame::Nothing, Frame::Piece)),
        Kind::End => Ok(Frame::End(gap_to(&bytes)?)),
    }
}

/// How much of an output's end is looked at for its last lines, bytes.
const BYTES_MAX: u64 = 4096;
/// How many lines that is at the most.
const LINES_MAX: usize = 10;

/// The last lines of an episode's output that its files hold; empty where there are none. Bytes that are not UTF-8 are replaced: this is for eyes.
#[must_use]
pub fn last_lines(folder: &Path) -> String {
    // What cannot be read is not there to be shown; `logs` says why.
    let Ok((from, to)) = spool_extent(folder) else { return String::new() };
    let mut reader = read_spool(folder, from.max(to.saturating_sub(BYTES_MAX)));
    let mut tail = Vec::new();
    while let Ok(Some(piece)) = reader.next_piece() {
        match piece {
            Piece::Output { bytes, .. } => tail.extend(bytes),
            Piece::Gap { .. } => {}
        }
    }
    last_of(&String::from_utf8_lossy(&tail))
}

fn last_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::last_of;

    #[test]
    fn the_last_lines_are_kept_whole() {
        let text: String = (1..=12).map(|n| format!("line {n}\n")).collect();
        assert!(last_of(&text).starts_with("line 3\n"));
        assert!(last_of(&text).ends_with("line 12\n"));
        assert_eq!(last_of("a"), "a\n");
        assert_eq!(last_of(""), "");
    }
}
