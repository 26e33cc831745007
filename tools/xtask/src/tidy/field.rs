//! Field cases: the table of docs/FIELD.md and the tests named `field_...` are the same list.
//!
//! A row is `| id | report | tests | rule |`. Its tests stand in backquotes, each named after the id (`field_a01_...`; `field_a_own_...` for the
//! cases of our own of a kind, whose id is `A own`); or there is none, and the column begins with `later:` or `not run:` and says why.

use super::Problem;
use super::lex::lex;
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Where the table is.
const TABLE: &str = "docs/FIELD.md";
/// So many rows may stay without a test for good.
const NOT_RUN_MAX: usize = 6;
/// So many cases of its own each kind has that has any test.
const OWN_MIN: usize = 2;

/// The table names every test, every test is in its row, and what has no test says why.
pub(crate) fn field(tree: &Tree) -> Vec<Problem> {
    let tests = tests(tree);
    let Some(table) = tree.text(TABLE) else {
        let (file, name) = tests.first().map(|test| (test.file, test.name)).unwrap_or_default();
        let missing = problem(file, 1, format!("`{name}` is in no table"), "write docs/FIELD.md");
        return if tests.is_empty() { Vec::new() } else { vec![missing] };
    };
    let (rows, mut problems) = rows(table);
    let known: BTreeSet<&str> = tests.iter().map(|test| test.name).collect();
    let told: BTreeSet<(&str, &str)> =
        rows.iter().flat_map(|row| row.tests.iter().map(|test| (row.id, *test))).collect();
    for row in &rows {
        let mut add = |what: String, instead| problems.push(problem(TABLE, row.line, what, instead));
        for test in &row.tests {
            if !known.contains(test) {
                add(format!("there is no test `{test}`"), "write it, or name the one that took its place");
            }
            if id_of(test).as_deref() != Some(row.id) {
                add(format!("`{test}` is not named after {}", row.id), "rename it, or move it to its row");
            }
        }
        if row.tests.is_empty() && !["later: ", "not run: "].iter().any(|status| row.status.starts_with(status)) {
            add(format!("{} has neither a test nor a reason", row.id), "write `later: ...` or `not run: ...`");
        }
    }
    for test in &tests {
        let in_row = id_of(test.name).is_some_and(|id| told.contains(&(id.as_str(), test.name)));
        if !in_row {
            let what = format!("`{}` is not in the row of its id", test.name);
            problems.push(problem(test.file, test.line, what, "add it to docs/FIELD.md"));
        }
    }
    let not_run = rows.iter().filter(|row| row.status.starts_with("not run: ")).count();
    if not_run > NOT_RUN_MAX {
        problems.push(problem(TABLE, 1, format!("{not_run} rows are not run"), "run all but six"));
    }
    problems.extend(own(&rows));
    problems
}

/// Each kind that is tested has cases of its own, not only those that somebody reported.
fn own(rows: &[Row<'_>]) -> Vec<Problem> {
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.tests.is_empty()) {
        let (line, count) = kinds.entry(row.id.get(..1).unwrap_or_default()).or_insert((row.line, 0));
        if row.id.ends_with(" own") {
            (*line, *count) = (row.line, *count + row.tests.len());
        }
    }
    let poor = kinds.into_iter().filter(|(_, (_, count))| *count < OWN_MIN);
    let told = poor.map(|(kind, (line, count))| {
        problem(
            TABLE,
            line,
            format!("kind {kind} has {count} cases of its own"),
            "think of two that nobody has reported",
        )
    });
    told.collect()
}

fn problem(file: &str, line: usize, what: String, instead: &'static str) -> Problem {
    Problem { file: file.to_owned(), line, rule: "field case", what, instead }
}

/// One row of the table.
struct Row<'a> {
    line: usize,
    id: &'a str,
    tests: Vec<&'a str>,
    status: &'a str,
}

/// The rows, and what is wrong with the list of them.
fn rows(table: &str) -> (Vec<Row<'_>>, Vec<Problem>) {
    let (mut rows, mut problems): (Vec<Row<'_>>, Vec<Problem>) = (Vec::new(), Vec::new());
    for (index, line) in table.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let Some(&id) = cells.first().filter(|id| line.starts_with("| ") && is_id(id)) else { continue };
        let line = index + 1;
        let &[_, _, tests, rule] = cells.as_slice() else {
            problems.push(problem(TABLE, line, format!("{id} has {} columns", cells.len()), "id, report, tests, rule"));
            continue;
        };
        if rule.is_empty() || rows.iter().any(|row| row.id == id) {
            problems.push(problem(TABLE, line, format!("{id} has no rule, or two rows"), "give it one of each"));
        }
        let named = tests.split('`').skip(1).step_by(2).collect();
        rows.push(Row { line, id, tests: named, status: tests });
    }
    (rows, problems)
}

