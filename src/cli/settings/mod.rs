//! Configuration, layered: built in, /etc/ostler/config.toml, $XDG_CONFIG_HOME/ostler/config.toml, ROOT/config.toml, environment, flags;
//! the later one wins. Promises: each effective value knows where it came from; an unknown key or a bad value is an error that names file,
//! line and the key that was probably meant; a file that is absent is no error, a file that cannot be read is.

pub(crate) mod file;
pub(crate) mod keys;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::duration;
use crate::os::environment::Environment;

/// Where an effective value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(&'static str),
    Flag(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(variable) => write!(f, "${variable}"),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// What is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("{path}: cannot be read: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("{path}:{line}: not TOML: {reason}")]
    NotToml { path: String, line: usize, reason: String },
    #[error("{path}:{line}: unknown key `{key}`{}", suggestion.map(|known| format!(", did you mean `{known}`?")).unwrap_or_default())]
    UnknownKey { path: String, line: usize, key: String, suggestion: Option<&'static str> },
    #[error("{path}:{line}: `{key}` takes a text in quotes, not {found}")]
    NotText { path: String, line: usize, key: &'static str, found: String },
    #[error("{origin}: `{key}`: {reason}")]
    BadValue { origin: String, key: &'static str, reason: String },
}

impl SettingsError {
    /// What to do about it: the place to edit.
    pub(crate) fn remedy(&self) -> String {
        match self {
            SettingsError::Unreadable { path, .. } => format!("make {path} a readable file, or remove it"),
            SettingsError::NotToml { path, line, .. }
            | SettingsError::UnknownKey { path, line, .. }
            | SettingsError::NotText { path, line, .. } => format!("edit {path}:{line}"),
            SettingsError::BadValue { origin, .. } => match origin.strip_prefix('$') {
                Some(variable) => format!("set {variable} to another value, or unset it"),
                None => format!("edit {origin}"),
            },
        }
    }
}

/// The files of the three file layers, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) system: PathBuf,
    /// None where neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub(crate) user: Option<PathBuf>,
    /// None where no state root can be named.
    pub(crate) root: Option<PathBuf>,
}

/// The name of the file in each of its folders.
const FILE_NAME: &str = "config.toml";

impl Places {
    /// The files for this environment and state root. An XDG path that is not absolute is invalid and ignored, as its specification says.
    pub(crate) fn new(environment: &Environment, root: Option<&Path>) -> Self {
        let absolute = |name| environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let user = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
        Places {
            system: Path::new("/etc/ostler").join(FILE_NAME),
            user: user.map(|folder| folder.join("ostler").join(FILE_NAME)),
            root: root.map(|root| root.join(FILE_NAME)),
        }
    }

    /// All of them, lowest layer first, with the name of the layer.
    pub(crate) fn all(&self) -> Vec<(&'static str, &Path)> {
        let mut all = vec![("system", self.system.as_path())];
        all.extend(self.user.as_deref().map(|path| ("user", path)));
        all.extend(self.root.as_deref().map(|path| ("root", path)));
        all
    }
}

/// One value that some layer gives to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) key: &'static str,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// What the command line itself says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flags<'a> {
    pub(crate) timeout: Option<&'a str>,
}

/// The effective values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, Assignment>,
}

impl Settings {
    /// Reads all layers and folds them.
    ///
    /// # Errors
    /// The first thing wrong, lowest layer first.
    pub(crate) fn load(places: &Places, environment: &Environment, flags: Flags<'_>) -> Result<Self, SettingsError> {
        let mut assignments = Vec::new();
        for (_, path) in places.all() {
            if let Some(text) = file::read(path)? {
                assignments.extend(file::parse(path, &text).map_err(|mut errors| errors.swap_remove(0))?);
            }
        }
        assignments.extend(from_environment(environment)?);
        let flag = |text: &str| Assignment { key: keys::TIMEOUT, text: text.into(), origin: Origin::Flag("--timeout") };
        assignments.extend(flags.timeout.map(flag));
        Ok(Settings::fold(assignments))
    }

    /// What holds where nobody says anything.
    pub(crate) fn built_in() -> Self {
        Settings::fold(Vec::new())
    }

    /// The later assignment wins, over the built-in values.
    fn fold(assignments: Vec<Assignment>) -> Self {
        let built_in = keys::KEYS.iter().filter_map(|key| {
            let text = key.default?.to_owned();
            Some(Assignment { key: key.name, text, origin: Origin::Default })
        });
        let values = built_in.chain(assignments).map(|assignment| (assignment.key, assignment)).collect();
        Settings { values }
    }

    /// The effective value of a key, with its origin; none if no layer gives one.
    pub(crate) fn get(&self, key: &str) -> Option<&Assignment> {
        self.values.get(key)
    }

    fn duration(&self, key: &str) -> Option<Duration> {
        let text = &self.get(key)?.text;
        Some(duration::parse(text).expect("every layer checks its values before the fold"))
    }

