//! Which source file is which module of which crate, found the way the compiler finds it: crate roots, then `mod` lines.
//!
//! Crate roots come from the manifests (`path = "..."`, and the places where cargo looks by itself).

use super::lex::lex;
use super::scope::{ModLine, mod_lines};
use super::tree::{Tree, folder_of, join, name_of, stem_of};
use std::collections::BTreeMap;

/// One source file as a module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Module {
    /// The crate's root file.
    pub(crate) root: String,
    /// The module's path below `crate`.
    pub(crate) path: Vec<String>,
    /// Compiled for tests only, by the `mod` line that led here or by its place.
    pub(crate) test: bool,
    /// The `mod` line that led here carries a comment, too.
    pub(crate) commented: bool,
}

/// Everything that `mod` lines reach, by file.
pub(crate) fn modules(tree: &Tree) -> BTreeMap<String, Module> {
    let mut found = BTreeMap::new();
    for root in crate_roots(tree) {
        let module = Module { root: root.clone(), path: Vec::new(), test: is_test_place(&root), commented: false };
        add(tree, &root, module, &mut found);
    }
    found
}

/// The root file of every crate of the repository.
pub(crate) fn crate_roots(tree: &Tree) -> Vec<String> {
    let mut roots = Vec::new();
    for (manifest, text) in tree.texts().filter(|(path, _)| name_of(path) == "Cargo.toml") {
        let folder = folder_of(manifest);
        roots.extend(explicit_paths(text).filter_map(|path| join(folder, path)));
        for place in ["src/lib.rs", "src/main.rs", "build.rs"] {
            roots.extend(join(folder, place));
        }
        for (key, place) in
            [("autobins", "src/bin"), ("autotests", "tests"), ("autobenches", "benches"), ("autoexamples", "examples")]
        {
            if !text.contains(&format!("{key} = false")) {
                roots.extend(found_in(tree, &join(folder, place).unwrap_or_default()));
            }
        }
    }
    roots.retain(|root| tree.text(root).is_some());
    roots.sort();
    roots.dedup();
    roots
}

/// The `path = "....rs"` lines of a manifest.
fn explicit_paths(manifest: &str) -> impl Iterator<Item = &str> {
    manifest.lines().filter_map(|line| {
        let value = line.trim().strip_prefix("path")?.trim_start().strip_prefix('=')?.trim();
        value.strip_prefix('"')?.split('"').next().filter(|path| path.ends_with(".rs"))
    })
}

/// The crate roots that cargo finds in `folder`: `NAME.rs` and `NAME/main.rs`.
fn found_in(tree: &Tree, folder: &str) -> Vec<String> {
    let is_root = |path: &str| {
        let of_folder = name_of(path) == "main.rs" && folder_of(folder_of(path)) == folder;
        folder_of(path) == folder || of_folder
    };
    tree.with_extension("rs").map(|(path, _)| path).filter(|path| is_root(path)).map(str::to_owned).collect()
}

fn is_test_place(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/")
}

fn add(tree: &Tree, file: &str, module: Module, found: &mut BTreeMap<String, Module>) {
    let Some(text) = tree.text(file) else { return };
    if found.insert(file.to_owned(), module.clone()).is_some() {
        return;
    }
    for line in mod_lines(&lex(text).tokens) {
        let Some(child_file) = places(file, &module, &line).into_iter().find(|place| tree.text(place).is_some()) else {
            continue;
        };
        let mut path = module.path.clone();
        path.extend(line.scope.modules.iter().cloned());
        path.push(line.name.clone());
        let test = module.test || line.scope.test;
        let commented = is_commented(text, line.line);
        add(tree, &child_file, Module { root: module.root.clone(), path, test, commented }, found);
    }
}

/// True if a documentation comment stands above the line, counted from 1, past its attributes.
fn is_commented(text: &str, line: usize) -> bool {
    let above: Vec<&str> = text.lines().take(line.saturating_sub(1)).map(str::trim).collect();
    above.iter().rev().find(|line| !line.starts_with("#[")).is_some_and(|line| line.starts_with("///"))
}

/// Where the file of `line`, found in `file`, may be.
fn places(file: &str, module: &Module, line: &ModLine) -> Vec<String> {
    let own_folder = folder_of(file);
    let at_top = file == module.root || name_of(file) == "mod.rs";
    let mut folder = own_folder.to_owned();
    if !at_top {
        folder = join(&folder, stem_of(file)).unwrap_or_default();
    }
    for outer in &line.scope.modules {
        folder = join(&folder, outer).unwrap_or_default();
    }
    let base = if line.scope.modules.is_empty() { own_folder } else { folder.as_str() };
    match &line.path {
        Some(path) => join(base, path).into_iter().collect(),
        None => [format!("{}.rs", line.name), format!("{}/mod.rs", line.name)]
            .iter()
            .filter_map(|name| join(&folder, name))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{crate_roots, modules};
    use crate::tidy::tree::Tree;

    #[test]
    fn files_are_found_as_the_compiler_finds_them() {
        let tree = Tree::of(&[
            ("Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n"),
            ("src/lib.rs", "mod a; mod b { mod c; } #[cfg(test)] mod t;"),
            ("src/a.rs", "mod d; #[path = \"odd.rs\"] mod e;"),
            ("src/a/d/mod.rs", "mod f;"),
            ("src/a/d/f.rs", ""),
            ("src/odd.rs", ""),
            ("src/b/c.rs", ""),
            ("src/t.rs", ""),
            ("src/dead.rs", ""),
            ("tests/main.rs", "mod x;"),
            ("tests/x.rs", ""),
            ("tests/dead.rs", ""),
            ("sub/Cargo.toml", ""),
            ("sub/tests/one.rs", ""),
            ("sub/tests/two/main.rs", "mod part;"),
            ("sub/tests/two/part.rs", ""),
        ]);
        let roots = ["src/lib.rs", "sub/tests/one.rs", "sub/tests/two/main.rs", "tests/main.rs"];
        assert_eq!(crate_roots(&tree), roots);
        let found: Vec<String> =
            modules(&tree).iter().map(|(file, m)| format!("{file} {} {}", m.path.join("::"), m.test)).collect();
        let expected = [
            "src/a.rs a false",
            "src/a/d/f.rs a::d::f false",
            "src/a/d/mod.rs a::d false",
            "src/b/c.rs b::c false",
            "src/lib.rs  false",
            "src/odd.rs a::e false",
            "src/t.rs t true",
            "sub/tests/one.rs  true",
            "sub/tests/two/main.rs  true",
            "sub/tests/two/part.rs part true",
            "tests/main.rs  true",
            "tests/x.rs x true",
        ];
        assert_eq!(found, expected);
    }
}