/// `A01` or `A own`.
fn is_id(text: &str) -> bool {
    let (kind, rest) = text.split_at_checked(1).unwrap_or_default();
    kind.chars().all(|kind| kind.is_ascii_uppercase())
        && (rest == " own" || rest.len() == 2 && rest.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The id that a test's name carries.
fn id_of(test: &str) -> Option<String> {
    let rest = test.strip_prefix("field_")?;
    let (kind, name) = rest.split_at_checked(1)?;
    let kind = kind.to_uppercase();
    let number = name.get(..2).filter(|_| name.as_bytes().get(2) == Some(&b'_'));
    let id = if name.starts_with("_own_") { format!("{kind} own") } else { format!("{kind}{}", number?) };
    is_id(&id).then_some(id)
}

/// A test that is named as a field case.
struct Test<'a> {
    file: &'a str,
    line: usize,
    name: &'a str,
}

fn tests(tree: &Tree) -> Vec<Test<'_>> {
    let mut tests = Vec::new();
    for (file, text) in tree.with_extension("rs") {
        let tokens = lex(text).tokens;
        for pair in tokens.windows(2) {
            if let [word, name] = pair
                && word.is_word("fn")
                && id_of(name.text).is_some()
            {
                tests.push(Test { file, line: name.line, name: name.text });
            }
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::field;
    use crate::tidy::breaches;

    const SOURCE: &str = "fn field_a01_one() {}\nfn field_a01_two() {}\nfn field_a_own_x() {}\nfn field_a_own_y() {}\n";

    fn of(rows: &str) -> Vec<String> {
        let head = "| id | report | tests | rule |\n| --- | --- | --- | --- |\n";
        breaches(field, &[("docs/FIELD.md", &format!("{head}{rows}")), ("tests/a.rs", SOURCE)])
    }

    const GOOD: &str = "| A01 | x#1 | `field_a01_one`, `field_a01_two` | r |\n| A02 | x#2 | later: with upgrades | r |\n\
                        | A03 | x#3 | not run: why | r |\n| A own | - | `field_a_own_x`, `field_a_own_y` | r |\n";

    #[test]
    fn a_table_that_fits_is_tidy() {
        assert_eq!(of(GOOD), [""; 0]);
        assert_eq!(breaches(field, &[("a.rs", "fn f() {}")]), [""; 0]);
    }

    #[test]
    fn what_is_in_one_list_only_is_named() {
        let rows = GOOD.replace(", `field_a01_two`", ", `field_a01_gone`").replace("A02 ", "A01 ");
        let expected = [
            "docs/FIELD.md:4: field case: A01 has no rule, or two rows",
            "docs/FIELD.md:3: field case: there is no test `field_a01_gone`",
            "tests/a.rs:2: field case: `field_a01_two` is not in the row of its id",
        ];
        assert_eq!(of(&rows), expected);
        let alone = breaches(field, &[("tests/a.rs", SOURCE)]);
        assert_eq!(alone, ["tests/a.rs:1: field case: `field_a01_one` is in no table"]);
    }

    #[test]
    fn a_row_has_tests_of_its_id_or_a_reason() {
        let rows = GOOD.replace("later: with upgrades", "").replace("`field_a_own_y`", "");
        let expected = [
            "docs/FIELD.md:4: field case: A02 has neither a test nor a reason",
            "tests/a.rs:4: field case: `field_a_own_y` is not in the row of its id",
            "docs/FIELD.md:6: field case: kind A has 1 cases of its own",
        ];
        assert_eq!(of(&rows), expected);
        let rows = GOOD.replace("later: with upgrades", "`field_a01_one`").replace("| r |\n| A own", "|\n| A own");
        let expected = [
            "docs/FIELD.md:5: field case: A03 has 3 columns",
            "docs/FIELD.md:4: field case: `field_a01_one` is not named after A02",
        ];
        assert_eq!(of(&rows), expected);
    }

    #[test]
    fn six_rows_may_stay_without_a_test() {
        let rows = |count: u8| {
            let more = (0..count).map(|number| format!("| B0{number} | x#1 | not run: why | r |\n"));
            of(&more.chain([GOOD.to_owned()]).collect::<String>())
        };
        assert_eq!(rows(5), [""; 0]);
        assert_eq!(rows(6), ["docs/FIELD.md:1: field case: 7 rows are not run"]);
    }
}
