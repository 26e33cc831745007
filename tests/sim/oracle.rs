//! The oracle: what was promised to whom, remembered on the clients' side and compared with what a broker says and
//! with what really ran. It knows nothing of the machine's rules but the laws (design section 2).

use super::clients::{Intent, Wish};
use super::computer::{Computer, Run, Sign};
use super::front::{Answer, Reply};
use super::promises;
use super::trace::{Broken, Checked, claim};
use ostler::broker::view::View;
use ostler::machine::{
    Action, Effect, Key, Kind, Operation, OperationId, Outcome, Refusal, Request, Scope, SessionId, Status, limits,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything that was promised.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) told: BTreeMap<OperationId, Arc<Operation>>,
    /// Of those, what the broker keeps a footprint of, only.
    pub(super) let_go: BTreeSet<OperationId>,
    /// Of those, what it has forgotten.
    pub(super) forgotten: BTreeSet<OperationId>,
    /// What clients know to be bound by a key: its one operation that is not aborted.
    pub(super) bound: BTreeMap<(Scope, Key), OperationId>,
    /// Operations that somebody was told about as not replayed.
    fresh: BTreeSet<OperationId>,
    /// Sessions whose removal was acknowledged.
    pub(super) deleted: BTreeSet<SessionId>,
    /// When an episode was last asked for, before it was released for the first time: true time in microseconds, and
    /// the broker's life.
    asked: BTreeMap<Run, (u64, u32)>,
    /// How many lives of brokers there have been.
    pub(super) lives: u32,
    released: BTreeSet<Run>,
    /// What the last broker had published when it died.
    pub(super) published: Option<Arc<View>>,
}

impl Oracle {
    /// What the clients know to be bound by a key.
    pub(super) fn bound(&self, intent: &Intent) -> Option<OperationId> {
        self.bound.get(&(intent.scope.clone(), intent.key.clone())).copied()
    }

    /// A request comes before the turn.
    pub(super) fn asked(&mut self, request: &Request, true_us: u64) {
        let run = match &request.action {
            Action::Spawn { prepared, .. } => prepared.as_ref().map(|prepared| (prepared.id.clone(), 1)),
            Action::Resume { target, prepared } => target.clone().ok().zip(*prepared),
            Action::Send(parcel) => parcel.target.clone().ok().zip(parcel.prepared),
            Action::Stop { .. }
            | Action::Delete { .. }
            | Action::Prune { .. }
            | Action::Reconcile { .. }
            | Action::Resolve { .. }
            | Action::Cancel { .. }
            | Action::ResolveMessage { .. }
            | Action::Interrupt { .. }
            | Action::Turn { .. }
            | Action::Ready { .. }
            | Action::Report(_)
            | Action::Acknowledge { .. } => None,
        };
        if let Some(run) = run.filter(|run| !self.released.contains(run)) {
            self.asked.insert(run, (true_us, self.lives));
        }
    }

    /// An effect leaves. A start that a broker took over from another must be young: nobody waits for an old one any
    /// more, whatever the clocks of another boot say (design section 3.3).
    pub(super) fn released(&mut self, effect: &Effect, computer: &Computer) -> Checked {
        let Effect::Launch { session, episode, .. } = effect else { return Ok(()) };
        let run = (session.clone(), *episode);
        let asked = self.asked.get(&run).copied();
        let (asked_us, life) = asked.ok_or_else(|| Broken(format!("law 6: {run:?} is started and nobody asked")))?;
        self.released.insert(run);
        let late_ms = (computer.true_us - asked_us) / 1_000;
        claim(life == self.lives || late_ms <= limits::START_WITHIN_MS, || {
            format!("law 7: {session} is started {late_ms} ms late")
        })
    }

    /// An answer is on its way. From here it is watched whether what it tells is forgotten, however long it takes.
    pub(super) fn leaves(&mut self, reply: &Reply) {
        if let Answer::Settled { operation, .. } = &reply.answer {
            self.told.entry(operation.id).or_insert_with(|| Arc::clone(operation));
        }
    }

    /// An answer arrived.
    pub(super) fn answered(&mut self, reply: &Reply, intents: &[Intent], computer: &Computer) -> Checked {
        let intent = &intents[reply.intent];
        match &reply.answer {
            Answer::Settled { operation, replayed } => {
                let id = &operation.id;
                let fresh = *replayed || self.fresh.insert(*id);
                claim(fresh, || format!("law 5: {id} was answered twice as not replayed"))?;
                let mut wishes = intents.iter().map(|intent| &intent.wish);
                let resolved = wishes.any(|wish| matches!(wish, Wish::Resolve { operation, .. } if operation == id));
                self.settled((reply, intent), operation, *replayed, computer, resolved)
            }
            Answer::Refused(refusal) => refused(self.known(reply), intent, refusal, intents),
            Answer::Storage | Answer::Busy => claim(self.known(reply).is_none(), || {
                format!("law 7: {} has {:?}, and was told that nothing was done", intent.key, reply.known)
            }),
        }
    }

