//! Faults of ours, planted on purpose behind the `testing` feature: a test that does not catch them proves nothing.

use crate::machine::limits::Retention;
use crate::machine::{
    Action, Carried, Effect, Event, Evidence, Exit, Input, Key, Kind, Known, Lock, Marks, MessageState, Observation,
    Operation, Outcome, Plan, Recalled, Request, State, Status, Trace, Word,
};
use crate::os::environment::Environment;
use ostler_ledger::Options;
use std::sync::Arc;

/// Smaller limits for a broker that is tested as a process: `OSTLER_TEST_LIMITS=segment_bytes:6000,recent:2`. The names are those of
/// [`Options`] and [`Retention`].
pub(super) fn little(options: &mut Options, retention: &mut Retention) {
    let told = Environment::process().get("OSTLER_TEST_LIMITS").and_then(|told| told.to_str()).unwrap_or_default();
    for (name, value) in told.split(',').filter_map(|each| each.split_once(':')) {
        let Ok(value) = value.parse::<u32>() else { continue };
        let count = usize::try_from(value).unwrap_or(usize::MAX);
        match name {
            "segment_bytes" => options.segment_bytes = value.into(),
            "snapshot_tail_bytes" => options.snapshot_tail_bytes = value.into(),
            "recent" => retention.recent = count,
            "of_session" => retention.of_session = count,
            "batch" => retention.batch = count,
            "window_us" => retention.window_us = value.into(),
            "settled" => retention.settled = value.into(),
            _ => {}
        }
    }
}

/// A shorter time than the product's for a broker that is tested as a process: `OSTLER_TEST_INTERRUPT_MS=500`.
pub(super) fn interrupt_within_ms() -> Option<u64> {
    Environment::process().get("OSTLER_TEST_INTERRUPT_MS").and_then(|told| told.to_str())?.parse().ok()
}

/// Faults of ours, planted on purpose: the simulation must catch each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Answers leave before the sync (breaks law 6).
    pub reply_before_sync: bool,
    /// What is owed is not derived again at a start (breaks law 4).
    pub forget_owed: bool,
    /// A start is issued again without asking the life lock (breaks laws 4 and 5).
    pub launch_unasked: bool,
    /// A known key answers whatever the request is (breaks law 5).
    pub ignore_digest: bool,
    /// A snapshot holds one number of the turn before (breaks law 1).
    pub stale_snapshot: bool,
    /// What is carried over a retirement holds one number of the turn before (breaks law 1).
    pub stale_carry: bool,
    /// A key of what was let go is taken for a new one (breaks law 5).
    pub lose_let_go: bool,
    /// Evidence is taken for that of a dead session, whatever it says (breaks law 7).
    pub see_nothing: bool,
    /// What ends a doubt calls a start failed that had succeeded (breaks law 7).
    pub overwrite_settled: bool,
    /// A fence goes up around another session than the one in doubt (breaks law 8).
    pub fence_another: bool,
    /// A host that is recorded is taken for adopted, without a hello (breaks laws 10 and 11).
    pub adopt_unasked: bool,
    /// Word of an episode that comes late brings a session back whose removal has begun (breaks law 7).
    pub revive_deleted: bool,
    /// That a host's connection ended is taken for the end of its command, with code 0 (breaks laws 7 and 11).
    pub exit_at_end_of_file: bool,
    /// A second path recovers messages: once a host is adopted, what was on its way there goes back to the queue (requirement R18).
    pub recover_beside: bool,
    /// Word of any attempt of a message counts for the one that is under way (requirement R9).
    pub ignore_tokens: bool,
    /// A session turn that runs on while a new broker dials is taken for over, so that the next message comes into it.
    pub cut_turns: bool,
    /// A message that interrupts has its signal sent in any session turn, not only in the one that it names (requirement R27).
    pub interrupt_any_turn: bool,
}

impl Planted {
    /// The effect that leaves instead of this one.
    pub(super) fn effect(&self, state: &State, effect: Effect) -> Effect {
        match effect {
            Effect::Judge { session, episode } if self.launch_unasked => {
                match state.sessions.get(&session).map(|session| (session.status, session.deadline_boot_us)) {
                    Some((Status::Starting, deadline_boot_us)) => Effect::Launch { session, episode, deadline_boot_us },
                    Some(_) | None => Effect::Judge { session, episode },
                }
            }
            Effect::Interrupt { session, episode, operation, turn: _ } if self.interrupt_any_turn => {
                Effect::Interrupt { session, episode, operation, turn: None }
            }
            Effect::Judge { .. }
            | Effect::Launch { .. }
            | Effect::Stop { .. }
            | Effect::Remove { .. }
            | Effect::Deliver { .. }
            | Effect::Interrupt { .. }
            | Effect::Probe { .. } => effect,
        }
    }

    /// The input that is decided instead of this one.
    pub(super) fn input(&self, state: &State, input: Input) -> Input {
        match input {
            Input::Request(request) => Input::Request(self.request(state, request)),
            Input::Observation(observation) => Input::Observation(self.observation(state, observation)),
            Input::Beat { .. } | Input::Tick | Input::Generation(_) | Input::Pull { .. } => input,
        }
    }

