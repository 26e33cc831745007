//! Durations as people type them: `500ms`, `10s`, `2m`, `1h 30m`. A bare number is refused, because nobody can say what it means.

use std::time::Duration;

/// More than this is a typing error, and would not fit a millisecond count that every JSON reader keeps exact.
pub(crate) const MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Reads one duration.
///
/// # Errors
/// A sentence that says what is wrong and what a duration looks like.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= MAX => Ok(duration),
        Ok(_) => Err(format!("`{text}` is more than a hundred years")),
        Err(_) => Err(format!("`{text}` is not a duration like 500ms, 10s, 2m")),
    }
}

/// Reads a grace: how long a stop waits before it kills, at most two minutes (contract section 4).
///
/// # Errors
/// A sentence, as above.
pub(crate) fn parse_grace(text: &str) -> Result<Duration, String> {
    let most = super::settings::keys::STOP_GRACE_MAX;
    match parse(text)? {
        grace if grace <= most => Ok(grace),
        _ => Err(format!("`{text}` is more than {}", show(most))),
    }
}

/// A duration for eyes, in the form that `parse` reads.
pub(crate) fn show(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Whole milliseconds, the unit of the wire.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_type() {
        for (text, expected_ms) in [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("1h 30m", 5_400_000), ("0s", 0)]
        {
            assert_eq!(millis(parse(text).expect(text)), expected_ms, "{text}");
        }
    }

    #[test]
    fn refuses_what_has_no_meaning() {
        for text in ["", "10", "-1s", "ten seconds", "101years", "99999999999999999999s", "1e3s"] {
            parse(text).expect_err(text);
        }
        assert!(parse_grace("121s").is_err());
        assert!(parse_grace("120s").is_ok());
    }
}
