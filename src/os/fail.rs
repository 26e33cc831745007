//! Named points at which a test build can be told to pause, fail or abort. A release build has no trace of them: the
//! function is empty there.
//!
//! `OSTLER_TEST_FAIL=beat=pause:5000,publish=error,begin=abort`; times in milliseconds.

use std::io;

/// Passes a point, or does what the test build was told to do there.
///
/// # Errors
/// In a test build that was told so.
#[cfg(not(feature = "testing"))]
pub fn point(_name: &str) -> io::Result<()> {
    Ok(())
}

/// Passes a point, or does what the test build was told to do there.
///
/// # Errors
/// If it was told to fail here.
#[cfg(feature = "testing")]
#[expect(clippy::disallowed_methods, reason = "a point that pauses is asleep on purpose")]
pub fn point(name: &str) -> io::Result<()> {
    let told = super::environment::Environment::process().get("OSTLER_TEST_FAIL");
    let Some(told) = told.and_then(|told| told.to_str()) else { return Ok(()) };
    match act(told, name) {
        None => Ok(()),
        Some(Act::Pause(ms)) => {
            std::thread::sleep(std::time::Duration::from_millis(ms));
            Ok(())
        }
        Some(Act::Error) => Err(io::Error::other(format!("told to fail at {name}"))),
        Some(Act::Abort) => std::process::abort(),
    }
}

#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Pause(u64),
    Error,
    Abort,
}

#[cfg(feature = "testing")]
fn act(told: &str, name: &str) -> Option<Act> {
    let of_name = told.split(',').filter_map(|each| each.split_once('=')).find(|(of, _)| *of == name);
    match of_name?.1 {
        "error" => Some(Act::Error),
        "abort" => Some(Act::Abort),
        pause => pause.strip_prefix("pause:")?.parse().ok().map(Act::Pause),
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::{Act, act};

    #[test]
    fn a_point_does_only_what_it_was_told() {
        let told = "beat=pause:5000,publish=error,begin=abort";
        assert_eq!(act(told, "beat"), Some(Act::Pause(5000)));
        assert_eq!(act(told, "publish"), Some(Act::Error));
        assert_eq!(act(told, "begin"), Some(Act::Abort));
        assert_eq!(act(told, "other"), None);
        assert_eq!(act("beat=nonsense", "beat"), None);
    }
}
