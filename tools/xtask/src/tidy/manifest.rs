//! Every dependency says why it is here, on the line that brings it in.

use super::Problem;
use super::tree::{Tree, name_of};

/// Each dependency that is not inherited from the workspace carries a `# reason`.
pub(crate) fn reasons(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| name_of(file) == "Cargo.toml") {
        let mut in_dependencies = false;
        for (index, line) in text.lines().enumerate() {
            let opens_section = line.starts_with('[');
            if opens_section {
                in_dependencies = is_dependency_list(line);
            }
            let brings_one =
                if opens_section { is_single_dependency(line) } else { in_dependencies && names_one(line) };
            if brings_one && !has_reason(line) {
                problems.push(Problem {
                    file: file.to_owned(),
                    line: index + 1,
                    rule: "dependency",
                    what: format!("`{}` has no reason", line.split(['=', ' ']).next().unwrap_or(line)),
                    instead: "say behind a `#` on the same line what it is for",
                });
            }
        }
    }
    problems
}

/// The names under which a crate's source may call its dependencies.
pub(crate) fn dependency_names(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_dependencies = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = is_dependency_list(line);
        } else if in_dependencies && line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            names.extend(line.split(['=', ' ', '.']).next().map(|name| name.replace('-', "_")));
        }
    }
    names
}

/// `[dependencies]`, `[dev-dependencies]`, `[target.'cfg(unix)'.dependencies]`, `[workspace.dependencies]`.
fn is_dependency_list(section: &str) -> bool {
    section.split(']').next().is_some_and(|head| head.ends_with("dependencies"))
}

/// `[dependencies.name]`.
fn is_single_dependency(section: &str) -> bool {
    section.contains("dependencies.")
}

/// A line that names a dependency of its own; one inherited by `workspace = true` is explained where it comes from.
fn names_one(line: &str) -> bool {
    let starts_with_name = line.starts_with(|c: char| c.is_ascii_alphanumeric());
    let inherited = line.contains(".workspace = true") || line.contains("workspace = true");
    starts_with_name && line.contains('=') && !inherited
}

fn has_reason(line: &str) -> bool {
    line.split_once(" # ").is_some_and(|(_, reason)| reason.trim().len() > 3)
}

#[cfg(test)]
mod tests {
    use super::reasons;
    use crate::tidy::breaches;

    #[test]
    fn reasons_bite_in_every_kind_of_section() {
        let manifest = r#"[package]
name = "x"
[dependencies]
good = "1" # it does the work
bare = "1"
serde.workspace = true
inner = { workspace = true, features = ["a"] }
[target.'cfg(unix)'.dependencies]
nix = { version = "1" }
[dev-dependencies]
tempfile = "3" #
[dependencies.long]
version = "1"
[features]
a = []
"#;
        let expected = [
            "Cargo.toml:5: dependency: `bare` has no reason",
            "Cargo.toml:9: dependency: `nix` has no reason",
            "Cargo.toml:11: dependency: `tempfile` has no reason",
            "Cargo.toml:12: dependency: `[dependencies.long]` has no reason",
        ];
        assert_eq!(breaches(reasons, &[("Cargo.toml", manifest)]), expected);
    }
}
