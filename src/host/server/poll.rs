//! The host's one wait: for signals, peers, pipes and the next deadline. Without any of them it does not wake.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::ending::Stage;
use super::episode::Episode;
use crate::host::spool::frame::Stream;
use crate::os::clock;

/// Bytes of a follower's output sent at once.
const SCRATCH_BYTES: usize = 64 * 1024;

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Source {
    Signals,
    Endpoint,
    Exec,
    Pipe(Stream),
    Input,
    Connection(usize),
}

impl Episode {
    /// Runs until nothing is left to do.
    ///
    /// # Errors
    /// If the system refuses to let us wait, which leaves the episode to its end by the host's death.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while self.advance(clock::boot_us()) {
            let ready = self.wait()?;
            let now_us = clock::boot_us();
            for (source, flags) in ready {
                self.happened(source, flags, now_us);
            }
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.remove();
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Vec<(Source, PollFlags)>> {
        let (mut sources, mut fds) = (Vec::new(), Vec::new());
        let mut add = |source, fd, flags| {
            sources.push(source);
            fds.push(PollFd::new(fd, flags));
        };
        if let Some(signals) = &self.signals {
            add(Source::Signals, signals.as_fd(), PollFlags::POLLIN);
        }
        if let Some(endpoint) = &self.endpoint {
            add(Source::Endpoint, endpoint.listener.as_fd(), PollFlags::POLLIN);
        }
        if let Some(starting) = &self.starting {
            add(Source::Exec, starting.status.as_fd(), PollFlags::POLLIN);
        }
        if self.ending.stage() != Stage::Flush {
            for (stream, pipe) in self.output.readable(self.needed()) {
                add(Source::Pipe(stream), pipe.as_fd(), PollFlags::POLLIN);
            }
        }
        if let Some(pipe) = self.input.wants_room() {
            add(Source::Input, pipe.as_fd(), PollFlags::POLLOUT);
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, connection.reads());
            flags.set(PollFlags::POLLOUT, connection.writes(&self.output.spool));
            add(Source::Connection(index), connection.stream.as_fd(), flags);
        }
        match poll(&mut fds, self.timeout()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        Ok(sources.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty()).collect())
    }

    fn timeout(&self) -> PollTimeout {
        let Some(next_us) = self.next_us() else {
            return PollTimeout::NONE;
        };
        let left_ms = next_us.saturating_sub(clock::boot_us()).div_ceil(1_000);
        PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
    }

    fn happened(&mut self, source: Source, flags: PollFlags, now_us: u64) {
        match source {
            Source::Signals => self.signalled(now_us),
            Source::Endpoint => self.accept(now_us),
            Source::Exec => self.exec_answered(now_us),
            Source::Pipe(stream) => {
                if self.output.read(stream, self.needed()) > 0 {
                    self.progress();
                    self.tell_what_was_seen();
                }
            }
            Source::Input => self.feed_on(),
            Source::Connection(index) => self.connection_ready(index, flags, now_us),
        }
    }

    fn signalled(&mut self, now_us: u64) {
        while let Some(Ok(Some(info))) = self.signals.as_ref().map(|signals| signals.read_signal()) {
            match i32::try_from(info.ssi_signo).map(Signal::try_from) {
                Ok(Ok(Signal::SIGCHLD)) => self.children_ended(now_us),
                Ok(Ok(Signal::SIGUSR1)) => self.bind_again(),
                Ok(Ok(Signal::SIGTERM)) => self.terminated(now_us),
                // Not asked for.
                Ok(Ok(_) | Err(_)) | Err(_) => {}
            }
        }
    }

    fn connection_ready(&mut self, index: usize, flags: PollFlags, now_us: u64) {
        if flags.contains(PollFlags::POLLIN) {
            self.connections[index].receive();
        } else if flags.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            return self.connections[index].cut();
        }
        self.serve(index, now_us);
        if self.connections[index].follow.is_some() && self.scratch.is_empty() {
            self.scratch.resize(SCRATCH_BYTES, 0);
        }
        self.connections[index].send(&self.output.spool, &mut self.scratch);
    }
}
