//! SHA-256 digests, printed and read as 64 lower-case hex digits and nothing else.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};

/// The digest of a record: SHA-256 over `ledger-record-v1`, LF and the record's bytes as stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// What SHA-256 begins with (FIPS 180-4, section 5.3.3).
const SHA256_START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

impl Digest {
    /// The digest of a record's bytes under the given format version.
    pub(crate) fn of_record(version: u64, record: &[u8]) -> Digest {
        if version == 1 {
            return Digest::of_parts(b"ledger-record-v1\n", record);
        }
        let prefix = format!("ledger-record-v{version}\n");
        Digest(Sha256::new().chain_update(prefix).chain_update(record).finalize().into())
    }

    /// SHA-256 of a short prefix and the bytes behind it, block by block where they lie. A hasher that takes its input
    /// in any pieces copies it and keeps account of it; for a few blocks that is a sixth of the time.
    #[inline]
    pub(crate) fn of_parts<const PREFIX: usize>(prefix: &[u8; PREFIX], bytes: &[u8]) -> Digest {
        const { assert!(PREFIX < 64, "the prefix fits the first block") };
        let (mut state, mut block) = (SHA256_START, [0; 64]);
        block[..PREFIX].copy_from_slice(prefix);
        let (mut filled, mut rest) = (PREFIX, bytes);
        if let Some((begin, behind)) = bytes.split_at_checked(64 - PREFIX) {
            block[PREFIX..].copy_from_slice(begin);
            compress256(&mut state, &[block]);
            let (blocks, left) = behind.as_chunks::<64>();
            compress256(&mut state, blocks);
            (block, filled, rest) = ([0; 64], 0, left);
        }
        block[filled..filled + rest.len()].copy_from_slice(rest);
        filled += rest.len();
        block[filled] = 0x80;
        if filled >= 56 {
            compress256(&mut state, &[block]);
            block = [0; 64];
        }
        let bits = u64::try_from(PREFIX + bytes.len()).expect("a length fits 64 bits") * 8;
        block[56..].copy_from_slice(&bits.to_be_bytes());
        compress256(&mut state, &[block]);
        Digest::of_state(state)
    }

    fn of_state(state: [u32; 8]) -> Digest {
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
            *bytes = word.to_be_bytes();
        }
        Digest(digest)
    }

    /// Plain SHA-256 of some bytes: names what was set aside.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Reads exactly 64 lower-case hex digits. Three digests stand in most lines, so this is a good part of what
    /// verification does: both loops are such that the compiler makes them do many digits at once.
    pub fn from_hex(hex: &[u8]) -> Option<Digest> {
        let hex: &[u8; 64] = hex.try_into().ok()?;
        let (mut values, mut wrong) = ([0; 64], false);
        for (value, digit) in values.iter_mut().zip(hex) {
            let (number, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
            wrong |= number >= 10 && letter >= 6;
            *value = if number < 10 { number } else { letter.wrapping_add(10) };
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(values.as_chunks::<2>().0) {
            *byte = high << 4 | low;
        }
        (!wrong).then_some(Digest(bytes))
    }

    /// The 64 digits.
    pub(crate) fn hex(&self) -> [u8; 64] {
        let mut hex = [0; 64];
        for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [byte >> 4, byte & 0x0f];
        }
        hex.map(|value| if value < 10 { b'0' + value } else { b'a' - 10 + value })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).unwrap_or_default())
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
    fn a_digest_of_parts_is_that_of_the_whole_at_every_length() {
        let bytes: Vec<u8> = (0..=255).cycle().take(300).collect();
        for len in 0..bytes.len() {
            let whole = |prefix: &[u8]| Digest::of_bytes(&[prefix, &bytes[..len]].concat());
            assert_eq!(Digest::of_record(1, &bytes[..len]), whole(b"ledger-record-v1\n"), "{len} bytes");
            assert_eq!(Digest::of_parts(&[], &bytes[..len]), whole(b""), "{len} bytes");
            assert_eq!(Digest::of_parts(&[7; 63], &bytes[..len]), whole(&[7; 63]), "{len} bytes");
        }
    }

    #[test]
    fn every_byte_has_its_two_digits() {
        for first in (0..=255_u8).step_by(32) {
            let bytes: [u8; 32] = std::array::from_fn(|at| first + u8::try_from(at).unwrap());
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!((Digest(bytes).to_string(), Digest(bytes).hex().as_slice()), (text.clone(), text.as_bytes()));
        }
    }

    #[test]
    fn only_lower_case_hex_digits_are_read_each_in_its_place() {
        let digest = Digest(std::array::from_fn(|at| u8::try_from(at * 7 + 3).unwrap()));
        let text = digest.to_string().into_bytes();
        assert_eq!(Digest::from_hex(&text), Some(digest));
        assert_eq!((Digest::from_hex(&text[1..]), Digest::from_hex(&[&text[..], b"0"].concat())), (None, None));
        for (at, byte) in (0..64).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let mut changed = text.clone();
            changed[at] = byte;
            let read = Digest::from_hex(&changed).map(|digest| digest.to_string().into_bytes());
            let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert_eq!(read, is_digit.then_some(changed), "byte {byte} at {at}");
        }
    }

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
