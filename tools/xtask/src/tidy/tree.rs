//! The repository as tidy sees it: every file that is ours, by its path from the top, read once.
//!
//! Rules get this and nothing else, so their tests hand them a tree of strings. Build output, version control and
//! fuzz findings are not ours.

use std::collections::BTreeMap;
use std::{fs, io, path::Path};

/// Folders that are never looked into, by name.
const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "artifacts"];

/// Path from the top, with `/`, to content. `None` where the bytes are not UTF-8.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads everything under `top`.
    pub(crate) fn read(top: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.add_folder(top, "")?;
        Ok(tree)
    }

    /// A tree for a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let owned = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Tree { files: owned.collect() }
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED_FOLDERS.contains(&name.as_str()) {
                self.add_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.files.insert(path, String::from_utf8(fs::read(entry.path())?).ok());
            }
        }
        Ok(())
    }

    /// Every text file, in the order of paths.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text files whose name ends in `.{extension}`.
    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| extension_of(path) == extension)
    }

    /// Every path, text or not.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// True for a file, and for a folder that holds one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.paths().any(|p| p.starts_with(&folder))
    }
}

/// `rs` of `a/b.rs`; empty where there is none.
pub(crate) fn extension_of(path: &str) -> &str {
    name_of(path).rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// `b` of `a/b.rs`.
pub(crate) fn stem_of(path: &str) -> &str {
    let name = name_of(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// `b.rs` of `a/b.rs`.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// `a` of `a/b.rs`; empty at the top.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `folder/relative` with `.` and `..` taken out; `None` if it leaves the top.
pub(crate) fn join(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{extension_of, folder_of, join, stem_of};

    #[test]
    fn paths_are_cut_and_joined() {
        assert_eq!((folder_of("a/b/c.rs"), stem_of("a/b/c.rs"), extension_of("a/b/c.rs")), ("a/b", "c", "rs"));
        assert_eq!((folder_of("c"), stem_of("c"), extension_of("c")), ("", "c", ""));
        assert_eq!(join("a/b", "../c/./d").as_deref(), Some("a/c/d"));
        assert_eq!(join("a", "../..").as_deref(), None);
    }
}
