//! What a client must find when it looks at its sessions: the status that follows from what it asked, the output that the command
//! wrote, each session once in the list.

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::BASE64;
use ostler::os::clock;
use ostler::rpc::method::Method;
use serde_json::{Value, json};

use super::life::{Kind, Life, Owned};
use crate::support::scene::text;
use crate::support::{SOON, poll, wait_until};

/// Sessions that one client may have.
const OWNED_MAX: usize = 8;

/// What a client does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Spawn,
    Stop,
    Resume,
    Delete,
    DeleteLive,
    List,
    Show,
    Wait,
    Logs,
}

impl Life<'_> {
    /// Lives until it is over: one thing after another, so many microseconds apart.
    pub(super) fn live(&mut self, apart_us: u64) {
        let mut next_us = clock::boot_us() + self.random.between(0, apart_us);
        loop {
            let left = Duration::from_micros(next_us.saturating_sub(clock::boot_us()));
            if poll(left, || self.soak.is_over().then_some(())).is_some() {
                return;
            }
            next_us += apart_us;
            self.act();
        }
    }

    fn act(&mut self) {
        let many = self.owned.len();
        let some = |weight: usize| if many == 0 { 0 } else { weight };
        let acts = [
            (
                if many < 3 {
                    12
                } else if many < OWNED_MAX {
                    3
                } else {
                    0
                },
                Act::Spawn,
            ),
            (some(3), Act::Stop),
            (some(3), Act::Resume),
            (if many < 3 { 0 } else { 3 }, Act::Delete),
            (some(1), Act::DeleteLive),
            (some(2), Act::List),
            (some(3), Act::Show),
            (some(2), Act::Wait),
            (some(3), Act::Logs),
        ];
        let act = self.random.weighted(&acts).expect("there is always something to do");
        let at = if many == 0 { 0 } else { self.random.below(many) };
        match act {
            Act::Spawn => self.spawn(),
            Act::Stop => self.stop(at),
            Act::Resume => self.resume(at),
            Act::Delete => self.delete(at, true),
            Act::DeleteLive => self.delete(at, false),
            Act::List => self.list(),
            Act::Show => self.show(at),
            Act::Wait => self.wait(at),
            Act::Logs => self.logs(at),
        }
    }

    /// Each session of this client stands in the list once, and is as it must be.
    fn list(&mut self) {
        self.lived.operations.add("list");
        let mut found = self.listed();
        for at in 0..self.owned.len() {
            let mut owned = self.owned[at].clone();
            let document = found.remove(&owned.id).unwrap_or_default();
            self.is_as_it_must_be(&mut owned, &document);
            self.owned[at] = owned;
        }
    }

    /// All that is listed, by id; none twice.
    pub(super) fn listed(&mut self) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        let mut cursor = Value::Null;
        loop {
            let mut params = json!({"all": true, "limit": 25});
            if !cursor.is_null() {
                params["cursor"] = cursor.clone();
            }
            let page = match self.read(Method::SessionList, params) {
                Ok(page) => page,
                // Another broker knows no cursor of the one before.
                Err(error) if error.code == ostler::rpc::error::ErrorCode::ExpiredCursor => {
                    (found, cursor) = (BTreeMap::new(), Value::Null);
                    continue;
                }
                Err(error) => panic!("no list: {error:?}"),
            };
            for session in page["sessions"].as_array().expect("a list") {
                let again = found.insert(text(&session["id"]).to_owned(), session.clone());
                self.claim(again.is_none(), || format!("listed twice: {session}"));
            }
            cursor = page["next"].clone();
            if cursor.is_null() {
                return found;
            }
        }
    }

    fn show(&mut self, at: usize) {
        self.lived.operations.add("show");
        let mut owned = self.owned[at].clone();
        let name = self.named(&owned);
        let document = self.session(&name).unwrap_or_else(|error| panic!("{owned:?} is not shown: {error:?}"));
        self.is_as_it_must_be(&mut owned, &document);
        self.owned[at] = owned;
    }

    pub(super) fn wait(&mut self, at: usize) {
        self.lived.operations.add("wait");
        let mut owned = self.owned[at].clone();
        let ends = self.may_have_ended(&owned);
        let params = json!({"session": self.named(&owned), "for": if ends { "ended" } else { "ready" }});
        let answer = self.read(Method::SessionWait, params);
        // Its host may have been killed since it was looked at.
        let answer = match answer {
            Err(error) if !ends && self.is_marked(&owned.run()) => return self.note(format!("  {error:?}")),
            answer => answer.unwrap_or_else(|error| panic!("{owned:?} is not waited for: {error:?}")),
        };
        if ends {
            self.has_ended(&mut owned, &answer["session"]);
        } else {
            self.is_as_it_must_be(&mut owned, &answer["session"]);
        }
        self.owned[at] = owned;
    }

    /// What the command said is there, whole and once, whatever became of brokers meanwhile.
    fn logs(&mut self, at: usize) {
        let owned = self.owned[at].clone();
        let Some(episode) = self.random.pick(&owned.started) else { return };
        self.lived.operations.add("logs");
        let run = (owned.id.clone(), episode);
        let expected = match self.soak.witness.of(&run).as_slice() {
            [pid] => format!("{} {episode} {pid}\n", owned.id),
            _ => String::new(),
        };
        let mut said = String::new();
        let params = json!({"session": owned.id, "episode": episode});
        wait_until(SOON, "a command's output", || {
            let read = self.read(Method::SessionRead, params.clone());
            let read = read.unwrap_or_else(|error| panic!("{run:?} is not read: {error:?}"));
            self.claim(read["lost_bytes"] == 0, || format!("bytes are lost: {read}"));
            let pieces = read["chunks"].as_array().expect("a list").iter();
            let bytes = pieces.flat_map(|piece| BASE64.decode(text(&piece["b64"]).as_bytes()).expect("base64"));
            said = String::from_utf8(bytes.collect()).expect("plain text");
            // The host that was killed may not have read it.
            said == expected || self.is_marked(&run)
        });
        let whole = said == expected || self.is_marked(&run) && (expected.starts_with(&said) || expected.is_empty());
        self.claim(whole, || format!("{run:?} said {said:?} instead of {expected:?}"));
    }

    /// The session is over, and how.
    pub(super) fn has_ended(&mut self, owned: &mut Owned, document: &Value) {
        self.is_as_it_must_be(owned, document);
        self.claim(owned.ended.is_some(), || format!("{owned:?} has not ended: {document}"));
    }

    /// A document says of this session what follows from what was asked of it.
    pub(super) fn is_as_it_must_be(&mut self, owned: &mut Owned, document: &Value) {
        let same = document["id"] == *owned.id && document["name"] == *owned.name;
        self.claim(same && document["episode"] == owned.episode, || format!("{owned:?} is shown as {document}"));
        self.claim(document["fence"].is_null(), || format!("{owned:?} is fenced: {document}"));
        let status = text(&document["status"]);
        let marked = self.is_marked(&owned.run());
        let fits = match (&owned.ended, status) {
            (Some(ended), status) => ended == status,
            (None, "ready") => true,
            (None, "stopped") => owned.is_stopped,
            (None, "exited") => owned.kind == Kind::Brief(0),
            (None, "failed") => marked || matches!(owned.kind, Kind::Brief(1..)),
            (None, _) => false,
        };
        self.claim(fits, || format!("{owned:?} is shown as {document}"));
        let exit = &document["exit"];
        let exit_fits = match (status, owned.kind) {
            ("ready", _) => exit.is_null(),
            ("exited" | "failed", Kind::Brief(code)) => marked || *exit == json!({ "code": code }),
            ("stopped", Kind::Sleeper) => marked || *exit == json!({"signal": "SIGTERM"}),
            ("stopped", Kind::Stubborn) => marked || *exit == json!({"signal": "SIGKILL"}),
            _ => true,
        };
        self.claim(exit_fits, || format!("{owned:?} ended otherwise: {document}"));
        if status != "ready" {
            owned.ended = Some(status.to_owned());
        }
    }
}
