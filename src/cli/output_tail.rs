//! The end of a session's output, as text for one screen.

use super::context::Broker;
use crate::host::files;
use crate::host::read::{Piece, read_spool, spool_extent};
use crate::rpc::wire::Session;

/// How much of it is looked at, bytes.
const BYTES_MAX: u64 = 4096;
/// How many lines are shown.
const LINES_MAX: usize = 10;

/// The last lines that the files hold; empty where there are none. Bytes that are not UTF-8 are replaced: this is for eyes, `logs` is for
/// programs.
pub(crate) fn read(broker: &Broker, session: &Session) -> String {
    let root = broker.client.hello().broker.root.as_path();
    let folder = files::episode_folder(root, &session.id, session.episode);
    // What cannot be read is not there to be shown; `logs` says why.
    let Ok((from, to)) = spool_extent(&folder) else { return String::new() };
    let mut reader = read_spool(&folder, from.max(to.saturating_sub(BYTES_MAX)));
    let mut tail = Vec::new();
    while let Ok(Some(piece)) = reader.next_piece() {
        match piece {
            Piece::Output { bytes, .. } => tail.extend(bytes),
            Piece::Gap { .. } => {}
        }
    }
    last_lines(&String::from_utf8_lossy(&tail))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_whole() {
        let text: String = (1..=12).map(|n| format!("line {n}\n")).collect();
        assert!(last_lines(&text).starts_with("line 3\n"));
        assert!(last_lines(&text).ends_with("line 12\n"));
        assert_eq!(last_lines("a"), "a\n");
        assert_eq!(last_lines(""), "");
    }
}
