//! Programs that pull their messages, on the simulated machine: what they really read, and what was promised about that (docs/MESSAGES.md).

use super::computer::{Computer, Run};
use super::random::Random;
use super::trace::{Checked, claim};
use ostler::machine::{MessageId, MessageState, SessionId, State};
use std::collections::{BTreeMap, BTreeSet};

/// How much a program reads at once at the most.
const PAGE: usize = 3;

/// What programs have read and acknowledged.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// By which episode each message was read, and how often.
    read: BTreeMap<MessageId, (Run, usize)>,
    /// The last one of each session that was read for the first time.
    latest: BTreeMap<SessionId, MessageId>,
    /// Episodes that may have been lost with the machine: what they had and did not acknowledge the next one reads again.
    lost: BTreeSet<Run>,
    /// Messages whose acknowledgement was answered.
    acknowledged: BTreeSet<MessageId>,
}

/// A program's page on its way: what it asked for.
pub(super) type Page = (Run, Vec<MessageId>);

/// A living program that pulls asks for what it can read, as the front lets it.
pub(super) fn ask(state: &State, computer: &Computer, random: &mut Random) -> Option<Page> {
    let pages: Vec<Page> = computer
        .commands
        .values()
        .map(|run| (run.clone(), readable(state, &run.0)))
        .filter(|of| !of.1.is_empty())
        .collect();
    let (run, mut page) = random.pick(&pages)?;
    page.truncate(random.below(PAGE) + 1);
    Some((run, page))
}

/// How many programs have something to read.
pub(super) fn waiting(state: &State, computer: &Computer) -> usize {
    computer.commands.values().filter(|run| !readable(state, &run.0).is_empty()).count()
}

fn readable(state: &State, session: &SessionId) -> Vec<MessageId> {
    let Some(of) = state.sessions.get(session).filter(|of| !of.adapter.pushes()) else { return Vec::new() };
    let stops = of.notice().is_some();
    let open = state.lanes.get(session).into_iter().flat_map(|lane| &lane.open).filter_map(|id| state.messages.get(id));
    let fits = open.filter(|of| of.state == MessageState::Delivered || of.state == MessageState::Queued && !stops);
    fits.map(|of| of.id).collect()
}

impl Desk {
    /// The answer comes to the program, if that still lives: those of the page that are delivered now. It is read again until it is
    /// acknowledged, by its episode alone, and first of all in order. Says whether something was read again.
    pub(super) fn read(&mut self, state: &State, (run, page): &Page) -> Checked<bool> {
        let mut again = false;
        let is_delivered =
            |id: &&MessageId| state.messages.get(id).is_some_and(|of| of.state == MessageState::Delivered);
        for id in page.iter().filter(is_delivered) {
            claim(!self.acknowledged.contains(id), || format!("mail: {id} is read after it was acknowledged"))?;
            match self.read.get_mut(id) {
                Some((by, times)) => {
                    claim(by == run || self.lost.contains(by), || {
                        format!("mail: {id} is read by {by:?} and by {run:?}")
                    })?;
                    by.clone_from(run);
                    *times += 1;
                    again = true;
                }
                None => {
                    let before = self.latest.insert(run.0.clone(), *id);
                    claim(before.is_none_or(|before| before < *id), || format!("mail: {id} is read after {before:?}"))?;
                    self.read.insert(*id, (run.clone(), 1));
                }
            }
        }
        Ok(again)
    }

    /// Everything that runs is lost with the machine.
    pub(super) fn lost(&mut self) {
        self.lost.extend(self.read.values().map(|(run, _)| run.clone()));
    }

    /// What a living program has read and may acknowledge.
    pub(super) fn to_acknowledge(
        &self,
        computer: &Computer,
        random: &mut Random,
    ) -> Option<(SessionId, Vec<MessageId>)> {
        let open = self.read.iter().filter(|(id, _)| !self.acknowledged.contains(id));
        let open: Vec<(MessageId, Run)> = open.map(|(id, (run, _))| (*id, run.clone())).collect();
        let (first, run) = random.pick(&open).filter(|(_, run)| computer.command_lives(run))?;
        let with = open.iter().find(|(id, of)| *id != first && *of == run).map(|(id, _)| *id);
        Some((run.0, [first].into_iter().chain(with.filter(|_| random.chance(300))).collect()))
    }

    /// It was answered that these are acknowledged.
    pub(super) fn acknowledged(&mut self, messages: &[MessageId]) {
        self.acknowledged.extend(messages);
    }

    /// What the ledger says of what was read: it is pulled, or acknowledged, and nothing else ever. And nothing is acknowledged that nobody read.
    pub(super) fn told(&self, id: u64, last: &str) -> Checked {
        let read = self.read.get(&MessageId(id));
        claim(read.is_none() || matches!(last, "pulled" | "acknowledged"), || {
            format!("mail: msg-{id} is {last} and was read by {read:?}")
        })?;
        claim(read.is_some() || last != "acknowledged", || format!("mail: msg-{id} is acknowledged and nobody read it"))
    }
}
