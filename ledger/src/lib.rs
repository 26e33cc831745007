//! An append-only, digest-chained record ledger. It knows records and chains, not what they mean.
//!
//! The format is text: README.md beside this crate says it exactly enough for a stranger with stock tools. Inside:
//! [`Entry`] becomes a line, [`Ledger`] appends turns of lines, recovery judges what a crash or a fault left by one
//! literal table, and [`Storage`] is the only way to the world. There is no clock and no randomness in here.
#![cfg_attr(not(test), warn(missing_docs))]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod accept;
mod canonical;
mod chain;
mod digest;
mod entry;
mod excerpt;
mod ledger;
pub mod limits;
mod lookup;
mod members;
mod merkle;
mod onward;
mod proof;
mod prove;
mod reader;
mod record;
mod recovery;
mod render;
mod retire;
mod seal;
mod segment;
mod slice;
mod snapshot;
/// The port to files and folders, on disk and simulated.
pub mod storage;
pub mod strict;
mod verify;

pub use accept::{Finding, accepted};
pub use canonical::ValueFault;
pub use digest::{Digest, NotAPosition, Position};
pub use entry::{Entry, EntryFault, Stamp, turns_of};
pub use excerpt::{ExcerptReport, OwnNumbers, verify_excerpt};
pub use ledger::{
    AppendError, DroppedSnapshot, Fold, Ledger, OpenError, Options, Recovery, RetireError, Retired, SealedSegment,
    SnapshotDraft, SnapshotError, SyncError,
};
pub use lookup::record_at;
pub use members::Members;
pub use onward::Onward;
pub use proof::{Proof, ProofError, verify_proof};
pub use prove::{ProveError, prove};
pub use reader::{ReadError, Records};
pub use record::{Header, Record};
pub use recovery::table::Class;
pub use recovery::{Problem, TailReport};
pub use segment::is_segment;
pub use storage::Storage;
#[cfg(unix)]
pub use verify::verify_folder;
pub use verify::{HeadReport, Seen, VerifyOptions, VerifyReport, Watched, head, verify, verify_watching};
