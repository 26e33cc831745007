//! Where in a file each token stands: inside which inline modules, and whether only tests compile it.

use super::lex::{Kind, Token};

/// The surroundings of one token.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Scope {
    /// Names of the inline modules around it, outermost first.
    pub(crate) modules: Vec<String>,
    /// Under `#[cfg(test)]`, or in a `#[test]` function.
    pub(crate) test: bool,
}

/// A `mod name;` line: the promise of another file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ModLine {
    pub(crate) name: String,
    /// The value of `#[path = "..."]`.
    pub(crate) path: Option<String>,
    pub(crate) scope: Scope,
    pub(crate) line: usize,
}

/// Walks `tokens` once and says for each where it stands.
pub(crate) fn scopes(tokens: &[Token<'_>]) -> Vec<Scope> {
    let mut stack = vec![Scope::default()];
    let mut pending_test = false;
    let mut nesting = 0_usize; // of parentheses and brackets
    let mut pending_nesting = 0;
    let mut found = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        let here = stack.last().cloned().unwrap_or_default();
        if is_test_attribute(tokens, index) {
            pending_test = true;
            pending_nesting = nesting;
        }
        match (token.kind, token.text) {
            (Kind::Sign, "(" | "[") => nesting += 1,
            (Kind::Sign, ")" | "]") => nesting = nesting.saturating_sub(1),
            (Kind::Sign, ";" | ",") if nesting == pending_nesting => pending_test = false,
            (Kind::Sign, "{") => {
                let mut inner = here.clone();
                inner.modules.extend(opened_module(tokens, index));
                inner.test |= std::mem::take(&mut pending_test);
                stack.push(inner);
            }
            (Kind::Sign, "}") if stack.len() > 1 => drop(stack.pop()),
            _ => {}
        }
        found.push(Scope { test: here.test || pending_test, ..here });
    }
    found
}

/// Every `mod name;` of a file.
pub(crate) fn mod_lines(tokens: &[Token<'_>]) -> Vec<ModLine> {
    let scopes = scopes(tokens);
    let mut found = Vec::new();
    for (index, window) in tokens.windows(3).enumerate() {
        let [word, name, end] = window else { continue };
        if !word.is_word("mod") || name.kind != Kind::Word || !end.is_sign(';') {
            continue;
        }
        let path = path_attribute(tokens.get(..index).unwrap_or(&[]));
        let scope = scopes.get(index).cloned().unwrap_or_default();
        found.push(ModLine { name: name.text.to_owned(), path, scope, line: word.line });
    }
    found
}

/// The name of the module whose brace opens at `index`.
fn opened_module(tokens: &[Token<'_>], index: usize) -> Option<String> {
    let before = tokens.get(..index)?;
    let [.., word, name] = before else { return None };
    (word.is_word("mod") && name.kind == Kind::Word).then(|| name.text.to_owned())
}

/// True at the `#` of `#[test]`, `#[tokio::test]` and of every `#[cfg(...)]` that holds only under test.
fn is_test_attribute(tokens: &[Token<'_>], index: usize) -> bool {
    let Some([hash, open, rest @ ..]) = tokens.get(index..) else { return false };
    if !hash.is_sign('#') || !open.is_sign('[') {
        return false;
    }
    let end = rest.iter().position(|t| t.is_sign(']')).unwrap_or(rest.len());
    let body = rest.get(..end).unwrap_or(&[]);
    let plain = body.last().is_some_and(|t| t.is_word("test"));
    let cfg = body.first().is_some_and(|t| t.is_word("cfg"));
    let names_test = body.iter().any(|t| t.is_word("test"));
    let loosened = body.iter().any(|t| t.is_word("not") || t.is_word("any"));
    plain || (cfg && names_test && !loosened)
}

/// The path of a `#[path = "..."]` among the attributes that end right before a `mod`, past its visibility.
fn path_attribute(before: &[Token<'_>]) -> Option<String> {
    let from = before.iter().rposition(|t| t.is_sign(';') || t.is_sign('}')).map_or(0, |at| at + 1);
    let attributes = before.get(from..)?;
    attributes.windows(3).find_map(|window| {
        let [word, equals, value] = window else { return None };
        (word.is_word("path") && equals.is_sign('=')).then(|| value.text.trim_matches('"').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{mod_lines, scopes};
    use crate::tidy::lex::lex;

    fn scope_of(source: &str, word: &str) -> String {
        let lexed = lex(source);
        let at = lexed.tokens.iter().position(|t| t.is_word(word)).unwrap();
        let scope = &scopes(&lexed.tokens)[at];
        format!("{} {}", scope.modules.join("::"), if scope.test { "test" } else { "code" })
    }

    #[test]
    fn tokens_know_their_module_and_whether_only_tests_see_them() {
        assert_eq!(scope_of("mod a { mod b { here } }", "here"), "a::b code");
        assert_eq!(scope_of("mod a { } here", "here"), " code");
        assert_eq!(scope_of("#[cfg(test)] mod tests { fn f() { here } }", "here"), "tests test");
        assert_eq!(scope_of("#[cfg(test)] use x; here", "here"), " code");
        assert_eq!(scope_of("#[cfg(test)] fn f(a: [u8; 3]) { here }", "here"), " test");
        assert_eq!(scope_of("#[cfg(not(test))] mod a { here }", "here"), "a code");
        assert_eq!(scope_of("#[tokio::test] async fn f() { here }", "here"), " test");
    }

    #[test]
    fn mod_lines_carry_path_and_scope() {
        let lexed = lex("#[cfg(test)]\nmod a;\n#[path = \"x/y.rs\"]\npub(crate) mod b;\nmod c { mod d; }\nmod e;");
        let found: Vec<String> = mod_lines(&lexed.tokens)
            .iter()
            .map(|m| format!("{} {:?} {} {} {}", m.name, m.path, m.scope.modules.join("::"), m.scope.test, m.line))
            .collect();
        assert_eq!(found, ["a None  true 2", "b Some(\"x/y.rs\")  false 4", "d None c false 5", "e None  false 6"]);
    }
}
