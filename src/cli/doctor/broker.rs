//! The broker: does one answer, who holds the lock, and does what it published agree with both.

use super::Check;
use crate::broker::discovery::{self, Found};
use crate::broker::front::NO_RECORDS;
use crate::cli::context::Context;
use crate::cli::status;
use crate::os::build::build;
use crate::os::folder::Kind;
use crate::os::paths::StateRoot;
use crate::os::runtime::RuntimeFolder;
use crate::rpc::wire::{BrokerStatusResult, RootId, RunState};

/// What is to say about the broker, and how it is.
pub(super) fn check(root: &StateRoot, context: &Context) -> (Vec<Check>, Option<BrokerStatusResult>) {
    let status = match status::look(root, context, context.bounded(status::ANSWER_WITHIN)) {
        Ok(status) => status,
        Err(error) => {
            let told = Check::warn("broker", error.message, "ostler doctor with a longer --timeout");
            return (vec![told], None);
        }
    };
    let mut checks =
        vec![state(&status), version(&status), lock(root, &status), record(root, &status), runtime(root, &status)];
    checks.extend(status.degraded.iter().map(|trouble| {
        let remedy = if trouble.starts_with(NO_RECORDS) {
            "make room, or put the ledger's files back as they were; it is tried again every second"
        } else {
            "look into broker.log"
        };
        Check::warn("degraded", trouble.clone(), remedy)
    }));
    (checks, Some(status))
}

/// Whether the broker is of this program's version. Sessions go on while it is replaced.
fn version(status: &BrokerStatusResult) -> Check {
    const CHECK: &str = "version";
    let ours = build().version;
    match &status.broker {
        None => Check::skip(CHECK, format!("this is {ours}; no broker answers")),
        Some(broker) if broker.version == ours => Check::ok(CHECK, format!("broker and program are {ours}")),
        Some(broker) => Check::warn(
            CHECK,
            format!("the broker is {}, and this program {ours}", broker.version),
            "ostler upgrade; sessions go on",
        ),
    }
}

fn state(status: &BrokerStatusResult) -> Check {
    const CHECK: &str = "broker";
    match (status.state, &status.broker) {
        (RunState::Running, Some(broker)) => Check::ok(
            CHECK,
            format!("pid {}, generation {}, version {}", broker.pid, broker.generation, broker.version),
        ),
        (RunState::Running, None) => Check::ok(CHECK, "it answers"),
        (RunState::Absent, _) => Check::skip(CHECK, "no broker runs; the next command starts one"),
        (RunState::Starting, _) => Check::warn(CHECK, "it is starting", "the same again a little later"),
        (RunState::Draining, _) => Check::warn(CHECK, "it is leaving", "the same again a little later"),
        (RunState::Unresponsive, _) => {
            Check::fail(CHECK, "it holds the lock and does not answer", "ostler shutdown --force")
        }
        (RunState::Blocked, _) => {
            Check::fail(CHECK, "no broker can start here", "see the lines about lock and trouble")
        }
    }
}

fn lock(root: &StateRoot, status: &BrokerStatusResult) -> Check {
    const CHECK: &str = "lock";
    let shown = status::lock_line(&status.lock);
    match root.folder().look(crate::broker::lock::LOCK_NAME) {
        Err(error) => return Check::skip(CHECK, error.to_string()),
        Ok(Some(there)) if there.kind != Kind::File => {
            return Check::warn(
                CHECK,
                "something that is no file stands in its place",
                "nothing: the next start sets it aside",
            );
        }
        Ok(Some(_) | None) => {}
    }
    match (status.lock.held, status.lock.owner_lives) {
        (Some(true), Some(false)) => Check::warn(
            CHECK,
            format!("{shown}: another process holds it, perhaps one that is just starting"),
            "the same again a little later",
        ),
        (Some(_), _) => Check::ok(CHECK, shown),
        (None, _) => Check::skip(CHECK, format!("{shown}: the system's lock table does not tell")),
    }
}

fn record(root: &StateRoot, status: &BrokerStatusResult) -> Check {
    const CHECK: &str = "discovery";
    let found = match discovery::read(root.folder()) {
        Ok(found) => found,
        Err(error) => return Check::skip(CHECK, error.to_string()),
    };
    match (found, &status.broker) {
        (Found::Damaged(why), _) => {
            let remedy = "nothing: a broker publishes it again; where none runs, ostler doctor --fix discovery";
            Check::warn(CHECK, format!("broker.json: {why}"), remedy)
        }
        (Found::Absent, None) => Check::ok(CHECK, "nothing is published and no broker answers"),
        (Found::Absent, Some(_)) => Check::warn(
            CHECK,
            "a broker answers but nothing is published",
            "nothing: it publishes again within a second",
        ),
        (Found::Record(record), _) if record.root_id != RootId::new(root.device(), root.inode()) => {
            Check::warn(CHECK, "broker.json belongs to another root: this one is a copy", "nothing: it is ignored")
        }
        (Found::Record(record), Some(broker)) if record.broker.incarnation != broker.incarnation => {
            Check::warn(CHECK, "another broker answers than the published one", "the same again a little later")
        }
        (Found::Record(_), Some(_)) => Check::ok(CHECK, "the published broker is the one that answers"),
        (Found::Record(record), None) if status.lock.held == Some(true) => Check::warn(
            CHECK,
            format!("the published broker (pid {}) does not answer, and the lock is held", record.broker.pid),
            if status.state == RunState::Unresponsive {
                "ostler shutdown --force"
            } else {
                "the same again a little later"
            },
        ),
        (Found::Record(record), None) => Check::ok(
            CHECK,
            format!(
                "a broker that does not answer is published (pid {}); the next start replaces it",
                record.broker.pid
            ),
        ),
    }
}

fn runtime(root: &StateRoot, status: &BrokerStatusResult) -> Check {
    const CHECK: &str = "socket";
    let Some(broker) = &status.broker else { return Check::skip(CHECK, "no broker has one") };
    let folder = broker.endpoint.strip_prefix("unix:").and_then(|path| std::path::Path::new(path).parent());
    match folder.map(RuntimeFolder::open) {
        None => Check::skip(CHECK, "the endpoint is no socket of this system"),
        Some(Ok(folder)) => Check::ok(CHECK, format!("in {}, ours alone", folder.path().display())),
        Some(Err(error)) => {
            Check::fail(CHECK, error.to_string(), format!("close the folder to others; root {}", root.path().display()))
        }
    }
}
