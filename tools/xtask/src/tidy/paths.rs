//! The paths that a source file names, in `use` lines and in expressions, each spelled out in full.

use super::lex::{Kind, Token};
use super::scope::{Scope, scopes};

/// One path as written, with groups of `use` lines expanded. A glob ends in `*`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Named {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    pub(crate) scope: Scope,
}

/// Every path of two or more segments, and every `use`.
pub(crate) fn named_paths(tokens: &[Token<'_>]) -> Vec<Named> {
    let scopes = scopes(tokens);
    let mut found = Vec::new();
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let scope = scopes.get(index).cloned().unwrap_or_default();
        let from = index + 1;
        if token.is_word("use") && !is_precise_capture(tokens, from) {
            let mut reader = UseReader { tokens, at: from, scope, found: &mut found };
            reader.tree(&[]);
            index = reader.at;
        } else if token.kind == Kind::Word && !follows_path(tokens, index) {
            let (segments, end) = expression_path(tokens, index);
            if segments.len() > 1 {
                found.push(Named { segments, line: token.line, scope });
            }
            index = end;
        } else {
            index += 1;
        }
    }
    found
}

/// `impl Trait + use<'a>` is not an import.
fn is_precise_capture(tokens: &[Token<'_>], at: usize) -> bool {
    tokens.get(at).is_some_and(|token| token.is_sign('<'))
}

/// True behind `::` or `.`.
fn follows_path(tokens: &[Token<'_>], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|at| tokens.get(at));
    before.is_some_and(|token| token.is_sign(':') && is_double_colon(tokens, index - 2) || token.is_sign('.'))
}

fn is_double_colon(tokens: &[Token<'_>], at: usize) -> bool {
    matches!(tokens.get(at..at + 2), Some([a, b]) if a.is_sign(':') && b.is_sign(':'))
}

/// The words joined by `::` from `index` on, and where they end. Type arguments end a path; what is inside them is
/// found as a path of its own.
fn expression_path(tokens: &[Token<'_>], index: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    let mut at = index;
    while let Some(token) = tokens.get(at).filter(|token| token.kind == Kind::Word) {
        segments.push(token.text.to_owned());
        at += 1;
        if !is_double_colon(tokens, at) || tokens.get(at + 2).is_none_or(|next| next.kind != Kind::Word) {
            break;
        }
        at += 2;
    }
    (segments, at)
}

struct UseReader<'t, 's> {
    tokens: &'t [Token<'s>],
    at: usize,
    scope: Scope,
    found: &'t mut Vec<Named>,
}

impl UseReader<'_, '_> {
    /// Reads one tree of a `use` below `prefix`, up to its `,`, `}` or `;`.
    fn tree(&mut self, prefix: &[String]) {
        let mut segments = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        while let Some(token) = self.tokens.get(self.at).copied() {
            match (token.kind, token.text) {
                (Kind::Sign, "{") => {
                    self.at += 1;
                    self.group(&segments);
                    return;
                }
                (Kind::Sign, "," | "}" | ";") => break,
                (Kind::Word, "as") => self.at += 1, // and past the new name
                (Kind::Word, "self") if !segments.is_empty() => {}
                (Kind::Word, _) | (Kind::Sign, "*") => segments.push(token.text.to_owned()),
                _ => {}
            }
            self.at += 1;
        }
        self.found.push(Named { segments, line, scope: self.scope.clone() });
    }

    fn group(&mut self, prefix: &[String]) {
        while let Some(token) = self.tokens.get(self.at) {
            if token.is_sign('}') {
                self.at += 1;
                return;
            }
            if token.is_sign(',') {
                self.at += 1;
                continue;
            }
            self.tree(prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::named_paths;
    use crate::tidy::lex::lex;

    fn found(source: &str) -> Vec<String> {
        named_paths(&lex(source).tokens).iter().map(|n| format!("{} {}", n.line, n.segments.join("::"))).collect()
    }

    #[test]
    fn use_trees_are_spelled_out() {
        let source = "use a::{self, b::{c as d, e}, f::*};\npub(crate) use g;\nuse ::h::i;";
        assert_eq!(found(source), ["1 a", "1 a::b::c", "1 a::b::e", "1 a::f::*", "2 g", "3 h::i"]);
    }

    #[test]
    fn expressions_are_found_wherever_they_stand() {
        let source = "fn f(a: crate::x::Y<super::z::W>) -> impl T + use<'a> { b.c::<d::E>(); g::h!(i::j) }";
        assert_eq!(found(source), ["1 crate::x::Y", "1 super::z::W", "1 d::E", "1 g::h", "1 i::j"]);
    }
}
