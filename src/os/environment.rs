//! The one reading of the process environment. It is read once, so that every part of a run sees the same.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

/// An environment: names and values as the system has them.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// This process's own, as it was when this was first called.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn process() -> &'static Environment {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| Environment { variables: std::env::vars_os().collect() })
    }

    /// An environment made of these variables.
    pub fn of<N: Into<OsString>, V: Into<OsString>>(variables: impl IntoIterator<Item = (N, V)>) -> Environment {
        Environment { variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The value of a variable; an empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_os_str());
        found.filter(|value| !value.is_empty())
    }

    /// All variables, in the order the system gave them.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_counts_as_absent_and_the_first_wins() {
        let environment = Environment::of([("A", ""), ("B", "1"), ("B", "2")]);
        assert_eq!(environment.get("A"), None);
        assert_eq!(environment.get("B"), Some(OsStr::new("1")));
        assert_eq!(environment.get("C"), None);
        assert_eq!(environment.iter().count(), 3);
    }
}
