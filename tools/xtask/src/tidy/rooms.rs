//! The dependency rule: which room of the crate may name which other (docs/ARCHITECTURE.md, "Rooms").
//!
//! Checked over every path that a file names, in `use` lines and in expressions, with `self` and `super` resolved. The
//! ledger, being a crate of its own, is held by the compiler.

use super::Problem;
use super::lex::lex;
use super::manifest::dependency_names;
use super::modules::{Module, modules};
use super::paths::{Named, named_paths};
use super::tree::Tree;

/// A room and what it may name besides itself. `a::b` allows that module and what is in it, `a` all of `a`.
#[derive(Debug)]
struct Room {
    name: &'static str,
    may: &'static [&'static str],
    ledger: bool,
}

/// The whole rule. A root module that is missing here is refused.
const ROOMS: &[Room] = &[
    Room { name: "machine", may: &[], ledger: false },
    Room { name: "os", may: &[], ledger: false },
    Room { name: "rpc", may: &["os"], ledger: false },
    Room { name: "adapter", may: &["os"], ledger: false },
    Room { name: "host", may: &["adapter", "os"], ledger: false },
    Room {
        name: "client",
        // What both ends share and the client's end of a connection; never the broker's end.
        may: &[
            "rpc::convert",
            "rpc::wire",
            "rpc::frame",
            "rpc::hello",
            "rpc::error",
            "rpc::envelope",
            "rpc::method",
            "rpc::channel",
            "rpc::record",
            "rpc::report",
            "host::wire",
            "os",
        ],
        ledger: false,
    },
    Room {
        name: "broker",
        // Of the host everything but the process itself, `host::server`.
        may: &[
            "machine",
            "rpc",
            "host::client",
            "host::wire",
            "host::spec",
            "host::files",
            "host::marker",
            "host::read",
            "host::spool",
            "adapter",
            "pool",
            "os",
        ],
        ledger: true,
    },
    Room { name: "pool", may: &["rpc::frame", "os"], ledger: false },
    Room { name: "mcp", may: &["client"], ledger: false },
    Room {
        name: "cli",
        // The documents of the wire, and the system: the command line is a shell. Never the ends of a connection.
        may: &["broker", "client", "host", "adapter", "mcp", "pool", "rpc::wire", "rpc::error", "rpc::method", "os"],
        ledger: true,
    },
];

/// What the pure core may take from outside: nothing that knows time, files, processes, threads or chance (law 2).
const PURE_CRATES: &[&str] = &["std", "core", "alloc", "serde", "sha2", "data_encoding"];
const PURE_STD: &[&str] = &[
    "array",
    "borrow",
    "cmp",
    "collections",
    "convert",
    "error",
    "fmt",
    "hash",
    "iter",
    "marker",
    "mem",
    "num",
    "ops",
    "option",
    "result",
    "slice",
    "str",
    "string",
    "vec",
];
const PURE_STD_ITEMS: &[&str] = &["time::Duration", "sync::Arc"];

/// Checks every file of the library and of the binary.
pub(crate) fn rooms(tree: &Tree) -> Vec<Problem> {
    let modules = modules(tree);
    let externals = dependency_names(tree.text("Cargo.toml").unwrap_or(""));
    let mut problems = Vec::new();
    for (file, text) in tree.with_extension("rs") {
        let Some(module) = modules.get(file).filter(|module| module.root.starts_with("src/")) else { continue };
        for named in named_paths(&lex(text).tokens) {
            let verdict = judge(module, &named, &externals, &modules_of_machine(&modules));
            if let Some((what, instead)) = verdict {
                problems.push(Problem { file: file.to_owned(), line: named.line, rule: "rooms", what, instead });
            }
        }
    }
    problems.dedup();
    problems
}

fn modules_of_machine(modules: &std::collections::BTreeMap<String, Module>) -> Vec<String> {
    let inside = modules.values().filter(|module| module.path.first().is_some_and(|room| room == "machine"));
    inside.filter_map(|module| module.path.last().cloned()).collect()
}

type Verdict = Option<(String, &'static str)>;

fn judge(module: &Module, named: &Named, externals: &[String], machine_modules: &[String]) -> Verdict {
    if module.root == "src/main.rs" {
        return judge_main(named);
    }
    // The crate root only names its rooms.
    let name = module.path.first()?;
    let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
        return Some((format!("room `{name}` is not in the table"), "add it to ROOMS with what it may name"));
    };
    if let Some(inside) = resolve(module, named) {
        return judge_inside(room, &inside);
    }
    let outside = named.segments.first()?;
    if outside == "ostler_ledger" && !room.ledger {
        return Some((
            format!("`{name}` names the ledger"),
            "only the broker writes it and only the command line reads it",
        ));
    }
    let test = module.test || named.scope.test;
    if name == "machine" && !test { judge_pure(named, externals, machine_modules) } else { None }
}

fn judge_main(named: &Named) -> Verdict {
    let segments: Vec<&str> = named.segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["ostler", "cli", ..] => None,
        ["ostler", room, ..] => Some((format!("main names `{room}`"), "main is glue: go through `ostler::cli`")),
        _ => None,
    }
}

