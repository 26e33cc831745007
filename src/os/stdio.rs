//! Standard output and error without a buffer of ours, for bytes that are passed through: what was written is out, and a
//! descriptor that somebody has made non-blocking loses nothing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// One of the two.
#[derive(Debug)]
pub struct RawOutput {
    file: File,
}

impl RawOutput {
    /// Standard output.
    ///
    /// # Errors
    /// What the system answers.
    pub fn stdout() -> io::Result<RawOutput> {
        RawOutput::duplicate(io::stdout().as_fd())
    }

    /// Standard error.
    ///
    /// # Errors
    /// What the system answers.
    pub fn stderr() -> io::Result<RawOutput> {
        RawOutput::duplicate(io::stderr().as_fd())
    }

    fn duplicate(fd: BorrowedFd<'_>) -> io::Result<RawOutput> {
        Ok(RawOutput { file: File::from(fd.try_clone_to_owned()?) })
    }

    /// Writes all of it, however often the descriptor says that it is not ready.
    ///
    /// # Errors
    /// What the system answers; `BrokenPipe` if nobody reads any more.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_ready()?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_ready(&self) -> io::Result<()> {
        match poll(&mut [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::io::Read;

    #[test]
    fn a_full_non_blocking_pipe_loses_nothing() {
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let mut output = RawOutput::duplicate(writer.as_fd()).unwrap();
        drop(writer);
        let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        let feeder = std::thread::spawn(move || output.write_all(&sent));
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        feeder.join().unwrap().unwrap();
        assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    }

    #[test]
    fn a_reader_that_left_is_a_broken_pipe() {
        let (reader, writer) = io::pipe().unwrap();
        let mut output = RawOutput::duplicate(writer.as_fd()).unwrap();
        drop(reader);
        assert_eq!(output.write_all(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
