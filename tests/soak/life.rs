//! One client's life: sessions of its own, requests under keys of its own, and for each what it must find. Only this client acts on
//! its sessions, so that it knows how each of them is but for what their hosts and commands do by themselves.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use ostler::client::Client;
use ostler::os::deadline::Deadline;
use ostler::rpc::error::{ErrorCode, Retry, WireError};
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::Soak;
use super::asked::{Ask, Tally, Told, insist};
use super::witness::Run;
use crate::sim::random::Random;
use crate::support::scene::text;
use crate::support::{FIXTURE, SOON, poll, wait_for};

/// What a session's command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It lives until it is ended.
    Sleeper,
    /// The same, and does not heed TERM.
    Stubborn,
    /// It ends by itself with this code.
    Brief(u8),
}

/// A session of this client.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The newest episode that is known.
    pub(super) episode: u32,
    /// Some resume came to nothing, so that numbers of episodes may be left out.
    pub(super) skipped: bool,
    /// This episode was asked to stop.
    pub(super) is_stopped: bool,
    /// Its status, once it has ended: it does not change any more.
    pub(super) ended: Option<String>,
    /// The episodes that were acknowledged.
    pub(super) started: Vec<u32>,
}

impl Owned {
    pub(super) fn run(&self) -> Run {
        (self.id.clone(), self.episode)
    }
}

/// How a request is made.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Once,
    /// Asked first with so little time that the answer is mostly lost.
    Impatient,
    /// Asked again after the answer.
    Twice,
    /// Asked by two connections in the same instant.
    AtOnce,
}

/// What stays of a life.
#[derive(Debug, Default)]
pub(super) struct Lived {
    /// What was acknowledged, in order.
    pub(super) acknowledged: Vec<(Ask, Told)>,
    /// Runs that may or may not have come so far that their command wrote it down.
    pub(super) unproven: Vec<Run>,
    /// Runs that are acknowledged, also of sessions that are gone.
    pub(super) proven: Vec<Run>,
    pub(super) operations: Tally,
    pub(super) troubles: Tally,
}

pub(super) struct Life<'a> {
    pub(super) soak: &'a Soak,
    number: usize,
    pub(super) client: Client,
    twin: Client,
    pub(super) random: Random,
    pub(super) owned: Vec<Owned>,
    pub(super) lived: Lived,
    /// The last things that happened, for a failure.
    trail: VecDeque<String>,
    asked: u64,
}

impl<'a> Life<'a> {
    pub(super) fn new(soak: &'a Soak, number: usize, random: Random) -> Life<'a> {
        Life {
            soak,
            number,
            client: soak.client(),
            twin: soak.client(),
            random,
            owned: Vec::new(),
            lived: Lived::default(),
            trail: VecDeque::new(),
            asked: 0,
        }
    }

    /// The test fails, with what happened before, unless this holds.
    #[track_caller]
    pub(super) fn claim(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let trail: Vec<&str> = self.trail.iter().map(String::as_str).collect();
            panic!("client {}: {}\nbefore:\n{}", self.number, what(), trail.join("\n"));
        }
    }

    pub(super) fn note(&mut self, what: String) {
        if self.trail.len() >= 40 {
            self.trail.pop_front();
        }
        self.trail.push_back(what);
    }

    pub(super) fn is_marked(&self, run: &Run) -> bool {
        self.soak.fire.has_marked(run)
    }

    /// A call that changes nothing, until it is answered: who meets only brokers that are killed while they start is told so.
    pub(super) fn read(&mut self, method: Method, params: Value) -> Result<Value, WireError> {
        let mut last = None;
        let answer = poll(SOON * 4, || {
            self.client.set_deadline(Deadline::after(SOON * 2));
            match self.client.call(method, params.clone()) {
                Err(error) if error.retry != Retry::Never => {
                    self.lived.troubles.add(&format!("errors `{}` of a read, asked again", error.code));
                    last = Some(error);
                    None
                }
                answer => Some(answer),
            }
        });
        answer.unwrap_or_else(|| panic!("no answer to {method}; the last: {last:?}"))
    }

    /// A request under a new key, in any manner; what its operation came to. An error is a refusal.
    fn change(&mut self, method: Method, params: Value) -> Result<Told, WireError> {
        let manners = [(80, Manner::Once), (8, Manner::Impatient), (8, Manner::Twice), (4, Manner::AtOnce)];
        let manner = self.random.weighted(&manners).expect("one of them");
        self.change_so(method, params, manner)
    }

