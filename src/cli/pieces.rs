//! The last lines of an output that comes in pieces of two streams.

use crate::host::read::{Piece, Stream};

/// The pieces that hold the last `lines` lines of the wanted stream (both, if none is named), the first one cut where its line begins. A
/// line without its end at the very end counts.
pub(crate) fn last_lines(pieces: Vec<Piece>, wanted: Option<Stream>, lines: usize) -> Vec<Piece> {
    let mut kept = Vec::new();
    let mut left = lines;
    let mut at_end = true;
    for piece in pieces.into_iter().rev() {
        let Piece::Output { position, stream, at_us, bytes } = piece else {
            kept.push(piece);
            continue;
        };
        if wanted.is_some_and(|wanted| wanted != stream) {
            continue;
        }
        match line_start(&bytes, &mut left, &mut at_end) {
            None => kept.push(Piece::Output { position, stream, at_us, bytes }),
            Some(start) => {
                let position = position + u64::try_from(start).expect("a length in memory fits 64 bits");
                let bytes = bytes[start..].to_vec();
                if !bytes.is_empty() {
                    kept.push(Piece::Output { position, stream, at_us, bytes });
                }
                break;
            }
        }
    }
    kept.reverse();
    kept
}

/// Where the last wanted line begins in these bytes, if it begins in them; counts down the lines that end in them. The very last line feed
/// ends the last line, and begins none.
fn line_start(bytes: &[u8], left: &mut usize, at_end: &mut bool) -> Option<usize> {
    if *left == 0 {
        return Some(bytes.len());
    }
    for (index, byte) in bytes.iter().enumerate().rev() {
        if *byte == b'\n' && !*at_end {
            *left -= 1;
            if *left == 0 {
                return Some(index + 1);
            }
        }
        *at_end = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(stream: Stream, position: u64, text: &str) -> Piece {
        Piece::Output { position, stream, at_us: 0, bytes: text.into() }
    }

    /// The text of the last lines, and the position of the first piece.
    fn tail(pieces: &[Piece], wanted: Option<Stream>, lines: usize) -> (String, u64) {
        let kept = last_lines(pieces.to_vec(), wanted, lines);
        let text = kept.iter().filter_map(|piece| match piece {
            Piece::Output { bytes, .. } => Some(String::from_utf8(bytes.clone()).unwrap()),
            Piece::Gap { .. } => None,
        });
        let position = kept.iter().find_map(|piece| match piece {
            Piece::Output { position, .. } => Some(*position),
            Piece::Gap { .. } => None,
        });
        (text.collect(), position.unwrap_or_default())
    }

    #[test]
    fn lines_are_counted_from_the_end_over_pieces() {
        let pieces = [
            piece(Stream::Stdout, 0, "one\ntw"),
            piece(Stream::Stdout, 6, "o\nthr"),
            piece(Stream::Stdout, 11, "ee\nfour"),
        ];
        for (lines, expected) in [
            (0, ("", 0)),
            (1, ("four", 14)),
            (2, ("three\nfour", 8)),
            (3, ("two\nthree\nfour", 4)),
            (4, ("one\ntwo\nthree\nfour", 0)),
            (9, ("one\ntwo\nthree\nfour", 0)),
        ] {
            assert_eq!(tail(&pieces, None, lines), (expected.0.to_owned(), expected.1), "{lines}");
        }
        let closed = [piece(Stream::Stdout, 0, "a\nb\n"), piece(Stream::Stdout, 4, "\n")];
        assert_eq!(tail(&closed, None, 1).0, "\n");
        assert_eq!(tail(&closed, None, 2).0, "b\n\n");
    }

    #[test]
    fn only_the_wanted_stream_counts() {
        let pieces =
            [piece(Stream::Stdout, 0, "a\n"), piece(Stream::Stderr, 2, "x\ny\n"), piece(Stream::Stdout, 6, "b\n")];
        assert_eq!(tail(&pieces, Some(Stream::Stdout), 2), ("a\nb\n".to_owned(), 0));
        assert_eq!(tail(&pieces, Some(Stream::Stderr), 1), ("y\n".to_owned(), 4));
    }
}
