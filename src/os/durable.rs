//! Syncs: the one door through which a file or a folder of ours gets durable. Each names its point, so that a test build can die
//! right behind it. Tidy refuses a sync anywhere else; the ledger's go through its storage port, and the broker's disk names them.

use super::fail;
pub use super::points::Point;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Makes content, length and mode of a file durable; of a folder, its names.
///
/// # Errors
/// What the system answers.
pub fn sync(file: impl AsFd, point: Point) -> io::Result<()> {
    nix::unistd::fsync(file)?;
    fail::point(point)
}

/// Makes content and length of a file durable.
///
/// # Errors
/// What the system answers.
pub fn sync_data(file: &File, point: Point) -> io::Result<()> {
    file.sync_data()?;
    fail::point(point)
}
