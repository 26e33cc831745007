//! `run -i`: standard input goes to the command, through its host.

use std::io::{self, Read};
use std::path::Path;

use data_encoding::BASE64;

use crate::host::files::{self, Document, HOST_JSON};
use crate::host::read::Connection;
use crate::host::wire::{HostRecord, INPUT_BYTES_MAX, Request};

/// Begins to pass standard input on, on a thread that lives as long as there is input or this process. A command that has ended, or has
/// closed its input, needs none: then there is nothing to do and nothing to say.
pub(super) fn forward(folder: &Path) {
    let Document::Present(record) = files::read_json::<HostRecord>(&folder.join(HOST_JSON)) else { return };
    let Ok(mut connection) = Connection::open(&record) else { return };
    let feeder = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        // The host has gone, or the command takes no more.
        drop(feed(&mut io::stdin().lock(), &mut connection));
    });
    drop(feeder);
}

fn feed(input: &mut impl Read, connection: &mut Connection) -> io::Result<()> {
    let mut buffer = vec![0; INPUT_BYTES_MAX];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                connection.ask(Request::Input { b64: BASE64.encode(&buffer[..count]), eof: false })?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What cannot be read has ended.
            Err(_) => break,
        }
    }
    connection.ask(Request::Input { b64: String::new(), eof: true })?;
    Ok(())
}
