//! Tables and scripts of the pure core: data in, text out. Every step is checked against the laws before its text is.

mod ending;
mod family;
mod forks;
mod interrupts;
mod keys;
mod mail;
mod notices;
mod readiness;
mod reconcile;
mod reports;
mod scripts;
mod turns;
mod walk;

use super::limits::Retention;
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A machine with the ledger it would have written.
pub(super) struct World {
    pub(super) state: State,
    view: State,
    ledger: Vec<(Event, At)>,
    /// Where each turn ends in it.
    turns: Vec<usize>,
    pub(super) now: Time,
    keys: u64,
    /// Where the present secret of the digests begins.
    pub(super) digests_since: u64,
    pub(super) family: Family,
}

pub(super) const A: &str = "aaaaaaaaaaaa";
pub(super) const B: &str = "bbbbbbbbbbbb";

pub(super) fn sid(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

pub(super) fn run(nonce: u8) -> Run {
    let process = |pid| Process { boot: "boot".to_owned(), ns: 1, pid, start: 7 };
    let address = format!("unix:/r/h-{nonce}");
    Run { host: process(100), command: process(101), address, incarnation: Digest([nonce; 32]), started_us: 1 }
}

impl World {
    pub(super) fn new() -> Self {
        Self::keeping(Retention::default())
    }

    pub(super) fn keeping(retention: Retention) -> Self {
        let mut world = Self {
            state: State::keeping(retention),
            view: State::keeping(retention),
            ledger: Vec::new(),
            turns: Vec::new(),
            now: Time { wall_us: 1_000_000_000, boot_us: 1_000_000 },
            keys: 0,
            digests_since: 0,
            family: Family::default(),
        };
        world.generation();
        world
    }

    pub(super) fn generation(&mut self) -> String {
        self.generation_in("boot")
    }

    pub(super) fn generation_in(&mut self, boot: &str) -> String {
        let number = self.state.generation + 1;
        self.step(Input::Generation(Generation {
            number,
            process: Process { boot: boot.to_owned(), ..run(0).host },
            incarnation: Digest([9; 32]),
            version: "0.1.0".to_owned(),
            lock_inode: 1,
            reclaimed: None,
        }))
    }

    /// One input as one turn; checks laws 1, 2 and 7 and the stored form, and tells what happened.
    pub(super) fn step(&mut self, input: Input) -> String {
        let seq = self.next_seq();
        let decision = decide(&self.state, self.now, seq, &input);
        assert_eq!(decision, decide(&self.state, self.now, seq, &input), "law 2: the same inputs, the same events");
        let before = self.state.clone();
        let by = match &input {
            Input::Request(request) => Some(request.scope.clone()),
            Input::Observation(_) | Input::Pull { .. } | Input::Beat { .. } | Input::Tick | Input::Generation(_) => {
                None
            }
        };
        let events = self.apply_all(decision.events.clone(), by.as_ref());
        self.state.revert(&self.view);
        assert_eq!(self.state, before, "a failed write undoes the turn");
        let decision = Decision { events: self.apply_all(decision.events, by.as_ref()), answer: decision.answer };
        assert_eq!(decision.events, events, "law 2: the same state, the same that follows");
        if !decision.events.is_empty() {
            self.state.close(self.now);
        }
        self.state.publish(&mut self.view);
        assert_eq!(self.state, self.view, "the view is the state after the turn");
        for event in &decision.events {
            let at = At { seq: self.next_seq(), time: self.now };
            self.ledger.push((event.clone(), at));
            let stored = serde_json::to_string(event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&stored).unwrap(), *event, "{stored}");
        }
        self.turns.extend((!decision.events.is_empty()).then_some(self.ledger.len()));
        assert_eq!(self.fold(), self.state, "law 1: the view equals the fold of the ledger");
        let stored = serde_json::to_string(&self.state.stored()).unwrap();
        let restored = serde_json::from_str::<Stored>(&stored).unwrap().state(self.state.retention);
        assert_eq!(restored.as_ref(), Some(&self.state), "what was stored comes back equal: {stored}");
        let mut footprints = Vec::new();
        let apart = serde_json::to_string(&self.state.stored_apart(&mut footprints)).unwrap();
        let apart = serde_json::from_str::<Stored<Counted>>(&apart).unwrap();
        assert_eq!(apart.state(self.state.retention, &footprints).unwrap().as_ref(), Some(&self.state));
        assert_eq!(violations(&self.state), Vec::<String>::new());
        tell(&decision)
    }

    /// The ledger folded anew.
    pub(super) fn fold(&self) -> State {
        let mut fold = State::keeping(self.state.retention);
        let mut from = 0;
        for end in &self.turns {
            let turn = &self.ledger[from..*end];
            turn.iter().for_each(|(event, at)| apply(&mut fold, event, *at).unwrap());
            fold.close(turn[0].1.time);
            from = *end;
        }
        fold
    }

    /// What the ledger says of an operation that was let go.
    pub(super) fn recall(&self, row: &Footprint) -> Recalled {
        let at = |seq: u64| &self.ledger[usize::try_from(seq).unwrap() - 1];
        let ((first, at_first), (last, at_last)) = (at(row.operation().0), at(row.last()));
        let read = recalled((first, *at_first), (last, *at_last, Digest::default()));
        Recalled::Read(Arc::new(read.expect("a footprint leads to the two records of one operation")))
    }

    fn next_seq(&self) -> u64 {
        u64::try_from(self.ledger.len()).unwrap() + 1
    }

    /// As a turn works them: what they mean for the messages of their sessions follows them.
    fn apply_all(&mut self, events: Vec<Event>, by: Option<&Scope>) -> Vec<Event> {
        let mut all = Vec::new();
        self.work(&mut all, events, by);
        let mut concerned = touched(&all);
        while let Some(session) = concerned.pop_first() {
            let (from, following) = (all.len(), follow(&self.state, self.now, &session));
            self.work(&mut all, following, None);
            concerned.extend(touched(&all[from..]));
            assert_eq!(follow(&self.state, self.now, &session), [], "nothing is left to follow");
        }
        all
    }

    /// Applies events, and what others are told of them.
    fn work(&mut self, all: &mut Vec<Event>, events: Vec<Event>, by: Option<&Scope>) {
        let mut told = Vec::new();
        for event in events {
            told.extend(news(&self.state, &event, by));
            self.apply_one(all, event);
        }
        for event in told {
            assert_eq!(news(&self.state, &event, by), [], "notices beget no notices");
            self.apply_one(all, event);
        }
    }

    fn apply_one(&mut self, all: &mut Vec<Event>, event: Event) {
        let seq = self.next_seq() + u64::try_from(all.len()).unwrap();
        apply(&mut self.state, &event, At { seq, time: self.now }).unwrap();
        all.push(event);
    }

    pub(super) fn ask(&mut self, key: &str, digest: u8, action: Action) -> String {
        self.ask_as(Scope::Owner, key, digest, action)
    }

    pub(super) fn ask_as(&mut self, scope: Scope, key: &str, digest: u8, action: Action) -> String {
        let session = match &scope {
            Scope::Owner => None,
            Scope::Session(id) => Some(id.clone()),
        };
        let actor = Actor { uid: 0, pid: 1, sid: session };
        let (key, digest) = (Key::parse(key).unwrap(), Digest([digest; 32]));
        let (digests_since, family) = (self.digests_since, self.family);
        let mut request = Request { scope, actor, key, digest, digests_since, family, action, recalled: Vec::new() };
        match decide(&self.state, self.now, self.next_seq(), &Input::Request(request.clone())).answer {
            Answer::Recall(rows) => {
                request.recalled = rows.iter().map(|row| self.recall(row)).collect();
                self.check_what_is_only_read(&request);
                format!("recall, {}", self.step(Input::Request(request)))
            }
            Answer::Nothing
            | Answer::Operation { .. }
            | Answer::Refused(_)
            | Answer::Prepare { .. }
            | Answer::Look { .. }
            | Answer::Store { .. }
            | Answer::Pulled
            | Answer::Recalled(_) => {
                self.check_what_is_only_read(&request);
                self.step(Input::Request(request))
            }
        }
    }

    /// What may be answered without a turn is what a turn would say, and it would write nothing.
    fn check_what_is_only_read(&self, request: &Request) {
        let known = match self.state.known(&request.scope, &request.key) {
            Known::Here(operation) => Some(operation),
            Known::Perhaps(_) | Known::Nowhere => None,
        };
        let known = known.into_iter().chain(request.recalled.iter().filter_map(Recalled::operation));
        let key = (&request.scope, &request.key);
        let Some(read) = known.into_iter().find(|known| is_settled_by(known, key, request.digest)) else { return };
        let Decision { events, answer } =
            decide(&self.state, self.now, self.next_seq(), &Input::Request(request.clone()));
        assert_eq!(events, []);
        let as_decided = match &answer {
            Answer::Operation { id, replayed } => *replayed && *id == read.id,
            Answer::Recalled(operation) => operation == read,
            Answer::Nothing
            | Answer::Refused(_)
            | Answer::Prepare { .. }
            | Answer::Look { .. }
            | Answer::Store { .. }
            | Answer::Pulled
            | Answer::Recall(_) => false,
        };
        assert!(as_decided, "{answer:?}");
    }

    /// A request under a key of its own.
    pub(super) fn fresh(&mut self, action: Action) -> String {
        self.keys += 1;
        let key = format!("fresh-{}", self.keys);
        self.ask(&key, 1, action)
    }

    pub(super) fn saw(&mut self, session: &str, episode: u32, word: Word) -> String {
        self.step(Input::Observation(Observation { session: sid(session), episode, word }))
    }

    pub(super) fn owes(&self) -> String {
        let each = outstanding(&self.state).into_iter().map(|effect| match effect {
            Effect::Judge { session, episode } => format!("judge {session}/{episode}"),
            Effect::Launch { session, episode, .. } => format!("launch {session}/{episode}"),
            Effect::Stop { session, episode, .. } => format!("stop {session}/{episode}"),
            Effect::Remove { session } => format!("remove {session}"),
            Effect::Deliver { session, episode, message, attempt } => {
                format!("deliver {message}@{attempt} to {session}/{episode}")
            }
            Effect::Interrupt { session, episode, operation, turn } => {
                let within = turn.map(|turn| format!(" in {turn}")).unwrap_or_default();
                format!("interrupt {session}/{episode} for {operation}{within}")
            }
            Effect::Probe { session, episode, message, attempt } => {
                format!("probe {message}@{attempt} of {session}/{episode}")
            }
        });
        each.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn status(&self, session: &str) -> String {
        self.state.sessions.get(&sid(session)).map_or("absent".to_owned(), |session| session.status.word().to_owned())
    }
}

pub(super) fn spawn(id: &str, name: Option<&str>) -> Action {
    Action::Spawn {
        prepared: Some(PreparedSession { id: sid(id), spec: Digest([5; 32]) }),
        name: name.map(|name| Name::parse(name).unwrap()),
        labels: BTreeMap::new(),
        adapter: Adapter::Inbox,
        readiness: None,
        source: None,
    }
}

pub(super) fn resume(id: &str, episode: u32) -> Action {
    Action::Resume { target: Ok(sid(id)), prepared: Some(episode) }
}

pub(super) fn stop(id: &str) -> Action {
    Action::Stop { target: Ok(sid(id)), grace_ms: 10_000, reason: None }
}

pub(super) fn delete(id: &str, stop: bool) -> Action {
    Action::Delete { target: Ok(sid(id)), stop, grace_ms: 10_000, reason: None }
}

pub(super) fn exited(code: u32) -> Word {
    Word::Exited { run: Some(run(1)), exit: Exit::Code(code), at_us: 1_000_000_500, survivors: Vec::new() }
}

fn touched(events: &[Event]) -> BTreeSet<SessionId> {
    let of = |event: &Event| match event {
        Event::Accept { sid, .. } | Event::Finish { sid, .. } => sid.clone(),
        Event::Host { sid, .. }
        | Event::Session { sid, .. }
        | Event::Fence { sid, .. }
        | Event::Message { sid, .. }
        | Event::Queue { sid, .. }
        | Event::Notice { sid, .. } => Some(sid.clone()),
        Event::Generation { .. } | Event::Beat { .. } | Event::Conflict { .. } | Event::Operator { .. } => None,
    };
    events.iter().filter_map(of).collect()
}

fn tell(decision: &Decision) -> String {
    let mut words: Vec<String> = decision.events.iter().map(line).collect();
    words.push(match &decision.answer {
        Answer::Nothing => return words.join(", "),
        Answer::Operation { id, replayed: false } => format!("=> {id}"),
        Answer::Operation { id, replayed: true } => format!("=> {id} replayed"),
        Answer::Refused(refusal) => {
            let text = format!("{refusal:?}");
            format!("=> refused {}", text.split([' ', '{']).next().unwrap_or(""))
        }
        Answer::Look { session } => format!("=> look at {session}"),
        Answer::Store { session } => format!("=> store for {session}"),
        Answer::Pulled => "=> pulled".to_owned(),
        Answer::Recall(rows) => format!("=> recall {rows:?}"),
        Answer::Recalled(operation) => format!("=> {} {} recalled", operation.id, operation.state.word()),
        Answer::Prepare { session, episode } => {
            format!("=> prepare {}/{episode}", session.as_ref().map_or("new", |id| id.as_str()))
        }
    });
    words.join(", ")
}

fn line(event: &Event) -> String {
    match event {
        Event::Generation { body } => format!("generation {}", body.number),
        Event::Accept { op, kind, body, .. } => {
            let plan = format!("{body:?}");
            let plan = plan.split([' ', '{']).next().unwrap_or("").to_lowercase();
            format!("accept {op} {} {plan}", kind.word().trim_start_matches("session."))
        }
        Event::Finish { op, st, body, .. } => match body {
            Some(failure) => format!("finish {op} {} ({} {})", st.word(), failure.code, failure.reason),
            None => format!("finish {op} {}", st.word()),
        },
        Event::Host { ep, body, .. } => {
            let word = match body {
                HostChange::Started(_) => "started",
                HostChange::Adopted(_) => "adopted",
                HostChange::Unopened => "unopened",
            };
            format!("host/{ep} {word}")
        }
        Event::Session { body, .. } => match body {
            SessionChange::Ended { status, reason, .. } => match reason {
                Some(reason) => format!("ended {} ({reason})", status.word()),
                None => format!("ended {}", status.word()),
            },
            SessionChange::Aborted => "aborted".to_owned(),
            SessionChange::Deleting => "deleting".to_owned(),
            SessionChange::Forgotten => "forgotten".to_owned(),
            SessionChange::Removed => "removed".to_owned(),
            SessionChange::Woken { .. } => "woken".to_owned(),
            SessionChange::Overdue { .. } => "overdue".to_owned(),
            SessionChange::Ready => "ready".to_owned(),
            SessionChange::Unready { .. } => "not ready".to_owned(),
            SessionChange::TurnBegan { turn } => format!("turn {turn} began"),
            SessionChange::TurnEnded { turn } => format!("turn {turn} ended"),
        },
        Event::Fence { body, .. } => if body.fence.is_some() { "fence up" } else { "fence down" }.to_owned(),
        Event::Message { body, .. } => {
            let change = format!("{:?}", body.change);
            let word = change.split([' ', '{']).next().unwrap_or("").to_lowercase();
            match &body.change {
                MessageChange::Returned { reason }
                | MessageChange::Uncertain { reason }
                | MessageChange::Cancelled { reason }
                | MessageChange::Failed { reason } => format!("{} {word} ({reason})", body.message),
                MessageChange::Sending
                | MessageChange::Delivered { .. }
                | MessageChange::Pulled
                | MessageChange::InterruptSent
                | MessageChange::Acknowledged
                | MessageChange::Expired => format!("{} {word}", body.message),
            }
        }
        Event::Queue { body: QueueChange::Closed { reason }, .. } => format!("queue closed ({reason})"),
        Event::Notice { sid, body, .. } => {
            let what = match body {
                Notice::Ended { session, episode, status, .. } => format!("{session}/{episode} {}", status.word()),
                Notice::Reported { report, .. } => report.to_string(),
                Notice::Message { message, state, .. } => format!("{message} {}", state.word()),
                Notice::Queue { session, reason, count, .. } => format!("{count} for {session} {reason}"),
            };
            format!("notice to {sid} ({what})")
        }
        Event::Beat { body } => format!("beat of {}", body.seen.len()),
        Event::Conflict { .. } => "conflict".to_owned(),
        Event::Operator { body, .. } => format!("operator {} {}", body.operation, body.outcome.word()),
    }
}
