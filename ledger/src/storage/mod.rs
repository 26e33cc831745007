//! The storage port: the only way from the ledger to the world. Two implementations: `Disk`, and `SimulatedDisk`
//! with separate visible and durable images. What a real kernel promises and does not promise is written at each call.

#[cfg(unix)]
mod disk;
#[cfg(unix)]
mod lock;
mod simulated;
mod simulated_crash;
mod simulated_image;
mod simulated_world;

use std::fmt::Debug;
use std::io;
use std::time::Duration;

#[cfg(unix)]
pub use disk::Disk;
#[cfg(unix)]
pub use lock::{WriterLock, try_writer_lock};
pub use simulated::{Call, Fault, FaultKind, SimulatedDisk, SimulatedFile, SimulatedLock, SimulatedStorage, Stop};
pub use simulated_crash::Crash;

/// One of the folders that the ledger works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// Segments and the writer lock.
    Ledger,
    /// What was set aside.
    Quarantine,
    /// Retired segments.
    Archive,
}

/// A file by folder and plain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name<'a> {
    /// The folder.
    pub folder: Folder,
    /// The name in it, without separators.
    pub file: &'a str,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing an existing file.
    Write,
}

/// The writer lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process, or another ledger of this one, holds it; it was waited for as long as allowed.
    #[error("another writer holds the ledger")]
    Held,
    /// The lock file cannot be opened or locked.
    #[error("the ledger's writer lock cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// What is told of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its visible length in bytes.
    pub len: u64,
    /// Whether it is sealed.
    pub sealed: bool,
}

/// Files and folders. One owner writes; readers may read at any time. A folder that is missing lists as empty.
pub trait Storage {
    /// An open file.
    type File: Debug;
    /// Held as long as it lives; dropping it releases the writer lock.
    type Lock: Debug;

    /// Takes the writer lock of the ledger folder, waiting at most this long. Makes the folder if there is none.
    fn lock(&self, wait: Duration) -> Result<Self::Lock, LockError>;
    /// Makes a new file for writing; an existing name is an error.
    fn create(&self, name: Name<'_>) -> io::Result<Self::File>;
    /// Opens an existing regular file, never through a link.
    fn open(&self, name: Name<'_>, access: Access) -> io::Result<Self::File>;
    /// The file's visible length in bytes.
    fn len(&self, file: &Self::File) -> io::Result<u64>;
    /// Reads at an offset; 0 means end of file. May be short.
    fn read_at(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes at an offset. May be short, and a kill may leave any prefix of it that ends on a page of the file.
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Reserves blocks for a range that may lie behind the end, without changing the length, so that writes there do
    /// not lack room. `false`: it cannot be done here (only Linux can, and not on every file system), and nothing is
    /// reserved. After an error some of it may be. A cut at or before the range gives them back.
    fn allocate(&self, file: &Self::File, offset: u64, len: u64) -> io::Result<bool>;
    /// Cuts the file. Durable with the next sync of the file.
    fn truncate(&self, file: &Self::File, len: u64) -> io::Result<()>;
    /// Makes content and length durable. After an error the unsynced bytes may be gone from the disk for good while
    /// reads still show them and a second sync succeeds: so an error is final.
    fn sync_data(&self, file: &Self::File) -> io::Result<()>;
    /// Makes the folder's names durable. An error is final, as above.
    fn sync_folder(&self, folder: Folder) -> io::Result<()>;
    /// Takes the permission to write from a file, and makes that durable.
    fn seal(&self, name: Name<'_>) -> io::Result<()>;
    /// Gives it back.
    fn unseal(&self, name: Name<'_>) -> io::Result<()>;
    /// Whether the file is sealed. A sealed one cannot be opened for writing.
    fn is_sealed(&self, file: &Self::File) -> io::Result<bool>;
    /// What [`Storage::len`] and [`Storage::is_sealed`] say of the file that [`Storage::open`] would open. An opening asks it of every
    /// segment, so whoever can should answer it with one call.
    fn look(&self, name: Name<'_>) -> io::Result<Seen> {
        let file = self.open(name, Access::Read)?;
        Ok(Seen { len: self.len(&file)?, sealed: self.is_sealed(&file)? })
    }
    /// The visible length of what the name leads to now, if that is this very file: an open file goes on after its name is gone, and what is
    /// written to it then is lost. Whoever can tell two files apart, and can follow the name from the outside, should do so.
    fn length_at(&self, name: Name<'_>, _file: &Self::File) -> io::Result<Option<u64>> {
        match self.look(name) {
            Ok(seen) => Ok(Some(seen.len)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
    /// Replaces `to`, atomically for readers. Durable with the next sync of the folder.
    fn rename(&self, folder: Folder, from: &str, to: &str) -> io::Result<()>;
    /// Gives the file the same name in another folder as well; there it must not exist. Durable with the next sync of that
    /// folder.
    fn link(&self, file: &str, from: Folder, to: Folder) -> io::Result<()>;
    /// Removes a name. Durable with the next sync of the folder.
    fn unlink(&self, name: Name<'_>) -> io::Result<()>;
    /// The names of a folder, sorted.
    fn list(&self, folder: Folder) -> io::Result<Vec<String>>;
}

/// Reads from an offset to the end of the file.
pub(crate) fn read_from<S: Storage>(storage: &S, file: &S::File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(storage, file, offset, u64::MAX, &mut bytes)?;
    Ok(bytes)
}

/// Reads this many bytes from an offset on, or fewer if the file ends before.
pub(crate) fn read_part<S: Storage>(storage: &S, file: &S::File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(storage, file, offset, u64::try_from(len).unwrap_or(u64::MAX), &mut bytes)?;
    Ok(bytes)
}

/// Reads at most `len` bytes from an offset on, in place of what the buffer holds: fresh memory for each segment costs
/// more than reading it.
pub(crate) fn read_into<S: Storage>(
    storage: &S,
    file: &S::File,
    mut offset: u64,
    len: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    let expected = storage.len(file)?.saturating_sub(offset).min(len);
    let expected = usize::try_from(expected).map_err(|_wide| io::ErrorKind::FileTooLarge)?;
    if bytes.capacity() < expected {
        // Zeroed by the allocator, which need not touch it. One that is read into again gets some room: segments differ a
        // little in length, and each new buffer has the kernel make all its pages anew.
        let room = if bytes.capacity() == 0 { 0 } else { expected / 8 };
        *bytes = vec![0; expected + room];
    }
    bytes.resize(expected, 0);
    let mut filled = 0;
    while filled < bytes.len() {
        match storage.read_at(file, offset, &mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => {
                filled += read;
                offset += u64::try_from(read).expect("a buffer's length fits 64 bits");
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(())
}

/// Writes all bytes or says why not. A short write is continued: the next call tells the reason.
pub(crate) fn write_all<S: Storage>(storage: &S, file: &S::File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match storage.write_at(file, offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += u64::try_from(written).expect("a buffer's length fits 64 bits");
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