    /// What an input does to the state before it is decided.
    pub(super) fn before(&self, state: &mut State, input: &Input) {
        let Input::Observation(Observation { session, episode, word }) = input else { return };
        let of = state.sessions.get(session).filter(|of| of.status == Status::Deleted && of.episode == *episode);
        let status = match word {
            Word::Started(_) => Status::Ready,
            Word::Exited { .. } | Word::HostLost => Status::Failed,
            Word::LaunchFailed { .. }
            | Word::NeverOpened
            | Word::MachineLost
            | Word::Adopted(_)
            | Word::Foreign { .. }
            | Word::Mail { .. }
            | Word::Interrupted { .. }
            | Word::Turn { .. }
            | Word::Ready
            | Word::Removed => return,
        };
        if of.is_some_and(|of| self.revive_deleted && of.run.is_some())
            && let Some(of) = state.sessions.get_mut(session)
        {
            let of = Arc::make_mut(of);
            of.status = status;
            let (live, parent) = (status.is_live(), of.parent.clone());
            state.live += usize::from(live);
            if let Some(parent) = parent.filter(|_| live) {
                state.children.insert(parent.clone(), state.live_children(&parent) + 1);
            }
        }
    }

    /// The state that is stored instead of this one.
    pub(super) fn stored(&self, state: State) -> State {
        if self.stale_snapshot { older(state) } else { state }
    }

    /// The state that is carried instead of this one.
    pub(super) fn carried(&self, state: State) -> State {
        if self.stale_carry { older(state) } else { state }
    }

    /// What becomes of the state after these records.
    pub(super) fn recorded(&self, state: &mut State, events: &[Event]) {
        for event in events.iter().filter(|_| self.overwrite_settled) {
            let Event::Accept { sid: Some(sid), body: Plan::Settle, .. } = event else { continue };
            let is_start = |of: &Operation| {
                of.session.as_ref() == Some(sid) && of.kind == Kind::Spawn && of.state == Outcome::Succeeded
            };
            let id = state.operations.values().find(|of| is_start(of)).map(|start| start.id);
            if let Some(id) = id
                && let Some(start) = state.operations.get_mut(&id)
            {
                Arc::make_mut(start).state = Outcome::Failed;
            }
        }
    }

    fn observation(&self, state: &State, mut observation: Observation) -> Observation {
        let run = state.sessions.get(&observation.session).and_then(|session| session.run.clone());
        if let (Word::HostLost, Some(run)) = (&observation.word, run) {
            if self.adopt_unasked {
                observation.word = Word::Adopted(run);
            } else if self.exit_at_end_of_file {
                observation.word = Word::Exited { run: None, exit: Exit::Code(0), at_us: 0, survivors: Vec::new() };
            }
        }
        let under_way = || {
            let lane = state.lanes.get(&observation.session)?;
            let mut open = lane.open.iter().filter_map(|id| state.messages.get(id));
            open.find(|message| message.state == MessageState::Sending)
        };
        if let (Word::Adopted(_), true, Some(message)) = (&observation.word, self.recover_beside, under_way()) {
            let (message, attempt) = (message.id, message.attempt);
            observation.word = Word::Mail { message, attempt, carried: Carried::NotTaken };
        }
        if let (Word::Mail { message, attempt, .. }, true) = (&mut observation.word, self.ignore_tokens) {
            *attempt = state.messages.get(message).map_or(*attempt, |of| of.attempt);
        }
        if let (Word::Turn { runs, .. }, true) = (&mut observation.word, self.cut_turns) {
            *runs = false;
        }
        let another = state.sessions.values().find(|session| session.id != observation.session);
        match (another, &observation.word) {
            (Some(another), Word::Foreign { .. }) if self.fence_another => {
                Observation { session: another.id.clone(), episode: another.episode, ..observation }
            }
            _ => observation,
        }
    }

    fn request(&self, state: &State, mut request: Request) -> Request {
        if let Action::Reconcile { evidence: Some(seen), .. } = &mut request.action
            && self.see_nothing
        {
            let (of, exit) = (Arc::clone(&seen.of), seen.exit.clone());
            **seen = Evidence {
                of,
                lock: Lock::Free,
                host: Trace::Gone,
                command: Trace::Gone,
                marks: Marks::Absent,
                answers: None,
                exit,
                living: Vec::new(),
                is_elsewhere: false,
            };
        }
        let known = state.known(&request.scope, &request.key);
        match known {
            Known::Here(operation) if self.ignore_digest => request.digest = operation.request,
            Known::Perhaps(rows) if self.lose_let_go => {
                let other = state.operations.values().next();
                let other =
                    other.map(|other| Operation { key: Key::parse("another").expect("a key"), ..(**other).clone() });
                let each = rows.iter().zip(std::iter::repeat(other));
                request.recalled = each
                    .filter_map(|(row, other)| {
                        Some(Recalled::Read(Arc::new(Operation { id: row.operation(), ..other? })))
                    })
                    .collect();
            }
            Known::Here(_) | Known::Perhaps(_) | Known::Nowhere => {}
        }
        request
    }
}

fn older(mut state: State) -> State {
    state.settled = state.settled.saturating_sub(1);
    state
}
