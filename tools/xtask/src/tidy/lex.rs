//! A small lexer for Rust source, so that the rules look at code and not at the words inside strings and comments.
//!
//! Promise: it never fails and never loses a line number. Source that does not compile may be cut into odd
//! tokens; the compiler speaks about that, not tidy.

/// What a token is. Numbers, lifetimes and literals are told apart only so that rules can skip them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Word,
    Sign,
    Literal,
    Number,
    Lifetime,
}

/// One token with the line that it starts on (from 1). A literal keeps its quotes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(crate) fn is_sign(&self, sign: char) -> bool {
        self.kind == Kind::Sign && self.text.starts_with(sign)
    }
}

/// The code of a file and, apart from it, its comments (each with the line that it starts on).
#[derive(Debug, Default)]
pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) comments: Vec<(usize, &'a str)>,
}

/// Cuts `source` into tokens and comments.
pub(crate) fn lex(source: &str) -> Lexed<'_> {
    let mut cursor = Cursor { source, at: 0, line: 1 };
    let mut lexed = Lexed::default();
    while let Some(next) = cursor.peek(0) {
        let (start, line) = (cursor.at, cursor.line);
        if next.is_whitespace() {
            cursor.step();
            continue;
        }
        if cursor.rest().starts_with("//") {
            cursor.skip_while(|c| c != '\n');
            lexed.comments.push((line, cursor.since(start)));
            continue;
        }
        if cursor.rest().starts_with("/*") {
            cursor.skip_block_comment();
            lexed.comments.push((line, cursor.since(start)));
            continue;
        }
        let kind = cursor.token(next);
        lexed.tokens.push(Token { kind, text: cursor.since(start), line });
    }
    lexed
}

struct Cursor<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn since(&self, start: usize) -> &'a str {
        self.source.get(start..self.at).unwrap_or("")
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn step(&mut self) {
        if let Some(c) = self.peek(0) {
            self.at += c.len_utf8();
            self.line += usize::from(c == '\n');
        }
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&keep) {
            self.step();
        }
    }

    /// Block comments nest in Rust.
    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        while !self.rest().is_empty() {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.steps(2);
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.steps(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.step();
            }
        }
    }

    fn token(&mut self, first: char) -> Kind {
        if let Some(prefix) = string_prefix(self.rest()) {
            self.steps(prefix.len());
            self.skip_string(prefix.ends_with('r'));
            return Kind::Literal;
        }
        if self.rest().starts_with("b'") {
            self.step();
            return self.quote();
        }
        if first == '\'' {
            return self.quote();
        }
        if first.is_ascii_digit() {
            self.skip_number();
            return Kind::Number;
        }
        if self.rest().starts_with("r#") {
            self.steps(2);
        }
        if self.peek(0).is_some_and(in_word) {
            self.skip_while(in_word);
            return Kind::Word;
        }
        self.step();
        Kind::Sign
    }

    /// At a quote: a character literal, else a lifetime.
    fn quote(&mut self) -> Kind {
        let literal = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.step();
        if !literal {
            self.skip_while(in_word);
            return Kind::Lifetime;
        }
        if self.peek(0) == Some('\\') {
            self.step();
        }
        self.step();
        self.skip_while(|c| c != '\'' && c != '\n');
        self.step();
        Kind::Literal
    }

    /// At the hashes or the quote of a string, behind its prefix letters.
    fn skip_string(&mut self, raw: bool) {
        let start = self.at;
        self.skip_while(|c| c == '#');
        let end = format!("\"{}", self.since(start));
        self.step();
        while !self.rest().is_empty() {
            if !raw && self.peek(0) == Some('\\') {
                self.steps(2);
            } else if self.rest().starts_with(&end) {
                self.steps(end.len());
                return;
            } else {
                self.step();
            }
        }
    }

    /// `1..2` is a range and `1.5` is one number.
    fn skip_number(&mut self) {
        self.skip_while(in_word);
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.step();
            self.skip_while(in_word);
        }
    }
}

fn in_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The letters before the hashes or the quote, if a string starts here.
fn string_prefix(rest: &str) -> Option<&'static str> {
    for prefix in ["br", "cr", "r", "b", "c", ""] {
        let Some(after) = rest.strip_prefix(prefix) else { continue };
        let body = if prefix.ends_with('r') { after.trim_start_matches('#') } else { after };
        if body.starts_with('"') {
            return Some(prefix);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Kind, lex};

    fn words(source: &str) -> String {
        let lexed = lex(source);
        let kept: Vec<&str> = lexed.tokens.iter().filter(|t| t.kind != Kind::Literal).map(|t| t.text).collect();
        kept.join(" ")
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(words(r##"a("x // \" y", r#"b " c"#, b"d", br"e\", c"f") // g"##), "a ( , , , , )");
        assert_eq!(words("a /* b /* c */ d */ e"), "a e");
        assert_eq!(words("'x' '\\'' '\\u{41}' b'\\n' 'life f"), "'life f");
        assert_eq!(words("r#type 1..2 1.5e3 0xff_u8"), "r#type 1 . . 2 1.5e3 0xff_u8");
    }

    #[test]
    fn lines_are_counted_inside_strings_and_comments() {
        let lexed = lex("\"a\nb\"\n/* c\n */ d // e\n");
        let last = lexed.tokens.last().map(|t| (t.line, t.text));
        assert_eq!(last, Some((4, "d")));
        assert_eq!(lexed.comments.iter().map(|c| c.0).collect::<Vec<_>>(), [3, 4]);
    }
}
