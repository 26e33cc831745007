//! The start of a broker, in the product's order: ledger, fold, generation, sweep, beat. The oracle looks right after
//! the fold, before anything else has happened.

use super::broker::{Bugs, Ended, Scene};
use super::front::Ticket;
use super::history;
use super::promises;
use super::trace::{Checked, claim};
use ostler::broker::turn::Turn;
use ostler::broker::view::View;
use ostler::machine::{Digest, Generation, Input, SessionId};
use ostler_ledger::storage::{Folder, SimulatedStorage};
use ostler_ledger::{Options, Recovery};
use std::fmt::Display;
use std::sync::Arc;

pub(super) type Sut = Turn<SimulatedStorage, Ticket>;

/// Everything up to the synced beat.
pub(super) fn start(scene: &mut Scene<'_>, bugs: Bugs, segment_bytes: u64) -> Checked<Result<Sut, Ended>> {
    let mut options = Options::new("simulated", scene.computer.boot());
    options.segment_bytes = segment_bytes;
    options.accept_half_turn = bugs.accept_half_turn;
    options.snapshot_tail_bytes = scene.snapshot_tail_bytes;
    let (mut turn, recovery) = match Turn::open(|| scene.disk.storage(), &options, scene.retention) {
        Ok(opened) => opened,
        Err(error) => return ended(&error),
    };
    let view = turn.view();
    let trouble = scene.full || scene.armed.is_some() || scene.disk.is_stopped();
    let found = recovery.problems.is_empty() && (trouble || recovery.degraded.is_empty());
    claim(found, || format!("recovery: {:?} {:?}", recovery.problems, recovery.degraded))?;
    // It costs as much as a start, so not every one.
    if scene.random.chance(300) {
        history::verified(scene.disk, scene.computer.boot(), view.head().seq)?;
    }
    if let Some(tail) = &recovery.tail {
        scene.trace.mark(format!("tail {:?}", tail.class));
    }
    turn.plant(bugs.turn);
    if recovery.snapshot.is_some() {
        scene.trace.mark("began with a snapshot".to_owned());
        promises::replayed(scene, &view, &options)?;
    }
    if !scene.disk.names(Folder::Archive).is_empty() && scene.random.chance(500) {
        promises::archived(scene, &view, &options)?;
    }
    scene.oracle.forget(&view.read(), scene.disk, scene.trace)?;
    promises::recovered(scene, &view)?;
    scene.oracle.published = Some(Arc::clone(&view));
    begin(scene, turn, &view, &recovery)
}

fn begin(scene: &mut Scene<'_>, mut turn: Sut, view: &View, recovery: &Recovery) -> Checked<Result<Sut, Ended>> {
    let number = turn.last_generation() + 1;
    let generation = Generation {
        number,
        process: scene.computer.broker(),
        incarnation: Digest([7; 32]),
        version: "0.1.0".to_owned(),
        lock_inode: 1,
        reclaimed: None,
    };
    let now = scene.computer.now();
    if let Err(error) = turn.begin(now, recovery, generation) {
        return ended(&error);
    }
    sweep(scene, view)?;
    let seen = view.read().sessions.iter().map(|(id, _)| (id.clone(), now.wall_us)).collect();
    let mut refused = None;
    let beat = vec![(Input::Beat { seen, whole: true }, None)];
    if let Err(error) = turn.run(now, beat, &mut |_| {}, &mut |failed| refused = Some(failed.error)) {
        return ended(&error);
    }
    match refused {
        Some(error) => ended(&error),
        None => {
            scene.trace.line(format!("    generation {number} up to record {}", view.head().seq));
            Ok(Ok(turn))
        }
    }
}

fn ended(error: &dyn Display) -> Checked<Result<Sut, Ended>> {
    Ok(Err(Ended(error.to_string())))
}

/// Removes folders that no record names: what a crash left between the files and the record.
fn sweep(scene: &mut Scene<'_>, view: &View) -> Checked {
    let state = view.read();
    let known = |id: &SessionId| state.sessions.get(id).is_some() || state.removals.get(id).is_some();
    let stray: Vec<SessionId> = scene.computer.folders.keys().filter(|id| !known(id)).cloned().collect();
    for id in stray {
        let runs = scene.computer.hosts.values().any(|host| host.run.0 == id);
        claim(!runs, || format!("law 6: {id} has a host and no record names it"))?;
        scene.computer.folders.remove(&id);
    }
    Ok(())
}
