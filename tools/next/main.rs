//! The same broker as another build: a later version with a wider protocol and a host wire of its own, for tests of what happens between versions.
//!
//! `OSTLER_TEST_PROTOCOL` (`3-3`) makes it a build that shares no protocol with this one, `OSTLER_TEST_BROKEN` one whose brokers die at once.
#![expect(
    clippy::disallowed_methods,
    reason = "which build it is comes before everything that could read the environment"
)]

use std::ffi::OsString;
use std::process::ExitCode;

use ostler::os::build::{Build, be};

/// Lowest and highest version of the protocol.
fn protocol() -> (u32, u32) {
    let Ok(range) = std::env::var("OSTLER_TEST_PROTOCOL") else { return (1, 2) };
    let (min, max) = range.split_once('-').expect("MIN-MAX");
    (min.parse().expect("a number"), max.parse().expect("a number"))
}

fn main() -> ExitCode {
    be(Build { version: "0.2.0", protocol: protocol(), host_wire: 2 });
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let is_broker = arguments.get(1).is_some_and(|command| command == "broker");
    assert!(!is_broker || std::env::var_os("OSTLER_TEST_BROKEN").is_none(), "broken, as ordered");
    ostler::cli::run(&arguments)
}
