//! What became of an episode: the evidence is asked until it answers. It ends what a dead host has left, and a host that never came up;
//! a host whose command is known to run is asked for what is missing, and never ended for it.

use super::doubt::identity;
use super::files;
use super::hosts::{Dialled, Hosts, LOOK_AGAIN, LOOK_AGAIN_MAX};
use super::words::{exited, foreign, run_of};
use crate::host::client::{LinkError, Verdict, end_starting_host, finish_dead_host, gather, judge, judge_without_lock};
use crate::host::wire::{self, HostRecord};
use crate::machine::{self, SessionId, Word, limits};
use crate::os::clock;
use std::sync::Arc;

/// What was found of an episode.
pub(super) enum Found {
    Word(Word),
    /// Its host was adopted.
    Linked(machine::Run),
}

impl Hosts {
    /// What there is to say of an episode, once something is.
    pub(super) async fn look(self: &Arc<Self>, session: &SessionId, episode: u32) -> Word {
        match self.find(session, episode).await {
            Found::Word(word) => word,
            Found::Linked(run) => Word::Adopted(run),
        }
    }

    /// Asks the world until it answers. Only a host that lives and is silent makes this long.
    pub(super) async fn find(self: &Arc<Self>, session: &SessionId, episode: u32) -> Found {
        let mut pause = LOOK_AGAIN;
        let began_us = clock::boot_us();
        loop {
            let waited_ms = clock::boot_us().saturating_sub(began_us) / 1_000;
            if let Some(found) = self.find_once(session, episode, waited_ms > limits::START_WITHIN_MS).await {
                return found;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_AGAIN_MAX);
        }
    }

    /// One look. None means: look again.
    async fn find_once(self: &Arc<Self>, session: &SessionId, episode: u32, overdue: bool) -> Option<Found> {
        match self.verdict(session, episode).await? {
            Verdict::NeverOpened => Some(Found::Word(Word::NeverOpened)),
            Verdict::Ended(record) => {
                self.finish_ended(session, episode).await?;
                let run = self.run_at_end(session, episode, &record).await;
                // Said while nobody listened, and before the end.
                if record.was_ready {
                    self.heard(session.clone(), episode, Word::Ready).await;
                }
                Some(Found::Word(exited(run, Some(record.exit), Some(record.ended_us), &[])))
            }
            Verdict::HostDied(record) => {
                let _permit = self.finishes.acquire().await.expect("the semaphore is never closed");
                let finished = tokio::task::spawn_blocking(move || finish_dead_host(&record)).await;
                match finished {
                    Ok(Ok(left)) if left.is_empty() => Some(Found::Word(Word::HostLost)),
                    Ok(Ok(left)) => {
                        tracing::warn!(session = session.as_str(), episode, ?left, "processes outlive their dead host");
                        None
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(session = session.as_str(), episode, %error, "its command cannot be ended yet");
                        None
                    }
                    Err(_) => None,
                }
            }
            Verdict::LostWithMachine => Some(Found::Word(Word::MachineLost)),
            Verdict::Foreign => Some(Found::Word(foreign("it belongs to another state root"))),
            Verdict::Damaged(why) => Some(Found::Word(foreign(&format!("its host's records are damaged: {why}")))),
            Verdict::StillStarting => self.await_record(session, episode, overdue).await,
            Verdict::MissingLock => None,
            Verdict::Alive(record) => self.adopt(session, episode, &record).await,
        }
    }

