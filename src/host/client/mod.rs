//! What a broker does with hosts: it prepares their folders, starts them, judges what it finds after a crash, speaks to
//! the living and finishes what the dead left. Everything but `link` is blocking.

/// What can be seen of an episode without speaking to its host.
pub mod evidence;
/// Ending what a dead or stuck host left.
pub mod finish;
/// The connection to a living host.
pub mod link;
/// Folders and files that must exist before a host does.
pub mod prepare;
/// What a dead host's journal knows.
pub mod probe;
/// Removing a session's files.
pub mod remove;
/// Starting hosts.
pub mod spawner;
/// What the evidence means.
pub mod verdict;

pub use evidence::{Evidence, gather, has_host};
pub use finish::{end_starting_host, finish_dead_host};
pub use link::{Link, LinkError};
pub use prepare::{PrepareError, Prepared, load_spec, prepare_episode, prepare_session, read_credential};
pub use probe::{Probe, probe};
pub use remove::remove_session_files;
pub use spawner::{Launch, LaunchOutcome, Spawner};
pub use verdict::{Verdict, judge, judge_without_lock};
