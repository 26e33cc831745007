//! The broker's hands: effects under way, each one step at a time, and the connections to living hosts. They die with
//! the broker. What they do with a verdict is what the broker does; nothing here decides anything.

use super::computer::{Computer, Holder, Host, Report, Run, Sign, Stage};
use super::evidence::{doubt, exited, facts, facts_at_end, phase, verdict};
use super::front::Ticket;
use super::letters;
use super::random::Random;
use super::turns::{self, Turns};
use super::work::What;
use ostler::broker::inbox::Post;
use ostler::host::client::Verdict;
use ostler::host::wire::HostRecord;
use ostler::machine::{
    self, Effect, Hand, MessageId, Observation, OperationId, Phase, Session, SessionId, State, Word, limits,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Hands {
    tasks: BTreeMap<u64, Task>,
    links: BTreeMap<SessionId, Linked>,
    last: u64,
    /// What hosts said when they were dialled, and nobody was told.
    pub(super) hellos: VecDeque<Post<Ticket>>,
}

#[derive(Clone, Debug)]
struct Task {
    run: Run,
    what: What,
}

#[derive(Clone, Debug)]
struct Linked {
    episode: u32,
    pid: u32,
    /// A stop is under way: its answer stands for the exit.
    stopping: bool,
    /// The host said how it ended.
    heard: bool,
    /// So many ends of turns were heard.
    turns: usize,
    /// That its command is ready was heard.
    ready: bool,
}

/// What one look found.
enum Found {
    Word(Word),
    Linked(machine::Run),
}

impl Hands {
    pub(super) fn perform(&mut self, effect: Effect, computer: &Computer) {
        let since_us = computer.true_us;
        let (run, what) = match effect {
            Effect::Judge { session, episode } => ((session, episode), What::Look { answers: true, since_us }),
            Effect::Launch { session, episode, .. } => ((session, episode), What::TakeLock),
            Effect::Stop { session, episode, deadline_boot_us } => {
                ((session, episode), What::Stop { deadline_us: deadline_boot_us, since_us })
            }
            Effect::Remove { session } => ((session, 0), What::Remove),
            Effect::Deliver { session, episode, message, attempt } => {
                ((session, episode), What::Deliver((message, attempt)))
            }
            Effect::Probe { session, episode, message, attempt } => {
                ((session, episode), What::Probe((message, attempt)))
            }
            Effect::Interrupt { session, episode, operation, turn } => {
                ((session, episode), What::Interrupt(operation, turn))
            }
        };
        self.add(run, what);
    }

    fn add(&mut self, run: Run, what: What) {
        self.last += 1;
        self.tasks.insert(self.last, Task { run, what });
    }

    /// How many effects are under way.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// How many connections there are.
    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    /// The connections whose hosts tell ends of turns that nobody has heard, by their places.
    pub(super) fn telling(&self, computer: &Computer) -> Vec<usize> {
        let links = self.links.values().enumerate();
        links.filter(|(_, linked)| tells(linked, computer)).map(|(at, _)| at).collect()
    }

    /// What is under way or was said and not heard, in words.
    pub(super) fn under_way(&self, computer: &Computer) -> Option<String> {
        let mut unheard = self.links.iter().filter(|(_, linked)| {
            let host = computer.hosts.get(&linked.pid);
            host.is_none_or(|host| host.stage == Stage::Ended && !linked.heard) || tells(linked, computer)
        });
        let task = self.tasks.values().next().map(|task| format!("{task:?}"));
        task.or_else(|| unheard.next().map(|(session, _)| format!("what the host of {session} said")))
    }

    /// One step of one of them; tells which, and what there is to tell the turn.
    pub(super) fn step(
        &mut self,
        computer: &mut Computer,
        random: &mut Random,
        view: &State,
    ) -> (String, Vec<Post<Ticket>>) {
        let (tasks, links) = (self.tasks.len(), self.links.len());
        let listens = tasks == 0 || links > 0 && random.chance(200);
        let at = match random.pick(&self.telling(computer)) {
            Some(telling) if tasks == 0 || random.chance(600) => tasks + telling,
            Some(_) | None if listens => tasks + random.below(links),
            Some(_) | None => random.below(tasks),
        };
        if let Some((number, task)) = self.tasks.iter().nth(at).map(|(number, task)| (*number, task.clone())) {
            let (told, news) = self.work(number, &task, computer, random, view);
            let news = self.hellos.drain(..).chain(news).collect();
            return (format!("{} {}/{}: {told}", task.what.word(), &task.run.0.as_str()[..4], task.run.1), news);
        }
        let session = self.links.keys().nth(at - self.tasks.len()).cloned().expect("it was counted");
        let (told, news) = self.listen(&session, computer);
        (format!("link {}: {told}", &session.as_str()[..4]), news)
    }

    fn work(
        &mut self,
        number: u64,
        task: &Task,
        computer: &mut Computer,
        random: &mut Random,
        view: &State,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        match &task.what {
            What::TakeLock => self.take_lock(number, task, computer),
            What::Fork => self.fork(number, task, computer, random),
            What::Await(pid) => self.wait_for_report(number, task, *pid, computer),
            What::Look { answers, since_us } => {
                let Some(found) = self.find(task, *since_us, computer, random) else {
                    return ("nothing yet", Vec::new());
                };
                self.tasks.remove(&number);
                let word = match found {
                    Found::Linked(run) => Word::Adopted(run),
                    Found::Word(word) => word,
                };
                ("found", vec![word_of(&task.run, word, *answers)])
            }
            What::Stop { deadline_us, since_us } => {
                self.stop(number, task, (*deadline_us, *since_us), computer, random)
            }
            What::Remove => self.remove(number, task, computer, random, view),
            What::Deliver(attempt) => self.deliver(number, task, *attempt, computer, random),
            What::Probe(attempt) => {
                let word = mail(*attempt, letters::probe(computer, &task.run, attempt.1));
                ("reads a journal", self.done(number, &task.run, word))
            }
            What::Interrupt(operation, turn) => self.interrupt(number, task, (*operation, *turn), computer, random),
        }
    }

    fn change(&mut self, number: u64, what: What) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.what = what;
        }
    }

    fn done(&mut self, number: u64, run: &Run, word: Word) -> Vec<Post<Ticket>> {
        self.tasks.remove(&number);
        vec![word_of(run, word, true)]
    }

    fn take_lock(&mut self, number: u64, task: &Task, computer: &mut Computer) -> (&'static str, Vec<Post<Ticket>>) {
        let since_us = computer.true_us;
        match computer.episode_mut(&task.run) {
            Some(episode) if episode.lock.is_some() && episode.holder.is_none() => {
                episode.holder = Some(Holder::Broker);
                self.change(number, What::Fork);
                ("has the life lock", Vec::new())
            }
            Some(episode) if episode.lock.is_some() => {
                self.change(number, What::Look { answers: true, since_us });
                ("the life lock is held", Vec::new())
            }
            Some(_) | None => {
                let reason = "cannot lock life.lock".to_owned();
                (
                    "no life lock",
                    self.done(number, &task.run, Word::LaunchFailed { phase: Phase::Host, reason, obstacle: None }),
                )
            }
        }
    }

    fn fork(
        &mut self,
        number: u64,
        task: &Task,
        computer: &mut Computer,
        random: &mut Random,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        let identity = computer.process();
        let fails = random.chance(20);
        let Some(episode) = computer.episode_mut(&task.run) else {
            let reason = "its folder is gone".to_owned();
            return (
                "no folder",
                self.done(number, &task.run, Word::LaunchFailed { phase: Phase::Host, reason, obstacle: None }),
            );
        };
        if fails {
            episode.holder = None;
            let reason = "no process is left".to_owned();
            return (
                "cannot fork",
                self.done(number, &task.run, Word::LaunchFailed { phase: Phase::Host, reason, obstacle: None }),
            );
        }
        let pid = identity.pid;
        episode.holder = Some(Holder::Host(pid));
        let (stage, run) = (Stage::Forked, task.run.clone());
        let host = Host {
            run,
            identity,
            stage,
            command: 0,
            record: None,
            stop: None,
            letter: None,
            turns: None,
            signalled: BTreeSet::new(),
            sign: Sign::Unasked,
            is_ready: false,
        };
        computer.hosts.insert(pid, host);
        self.change(number, What::Await(pid));
        ("starts a host", Vec::new())
    }

    fn wait_for_report(
        &mut self,
        number: u64,
        task: &Task,
        pid: u32,
        computer: &mut Computer,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        match computer.reports.remove(&pid) {
            Some(Report::Started(record)) => {
                let mut news = self.done(number, &task.run, Word::Started(facts(&record)));
                if !self.attach(&task.run, &record, computer) {
                    self.add(task.run.clone(), What::Look { answers: false, since_us: computer.true_us });
                }
                news.extend(self.hellos.drain(..));
                ("its host reports a start", news)
            }
            Some(Report::Failed(failure)) => {
                let word = Word::LaunchFailed { phase: phase(failure.phase), reason: failure.reason, obstacle: None };
                ("its host reports a failure", self.done(number, &task.run, word))
            }
            None if computer.hosts.contains_key(&pid) => ("no report yet", Vec::new()),
            None => {
                self.change(number, What::Look { answers: true, since_us: computer.true_us });
                ("its host is gone without a report", Vec::new())
            }
        }
    }

    /// Dials a host: only one whose command executes is adopted.
    fn attach(&mut self, run: &Run, record: &HostRecord, computer: &Computer) -> bool {
        let pid = record.host.pid;
        let host = computer.hosts.get(&pid).filter(|host| host.run == *run && host.stage == Stage::Running);
        let Some(host) = host else { return false };
        let turns = host.turns.as_ref().map_or(0, Turns::told);
        let (stopping, heard, ready) = (false, false, host.is_ready);
        let linked = Linked { episode: run.1, pid, stopping, heard, turns, ready };
        self.links.insert(run.0.clone(), linked);
        self.hellos.extend(ready.then(|| word_of(run, Word::Ready, false)));
        self.hellos.extend(host.turns.as_ref().map(|turns| word_of(run, turns.hello(), false)));
        true
    }

    /// What was seen of a session in doubt. As in the product, a host that answers is listened to from then on.
    pub(super) fn evidence(&mut self, of: &Arc<Session>, computer: &Computer) -> machine::Evidence {
        let mut evidence = doubt(of, computer);
        let run = (of.id.clone(), of.episode);
        if let Verdict::Alive(record) = verdict(computer, &run)
            && of.status.is_live()
        {
            let linked = self.links.get(&of.id).is_some_and(|linked| linked.episode == of.episode);
            evidence.answers = (linked || self.attach(&run, &record, computer)).then(|| facts(&record));
        }
        evidence
    }

    /// One look at the evidence. None means: look again.
    fn find(&mut self, task: &Task, since_us: u64, computer: &mut Computer, random: &mut Random) -> Option<Found> {
        let run = &task.run;
        let foreign = |reason: &str| Some(Found::Word(Word::Foreign { reason: reason.to_owned() }));
        match verdict(computer, run) {
            Verdict::NeverOpened => Some(Found::Word(Word::NeverOpened)),
            Verdict::Ended(record) => {
                self.hellos.extend(record.was_ready.then(|| word_of(run, Word::Ready, false)));
                Some(Found::Word(exited(facts_at_end(computer, run, &record), &record)))
            }
            Verdict::HostDied(_) => {
                computer.end_commands(run);
                Some(Found::Word(Word::HostLost))
            }
            Verdict::LostWithMachine => Some(Found::Word(Word::MachineLost)),
            Verdict::Foreign => foreign("it belongs to another state root"),
            Verdict::Damaged(why) => foreign(&why),
            Verdict::StillStarting => {
                let overdue = computer.true_us - since_us > limits::START_WITHIN_MS * 1_000;
                if let Some(pid) = computer.host_of(run).filter(|_| overdue) {
                    computer.host_gone(pid);
                }
                None
            }
            Verdict::MissingLock => None,
            // A host may be silent for a while.
            Verdict::Alive(_) if random.chance(300) => None,
            Verdict::Alive(record) => self.attach(run, &record, computer).then(|| Found::Linked(facts(&record))),
        }
    }

    fn stop(
        &mut self,
        number: u64,
        task: &Task,
        (deadline_us, since_us): (u64, u64),
        computer: &mut Computer,
        random: &mut Random,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        let (session, episode) = &task.run;
        let Some(linked) = self.links.get_mut(session).filter(|linked| linked.episode == *episode) else {
            return match self.find(task, since_us, computer, random) {
                None => ("nothing yet", Vec::new()),
                Some(Found::Linked(_)) => ("finds its host", Vec::new()),
                Some(Found::Word(word)) => ("found", self.done(number, &task.run, word)),
            };
        };
        linked.stopping = true;
        match computer.hosts.get_mut(&linked.pid) {
            None => {
                self.links.remove(session);
                ("its host left during the stop", Vec::new())
            }
            Some(host) if host.stage == Stage::Ended => {
                let record = computer.episode(&task.run).and_then(|episode| episode.exit.clone());
                match record {
                    Some(record) => ("its host says how it ended", self.done(number, &task.run, exited(None, &record))),
                    None => ("its host does not say how it ended", Vec::new()),
                }
            }
            Some(host) => {
                host.stop.get_or_insert(deadline_us);
                ("its host is asked to end it", Vec::new())
            }
        }
    }

    /// Whether this broker is connected to the host of an episode that lives.
    fn reaches(&self, run: &Run, computer: &Computer) -> Option<u32> {
        let linked = self.links.get(&run.0).filter(|linked| linked.episode == run.1)?;
        computer.hosts.contains_key(&linked.pid).then_some(linked.pid)
    }

    fn deliver(
        &mut self,
        number: u64,
        task: &Task,
        attempt: (MessageId, u64),
        computer: &mut Computer,
        random: &mut Random,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        if self.reaches(&task.run, computer).is_none() || random.chance(50) {
            self.tasks.remove(&number);
            return ("no answer", vec![Post::Again(task.run.0.clone(), Hand::Mail)]);
        }
        match letters::hand_over(computer, &task.run, attempt) {
            Some(carried) => ("its host answers", self.done(number, &task.run, mail(attempt, carried))),
            None => ("not yet", Vec::new()),
        }
    }

    fn interrupt(
        &mut self,
        number: u64,
        task: &Task,
        (operation, turn): (OperationId, Option<u64>),
        computer: &mut Computer,
        random: &mut Random,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        let pid = self.reaches(&task.run, computer);
        let sent = pid.map(|pid| turns::interrupt(computer, pid, operation, turn));
        // Its answer may be lost.
        let Some(sent) = sent.filter(|_| !random.chance(100)) else {
            self.tasks.remove(&number);
            return ("no answer", vec![Post::Again(task.run.0.clone(), Hand::Signal)]);
        };
        ("its host answers", self.done(number, &task.run, Word::Interrupted { operation, sent }))
    }

    fn remove(
        &mut self,
        number: u64,
        task: &Task,
        computer: &mut Computer,
        random: &mut Random,
        view: &State,
    ) -> (&'static str, Vec<Post<Ticket>>) {
        let session = &task.run.0;
        if computer.held_before(session, u32::MAX) {
            return ("a host holds its lock", Vec::new());
        }
        if random.chance(50) {
            self.tasks.remove(&number);
            return ("its files cannot be removed", vec![Post::Again(session.clone(), Hand::Life)]);
        }
        // A part of it goes, then all: a crash between leaves a removal that is still owed.
        if let Some(folder) = computer.folders.get_mut(session)
            && folder.episodes.len() > 1
        {
            folder.episodes.pop_first();
            return ("an episode's folder is removed", Vec::new());
        }
        computer.folders.remove(session);
        let listed = view.sessions.get(session).map(|session| session.episode);
        let episode = listed.or_else(|| view.removals.get(session).copied()).unwrap_or(0);
        ("its files are removed", self.done(number, &(session.clone(), episode), Word::Removed))
    }

    /// Hears what a linked host says by itself.
    fn listen(&mut self, session: &SessionId, computer: &Computer) -> (&'static str, Vec<Post<Ticket>>) {
        let Some(linked) = self.links.get_mut(session) else { return ("gone", Vec::new()) };
        let run = (session.clone(), linked.episode);
        let stage = computer.hosts.get(&linked.pid).map(|host| host.stage);
        let (heard, stopping) = (linked.heard, linked.stopping);
        let turns = computer.hosts.get(&linked.pid).and_then(|host| host.turns.as_ref());
        if let Some(word) = turns.and_then(|turns| turns.end(linked.turns)) {
            linked.turns += 1;
            return ("its host tells the end of a turn", vec![word_of(&run, word, false)]);
        }
        let is_ready = computer.hosts.get(&linked.pid).is_some_and(|host| host.is_ready);
        if is_ready && !linked.ready {
            linked.ready = true;
            return ("its host tells that it is ready", vec![word_of(&run, Word::Ready, false)]);
        }
        match stage {
            Some(Stage::Ended) if !heard => {
                linked.heard = true;
                let record = computer.episode(&run).and_then(|episode| episode.exit.clone());
                let news = record.filter(|_| !stopping).map(|record| word_of(&run, exited(None, &record), false));
                ("its host says how it ended", news.into_iter().collect())
            }
            Some(_) => ("silence", Vec::new()),
            None => {
                self.links.remove(session);
                if !heard && !stopping {
                    self.add(run, What::Look { answers: false, since_us: computer.true_us });
                }
                ("its host is gone", Vec::new())
            }
        }
    }
}

fn tells(linked: &Linked, computer: &Computer) -> bool {
    let Some(host) = computer.hosts.get(&linked.pid) else { return false };
    host.turns.as_ref().is_some_and(|turns| turns.told() > linked.turns) || host.is_ready && !linked.ready
}

fn mail((message, attempt): (MessageId, u64), carried: machine::Carried) -> Word {
    Word::Mail { message, attempt, carried }
}

fn word_of(run: &Run, word: Word, answers: bool) -> Post<Ticket> {
    Post::Word { observation: Observation { session: run.0.clone(), episode: run.1, word }, answers }
}
