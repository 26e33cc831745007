//! A connection's bytes: cut into lines wherever the network cuts them, read as requests by the broker and as answers by the client.

use ostler::rpc::envelope::{Incoming, read_incoming, read_request, response};
use ostler::rpc::frame::{DEPTH_MAX, FRAME_BYTES_MAX, HELLO_FRAME_BYTES_MAX, Lines, TooLong, is_shallow};
use ostler::rpc::wire::encode;

/// Sizes in which the same stream arrives.
const PIECES: [usize; 3] = [1, 7, 4096];

/// How much of a stream is cut in every way: more than the longest line before hello.
const CUT_BYTES: usize = 2 * HELLO_FRAME_BYTES_MAX;

/// A stream of requests or answers. However it is cut, the lines are the same; every refusal is an answer that a client reads.
pub fn frame(bytes: &[u8]) -> bool {
    let start = bytes.get(..CUT_BYTES).unwrap_or(bytes);
    for bytes_max in [16, HELLO_FRAME_BYTES_MAX] {
        let expected = plainly_split(start, bytes_max);
        for piece in PIECES {
            assert_eq!(split(start, piece, bytes_max), expected, "{bytes_max} bytes a line, {piece} bytes at a time");
        }
    }
    let (lines, too_long) = split(bytes, 4096, FRAME_BYTES_MAX);
    let understood = lines.iter().filter(|line| is_message(line)).count();
    !too_long && understood > 0 && understood == lines.len()
}

/// The lines of `bytes`, and whether one was too long.
type Cut = (Vec<Vec<u8>>, bool);

fn split(bytes: &[u8], piece: usize, bytes_max: usize) -> Cut {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        lines.push(piece);
        loop {
            match lines.next_line(bytes_max) {
                Ok(Some(line)) => found.push(line.to_vec()),
                Ok(None) => break,
                Err(TooLong) => return (found, true),
            }
        }
        lines.relax();
    }
    (found, false)
}

/// What [`split`] has to find, said in the plainest way.
fn plainly_split(bytes: &[u8], bytes_max: usize) -> Cut {
    let mut found = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line.len() > bytes_max {
            return (found, true);
        }
        if let Some(whole) = line.strip_suffix(b"\n") {
            found.push(whole.strip_suffix(b"\r").unwrap_or(whole).to_vec());
        }
    }
    (found, false)
}

fn is_message(line: &[u8]) -> bool {
    let request = match read_request(line) {
        Ok(request) => {
            assert!(is_shallow(line, DEPTH_MAX) && request.params.is_object());
            let answer = response(&request.id, &Ok(encode(&request.params)));
            let expected = Incoming::Response { id: request.id, answer: Ok(request.params) };
            assert_eq!(read_incoming(&answer), Some(expected), "the answer names its request");
            true
        }
        Err(rejected) => {
            let answer = read_incoming(&rejected.to_bytes());
            assert!(matches!(answer, Some(Incoming::Response { answer: Err(_), .. })), "a refusal is an answer");
            false
        }
    };
    request | read_incoming(line).is_some()
}
