//! The ledger's tests, one binary. Simulated storage unless a test says otherwise.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod accepts;
mod alterations;
mod basics;
mod crashes;
mod damage;
mod damages;
mod excerpts;
mod faults;
mod format;
mod history;
mod judges;
mod judging;
mod kills;
mod lookup;
mod onward;
mod openings;
mod oracle;
mod port;
mod proofs;
mod readers;
mod reserve;
mod retirement;
mod retirement_again;
mod seals;
mod sessions;
mod snapshots;
mod support;
mod tails;