    fn change_so(&mut self, method: Method, mut params: Value, manner: Manner) -> Result<Told, WireError> {
        self.asked += 1;
        let free_form = self.random.chance(500);
        let key = if free_form { format!("soak-{}-{}", self.number, self.asked) } else { self.client.new_key() };
        params["key"] = key.into();
        let ask = Ask { method, params };
        self.note(format!("{manner:?} {method} {}", ask.params));
        let told = match manner {
            Manner::Once | Manner::Twice => insist(&mut self.client, &ask, &mut self.lived.troubles),
            Manner::Impatient => {
                let within = Duration::from_millis(self.random.between(1, 30));
                self.client.set_deadline(Deadline::after(within));
                if self.client.call(method, ask.params.clone()).is_err() {
                    self.lived.troubles.add("answers not waited for, asked again");
                }
                insist(&mut self.client, &ask, &mut self.lived.troubles)
            }
            Manner::AtOnce => self.at_once(&ask),
        };
        let told = told.inspect_err(|error| self.note(format!("  {error:?}")))?;
        self.note(format!("  {} {} {}", told.operation, told.state, told.session["status"]));
        if told.state != "aborted" {
            if matches!(manner, Manner::Twice) {
                let again = insist(&mut self.client, &ask, &mut self.lived.troubles);
                let same = again.as_ref().is_ok_and(|again| again.agrees(&told) && again.replayed);
                self.claim(same, || format!("asked again, {ask:?} is {again:?} instead of {told:?}"));
            }
            if told.replayed && matches!(manner, Manner::Once | Manner::Twice) {
                self.lived.troubles.add("answers lost after the operation was done, and told to the repeated request");
            }
            self.lived.acknowledged.push((ask, told.clone()));
        }
        Ok(told)
    }

    fn at_once(&mut self, ask: &Ask) -> Result<Told, WireError> {
        let mut others = Tally::default();
        let (mine, twins) = thread::scope(|scope| {
            let twin = scope.spawn(|| insist(&mut self.twin, ask, &mut others));
            (insist(&mut self.client, ask, &mut self.lived.troubles), twin.join().expect("its failure is this test's"))
        });
        self.lived.troubles.merge(&others);
        if let (Ok(mine), Ok(twins)) = (&mine, &twins) {
            let free = [mine, twins].iter().any(|told| told.state == "aborted");
            self.claim(free || mine.agrees(twins), || format!("one key, two outcomes: {mine:?} and {twins:?}"));
        }
        mine
    }

    pub(super) fn spawn(&mut self) {
        let name = format!("s{}-{}", self.number, self.asked);
        let kinds = [Kind::Sleeper, Kind::Sleeper, Kind::Stubborn, Kind::Brief(0), Kind::Brief(3)];
        let kind = self.random.pick(&kinds).expect("one of them");
        let witness = self.soak.witness.folder().to_str().expect("a path of a test").to_owned();
        let code = if let Kind::Brief(code) = kind { code.to_string() } else { String::new() };
        let command: Vec<&str> = match kind {
            Kind::Sleeper => vec![FIXTURE, "witness", &witness, "--", "sleep"],
            Kind::Stubborn => vec![FIXTURE, "ignore-term", "--", "witness", &witness, "--", "sleep"],
            Kind::Brief(_) => vec![FIXTURE, "witness", &witness, "--", "exit", &code],
        };
        let params = json!({"command": command, "cwd": self.soak.root.folder(), "name": name});
        self.lived.operations.add("spawn");
        let told = self.change(Method::SessionSpawn, params);
        let told = told.unwrap_or_else(|error| panic!("a spawn is refused: {error:?}"));
        let owned = |id: &str| Owned {
            id: id.to_owned(),
            name,
            kind,
            episode: 1,
            skipped: false,
            is_stopped: false,
            ended: None,
            started: Vec::new(),
        };
        match told.state.as_str() {
            "succeeded" => {
                let mut owned = owned(text(&told.session["id"]));
                self.started(&mut owned, &told);
                self.owned.push(owned);
            }
            "failed" => {
                let found = self.read(Method::OperationGet, json!({"operation": told.operation}));
                let found = found.expect("an operation that was told is known");
                let mut owned = owned(text(&found["operation"]["session_id"]));
                self.not_started(&mut owned, &told);
                self.owned.push(owned);
            }
            state => self.aborted(state),
        }
    }

    pub(super) fn resume(&mut self, at: usize) {
        let mut owned = self.owned[at].clone();
        self.lived.operations.add("resume");
        let params = json!({"session": self.named(&owned)});
        let told = self.change(Method::SessionResume, params);
        let told = told.unwrap_or_else(|error| panic!("a resume of {owned:?} is refused: {error:?}"));
        match told.state.as_str() {
            "succeeded" => {
                let episode = told.session["episode"].as_u64().and_then(|episode| u32::try_from(episode).ok());
                let episode = episode.expect("a number");
                let known = format!("{owned:?} was resumed as {episode}");
                if episode == owned.episode {
                    self.claim(owned.ended.is_none(), || known);
                } else {
                    let next = if owned.skipped { episode > owned.episode } else { episode == owned.episode + 1 };
                    self.claim(next && self.may_have_ended(&owned), || known);
                    (owned.episode, owned.ended, owned.skipped, owned.is_stopped) = (episode, None, false, false);
                    self.started(&mut owned, &told);
                }
            }
            "failed" => {
                let found = self.session(&owned.id).expect("it was not deleted");
                let episode = found["episode"].as_u64().and_then(|of| u32::try_from(of).ok()).expect("a number");
                (owned.episode, owned.ended, owned.skipped, owned.is_stopped) = (episode, None, false, false);
                self.not_started(&mut owned, &told);
            }
            state => {
                owned.skipped = true;
                self.aborted(state);
            }
        }
        self.owned[at] = owned;
    }

