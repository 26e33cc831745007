//! Output through the broker: a page of an episode's spool, read from its files. Whoever wants it faster, or as it
//! comes, reads at the host's endpoint.

use crate::host::files::episode_folder;
use crate::host::read::{read_spool, spool_extent};
use crate::host::spool::frame;
use crate::host::spool::reader::Piece;
use crate::machine::SessionId;
use crate::rpc::error::{ErrorCode, WireError};
use crate::rpc::wire::{Chunk, ReadParams, ReadResult, Stream, Timestamp};
use data_encoding::BASE64;
use std::io;
use std::path::Path;

/// Bytes of output in one page, if the caller names no limit.
const PAGE_BYTES: u32 = 256 * 1024;
/// Bytes of output in one page at the most: as base64 they still fit a frame.
const PAGE_BYTES_MAX: u32 = 1024 * 1024;

/// Reads a page. `live` says whether more may come. Blocking.
///
/// # Errors
/// `invalid_input` for a limit beyond the largest page, `storage_failed` if the files cannot be read.
pub fn read(
    root: &Path,
    session: &SessionId,
    episode: u32,
    live: bool,
    params: &ReadParams,
) -> Result<ReadResult, WireError> {
    let limit = params.limit_bytes.unwrap_or(PAGE_BYTES);
    if !(1..=PAGE_BYTES_MAX).contains(&limit) {
        let message = format!("limit_bytes is 1 to {PAGE_BYTES_MAX}");
        return Err(WireError::new(ErrorCode::InvalidInput, message).reason("limit_bytes"));
    }
    let folder = episode_folder(root, session.as_str(), episode);
    let page = Page { wanted: params.stream, limit: usize::try_from(limit).unwrap_or(usize::MAX), live };
    page.read(&folder, episode, params.position).map_err(|error| {
        WireError::new(ErrorCode::StorageFailed, format!("the output of {session} cannot be read: {error}"))
    })
}

struct Page {
    wanted: Option<Stream>,
    limit: usize,
    live: bool,
}

impl Page {
    fn read(&self, folder: &Path, episode: u32, from: u64) -> io::Result<ReadResult> {
        let mut reader = read_spool(folder, from);
        let mut result = ReadResult { episode, chunks: Vec::new(), next: from, lost_bytes: 0, ended: false };
        let mut bytes_read = 0;
        while bytes_read < self.limit {
            let Some(piece) = reader.next_piece()? else {
                result.ended = !self.live && spool_extent(folder)?.1 <= reader.position();
                break;
            };
            match piece {
                Piece::Gap { from, to } => result.lost_bytes += to.saturating_sub(from),
                Piece::Output { position, stream, at_us, bytes } => {
                    let stream = match stream {
                        frame::Stream::Stdout => Stream::Stdout,
                        frame::Stream::Stderr => Stream::Stderr,
                    };
                    bytes_read += bytes.len();
                    if self.wanted.is_none_or(|wanted| wanted == stream) {
                        let at = Timestamp::from_us(at_us);
                        result.chunks.push(Chunk { position, stream, at, b64: BASE64.encode(&bytes) });
                    }
                }
            }
            result.next = reader.position();
        }
        Ok(result)
    }
}
