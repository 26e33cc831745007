//! No dead file: every source file is reached by `mod` lines from a crate root, so that no test lies there unrun.

use super::Problem;
use super::modules::modules;
use super::tree::Tree;

/// Every `.rs` file belongs to a crate.
pub(crate) fn wired(tree: &Tree) -> Vec<Problem> {
    let reached = modules(tree);
    let dead = tree.with_extension("rs").filter(|(file, _)| !reached.contains_key(*file));
    dead.map(|(file, _)| Problem {
        file: file.to_owned(),
        line: 1,
        rule: "wired",
        what: "no `mod` line leads here".to_owned(),
        instead: "add `mod NAME;` to its parent, or remove the file",
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::wired;
    use crate::tidy::breaches;

    #[test]
    fn wired_bites_on_a_test_file_that_nobody_names() {
        let files = [
            ("Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n"),
            ("tests/main.rs", "mod a;\n// mod b;\n"),
            ("tests/a/mod.rs", ""),
            ("tests/a/c.rs", ""),
            ("tests/b.rs", ""),
        ];
        let expected =
            ["tests/a/c.rs:1: wired: no `mod` line leads here", "tests/b.rs:1: wired: no `mod` line leads here"];
        assert_eq!(breaches(wired, &files), expected);
    }
}