    pub(super) fn stop(&mut self, at: usize) {
        let mut owned = self.owned[at].clone();
        let mut params = json!({"session": self.named(&owned)});
        if owned.kind == Kind::Stubborn {
            params["grace_ms"] = self.random.between(0, 300).into();
        }
        self.lived.operations.add("stop");
        owned.is_stopped = true;
        let told = self.change(Method::SessionStop, params);
        let told = told.unwrap_or_else(|error| panic!("a stop of {owned:?} is refused: {error:?}"));
        if told.state == "failed" {
            // Only by evidence after a doubt, which was counted.
            self.lived.troubles.add("stops that are failed after a doubt");
            self.owned[at] = owned;
            return;
        }
        self.claim(told.state == "succeeded" && told.survivors == json!([]), || format!("{owned:?}: {told:?}"));
        self.has_ended(&mut owned, &told.session);
        self.owned[at] = owned;
    }

    /// Deletes it; one that lives is refused unless it is to be stopped.
    pub(super) fn delete(&mut self, at: usize, stop: bool) {
        let owned = self.owned[at].clone();
        let params = json!({"session": self.named(&owned), "stop": stop, "grace_ms": 100});
        self.lived.operations.add("delete");
        // A refusal binds nothing, so that the same key may do it a moment later: asked in one manner only.
        let is_sure = stop || owned.ended.is_some();
        let told = if is_sure {
            self.change(Method::SessionDelete, params)
        } else {
            self.change_so(Method::SessionDelete, params, Manner::Once)
        };
        match told {
            Err(error) => {
                let lives = !is_sure && error.code == ErrorCode::SessionLive;
                self.claim(lives, || format!("a delete of {owned:?} is refused: {error:?}"));
            }
            Ok(told) if told.state == "failed" => self.lived.troubles.add("deletes that are failed after a doubt"),
            Ok(told) => {
                let fine = told.state == "succeeded" && told.survivors == json!([]);
                self.claim(fine && (is_sure || self.may_have_ended(&owned)), || format!("{owned:?}: {told:?}"));
                let gone = self.session(&owned.id);
                let is_gone = gone.as_ref().is_err_and(|error| error.code == ErrorCode::NotFound);
                self.claim(is_gone, || format!("deleted and there: {gone:?}"));
                self.soak.witness.forget(&owned.id);
                self.owned.remove(at);
            }
        }
    }

    /// By id or by name.
    pub(super) fn named(&mut self, owned: &Owned) -> String {
        if self.random.chance(500) { owned.id.clone() } else { owned.name.clone() }
    }

    pub(super) fn session(&mut self, id: &str) -> Result<Value, WireError> {
        self.read(Method::SessionGet, json!({ "session": id })).map(|mut document| document["session"].take())
    }

    pub(super) fn may_have_ended(&self, owned: &Owned) -> bool {
        owned.ended.is_some() || matches!(owned.kind, Kind::Brief(_)) || self.is_marked(&owned.run())
    }

    /// A start was acknowledged: the command has written it down, once.
    fn started(&mut self, owned: &mut Owned, told: &Told) {
        let run = owned.run();
        let wrote = wait_for(SOON * 2, "a command to write down its start", || {
            let wrote = self.soak.witness.of(&run);
            (!wrote.is_empty() || self.is_marked(&run)).then_some(wrote)
        });
        self.claim(wrote.len() <= 1, || format!("{run:?} was started more than once: {wrote:?}"));
        let pid = told.session["pid"].as_i64().filter(|_| told.session["episode"] == owned.episode);
        let same = pid.is_none() || wrote.is_empty() || pid == wrote.first().copied();
        self.claim(same, || format!("{run:?} is {wrote:?}, told was {told:?}"));
        owned.started.push(owned.episode);
        self.lived.proven.push(run);
    }

    /// A start that failed before it was proven: somebody killed its host.
    fn not_started(&mut self, owned: &mut Owned, told: &Told) {
        let run = owned.run();
        self.claim(self.is_marked(&run), || format!("{run:?} failed, and nobody killed its host: {told:?}"));
        self.lived.troubles.add("starts that failed because their host was killed");
        self.lived.unproven.push(run);
        let found = self.session(&owned.id).expect("a session whose start failed is listed");
        self.has_ended(owned, &found);
    }

    /// Nothing ran. Its host was killed at the gate each time until the start's deadline.
    fn aborted(&mut self, state: &str) {
        self.claim(state == "aborted", || format!("an outcome that is none: {state}"));
        self.lived.troubles.add("starts that were aborted");
    }
}
