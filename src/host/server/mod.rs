//! The host process: owns one episode from before its command's first instruction until after its last process.
//!
//! ```text
//! arguments  its command line          start     the order of coming up
//! command    fork, gate, exec          episode   what it owns and does
//! poll       its one wait              ending    how an episode ends
//! output     pipes to spool            input     standard input, and delivery: messages for it
//! endpoint   its socket                connection, requests, cursor   who is connected, what they ask, where they read
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

use self::arguments::{ArgumentError, Arguments};
use super::files;
use super::wire::{Report, StartFailure, StartPhase};
use crate::os::fail::{Point, pass};

/// How the host is called.
pub mod arguments;
mod command;
mod connection;
mod cursor;
mod delivery;
mod ending;
mod endpoint;
mod episode;
mod input;
mod limits;
mod output;
mod poll;
mod reap;
mod requests;
mod start;

/// Runs a host to its end. `rest` is what follows `ostler host`.
///
/// # Errors
/// If the command line is not one that a broker writes. What fails later is reported to the starter, and the result is
/// the process's exit code.
pub fn run(rest: &[OsString]) -> Result<u8, ArgumentError> {
    let arguments = Arguments::parse(rest)?;
    let Ok(inherited) = start::inherit(&arguments) else {
        return Ok(1);
    };
    pass(Point::HostInherited);
    // A second handle, because the first goes on with the episode.
    let report = inherited.report.try_clone();
    match start::start(arguments, inherited) {
        Ok(mut episode) => {
            drop(report);
            let ended = episode.run();
            pass(Point::HostOver);
            Ok(u8::from(ended.is_err()))
        }
        Err(failure) => {
            if let Ok(report) = report {
                tell(report, failure);
            }
            Ok(1)
        }
    }
}

/// Nothing has happened: says so to the starter, who may be gone.
fn tell(mut report: File, failure: StartFailure) {
    debug_assert_eq!(failure.phase, StartPhase::Host, "what fails before the gate is the host's");
    drop(report.write_all(&files::to_line(&Report::Failed { failure })));
}

/// Who connected, as the kernel says.
fn peer_uid(stream: &UnixStream) -> Option<u32> {
    Some(getsockopt(stream, PeerCredentials).ok()?.uid())
}
