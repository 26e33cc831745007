//! What every test of real processes stands on: a throwaway state root with a cleared environment, commands with a
//! deadline, waiting for conditions, looking at processes.
//!
//! Promises: tests share nothing (own root, home, runtime folder and temp folder); a test that leaves a process behind fails
//! and the process is ended; nothing outside [`wait`] sleeps.

mod disk;
pub(crate) mod leftovers;
mod output;
mod process;
mod root;
mod running;
pub(crate) mod scene;
pub(crate) mod usage;
mod wait;

pub(crate) use disk::DiskRoot;
pub(crate) use output::Output;
pub(crate) use process::Process;
pub(crate) use root::{Root, finish};
pub(crate) use running::{Running, copy_program};
pub(crate) use usage::Usage;
pub(crate) use wait::{poll, wait_for, wait_until};

/// How long a test waits for what should happen at once. Slack for a loaded machine, never a measurement.
pub(crate) const SOON: std::time::Duration = std::time::Duration::from_secs(30);

/// The product.
pub(crate) const OSTLER: &str = env!("CARGO_BIN_EXE_ostler");

/// Path of the same product as another build: version 0.2.0, protocol 1 to 2, host wire 2 (`tools/next`).
pub(crate) const NEXT: &str = env!("CARGO_BIN_EXE_ostler-next");

/// The stand-in for an agent.
pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_ostler-fixture");
