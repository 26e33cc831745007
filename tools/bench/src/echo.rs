//! The floor of many clients at once: the least program with the same hand-offs. One thread reads lines and writes answers, another
//! appends and syncs what has come meanwhile; nothing is parsed, decided, chained or remembered.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::at;
use crate::broker::Client;

/// A running echo. It ends when its clients have gone.
pub(crate) struct Echo {
    pub(crate) clients: Vec<Client>,
    /// Its two threads in `/proc`.
    pub(crate) threads: Vec<PathBuf>,
}

/// What one request comes to.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes that it puts into the file.
    pub(crate) appended: usize,
    /// Bytes of its answer, the line feed included.
    pub(crate) answer: usize,
}

impl Echo {
    pub(crate) fn start(folder: &Path, clients: usize, sizes: Sizes) -> Result<Echo, String> {
        let path = folder.join("echo");
        let listener = at("the echo's socket", UnixListener::bind(&path))?;
        let file = at("the echo's file", File::create(folder.join("echo-file")))?;
        let clients: Vec<Client> = (0..clients)
            .map(|_| at("connect", UnixStream::connect(&path)).map(Client::new))
            .collect::<Result<_, _>>()?;
        let streams = clients.iter().map(|_| listener.accept().map(|(stream, _)| stream));
        let streams: Vec<UnixStream> = at("accept", streams.collect())?;
        let (asked, inbox) = channel();
        let (done, outbox) = channel();
        let bell = Arc::new(at("eventfd", EventFd::new())?);
        let (ring, (started, tasks)) = (Arc::clone(&bell), channel());
        let also_started = started.clone();
        std::thread::spawn(move || {
            let _gone = also_started.send(task());
            append(&inbox, &done, &ring, file, sizes.appended)
        });
        std::thread::spawn(move || {
            let _gone = started.send(task());
            serve(streams, &asked, &outbox, &bell, sizes.answer)
        });
        let threads = tasks.iter().take(2).collect();
        Ok(Echo { clients, threads })
    }
}

/// This thread in `/proc`.
pub(crate) fn task() -> PathBuf {
    PathBuf::from(format!("/proc/self/task/{}", nix::unistd::gettid()))
}

/// Reads lines and writes answers until everybody has gone. An error ends it, and whoever waits for an answer sees that.
fn serve(
    mut streams: Vec<UnixStream>,
    asked: &Sender<usize>,
    outbox: &Receiver<Vec<usize>>,
    bell: &EventFd,
    answer: usize,
) -> Option<()> {
    let answer = [vec![b'x'; answer.saturating_sub(1)], vec![b'\n']].concat();
    let mut buffer = vec![0; 8 * 1024];
    loop {
        let ready: Vec<bool> = {
            let fds = streams.iter().map(AsFd::as_fd).chain([bell.as_fd()]);
            let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            poll(&mut fds, PollTimeout::NONE).ok()?;
            fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect()
        };
        for (number, stream) in streams.iter_mut().enumerate().filter(|(number, _)| ready.get(*number) == Some(&true)) {
            match stream.read(&mut buffer).ok()? {
                0 => return None,
                bytes if buffer.get(bytes - 1) == Some(&b'\n') => asked.send(number).ok()?,
                _ => {}
            }
        }
        if ready.last() == Some(&true) {
            bell.read().ok()?;
            for number in outbox.try_iter().flatten() {
                streams.get_mut(number)?.write_all(&answer).ok()?;
            }
        }
    }
}

/// Appends and syncs what has come meanwhile, then rings.
fn append(
    inbox: &Receiver<usize>,
    done: &Sender<Vec<usize>>,
    bell: &EventFd,
    mut file: File,
    bytes: usize,
) -> Option<()> {
    loop {
        let batch: Vec<usize> = [inbox.recv().ok()?].into_iter().chain(inbox.try_iter()).collect();
        file.write_all(&vec![b'x'; bytes * batch.len()]).ok()?;
        file.sync_data().ok()?;
        done.send(batch).ok()?;
        bell.write(1).ok()?;
    }
}