    /// The deadline of a command, if a layer sets one.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.duration(keys::TIMEOUT)
    }

    /// How long a stop waits before it kills.
    pub(crate) fn stop_grace(&self) -> Duration {
        self.duration(keys::STOP_GRACE).expect("the key has a built-in value")
    }

    /// How long a broker stays that has nothing to do; none: for ever.
    pub(crate) fn idle_exit(&self) -> Option<Duration> {
        let text = self.get(keys::IDLE_EXIT).map_or(keys::NEVER, |value| value.text.as_str());
        if text == keys::NEVER { None } else { self.duration(keys::IDLE_EXIT) }
    }

    fn count(&self, key: &str) -> u64 {
        let text = self.get(key).map_or("", |value| value.text.as_str());
        text.parse().expect("the key has a built-in value, and every layer checks its values before the fold")
    }

    /// Most children of one session with a process at one time.
    pub(crate) fn live_children(&self) -> usize {
        usize::try_from(self.count(keys::LIVE_CHILDREN)).unwrap_or(usize::MAX)
    }

    /// Deepest place in a family tree of sessions.
    pub(crate) fn family_depth(&self) -> u32 {
        u32::try_from(self.count(keys::FAMILY_DEPTH)).unwrap_or(u32::MAX)
    }

    /// Whether a session's command inherits the caller's environment.
    pub(crate) fn inherits_caller(&self) -> bool {
        self.get(keys::INHERIT_ENV).is_some_and(|value| value.text == "caller")
    }
}

/// The environment layer. An empty variable counts as not set.
pub(crate) fn from_environment(environment: &Environment) -> Result<Vec<Assignment>, SettingsError> {
    let mut assignments = Vec::new();
    for key in &keys::KEYS {
        let Some(value) = environment.get(key.variable) else { continue };
        let origin = Origin::Environment(key.variable);
        let bad = |reason| SettingsError::BadValue { origin: origin.to_string(), key: key.name, reason };
        let text = value.to_str().ok_or_else(|| bad("not UTF-8".to_owned()))?.to_owned();
        key.form.check(&text).map_err(bad)?;
        assignments.push(Assignment { key: key.name, text, origin });
    }
    Ok(assignments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::run::{FAMILY_DEPTH, LIVE_CHILDREN};

    fn environment(pairs: &'static [(&str, &str)]) -> Environment {
        Environment::of(pairs.iter().copied())
    }

    /// Three files in a throwaway folder; `None` leaves a layer out.
    fn places(folder: &Path, texts: [Option<&str>; 3]) -> Places {
        let path = |n: usize| folder.join(format!("{n}.toml"));
        for (n, text) in texts.into_iter().enumerate() {
            if let Some(text) = text {
                std::fs::write(path(n), text).unwrap();
            }
        }
        Places { system: path(0), user: Some(path(1)), root: Some(path(2)) }
    }

    #[test]
    fn each_layer_wins_over_the_ones_below_it() {
        let (system, user, root) = ("timeout = '1s'\n", "timeout = '2s'\n", "# mine\ntimeout = '3s'\n");
        let check = |texts, variables, timeout, seconds: Option<u64>, origin: &str| {
            let folder = tempfile::tempdir().unwrap();
            let places = places(folder.path(), texts);
            let settings = Settings::load(&places, &environment(variables), Flags { timeout }).unwrap();
            assert_eq!(settings.timeout(), seconds.map(Duration::from_secs), "{origin}");
            let shown = settings.get(keys::TIMEOUT).map(|value| value.origin.to_string()).unwrap_or_default();
            assert!(shown.ends_with(origin), "{shown} is not {origin}");
            assert_eq!(settings.get(keys::STOP_GRACE).unwrap().origin, Origin::Default);
            assert!(settings.inherits_caller());
        };
        let variable = &[("OSTLER_TIMEOUT", "4s")];
        check([None; 3], &[], None, None, "");
        let built_in = Settings::built_in();
        assert_eq!(built_in.idle_exit(), Some(Duration::from_secs(60 * 60)));
        assert_eq!((built_in.live_children(), built_in.family_depth()), (LIVE_CHILDREN, FAMILY_DEPTH));
        check([Some(system), None, None], &[], None, Some(1), "0.toml:1");
        check([Some(system), Some(user), None], &[], None, Some(2), "1.toml:1");
        check([Some(system), Some(user), Some(root)], &[], None, Some(3), "2.toml:2");
        check([Some(system), Some(user), Some(root)], variable, None, Some(4), "$OSTLER_TIMEOUT");
        check([Some(system), Some(user), Some(root)], variable, Some("5s"), Some(5), "--timeout");
    }

    #[test]
    fn a_bad_layer_is_named_even_if_a_higher_one_would_win() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path(), [Some("stop_grace = '3m'"), Some("stop_grace = '1s'"), None]);
        let error = Settings::load(&places, &environment(&[]), Flags::default()).unwrap_err().to_string();
        assert!(error.contains("0.toml:1: `stop_grace`"), "{error}");
    }

    #[test]
    fn a_bad_variable_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path(), [None; 3]);
        let error = Settings::load(&places, &environment(&[("OSTLER_INHERIT_ENV", "all")]), Flags::default());
        assert_eq!(
            error.unwrap_err().to_string(),
            "$OSTLER_INHERIT_ENV: `inherit_env`: `all` is none of caller, minimal"
        );
    }

    #[test]
    fn places_follow_the_environment_and_ignore_relative_ones() {
        let user = |pairs| Places::new(&environment(pairs), None).user;
        assert_eq!(user(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]), Some("/c/ostler/config.toml".into()));
        assert_eq!(user(&[("XDG_CONFIG_HOME", "c"), ("HOME", "/h")]), Some("/h/.config/ostler/config.toml".into()));
        assert_eq!(user(&[]), None);
    }
}
