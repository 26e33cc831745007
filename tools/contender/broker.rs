//! A broker without sessions: everything of a start and an end but the ledger.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ostler::broker::discovery::{self, Record, SCHEMA};
use ostler::broker::lock::{self, Acquired, LOCK_NAME, Outcome, acquire, incarnation};
use ostler::broker::log::Log;
use ostler::broker::report::{Reporter, Stage};
use ostler::broker::watch::{Verdict, Watch};
use ostler::os::deadline::Deadline;
use ostler::os::detach;
use ostler::os::entropy;
use ostler::os::environment::Environment;
use ostler::os::paths::StateRoot;
use ostler::os::runtime::RuntimeFolder;
use ostler::rpc::error::{ErrorCode, WireError};
use ostler::rpc::listener::{Bound, Server, bind};
use ostler::rpc::tiny::Tiny;
use ostler::rpc::wire::{Broker, ProtocolRange, RootId, Timestamp};
use tokio::signal::unix::{SignalKind, signal};

/// What a test can order, in `OSTLER_TEST_CONTENDER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Nothing.
    Behave,
    /// Give up before publishing.
    Fail,
    /// Panic before publishing.
    Die,
    /// Never come to publish, until `go` stands in the state root.
    Hang,
    /// Know no method, as if it were of a version before all of them.
    KnowNothing,
    /// The same, and not leave when TERM asks for it.
    Stay,
}

fn order() -> Order {
    let order = Environment::process().get("OSTLER_TEST_CONTENDER").and_then(|order| order.to_str());
    match order {
        None => Order::Behave,
        Some("fail") => Order::Fail,
        Some("die") => Order::Die,
        Some("hang") => Order::Hang,
        Some("know-nothing") => Order::KnowNothing,
        Some("stay") => Order::Stay,
        Some(other) => panic!("what is {other}?"),
    }
}

/// Runs to its end.
pub(crate) fn run(path: &Path) -> ExitCode {
    let mut reporter = Reporter::of_process();
    match start(path, &mut reporter) {
        Ok(Start::Won(started)) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be built").block_on(serve(*started, reporter))
        }
        Ok(Start::Lost(winner)) => {
            reporter.lost(&winner);
            ExitCode::SUCCESS
        }
        Err(error) => {
            reporter.failed(&error);
            ExitCode::from(1)
        }
    }
}

enum Start {
    Won(Box<Started>),
    Lost(Box<Broker>),
}

struct Started {
    root: Arc<StateRoot>,
    acquired: Acquired,
}

fn start(path: &Path, reporter: &mut Reporter) -> Result<Start, WireError> {
    let deadline = Deadline::after(detach::start_budget().unwrap_or(Duration::from_secs(10)));
    reporter.stage(Stage::Root);
    let root = Arc::new(StateRoot::open_or_create(path)?);
    reporter.stage(Stage::Lock);
    let taken = acquire(
        &root,
        deadline,
        || super::lock::try_writer_lock(root.folder()),
        || discovery::answering(&root, deadline),
    );
    let acquired = match taken.map_err(|error| WireError::from(&error))? {
        Outcome::Acquired(acquired) => *acquired,
        Outcome::Lost(winner) => return Ok(Start::Lost(Box::new(winner))),
        Outcome::Held => return Err(lock::held(&root)),
    };
    Log::begin(Arc::clone(&root)).install();
    tracing::info!(reclaimed = ?acquired.reclaimed, swept = ?acquired.swept, "lock taken");
    reporter.stage(Stage::Beat);
    match order() {
        Order::Behave | Order::KnowNothing | Order::Stay => {}
        Order::Fail => return Err(WireError::new(ErrorCode::StorageFull, "as ordered")),
        Order::Die => panic!("dying as ordered"),
        Order::Hang => {
            let (forever, mut pauses) = (Deadline::after(Duration::MAX), quick());
            while !root.path().join("go").exists() {
                pauses.pause(forever);
            }
        }
    }
    Ok(Start::Won(Box::new(Started { root, acquired })))
}

fn quick() -> ostler::os::deadline::Pauses {
    ostler::os::deadline::Pauses::new(Duration::from_millis(1), Duration::from_millis(20))
}

async fn serve(started: Started, mut reporter: Reporter) -> ExitCode {
    let Started { root, mut acquired } = started;
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be listened to");
    let incarnation = incarnation("contender", acquired.owner());
    reporter.stage(Stage::Listen);
    let runtime = match RuntimeFolder::open_or_create(&root, Environment::process()) {
        Ok(runtime) => runtime,
        Err(error) => {
            reporter.failed(&(&error).into());
            return ExitCode::from(1);
        }
    };
    let name = format!("b-{}-1", &incarnation[..8]);
    let bound = bind(&runtime, &name).expect("the socket can be bound");
    runtime.clear_sockets("b-", &name).expect("old sockets can be removed");
    let record = record(&root, &acquired, &bound, &incarnation);
    let mut watch = Watch {
        lock: *acquired.standing(),
        incarnation: incarnation.clone(),
        socket_folder: runtime.path().to_owned(),
        socket_name: name.clone(),
        socket: bound.standing,
    };
    let mut tiny = Tiny::new(record.clone());
    tiny.knows_nothing = matches!(order(), Order::KnowNothing | Order::Stay);
    let server = Server::new(Arc::new(tiny));
    tokio::spawn(server.clone().accept(bound));
    reporter.stage(Stage::Publish);
    discovery::publish(&root, &record).expect("the record can be published");
    reporter.ready(&record.broker);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = terminate.recv() => if order() != Order::Stay { break },
            _ = second.tick() => {}
        }
        match watch.check(&root) {
            Ok(Verdict::Fine) | Err(_) => {}
            Ok(Verdict::Republish { discovery: _, socket }) => {
                if socket {
                    let runtime = RuntimeFolder::open_or_create(&root, Environment::process());
                    let bound = bind(&runtime.expect("a runtime folder can be made"), &name).expect("and listened in");
                    watch.socket = bound.standing;
                    tokio::spawn(server.clone().accept(bound));
                }
                discovery::publish(&root, &record).expect("the record can be published");
            }
            Ok(Verdict::Fence(why)) => {
                tracing::warn!(?why, "fenced");
                return ExitCode::from(5);
            }
        }
    }
    server.stop();
    discovery::remove_if_mine(&root, &incarnation).expect("the record can be removed");
    drop(runtime.folder().remove_file(&name));
    acquired.release_mark().expect("the mark can be written");
    ExitCode::SUCCESS
}

fn record(root: &StateRoot, acquired: &Acquired, bound: &Bound, incarnation: &str) -> Record {
    assert!(root.path().join(LOCK_NAME).exists(), "the lock is there while it is held");
    let broker = Broker {
        pid: std::process::id(),
        generation: 1,
        incarnation: incarnation.to_owned(),
        version: acquired.owner().version.clone(),
        protocol: ProtocolRange::of_build(),
        endpoint: bound.address.clone(),
        root: root.path().into(),
        started_at: Timestamp::from_us(ostler::os::clock::wall_us()),
    };
    let root_id = RootId::new(root.device(), root.inode());
    Record { schema: SCHEMA, broker, root_id, token: entropy::hex::<32>() }
}
