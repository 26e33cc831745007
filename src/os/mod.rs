//! The one door to the system: whoever needs a clock, entropy, a process, a signal, a path or a peer asks here, so
//! that the rest of the crate stays testable and its platform differences stay in one room.
//!
//! Nothing in here knows sessions, brokers or ledgers.

/// Bytes of the system that are usually, but not always, text.
pub mod arg;
/// Which build of ostler this is.
pub mod build;
/// Wall and boot time.
pub mod clock;
/// One deadline for a whole command.
pub mod deadline;
/// Starting a process that outlives its starter.
pub mod detach;
/// The one door of syncs.
pub mod durable;
/// Randomness from the kernel.
pub mod entropy;
/// The one reading of the process environment.
pub mod environment;
/// What an error of the system means.
pub mod errors;
/// Passing a point, where a test build can pause, fail or die.
pub mod fail;
/// What kind of file system a folder is on.
pub mod filesystem;
/// A folder held by its descriptor.
pub mod folder;
/// Which process is meant.
pub mod identity;
/// INT, TERM and HUP as events.
pub mod interruption;
/// Soft resource limits and the file mode mask.
pub mod limits;
/// The system's lock table.
pub mod locks;
/// Memory that was needed for a moment.
pub mod memory;
/// The state root: where it is, that it is ours.
pub mod paths;
/// The table of points.
pub mod points;
/// Work that everything else goes before.
pub mod priority;
/// The kernel's process table, read only.
pub mod process;
/// A file's new content, put in place at once.
pub mod replacement;
/// The runtime folder: where sockets live.
pub mod runtime;
/// Signals that reach who is meant or nobody.
pub mod signal;
/// Local sockets, and who is at their other end.
pub mod socket;
/// Starts a program detached.
pub mod spawn;
/// Standard output and error without a buffer.
pub mod stdio;
/// What a service manager and this process tell each other.
pub mod supervisor;
/// Word that something in a folder has changed.
pub mod watch;