fn judge_inside(room: &Room, path: &[String]) -> Verdict {
    let target = path.first()?;
    let allowed = target == room.name
        || room.may.iter().any(|may| {
            let allowed: Vec<&str> = may.split("::").collect();
            path.iter().map(String::as_str).take(allowed.len()).eq(allowed)
        });
    let what = format!("`{}` names `{}`", room.name, path.join("::"));
    (!allowed).then_some((what, "see the table in tools/xtask/src/tidy/rooms.rs; pass it in from a caller instead"))
}

/// The path below `crate` that `named` means; `None` where it leads to another crate or to something local.
fn resolve(module: &Module, named: &Named) -> Option<Vec<String>> {
    let mut place: Vec<String> = module.path.clone();
    place.extend(named.scope.modules.iter().cloned());
    let mut rest = named.segments.as_slice();
    match rest.first()?.as_str() {
        "crate" => place.clear(),
        "self" | "super" => {}
        _ => return None,
    }
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => drop(place.pop()),
            _ => break,
        }
        rest = after;
    }
    place.extend(rest.iter().cloned());
    Some(place)
}

fn judge_pure(named: &Named, externals: &[String], machine_modules: &[String]) -> Verdict {
    let (first, rest) = named.segments.split_first()?;
    let of_std = ["std", "core", "alloc"].contains(&first.as_str());
    let foreign = of_std || (externals.contains(first) && !machine_modules.contains(first));
    if !foreign {
        return None;
    }
    let path = rest.join("::");
    let pure_part = rest.first().is_some_and(|part| PURE_STD.contains(&part.as_str()));
    let pure_item = PURE_STD_ITEMS.iter().any(|item| path.starts_with(item));
    let pure = if of_std { pure_part || pure_item } else { PURE_CRATES.contains(&first.as_str()) };
    let what = format!("`machine` names `{}`", named.segments.join("::"));
    (!pure).then_some((what, "the core is pure (law 2): take the value as an input"))
}

#[cfg(test)]
mod tests {
    use super::rooms;
    use crate::tidy::breaches;

    const LIB: (&str, &str) =
        ("src/lib.rs", "pub mod machine; pub mod broker; pub mod client; pub mod attic; pub mod cli;");

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = ("Cargo.toml", "[dependencies]\nserde.workspace = true\ntokio = \"1\"\ntime = \"1\"\n");
        let all: Vec<(&str, &str)> = [manifest, LIB].iter().chain(files).copied().collect();
        breaches(rooms, &all)
    }

    #[test]
    fn rooms_bite_through_crate_super_and_groups() {
        let files = [
            ("src/broker/mod.rs", "mod turn;\nuse crate::{machine::id, host::{client, server}};\nuse super::cli::x;"),
            (
                "src/broker/turn.rs",
                "fn f() { super::super::client::call(); self::g(); super::h(); crate::rpc::wire::X }",
            ),
            (
                "src/client/mod.rs",
                "use crate::rpc::wire::X;\nuse crate::rpc::listener;\nuse crate::rpc;\nuse ostler_ledger::Y;",
            ),
        ];
        let expected = [
            "src/broker/mod.rs:2: rooms: `broker` names `host::server`",
            "src/broker/mod.rs:3: rooms: `broker` names `cli::x`",
            "src/broker/turn.rs:1: rooms: `broker` names `client::call`",
            "src/client/mod.rs:2: rooms: `client` names `rpc::listener`",
            "src/client/mod.rs:3: rooms: `client` names `rpc`",
            "src/client/mod.rs:4: rooms: `client` names the ledger",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn the_core_stays_pure() {
        let files = [
            (
                "src/machine/mod.rs",
                "mod time; mod tests;\nuse std::collections::BTreeMap;\nuse std::{fs, fmt, time::Duration};\n\
                 use serde::Serialize;\nfn f() { std::env::var(x); time::of(y); tokio::spawn(z); u64::MAX }\n\
                 #[cfg(test)]\nmod t { use std::fs; use crate::os::clock; }",
            ),
            ("src/machine/time.rs", "use std::time::Instant; use std::sync::Arc;"),
        ];
        let expected = [
            "src/machine/mod.rs:3: rooms: `machine` names `std::fs`",
            "src/machine/mod.rs:5: rooms: `machine` names `std::env::var`",
            "src/machine/mod.rs:5: rooms: `machine` names `tokio::spawn`",
            "src/machine/mod.rs:7: rooms: `machine` names `os::clock`",
            "src/machine/time.rs:1: rooms: `machine` names `std::time::Instant`",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn main_is_glue_and_unknown_rooms_are_refused() {
        let files = [
            ("src/main.rs", "fn main() { ostler::cli::run(); ostler::broker::run() }"),
            ("src/attic/mod.rs", "use std::fs;"),
        ];
        let expected = [
            "src/attic/mod.rs:1: rooms: room `attic` is not in the table",
            "src/main.rs:1: rooms: main names `broker`",
        ];
        assert_eq!(found(&files), expected);
    }
}