    /// A host holds the lock and has no record. It is coming up; or it came up long ago, as the ledger knows, and somebody removed the record: then
    /// it is asked to state it again, and what it runs is not ended for a missing file.
    async fn await_record(&self, session: &SessionId, episode: u32, overdue: bool) -> Option<Found> {
        let of = self.view.read().sessions.get(session).filter(|of| of.episode == episode).cloned();
        let (in_doubt, run) = of.map_or((false, None), |of| (of.fence.is_some(), of.run.clone()));
        // What is in doubt is signalled by nobody.
        if overdue && (in_doubt || run.is_some()) {
            return Some(Found::Word(foreign("its host's record is missing")));
        }
        if let Some(run) = run {
            if !in_doubt {
                files::ask_to_bind(&identity(&run.host));
            }
            return None;
        }
        if overdue {
            let (root, id) = (self.root.clone(), session.to_string());
            let ended = tokio::task::spawn_blocking(move || end_starting_host(&root, &id, episode)).await;
            if let Ok(Err(error)) = ended {
                tracing::warn!(session = session.as_str(), episode, %error, "its stuck host cannot be ended yet");
            }
        }
        None
    }

    /// A host that was killed between the exit of its command and the end of its sweep left marked processes; end
    /// them. None: they cannot be ended yet.
    async fn finish_ended(&self, session: &SessionId, episode: u32) -> Option<()> {
        let _permit = self.finishes.acquire().await.expect("the semaphore is never closed");
        let (root, id) = (self.root.clone(), session.to_string());
        let finished = tokio::task::spawn_blocking(move || match files::host_record(&root, &id, episode) {
            Some(record) => finish_dead_host(&record).map(|_| ()),
            None => Ok(()),
        });
        match finished.await {
            Ok(Ok(())) => Some(()),
            Ok(Err(error)) => {
                tracing::warn!(session = session.as_str(), episode, %error, "its leftovers cannot be ended yet");
                None
            }
            Err(_) => None,
        }
    }

    /// What the evidence means now; none if it cannot be read yet.
    pub(super) async fn verdict(&self, session: &SessionId, episode: u32) -> Option<Verdict> {
        let _permit = self.looks.acquire().await.expect("the semaphore is never closed");
        let (root, id) = (self.root.clone(), session.to_string());
        let gathered = tokio::task::spawn_blocking(move || gather(&root, &id, episode)).await;
        match gathered {
            Ok(Ok(evidence)) => {
                let verdict = judge(&evidence);
                Some(if verdict == Verdict::MissingLock { judge_without_lock(&evidence) } else { verdict })
            }
            Ok(Err(error)) => {
                tracing::warn!(session = session.as_str(), episode, %error, "its evidence cannot be read yet");
                None
            }
            Err(_) => None,
        }
    }

    async fn adopt(self: &Arc<Self>, session: &SessionId, episode: u32, record: &HostRecord) -> Option<Found> {
        match self.attach(session, episode, record).await {
            Ok(Dialled::Ended(word)) => Some(Found::Word(*word)),
            Ok(Dialled::Listening) => Some(match run_of(record) {
                Some(run) => Found::Linked(run),
                None => Found::Word(foreign("its host's record has no readable incarnation")),
            }),
            Err(LinkError::Foreign) => Some(Found::Word(foreign("another host answers at its address"))),
            Err(LinkError::Refused(refusal)) => {
                Some(Found::Word(foreign(&format!("its host refuses this broker: {}", refusal.message))))
            }
            Err(LinkError::Unreachable(error)) => {
                tracing::info!(session = session.as_str(), episode, %error, "its endpoint is gone; asking it to bind again");
                files::ask_to_bind(&record.host);
                None
            }
            Err(error @ (LinkError::Closed | LinkError::Late | LinkError::Protocol(_))) => {
                tracing::info!(session = session.as_str(), episode, %error, "its host does not answer yet");
                None
            }
        }
    }

    /// The run of an episode that was found ended: none if its command never executed.
    async fn run_at_end(&self, session: &SessionId, episode: u32, exit: &wire::ExitRecord) -> Option<machine::Run> {
        if matches!(exit.exit, wire::Exit::Error(_)) {
            return None;
        }
        let (root, id) = (self.root.clone(), session.to_string());
        let record = tokio::task::spawn_blocking(move || files::host_record(&root, &id, episode)).await;
        record.ok().flatten().as_ref().and_then(run_of)
    }
}
