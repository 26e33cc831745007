//! SHA-256 digests, printed and read as 64 lower-case hex digits and nothing else.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The digest of a record: SHA-256 over `ledger-record-v1`, LF and the record's bytes as stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// The value of each lower-case hex digit; 0xff for every other byte. Three digests stand in most lines, so reading them
/// is a good part of what verification does.
#[expect(clippy::as_conversions, reason = "a constant can convert in no other way")]
const HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    table
};

impl Digest {
    /// The digest of a record's bytes under the given format version.
    pub(crate) fn of_record(version: u64, record: &[u8]) -> Digest {
        let mut hasher = Sha256::new();
        if version == 1 {
            hasher.update(b"ledger-record-v1\n");
        } else {
            hasher.update(format!("ledger-record-v{version}\n"));
        }
        hasher.update(record);
        Digest(hasher.finalize().into())
    }

    /// Plain SHA-256 of some bytes: names what was set aside.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Reads exactly 64 lower-case hex digits.
    pub fn from_hex(hex: &[u8]) -> Option<Digest> {
        let (pairs, []) = hex.as_chunks::<2>() else { return None };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().ok()?;
        let mut bytes = [0; 32];
        let mut wrong = 0;
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let (high, low) = (HEX[usize::from(*high)], HEX[usize::from(*low)]);
            wrong |= high | low;
            *byte = high << 4 | low & 0x0f;
        }
        (wrong & 0xf0 == 0).then_some(Digest(bytes))
    }

    /// The 64 digits, for writing into a line.
    pub(crate) fn write_hex(&self, out: &mut [u8]) {
        HEXLOWER.encode_mut(&self.0, out);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Digest::from_hex(text.as_bytes())
            .ok_or_else(|| serde::de::Error::custom("a digest is 64 lower-case hex digits"))
    }
}

/// A place in the history: who keeps one elsewhere can later prove that nothing before it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The record's global sequence number, from 1.
    pub seq: u64,
    /// The record's digest.
    pub digest: Digest,
}

impl Position {
    /// Before the first record: sequence 0 and a digest of zeros, which no record has.
    pub const START: Position = Position { seq: 0, digest: Digest([0; 32]) };
}

/// `SEQ:DIGEST`, the form in which the command line prints and takes a head.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.digest)
    }
}

impl std::str::FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Position, NotAPosition> {
        let (seq, digest) = text.split_once(':').ok_or(NotAPosition)?;
        let plain = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        let seq = if plain { seq.parse().map_err(|_overflow| NotAPosition)? } else { return Err(NotAPosition) };
        let digest = Digest::from_hex(digest.as_bytes()).ok_or(NotAPosition)?;
        Ok(Position { seq, digest })
    }
}

/// The text is not `SEQ:DIGEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ledger position is SEQ:DIGEST, a number and 64 lower-case hex digits")]
pub struct NotAPosition;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text_form_and_nothing_else_passes() {
        let position = Position { seq: 7, digest: Digest::of_record(1, b"{}") };
        assert_eq!(position.to_string().parse(), Ok(position));
        for wrong in
            ["", "7", "7:", ":ab", "+7:00", &format!("7:{}", "A".repeat(64)), &format!("7 :{}", "a".repeat(64))]
        {
            assert_eq!(wrong.parse::<Position>(), Err(NotAPosition), "{wrong}");
        }
    }
}