    fn settled(
        &mut self,
        (reply, intent): (&Reply, &Intent),
        operation: &Arc<Operation>,
        replayed: bool,
        computer: &Computer,
        resolved: bool,
    ) -> Checked {
        let id = operation.id;
        same_request(operation, intent)?;
        claim(operation.state != Outcome::Accepted, || format!("law 6: {id} was answered before it was settled"))?;
        // What an operator decided is an opinion; the world need not agree.
        if !resolved {
            self.effects(operation, computer)?;
        }
        if let Some(known) = self.known(reply) {
            claim(known == id && replayed, || {
                format!("law 5: {} has {known} and was answered with {id}, replayed {replayed}", intent.key)
            })?;
        }
        // An answer may come so late that what it tells is forgotten.
        if operation.state != Outcome::Aborted && !self.forgotten.contains(&id) {
            let key = (intent.scope.clone(), intent.key.clone());
            let bound = *self.bound.entry(key).or_insert(id);
            claim(bound == id, || format!("law 5: {} has two operations, {bound} and {id}", intent.key))?;
        }
        match self.told.get(&id) {
            // Answers may overtake each other; only what may follow is another answer.
            Some(then) if !follows(then, operation) => claim(follows(operation, then), || {
                format!("law 7: {id} was told as {then:?} and then as {operation:?}")
            }),
            Some(_) | None => {
                self.told.insert(id, Arc::clone(operation));
                Ok(())
            }
        }
    }

    /// What the client knew to be bound by its key, unless the broker may have forgotten it meanwhile.
    fn known(&self, reply: &Reply) -> Option<OperationId> {
        reply.known.filter(|id| !self.forgotten.contains(id))
    }

    /// What an outcome says about the world, compared with the world.
    fn effects(&mut self, operation: &Operation, computer: &Computer) -> Checked {
        let id = operation.id;
        let run = operation.session.clone().zip(operation.gained.episode);
        if let Some(run) = &run {
            promises::exits(operation.gained.exit.as_ref(), run, computer)?;
        }
        match (operation.kind, operation.state) {
            (Kind::Spawn | Kind::Fork | Kind::Resume, Outcome::Succeeded) => {
                let run = run.ok_or_else(|| Broken(format!("law 7: {id} succeeded and names no episode")))?;
                let pid = computer.executions.get(&run).copied();
                let waits = computer.folders.get(&run.0).is_some_and(|folder| folder.spec.sign != Sign::Unasked);
                claim(!waits || computer.ready.contains(&run), || {
                    format!("law 7: {id} succeeded and {run:?} is not ready")
                })?;
                claim(pid.is_some() && pid == operation.gained.pid, || {
                    format!("law 7: {id} started pid {:?}, and {run:?} is pid {pid:?}", operation.gained.pid)
                })
            }
            (Kind::Spawn | Kind::Fork, Outcome::Aborted) => {
                let ran = computer.executions.keys().find(|(session, _)| Some(session) == operation.session.as_ref());
                claim(ran.is_none(), || format!("law 7: {id} is aborted and {ran:?} was executed"))
            }
            (Kind::Reconcile, Outcome::Succeeded) => {
                let ended = operation.gained.status.is_some_and(|status| !status.is_live());
                let lives = run.filter(|run| ended && computer.command_lives(run));
                claim(lives.is_none(), || format!("law 7: {id} calls dead what lives: {lives:?}"))
            }
            (Kind::Stop, Outcome::Succeeded) => {
                let lives = run.filter(|run| computer.command_lives(run));
                claim(lives.is_none(), || format!("law 7: {id} is a stop and {lives:?} lives"))
            }
            (Kind::Delete, Outcome::Succeeded) => {
                let Some(session) = &operation.session else { return Ok(()) };
                self.deleted.insert(session.clone());
                // A start that was aborted for it leaves the list at once and its files later.
                let removed = operation.gained.status == Some(Status::Deleted);
                claim(!removed || !computer.folders.contains_key(session), || {
                    format!("law 7: {id} deleted {session} and its files are there")
                })?;
                let lives = computer.commands.values().any(|(of, _)| of == session);
                claim(!lives, || format!("law 7: {id} deleted {session} and its command lives"))
            }
            (Kind::Prune, Outcome::Succeeded) => {
                // Their files go later; they never come back.
                self.deleted.extend(operation.gained.pruned.iter().cloned());
                Ok(())
            }
            (
                Kind::Spawn
                | Kind::Fork
                | Kind::Resume
                | Kind::Stop
                | Kind::Delete
                | Kind::Prune
                | Kind::Reconcile
                | Kind::Resolve
                | Kind::Send
                | Kind::Cancel
                | Kind::ResolveMessage
                | Kind::Interrupt
                | Kind::Turn
                | Kind::Ready
                | Kind::Acknowledge
                | Kind::Report,
                _,
            ) => Ok(()),
        }
    }
}

fn refused(known: Option<OperationId>, intent: &Intent, refusal: &Refusal, intents: &[Intent]) -> Checked {
    if let Refusal::KeyConflict { stored, given, operation } = refusal {
        let mut others = intents.iter().filter(|other| other.scope == intent.scope && other.key == intent.key);
        let real = others.any(|other| other.digest == *stored);
        return claim(real && stored != given && *given == intent.digest, || {
            format!("law 5: {} conflicts with {operation} for no reason", intent.key)
        });
    }
    claim(known.is_none(), || format!("law 5: {} has {known:?} and was refused: {refusal:?}", intent.key))
}

/// An operation is what its caller asked for, under the caller's own key.
pub(super) fn same_request(operation: &Operation, intent: &Intent) -> Checked {
    let same = operation.request == intent.digest
        && operation.kind == intent.wish.kind()
        && operation.scope == intent.scope
        && operation.key == intent.key;
    claim(same, || format!("law 5: {} answers another request under {}", operation.id, intent.key))
}

/// Whether a client that was told `then` may be told `now`: the same, or what an uncertain outcome turned out to be.
pub(super) fn follows(then: &Operation, now: &Operation) -> bool {
    let resolved = then.state == Outcome::Uncertain
        && matches!(now.state, Outcome::Succeeded | Outcome::Failed)
        && now.seq > then.seq;
    now == then || resolved
}
