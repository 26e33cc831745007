//! The rule of durable writes: a sync stands where it names its point, so that the kill matrix dies behind each of them
//! (docs/TESTING.md). What syncs elsewhere is found here, and what writes a ledger past the broker's disk.

use super::Problem;
use super::lex::{Token, lex};
use super::modules::modules;
use super::scope::scopes;
use super::tree::Tree;

/// The door of this crate, and the storage port of the ledger, which the broker's disk stands in front of.
const DOORS: &[&str] = &["src/os/durable.rs", "ledger/src/storage/", DISK];
/// Where the broker's disk is made.
const DISK: &str = "src/broker/disk.rs";

/// What makes something durable; the third is a word of the storage port as well, so it is free in the ledger.
const SYNCS: &[&str] = &["sync_all", "fsync", "sync_data", "fdatasync", "sync_file_range", "syncfs", "sync"];

/// Every durable write goes through a door that asks for its point.
pub(crate) fn durable(tree: &Tree) -> Vec<Problem> {
    let modules = modules(tree);
    let mut problems = Vec::new();
    let product = |file: &str| file.starts_with("src/") || file.starts_with("ledger/src/");
    for (file, text) in tree.with_extension("rs").filter(|(file, _)| product(file)) {
        if DOORS.iter().any(|door| file.starts_with(door)) || modules.get(file).is_some_and(|module| module.test) {
            continue;
        }
        let lexed = lex(text);
        let scopes = scopes(&lexed.tokens);
        for (index, token) in lexed.tokens.iter().enumerate() {
            if scopes.get(index).is_some_and(|scope| scope.test) {
                continue;
            }
            let mut add = |what: String, instead| {
                problems.push(Problem { file: file.to_owned(), line: token.line, rule: "durable", what, instead });
            };
            if is_bare_sync(file, &lexed.tokens, index) {
                add(format!("`{}`", token.text), "os::durable::sync, with a point of its own in src/os/points.rs");
            }
            if is_writing_disk(&lexed.tokens, index) && file != DISK {
                add("`Disk::new`".to_owned(), "broker::disk::disk, which passes a point at each change");
            }
        }
    }
    problems
}

/// A call that syncs and names no point. `sync` alone is one only where it comes from another crate: as a free function without arguments.
fn is_bare_sync(file: &str, tokens: &[Token<'_>], index: usize) -> bool {
    let Some(token) = tokens.get(index) else { return false };
    let after = tokens.get(index + 1..).unwrap_or(&[]);
    let named = SYNCS.iter().any(|word| token.is_word(word));
    let called = after.first().is_some_and(|next| next.is_sign('('));
    let before = index.checked_sub(1).and_then(|at| tokens.get(at));
    if !named || !called || before.is_some_and(|before| before.is_word("fn")) {
        return false;
    }
    let of_crate = |name: &str| {
        let path = index.checked_sub(3).and_then(|at| tokens.get(at));
        path.is_some_and(|path| path.is_word(name)) && before.is_some_and(|before| before.is_sign(':'))
    };
    match token.text {
        "sync" => of_crate("unistd"),
        "sync_data" => !file.starts_with("ledger/") && !of_crate("durable"),
        _ => true,
    }
}

/// `Disk::new(`, in whatever path.
fn is_writing_disk(tokens: &[Token<'_>], index: usize) -> bool {
    let words = tokens.get(index..index + 4).unwrap_or(&[]);
    matches!(words, [disk, a, b, new] if disk.is_word("Disk") && a.is_sign(':') && b.is_sign(':') && new.is_word("new"))
}

#[cfg(test)]
mod tests {
    use super::durable;
    use crate::tidy::breaches;

    #[test]
    fn durable_bites_on_syncs_without_a_point_and_on_disks_without_any() {
        let syncing = "fn f() { file.sync_all()?; nix::unistd::fsync(x); file.sync_data(); durable::sync_data(&f, P); \
                       folder.sync(P); nix::unistd::sync(); fn sync_all() {} }\n#[cfg(test)]\nmod t { fn g() { f.sync_all(); } }\n";
        let files = [
            ("src/lib.rs", "pub mod os; pub mod broker;"),
            ("src/os/mod.rs", "mod durable; mod folder;"),
            ("src/os/durable.rs", syncing),
            ("src/os/folder.rs", syncing),
            ("src/broker/mod.rs", "mod disk; mod start;"),
            ("src/broker/disk.rs", "fn f() { Disk::new(a, b) }"),
            ("src/broker/start.rs", "fn f() { storage::Disk::new(a, b); Disk::reading(a) }"),
            ("ledger/src/lib.rs", "mod storage; fn f() { storage.sync_data(&f); file.sync_all(); }"),
            ("ledger/src/storage/mod.rs", "fn f() { fsync(x) }"),
            ("tools/x.rs", syncing),
        ];
        let expected = [
            "ledger/src/lib.rs:1: durable: `sync_all`",
            "src/broker/start.rs:1: durable: `Disk::new`",
            "src/os/folder.rs:1: durable: `sync_all`",
            "src/os/folder.rs:1: durable: `fsync`",
            "src/os/folder.rs:1: durable: `sync_data`",
            "src/os/folder.rs:1: durable: `sync`",
        ];
        assert_eq!(breaches(durable, &files), expected);
    }
}
