//! A point in wall time: microseconds inside, RFC 3339 UTC with six decimals outside.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// The last microsecond of the year 9999, beyond which RFC 3339 has no form.
const LAST_US: u64 = 253_402_300_799_999_999;

impl Timestamp {
    /// The point `us` microseconds after 1970; a later one than the year 9999 becomes its last microsecond.
    pub const fn from_us(us: u64) -> Timestamp {
        Timestamp(if us > LAST_US { LAST_US } else { us })
    }

    /// Microseconds since 1970.
    pub const fn us(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1000)
            .expect("from_us keeps it below the year 10000");
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let (hour, minute, second, us) = at.to_hms_micro();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z")
    }
}

/// Why a text is no timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time of the years 1970 to 9999")]
pub struct NotATimestamp;

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Timestamp, NotATimestamp> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| NotATimestamp)?;
        let us = u64::try_from(at.unix_timestamp_nanos() / 1000).map_err(|_| NotATimestamp)?;
        if us > LAST_US { Err(NotATimestamp) } else { Ok(Timestamp(us)) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time", "description": "RFC 3339 UTC with microseconds"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_767_225_599_000_001, "2025-12-31T23:59:59.000001Z"),
            (LAST_US, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_us(us).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(us)));
        }
        assert_eq!(Timestamp::from_us(u64::MAX), Timestamp(LAST_US));
    }

    #[test]
    fn other_offsets_are_read_and_nonsense_is_not() {
        assert_eq!("1970-01-01T01:00:00+01:00".parse(), Ok(Timestamp(0)));
        for text in ["", "yesterday", "1969-12-31T23:59:59Z", "2025-02-30T00:00:00Z"] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATimestamp), "{text}");
        }
    }
}
