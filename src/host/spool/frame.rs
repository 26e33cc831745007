//! One piece of output as it is stored and sent: a header of 16 bytes and what was read.
//!
//! ```text
//! 0      1      2..4      4..8              8..16                          16..
//! 0xA5   kind   0 0       length (LE u32)   Unix microseconds (LE u64)     length bytes
//! ```
//! Kinds 1 and 2 are standard output and standard error. Two kinds are only ever sent, never stored: 3, a gap, whose
//! 8 bytes are the position (LE u64) at which the output goes on, and 4, the end, whose 8 bytes are the last position.

use serde::{Deserialize, Serialize};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Most bytes of output in one frame: what a pipe holds.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

const MAGIC: u8 = 0xA5;

/// A stream of the command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Output.
    Output(Stream),
    /// Output went on at another position.
    Gap,
    /// There will be no more.
    End,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it carries.
    pub kind: Kind,
    /// Bytes after the header.
    pub length: u32,
    /// When the host read them, Unix microseconds.
    pub at_us: u64,
}

/// These bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no frame of output here")]
pub struct NotAFrame;

impl Header {
    /// As it is stored.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = MAGIC;
        bytes[1] = match self.kind {
            Kind::Output(Stream::Stdout) => 1,
            Kind::Output(Stream::Stderr) => 2,
            Kind::Gap => 3,
            Kind::End => 4,
        };
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at_us.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`NotAFrame`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, NotAFrame> {
        let [MAGIC, kind, 0, 0, l0, l1, l2, l3, t0, t1, t2, t3, t4, t5, t6, t7] = *bytes else {
            return Err(NotAFrame);
        };
        let kind = match kind {
            1 => Kind::Output(Stream::Stdout),
            2 => Kind::Output(Stream::Stderr),
            3 => Kind::Gap,
            4 => Kind::End,
            _ => return Err(NotAFrame),
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let fits = match kind {
            Kind::Output(_) => usize::try_from(length).is_ok_and(|length| (1..=PAYLOAD_BYTES_MAX).contains(&length)),
            Kind::Gap | Kind::End => length == 8,
        };
        let at_us = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        if fits { Ok(Self { kind, length, at_us }) } else { Err(NotAFrame) }
    }
}

/// A frame that only carries a position.
#[must_use]
pub fn position_frame(kind: Kind, position: u64, at_us: u64) -> Vec<u8> {
    let mut bytes = Header { kind, length: 8, at_us }.encode().to_vec();
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, Header, Kind, NotAFrame, PAYLOAD_BYTES_MAX, Stream, position_frame};

    #[test]
    fn headers_survive_and_the_layout_is_fixed() {
        for (kind, length) in [
            (Kind::Output(Stream::Stdout), 1),
            (Kind::Output(Stream::Stderr), u32::try_from(PAYLOAD_BYTES_MAX).unwrap()),
            (Kind::Gap, 8),
            (Kind::End, 8),
        ] {
            let header = Header { kind, length, at_us: 77 };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
        let header = Header { kind: Kind::Output(Stream::Stderr), length: 0x0102, at_us: 3 };
        assert_eq!(header.encode(), [0xA5, 2, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(position_frame(Kind::Gap, 9, 0)[HEADER_BYTES..], [9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = Header { kind: Kind::Output(Stream::Stdout), length: 1, at_us: 0 }.encode();
        for (at, value) in [(0, 0), (1, 0), (1, 5), (2, 1), (3, 1), (4, 0), (7, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Header::decode(&bad), Err(NotAFrame), "{at} {value}");
        }
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), Err(NotAFrame));
    }
}
