//! Rules over the text of files: length, header, leftovers, names, white space, plain punctuation.

use super::Problem;
use super::lex::lex;
use super::tree::{Tree, extension_of, stem_of};

/// A reader holds a file of this many lines in the head; there are no exceptions.
const LINES_MAX: usize = 500;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc"];

/// Macros and notes that mean "not done yet". Spelled in halves, so that a search for them finds only real ones.
const LEFTOVER_MACROS: &[&str] = &[concat!("to", "do"), concat!("un", "implemented"), concat!("d", "bg")];
const LEFTOVER_NOTES: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

/// Kinds of files that are code: what stands in them is plain ASCII, save letters.
const CODE: &[&str] = &["rs", "toml", "sh", "py", "yml"];

/// Folders of data whose bytes are the point.
const DATA_FOLDERS: &[&str] = &["corpora/", "golden/"];

/// No source file is longer than [`LINES_MAX`].
pub(crate) fn length(tree: &Tree) -> Vec<Problem> {
    let counted = tree.with_extension("rs").map(|(file, text)| (file, text.lines().count()));
    let long = counted.filter(|(_, lines)| *lines > LINES_MAX);
    long.map(|(file, lines)| Problem {
        file: file.to_owned(),
        line: LINES_MAX + 1,
        rule: "length",
        what: format!("{lines} lines, at most {LINES_MAX}"),
        instead: "split it along its subjects",
    })
    .collect()
}

/// Every source file opens with why it exists.
pub(crate) fn header(tree: &Tree) -> Vec<Problem> {
    let bare = tree.with_extension("rs").filter(|(_, text)| !text.starts_with("//! "));
    bare.map(|(file, _)| Problem {
        file: file.to_owned(),
        line: 1,
        rule: "header",
        what: "does not open with a module comment".to_owned(),
        instead: "open with `//!` and say why the file exists and what it promises",
    })
    .collect()
}

/// Nothing is left half done.
pub(crate) fn leftovers(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |file: &str, line, word: &str, instead| {
        problems.push(Problem { file: file.to_owned(), line, rule: "leftover", what: word.to_owned(), instead });
    };
    for (file, text) in tree.with_extension("rs") {
        let lexed = lex(text);
        for window in lexed.tokens.windows(2) {
            let [name, mark] = window else { continue };
            if mark.is_sign('!') && LEFTOVER_MACROS.iter().any(|word| name.is_word(word)) {
                add(file, name.line, &format!("{}!", name.text), "finish it, or leave it out and open an issue");
            }
        }
        for (line, comment) in &lexed.comments {
            for (offset, part) in comment.lines().enumerate() {
                if let Some(note) = LEFTOVER_NOTES.iter().find(|note| part.contains(**note)) {
                    add(file, line + offset, note, "mend it, or say in a plain sentence what holds and why");
                }
            }
        }
    }
    problems
}

/// No file or folder is named after nothing.
pub(crate) fn names(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.paths() {
        let parts = file.split('/').map(stem_of);
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            problems.push(Problem {
                file: file.to_owned(),
                line: 1,
                rule: "name",
                what: format!("`{part}` says nothing"),
                instead: "name it after the one thing that it holds",
            });
        }
    }
    problems
}

/// No trailing white space, no tabs in code, and every text ends with one line feed.
pub(crate) fn white_space(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| !is_data(file)) {
        let mut add = |line, what: &str, instead| {
            let (file, what) = (file.to_owned(), what.to_owned());
            problems.push(Problem { file, line, rule: "white space", what, instead });
        };
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with(char::is_whitespace) {
                add(index + 1, "trailing white space", "remove it");
            }
            if is_code(file) && line.contains('\t') {
                add(index + 1, "tab", "indent with spaces; write a tab as an escape");
            }
        }
        let lines = text.lines().count();
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            add(lines, "does not end with exactly one line feed", "end the file with its last line");
        }
    }
    problems
}

