//! One configuration file: read it, and turn it into checked assignments with line numbers. Reports everything that is wrong, not only the
//! first thing, so that `config validate` needs one run.

use std::io::{self, Read};
use std::path::Path;

use super::{Assignment, Origin, SettingsError, keys};

/// A configuration file is a page of text; more is some other file.
const SIZE_MAX_BYTES: u64 = 1024 * 1024;

/// The text of the file, or none where there is no such file.
///
/// # Errors
/// `Unreadable`, with the system's reason; what is too large or not UTF-8 counts as that too.
pub(crate) fn read(path: &Path) -> Result<Option<String>, SettingsError> {
    let unreadable = |reason: String| SettingsError::Unreadable { path: path.display().to_string(), reason };
    // A pipe of this name would make the open wait for a writer for ever.
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return Err(unreadable("it is not a regular file".to_owned())),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    }
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let mut text = String::new();
    file.take(SIZE_MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    match u64::try_from(text.len()) {
        Ok(length) if length <= SIZE_MAX_BYTES => Ok(Some(text)),
        Ok(_) | Err(_) => Err(unreadable("it is larger than 1 MiB".to_owned())),
    }
}

/// `ENOTDIR` means that something above it is a file: then this file cannot be there either.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The assignments of one file's text.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; never an empty list.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<Assignment>, Vec<SettingsError>> {
    let shown = path.display().to_string();
    let table = toml::de::DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        vec![SettingsError::NotToml { path: shown.clone(), line, reason: error.message().to_owned() }]
    })?;
    let mut assignments = Vec::new();
    let mut errors = Vec::new();
    for (name, value) in table.get_ref() {
        let line = line_of(text, name.span().start);
        match check(&shown, line, name.get_ref(), value.get_ref()) {
            Ok((key, text)) => {
                assignments.push(Assignment { key, text, origin: Origin::File { path: path.to_owned(), line } });
            }
            Err(error) => errors.push((line, error)),
        }
    }
    errors.sort_by_key(|(line, _)| *line);
    if errors.is_empty() { Ok(assignments) } else { Err(errors.into_iter().map(|(_, error)| error).collect()) }
}

fn check(
    path: &str,
    line: usize,
    name: &str,
    value: &toml::de::DeValue<'_>,
) -> Result<(&'static str, String), SettingsError> {
    let Some(key) = keys::find(name) else {
        let suggestion = keys::suggest(name);
        return Err(SettingsError::UnknownKey { path: path.to_owned(), line, key: name.to_owned(), suggestion });
    };
    let Some(text) = value.as_str() else {
        let found = value.type_str().to_owned();
        return Err(SettingsError::NotText { path: path.to_owned(), line, key: key.name, found });
    };
    key.form.check(text).map_err(|reason| {
        let origin = format!("{path}:{line}");
        SettingsError::BadValue { origin, key: key.name, reason }
    })?;
    Ok((key.name, text.to_owned()))
}

/// The line, from 1, of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file's text gives, as text.
    fn outcome(text: &str) -> String {
        match parse(Path::new("c.toml"), text) {
            Ok(assignments) => {
                let line = |a: Assignment| format!("{} = {} ({})", a.key, a.text, a.origin);
                assignments.into_iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        }
    }

    #[test]
    fn files_give_values_or_all_their_errors() {
        for (text, expected) in [
            ("", ""),
            ("timeout = \"5s\"", "timeout = 5s (c.toml:1)"),
            ("\n\ntime_out = '5s'", "c.toml:3: unknown key `time_out`, did you mean `timeout`?"),
            ("quux = 1", "c.toml:1: unknown key `quux`"),
            ("timeout = 5", "c.toml:1: `timeout` takes a text in quotes, not integer"),
            ("[timeout]\nx = 1", "c.toml:1: `timeout` takes a text in quotes, not table"),
            ("timeout = '5'", "c.toml:1: `timeout`: `5` is not a duration like 500ms, 10s, 2m"),
            (
                "stop_grace = '1h'\ninherit_env = 'x'",
                "c.toml:1: `stop_grace`: 1h is more than 2m\nc.toml:2: `inherit_env`: `x` is none of caller, minimal",
            ),
        ] {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_toml_says_where() {
        assert!(outcome("timeout = '1s'\ntimeout = = '2s'").starts_with("c.toml:2: not TOML: "));
        assert!(outcome("timeout = '1s'\ntimeout = '2s'").starts_with("c.toml:2: not TOML: duplicate"));
    }

    #[test]
    fn absent_is_fine_and_unreadable_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        assert_eq!(read(&path), Ok(None));
        std::fs::write(&path, b"\xff").unwrap();
        assert!(matches!(read(&path), Err(SettingsError::Unreadable { .. })));
        assert_eq!(read(&path.join("below")), Ok(None));
        assert!(matches!(read(folder.path()), Err(SettingsError::Unreadable { .. })));
    }
}
