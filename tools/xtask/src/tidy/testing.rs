//! Rules for tests: nobody sleeps to wait, and what is ignored has a reason and a place in the long run.

use super::Problem;
use super::lex::{Kind, Token, lex};
use super::modules::modules;
use super::scope::scopes;
use super::tree::Tree;
use crate::long;

/// The one helper that may sleep: it polls a condition up to a deadline.
const WAIT_HELPER: &str = "tests/support/wait.rs";

/// What ignored tests are called, so that `cargo xtask long` finds them.
const LONG_PREFIX: &str = "long_";

/// Tests wait for conditions, never for time.
pub(crate) fn sleeps(tree: &Tree) -> Vec<Problem> {
    let modules = modules(tree);
    let mut problems = Vec::new();
    for (file, text) in tree.with_extension("rs").filter(|(file, _)| *file != WAIT_HELPER) {
        let whole_file = modules.get(file).is_some_and(|module| module.test);
        let lexed = lex(text);
        let scopes = scopes(&lexed.tokens);
        for (index, token) in lexed.tokens.iter().enumerate() {
            let in_test = whole_file || scopes.get(index).is_some_and(|scope| scope.test);
            if in_test && is_sleep_call(&lexed.tokens, index) {
                problems.push(Problem {
                    file: file.to_owned(),
                    line: token.line,
                    rule: "sleep",
                    what: format!("`{}` in a test", token.text),
                    instead: "wait for a condition with a deadline (tests/support/wait.rs), or use an event",
                });
            }
        }
    }
    problems
}

/// `sleep(`, `sleep_until(` or `sleep_ms(` as a free function; a method of our own may be called so.
fn is_sleep_call(tokens: &[Token<'_>], index: usize) -> bool {
    let Some(token) = tokens.get(index) else { return false };
    let sleeping = ["sleep", "sleep_until", "sleep_ms", "park_timeout"].iter().any(|name| token.is_word(name));
    let called = tokens.get(index + 1).is_some_and(|next| next.is_sign('('));
    let before = index.checked_sub(1).and_then(|at| tokens.get(at));
    let other = before.is_some_and(|b| b.is_sign('.') || b.is_word("fn"));
    sleeping && called && !other
}

/// `#[ignore]` has a reason, and the test's name puts it into one of the long jobs.
pub(crate) fn ignored(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.with_extension("rs") {
        let tokens = lex(text).tokens;
        for (index, token) in tokens.iter().enumerate() {
            let opens = index >= 2 && tokens.get(index - 2).is_some_and(|t| t.is_sign('#'));
            if !token.is_word("ignore") || !opens {
                continue;
            }
            let mut add = |what: String, instead| {
                problems.push(Problem { file: file.to_owned(), line: token.line, rule: "ignore", what, instead });
            };
            let rest = tokens.get(index + 1..).unwrap_or(&[]);
            if !matches!(rest, [equals, reason, ..] if equals.is_sign('=') && reason.kind == Kind::Literal) {
                add("no reason".to_owned(), "write `#[ignore = \"why\"]`");
            }
            let name = rest.windows(2).find(|w| w.first().is_some_and(|t| t.is_word("fn"))).and_then(|w| w.last());
            let name = name.map_or("", |t| t.text);
            if !name.starts_with(LONG_PREFIX) {
                add(format!("`{name}` does not start with `{LONG_PREFIX}`"), "rename it, or run it always");
            } else if !long::covers(name) {
                add(format!("no job of `cargo xtask long` runs `{name}`"), "add its prefix in tools/xtask/src/long.rs");
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{ignored, sleeps};
    use crate::tidy::breaches;

    #[test]
    fn sleeps_bite_in_tests_only() {
        let sleeping = "fn f() { std::thread::sleep(d); x.sleep(); fn sleep(a: u8) {} }\n";
        let source = format!("mod b;\n{sleeping}#[cfg(test)]\nmod t {{ fn g() {{ tokio::time::sleep(d); }} }}\n");
        let files = [
            ("Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n"),
            ("src/lib.rs", source.as_str()),
            ("tests/main.rs", "mod support; mod a;"),
            ("tests/a.rs", sleeping),
            ("tests/support/mod.rs", "mod wait;"),
            ("tests/support/wait.rs", sleeping),
        ];
        let expected = ["src/lib.rs:4: sleep: `sleep` in a test", "tests/a.rs:1: sleep: `sleep` in a test"];
        assert_eq!(breaches(sleeps, &files), expected);
    }

    #[test]
    fn ignored_bites_on_reason_name_and_job() {
        let source = "#[test]\n#[ignore]\nfn a() {}\n#[test]\n#[ignore = \"slow\"]\nfn long_nobody_runs_it() {}\n\
                      #[test]\n#[ignore = \"ten minutes\"]\nfn long_mutations_many() {}\nfn ignore() {}\n";
        let expected = [
            "a.rs:2: ignore: no reason",
            "a.rs:2: ignore: `a` does not start with `long_`",
            "a.rs:5: ignore: no job of `cargo xtask long` runs `long_nobody_runs_it`",
        ];
        assert_eq!(breaches(ignored, &[("a.rs", source)]), expected);
    }
}
