//! Links within the repository lead somewhere: files, folders and headings; and those of module comments, for which the
//! documentation tool has a trap.

use super::Problem;
use super::modules::modules;
use super::tree::{Tree, folder_of, join};

/// Every relative link of a Markdown file resolves.
pub(crate) fn links(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.with_extension("md") {
        for (line, target) in targets(text) {
            if let Some(what) = broken(tree, file, text, target) {
                problems.push(Problem {
                    file: file.to_owned(),
                    line,
                    rule: "link",
                    what,
                    instead: "correct it, or link the text that took its place",
                });
            }
        }
    }
    problems
}

/// A module with a comment at its `mod` line and one inside has the links of both resolved from the outside, so what is
/// meant from the inside is not found.
pub(crate) fn module_links(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let modules = modules(tree);
    for (file, text) in tree.with_extension("rs") {
        let commented = modules.get(file).is_some_and(|module| module.commented);
        let header = text.lines().enumerate().take_while(|(_, line)| line.starts_with("//!"));
        for (index, line) in header.filter(|_| commented) {
            for piece in line.split("[`").skip(1) {
                let (link, after) = piece.split_once("`]").unwrap_or((piece, ""));
                if !link.starts_with("crate::") && !after.starts_with("(crate::") {
                    problems.push(Problem {
                        file: file.to_owned(),
                        line: index + 1,
                        rule: "module link",
                        what: format!("[`{link}`] is looked for in the parent module"),
                        instead: "spell it from `crate::`, or leave the brackets out",
                    });
                }
            }
        }
    }
    problems
}

fn broken(tree: &Tree, file: &str, text: &str, target: &str) -> Option<String> {
    let outside = ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
    if outside {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let mut linked = Some(text);
    if !path.is_empty() {
        let full = join(folder_of(file), path);
        let exists = full.as_deref().is_some_and(|full| tree.has(full));
        if !exists {
            return Some(format!("`{path}` does not exist"));
        }
        linked = full.and_then(|full| tree.text(&full));
    }
    let found = anchor.is_empty() || linked.is_some_and(|text| headings(text).any(|heading| heading == anchor));
    (!found).then(|| format!("no heading `#{anchor}`"))
}

/// The targets of `[text](target)` with their lines, outside code.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, part) in prose(text) {
        // Every second piece between backquotes is code.
        for piece in part.split('`').step_by(2) {
            for after in piece.split("](").skip(1) {
                let target = after.split(')').next().unwrap_or(after);
                found.push((line, target.split(' ').next().unwrap_or(target)));
            }
        }
    }
    found
}

/// The lines of `text` outside fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The anchors of a text's headings, formed as forges form them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::{links, module_links};
    use crate::tidy::breaches;

    #[test]
    fn links_bite_on_missing_files_and_headings() {
        let text = "[a](b.md) [b](docs/) [c](gone.md)\n[d](b.md#two-words) [e](b.md#gone) [f](#here)\n# Here\n\
                    `[g](code.md)` [h](https://example.org/x) [i](../out)\n```\n[j](fenced.md)\n```\n[k](sub/c.md \"title\")\n";
        let files = [("a.md", text), ("b.md", "## Two words\n"), ("docs/x.md", "[l](../a.md#here)\n")];
        let expected = [
            "a.md:1: link: `gone.md` does not exist",
            "a.md:2: link: no heading `#gone`",
            "a.md:4: link: `../out` does not exist",
            "a.md:8: link: `sub/c.md` does not exist",
        ];
        assert_eq!(breaches(links, &files), expected);
    }
    #[test]
    fn module_links_bite_where_the_mod_line_has_a_comment() {
        let inside = "//! See [`X`], [`crate::X`] and [`Y`](crate::Y).\n/// [`Z`]\nstruct Z;\n";
        let files = [
            ("Cargo.toml", ""),
            ("src/lib.rs", "/// A.\n#[cfg(x)]\npub mod a;\npub mod b;\n// C.\nmod c;\n"),
            ("src/a.rs", inside),
            ("src/b.rs", inside),
            ("src/c.rs", inside),
        ];
        assert_eq!(
            breaches(module_links, &files),
            ["src/a.rs:1: module link: [`X`] is looked for in the parent module"]
        );
    }
}
