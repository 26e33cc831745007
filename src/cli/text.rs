//! Text for eyes. Whatever comes from a session, a caller or a file is shown without control characters, so that it cannot drive the
//! terminal, and commands are shown so that a shell would read them back.

/// The text with control characters escaped.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match u32::from(character) {
            _ if is_visible(character) => shown.push(character),
            // As `shell` shows it.
            ascii @ ..0x80 => shown.push_str(&format!("\\x{ascii:02x}")),
            _ => shown.extend(character.escape_unicode()),
        }
    }
    shown
}

/// Format characters that reorder or hide text (Unicode "Cf") are as harmful in a table as control characters.
fn is_visible(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// One argument, quoted for a POSIX shell where it must be; bytes that are no visible text as `$'\xNN'`.
pub(crate) fn shell(bytes: &[u8]) -> String {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+^".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(safe) {
        return bytes.iter().map(|byte| char::from(*byte)).collect();
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(is_visible) => format!("'{}'", text.replace('\'', r"'\''")),
        Ok(_) | Err(_) => {
            let escape = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            format!("$'{}'", bytes.iter().map(escape).collect::<String>())
        }
    }
}

/// See [`shell`].
pub(crate) fn shell_str(text: &str) -> String {
    shell(text.as_bytes())
}

/// Shortens for a table.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}\u{2026}")
}

/// Between two columns.
const GAP: &str = "  ";

/// Columns for eyes: a header, left-aligned cells, two spaces between, no trailing space.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(header: [&str; N]) -> Self {
        Table { rows: vec![header.map(str::to_owned)] }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Shortens the last column so that the lines fit so many columns, as far as it goes.
    pub(crate) fn fit(&mut self, width: usize) {
        const LEAST: usize = 10;
        let Some(last) = N.checked_sub(1) else { return };
        let before: usize = (0..last).map(|column| self.width(column) + GAP.len()).sum();
        let left = width.saturating_sub(before).max(LEAST);
        self.rows.iter_mut().for_each(|row| row[last] = shorten(&row[last], left));
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }

    pub(crate) fn render(&self) -> String {
        self.render_painted(|_, _, cell| cell)
    }

    /// Renders with each cell passed through `paint` (row, the header being 0; column; padded cell), for colour.
    pub(crate) fn render_painted(&self, paint: impl Fn(usize, usize, String) -> String) -> String {
        let widths: Vec<usize> = (0..N).map(|column| self.width(column)).collect();
        let mut shown = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line.push_str(&paint(number, column, format!("{cell:<width$}")));
                line.push_str(GAP);
            }
            shown.push_str(line.trim_end());
            shown.push('\n');
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_as_a_shell_reads_them() {
        for (bytes, expected) in [
            (&b"ls"[..], "ls"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", r"'it'\''s'"),
            (b"$HOME", "'$HOME'"),
            ("é".as_bytes(), "'é'"),
            (b"a\nb", r"$'a\x0ab'"),
            (b"\xff'", r"$'\xff\''"),
        ] {
            assert_eq!(shell(bytes), expected);
        }
    }

    #[test]
    fn plain_text_holds_no_control_characters() {
        assert_eq!(plain("a\u{1b}[0m\u{202e}b\n"), "a\\x1b[0m\\u{202e}b\\x0a");
        assert_eq!(shell_str("a\u{1b}\n"), "$'a\\x1b\\x0a'", "one style for both");
        assert_eq!(plain("grün"), "grün");
    }

    #[test]
    fn tables_align() {
        let mut table = Table::new(["ID", "NAME"]);
        table.row(["abc".into(), String::new()]);
        table.row(["d".into(), "é".into()]);
        assert_eq!(table.render(), "ID   NAME\nabc\nd    é\n");
        table.row(["e".into(), "a long command line".into()]);
        table.fit(16);
        assert_eq!(table.render(), "ID   NAME\nabc\nd    \u{e9}\ne    a long com\u{2026}\n");
        table.fit(1);
        assert!(table.render().ends_with("e    a long co\u{2026}\n"), "some of it is always shown");
        assert_eq!(shorten("abcdef", 4), "abc\u{2026}");
        assert_eq!(shorten("abcd", 4), "abcd");
    }
}
