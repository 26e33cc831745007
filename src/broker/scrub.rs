//! The scrub: a start that begins with a snapshot reads nothing that lies before it, so the whole ledger is verified
//! afterwards, behind everything else; and again when segments go or come back. What it finds degrades the broker; nothing is changed and nobody is fenced, because
//! the state does not rest on it. An outcome that cannot be read back any more is `uncertain`, as ever.

use super::accept::Standing;
use crate::os::priority;
use ostler_ledger::{Problem, VerifyOptions, verify_folder};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// What is verified, and what is known to be wrong with it.
#[derive(Clone, Debug)]
pub struct Scrub {
    /// The ledger's folder.
    pub ledger: PathBuf,
    /// The boot that the machine is in.
    pub boot: String,
    /// What the recovery found.
    pub known: Vec<Problem>,
    /// It is at work.
    pub working: Arc<AtomicBool>,
}

impl Scrub {
    /// Verifies on a thread of its own, which ends with the process at the latest; tells what is wrong. False: it is at work already.
    pub fn begin(&self, found: &watch::Sender<Vec<Standing>>) -> bool {
        if self.working.swap(true, Ordering::Relaxed) {
            return false;
        }
        let (scrub, found) = (self.clone(), found.clone());
        let look = move || {
            drop(found.send_replace(scrub.look()));
            scrub.working.store(false, Ordering::Relaxed);
        };
        if let Err(error) = priority::behind("scrub", look) {
            tracing::warn!(%error, "the whole ledger is not verified");
            self.working.store(false, Ordering::Relaxed);
        }
        true
    }

    fn look(&self) -> Vec<Standing> {
        let options = VerifyOptions { boot: Some(self.boot.clone()), since: None };
        let report = match verify_folder(&self.ledger, &options) {
            Ok(report) => report,
            Err(error) => {
                tracing::error!(%error, "the whole ledger cannot be verified");
                let text = format!("ledger: it cannot be verified as a whole: {error}");
                return vec![Standing::of(text)];
            }
        };
        tracing::info!(records = report.records, problems = report.problems.len(), "the whole ledger was verified");
        let is_new = |problem: &&Problem| !self.known.iter().any(|known| is_same(known, problem));
        let told = report.problems.iter().filter(is_new).map(|problem| {
            tracing::error!(
                class = problem.class.name(),
                segment = problem.segment,
                detail = problem.detail,
                "ledger problem beside those that the start found"
            );
            Standing::from(problem)
        });
        told.collect()
    }
}

fn is_same(one: &Problem, other: &Problem) -> bool {
    (one.class, &one.segment, one.offset, one.seq) == (other.class, &other.segment, other.offset, other.seq)
}
