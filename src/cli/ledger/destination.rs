//! Where an export goes: to standard output (`-`), to a file that is replaced at once, or through a device or a pipe.
//!
//! Promise: only a regular file, or a link to one or to nothing, is ever replaced. To put a file in the place of `/dev/null` would harm the
//! whole machine, so what is no regular file keeps its place: a device or pipe is written through, a folder or socket refused.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::super::failure::Failure;
use super::super::text;
use super::source::Look;
use crate::os::durable::Point;
use crate::os::folder::Folder;
use crate::os::replacement::Replacement;
use crate::rpc::error::{ErrorCode, WireError};

/// The file of an export, and the flag that named it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destination<'a> {
    pub(super) path: &'a Path,
    pub(super) flag: &'static str,
    pub(super) look: &'a Look,
}

/// What takes an export's bytes.
pub(super) struct Sink<'a> {
    file: &'a mut dyn Write,
    destination: &'a Destination<'a>,
}

impl Sink<'_> {
    /// Takes these bytes.
    ///
    /// # Errors
    /// What keeps them from being written.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| self.destination.unwritten(&error))
    }
}

/// The file that was named, unless that is standard output.
pub(super) fn file(named: Option<&Path>) -> Option<&Path> {
    named.filter(|path| *path != Path::new("-"))
}

impl Destination<'_> {
    /// Writes what `content` gives.
    ///
    /// # Errors
    /// Those of `content`, and what keeps the file from being written. A file that stood there is untouched then.
    pub(super) fn fill(&self, content: impl FnOnce(&mut Sink<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        if self.is_passage()? {
            return self.pass_through(content);
        }
        let (folder, name) = place(self.path).map_err(|error| self.unwritten(&error))?;
        let mut file = Replacement::begin(&folder, &name).map_err(|error| self.unwritten(&error))?;
        content(&mut Sink { file: &mut file, destination: self })?;
        file.commit([Point::ExportContent, Point::ExportNamed]).map_err(|error| self.unwritten(&error))
    }

    fn pass_through(&self, content: impl FnOnce(&mut Sink<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let opened = OpenOptions::new().write(true).open(self.path);
        let mut file = BufWriter::new(opened.map_err(|error| self.unwritten(&error))?);
        let written = content(&mut Sink { file: &mut file, destination: self })
            .and_then(|()| file.flush().map_err(|error| self.unwritten(&error)));
        written.map_err(|failure| failure.with("changed", "some of it may have been written there"))
    }

    /// Whether a device or pipe stands there, or a link to one. What cannot be looked at is left to the replacement, which says why.
    fn is_passage(&self) -> Result<bool, Failure> {
        let Ok(there) = std::fs::metadata(self.path) else { return Ok(false) };
        let kind = there.file_type();
        let flag = self.flag;
        if kind.is_dir() {
            let inside = text::shell_str(&self.path.join("FILE").display().to_string());
            return Err(self.refused("is a folder", format!("the same command with --{flag} {inside}")));
        }
        if kind.is_socket() {
            return Err(self.refused("is a socket", format!("the same command with another --{flag} FILE")));
        }
        // `/dev/stdout` and the like, where a file is open: the link is the machine's, and what it means differs for each process.
        if kind.is_file() && std::fs::read_link(self.path).is_ok_and(|to| to.starts_with("/proc")) {
            let remedy =
                format!("the same command with --{flag} -, which is standard output, or another --{flag} FILE");
            return Err(self.refused("leads to a file that is open already", remedy));
        }
        Ok(!kind.is_file())
    }

    fn refused(&self, what: &str, remedy: String) -> Failure {
        let error = WireError::new(ErrorCode::InvalidInput, format!("{} {what}", self.path.display())).reason("output");
        self.look.failure(error.with("remedy", remedy))
    }

    /// A file that cannot be written, as an error of the contract.
    fn unwritten(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{self, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
        let is_full = |kind| matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        let is_elsewhere = |kind| {
            matches!(
                kind,
                NotFound
                    | NotADirectory
                    | IsADirectory
                    | PermissionDenied
                    | ReadOnlyFilesystem
                    | ErrorKind::InvalidInput
            )
        };
        let code = match error.kind() {
            kind if is_full(kind) => ErrorCode::StorageFull,
            kind if is_elsewhere(kind) => ErrorCode::InvalidInput,
            _ => ErrorCode::StorageFailed,
        };
        let message = format!("{} cannot be written: {error}", self.path.display());
        let error = WireError::new(code, message).reason("output");
        self.look.failure(error.with("remedy", format!("the same command with another --{} FILE", self.flag)))
    }
}

/// The folder of a path, which may be a link, and the name in it, which is replaced even if it is a link to a file.
fn place(path: &Path) -> io::Result<(Folder, String)> {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    let name =
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file in UTF-8"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Folder::open(&std::fs::canonicalize(parent)?)?, name.to_owned()))
}
