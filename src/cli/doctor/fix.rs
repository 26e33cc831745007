//! `ostler doctor --fix CHECK`: one repair, named by the check that asks for it, while no broker runs and none can begin. What is repaired is
//! derived or set aside already: nothing that was acknowledged, and no session.

use ostler_ledger::storage::try_writer_lock;

use super::super::context::Context;
use super::super::failure::Failure;
use crate::broker::{discovery, quarantine};
use crate::os::clock;
use crate::os::durable::Point;
use crate::os::paths::StateRoot;
use crate::rpc::error::{ErrorCode, WireError};

/// What can be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Repair {
    /// Remove a discovery record that leads nowhere, and what stands in its place
    Discovery,
    /// Remove what was set aside: lock records of dead owners, tails that were never acknowledged
    Quarantine,
}

/// Repairs it; says what was done.
///
/// # Errors
/// `broker_blocked` while a broker runs or somebody else writes the ledger, and what the system answers. Then nothing was done, or a part.
pub(super) fn run(repair: Repair, context: &Context) -> Result<(&'static str, String), Failure> {
    let check = match repair {
        Repair::Discovery => "discovery",
        Repair::Quarantine => "quarantine",
    };
    let attempt = format!("repair the check {check}");
    let path = context.root_path(&attempt)?;
    let failed = |error: WireError| Failure::new(attempt.clone(), error);
    let root = StateRoot::open(&path).map_err(|error| failed(WireError::from(&error)))?;
    let Some(root) = root else { return Ok((check, "there is no state root yet; nothing to do".to_owned())) };
    let ledger = root.path().join("ledger");
    if !ledger.is_dir() {
        return Ok((check, "no broker has ever begun here; nothing to do".to_owned()));
    }
    let io = |error: std::io::Error| failed(WireError::new(ErrorCode::StorageFailed, error.to_string()));
    // Whoever holds it is the only one who may write here. A starter that waits for it waits no longer than this takes.
    let lock = try_writer_lock(&ledger).map_err(io)?.ok_or_else(|| failed(runs()))?;
    let done = match repair {
        Repair::Discovery => discovery::clear(&root).map_err(io)?,
        Repair::Quarantine => emptied(&root).map_err(io)?,
    };
    drop(lock);
    Ok((check, done))
}

fn runs() -> WireError {
    let message = "a broker runs here, or somebody else writes its ledger; nothing was repaired";
    let error = WireError::new(ErrorCode::BrokerBlocked, message).reason("ledger_lock");
    error.with("remedy", "ostler shutdown, which leaves sessions alone, then the same again")
}

fn emptied(root: &StateRoot) -> std::io::Result<String> {
    let folder = root.folder();
    let now_s = i64::try_from(clock::wall_us() / 1_000_000).unwrap_or(i64::MAX);
    // By a clock that lies beyond all their time.
    let swept = quarantine::sweep(folder, now_s.saturating_add(quarantine::KEPT_FOR_S * 2))?;
    let mut tails = 0;
    if folder.look("quarantine")?.is_some() {
        let set_aside = folder.open_folder("quarantine")?;
        for name in set_aside.names()? {
            set_aside.remove_all(&name)?;
            tails += 1;
        }
        set_aside.sync(Point::DoctorQuarantine)?;
    }
    folder.sync(Point::DoctorRoot)?;
    Ok(format!(
        "{} records of dead owners and {tails} pieces were removed, {} could not be",
        swept.removed, swept.stuck
    ))
}