/// No typographic quotes, dashes, ellipses, arrows or invisible characters in code: a reader takes them for others.
pub(crate) fn ascii(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| is_code(file) && !is_data(file)) {
        for (index, line) in text.lines().enumerate() {
            if let Some(odd) = line.chars().find(|c| looks_like_another(*c)) {
                problems.push(Problem {
                    file: file.to_owned(),
                    line: index + 1,
                    rule: "ascii",
                    what: format!("U+{:04X}", u32::from(odd)),
                    instead: "write plain ASCII; in a string use an escape",
                });
            }
        }
    }
    problems
}

/// Punctuation, symbols and white space outside ASCII. Letters of any script, and pictures, look like nothing else.
fn looks_like_another(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && c < '\u{10000}'
}

fn is_code(file: &str) -> bool {
    CODE.contains(&extension_of(file)) || file == ".ci/run"
}

fn is_data(file: &str) -> bool {
    DATA_FOLDERS.iter().any(|folder| file.starts_with(folder) || file.contains(&format!("/{folder}")))
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, ascii, header, leftovers, length, names, white_space};
    use crate::tidy::breaches;

    #[test]
    fn length_bites_one_line_above_the_limit() {
        let (fits, long) = ("x\n".repeat(LINES_MAX), "x\n".repeat(LINES_MAX + 1));
        let found = breaches(length, &[("a.rs", &fits), ("b.rs", &long), ("c.md", &long)]);
        assert_eq!(found, ["b.rs:501: length: 501 lines, at most 500"]);
    }

    #[test]
    fn header_bites() {
        let found = breaches(header, &[("a.rs", "//! Why.\n"), ("b.rs", "// Why.\n"), ("c.rs", "\n//! Late.\n")]);
        let expected = [
            "b.rs:1: header: does not open with a module comment",
            "c.rs:1: header: does not open with a module comment",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn leftovers_bite_in_code_and_comments_but_not_in_strings() {
        let source = format!(
            "//! a\n{}!();\nlet x = \"{}!(): {}\";\n/* b\n {}: c */ {}!(x); // {}\n",
            "todo", "todo", "FIXME", "FIXME", "dbg", "XXX"
        );
        let found = breaches(leftovers, &[("a.rs", &source)]);
        let expected = [
            format!("a.rs:2: leftover: {}!", "todo"),
            format!("a.rs:5: leftover: {}!", "dbg"),
            format!("a.rs:5: leftover: {}", "FIXME"),
            format!("a.rs:5: leftover: {}", "XXX"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_bite_on_files_and_folders() {
        let found = breaches(names, &[("src/utils.rs", ""), ("tests/common/mod.rs", ""), ("src/uncommon.rs", "")]);
        assert_eq!(
            found,
            ["src/utils.rs:1: name: `utils` says nothing", "tests/common/mod.rs:1: name: `common` says nothing"]
        );
    }

    #[test]
    fn white_space_bites_and_spares_data() {
        let files = [
            ("a.md", "x \ny\n"),
            ("b.rs", "a\tb\n"),
            ("c.md", "x"),
            ("d.md", "x\n\n"),
            ("e.md", ""),
            ("f/golden/g.jsonl", "x \n\n"),
        ];
        let expected = [
            "a.md:1: white space: trailing white space",
            "b.rs:1: white space: tab",
            "c.md:1: white space: does not end with exactly one line feed",
            "d.md:2: white space: does not end with exactly one line feed",
        ];
        assert_eq!(breaches(white_space, &files), expected);
    }

    #[test]
    fn ascii_bites_on_punctuation_and_spares_letters() {
        let files = [
            ("a.rs", "// caf\u{e9} \u{65e5} \u{1f600}\n// a \u{2014} b\n"),
            ("b.md", "\u{2014}\n"),
            (".ci/run", "\u{a0}\n"),
        ];
        assert_eq!(breaches(ascii, &files), [".ci/run:1: ascii: U+00A0", "a.rs:2: ascii: U+2014"]);
    }
}
