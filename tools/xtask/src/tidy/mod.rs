//! `cargo xtask tidy`: the rules of this repository that no compiler checks, each with what to do instead.
//!
//! A rule is a plain function from the tree to its problems, so each has a test that shows it biting. The tree
//! itself is checked by a test too, so `cargo test` alone finds what tidy finds.

mod durable;
mod field;
mod lex;
mod links;
mod manifest;
mod modules;
mod paths;
mod rooms;
mod scope;
mod testing;
mod text;
mod tree;
mod wired;

use std::fmt;
use std::path::Path;
use tree::Tree;

/// One breach of one rule.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Problem {
    file: String,
    line: usize,
    rule: &'static str,
    what: String,
    instead: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, line, rule, what, instead } = self;
        write!(f, "{file}:{line}: {rule}: {what}; {instead}")
    }
}

type Rule = fn(&Tree) -> Vec<Problem>;

const RULES: &[Rule] = &[
    text::length,
    text::header,
    text::leftovers,
    text::names,
    text::white_space,
    text::ascii,
    rooms::rooms,
    wired::wired,
    manifest::reasons,
    durable::durable,
    testing::sleeps,
    testing::ignored,
    field::field,
    links::links,
    links::module_links,
];

/// Checks the repository at `top`; prints each problem. `Err` holds the closing line.
pub(crate) fn run(top: &Path) -> Result<(), String> {
    let problems = check(top)?;
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} problem(s)")),
    }
}

fn check(top: &Path) -> Result<Vec<Problem>, String> {
    let tree = Tree::read(top).map_err(|error| format!("tidy: cannot read {}: {error}", top.display()))?;
    let mut problems: Vec<Problem> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    problems.sort();
    Ok(problems)
}

/// For the tests of rules: the problems of one rule on a tree of strings, one a line, without the advice.
#[cfg(test)]
fn breaches(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let found = rule(&Tree::of(files));
    found.iter().map(|p| format!("{}:{}: {}: {}", p.file, p.line, p.rule, p.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Problem, check};

    #[test]
    fn the_tree_is_tidy() {
        let problems = check(&crate::top()).unwrap();
        let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert!(lines.is_empty(), "{} problem(s):\n{}", lines.len(), lines.join("\n"));
    }

    #[test]
    fn a_problem_names_place_rule_and_remedy() {
        let (file, what) = ("a/b.rs".to_owned(), "521 lines".to_owned());
        let problem = Problem { file, line: 7, rule: "length", what, instead: "split it" };
        assert_eq!(problem.to_string(), "a/b.rs:7: length: 521 lines; split it");
    }
}
