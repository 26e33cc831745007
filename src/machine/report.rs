//! Reports: what a session says became of its work, for whoever gave it the work. They are append-only; one may take the place of an earlier
//! one, and then nothing else takes that place, so that each line of them has one head (requirement R63).
//!
//! ```text
//! post --> kept --amended by a later one of the same session--> superseded
//!           `--- its session leaves, or it is the oldest of too many ---> forgotten, with its text
//! ```
//! Promise: a report's author is whom the credential says, its text is durable before the record that names it, and the ledger holds a salted
//! digest of it and none of it.

use super::apply::{At, Illegal};
use super::decide::{Answer, Asked, Decision, refused};
use super::event::Plan;
use super::id::{OperationId, ReportId, Scope, SessionId};
use super::limits;
use super::message::Body;
use super::operation::{Gained, Kind};
use super::refusal::Refusal;
use super::session::{Exit, Status};
use super::state::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a report says became of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is done.
    Success,
    /// It cannot be done.
    Failure,
    /// Something of it is done.
    Partial,
}

/// A report that a session wants to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// What became of the work.
    pub verdict: Verdict,
    /// Where its head and its text lie, durably; none if the shell wrote nothing yet.
    pub bodies: Option<(Body, Body)>,
    /// The report that it takes the place of. Finding it may fail; a replay needs none, so the failure waits here.
    pub supersedes: Option<Result<ReportId, Refusal>>,
}

/// What a report says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Words of its session.
    Posted {
        /// Where its title and its short parts lie.
        head: Body,
        /// Where its text lies.
        text: Body,
    },
    /// Nothing: its episode ended without one, and the broker says how, so that it never reads as the session's own claim (requirement R59).
    Ended {
        /// The status after it.
        status: Status,
        /// How it ended.
        exit: Exit,
    },
}

/// A report, as the fold of the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Its id: the position of the record that it came with.
    pub id: ReportId,
    /// Whose it is.
    pub session: SessionId,
    /// The episode in which it was posted.
    pub episode: u32,
    /// What it says became of the work.
    pub verdict: Verdict,
    /// What it says.
    pub content: Content,
    /// The report that it took the place of.
    pub supersedes: Option<ReportId>,
    /// The report that took its place.
    pub superseded_by: Option<ReportId>,
    /// When it was posted; wall clock, microseconds.
    pub posted_us: u64,
}

impl Report {
    /// Its texts on disk.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        match &self.content {
            Content::Posted { head, text } => Some([head, text]).into_iter().flatten(),
            Content::Ended { .. } => None.into_iter().flatten(),
        }
    }

    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Posted { head, text } => head.bytes.saturating_add(text.bytes),
            Content::Ended { .. } => 0,
        }
    }
}

impl Asked<'_> {
    pub(super) fn report(&self, post: &Post) -> Decision {
        let Scope::Session(caller) = &self.request.scope else { return refused(Refusal::SessionOnly) };
        let session = self.state.sessions.get(caller).filter(|session| session.status != Status::Deleted);
        let Some(session) = session else { return refused(Refusal::NoSession { given: caller.to_string() }) };
        let supersedes = match post.supersedes.as_ref().map(|named| self.amended(caller, named)).transpose() {
            Ok(supersedes) => supersedes,
            Err(refusal) => return refused(refusal),
        };
        let Some((head, text)) = post.bodies.clone() else {
            return Decision { events: Vec::new(), answer: Answer::Store { session: caller.clone() } };
        };
        let plan = Plan::Report { verdict: post.verdict, head, text, supersedes };
        let accept = self.accept(Kind::Report, Some(caller), Some(session.episode), plan);
        self.answered(vec![accept, self.done(Kind::Report, Some(caller), Gained::default())])
    }

    /// The report of the caller's own that it may take the place of: the last of its line.
    fn amended(&self, caller: &SessionId, named: &Result<ReportId, Refusal>) -> Result<ReportId, Refusal> {
        let id = named.clone()?;
        let report = self.state.reports.get(&id).filter(|report| report.session == *caller);
        let report = report.ok_or_else(|| Refusal::NoReport { given: id.to_string() })?;
        match self.state.head_of_line(report) {
            head if head == id => Ok(id),
            head => Err(Refusal::Superseded { report: id, head }),
        }
    }
}

/// Whether somebody may read a session's reports: the owner, the session, its parent, and its siblings (requirement R66).
pub fn may_read(state: &State, scope: &Scope, author: &SessionId) -> bool {
    let Scope::Session(caller) = scope else { return true };
    let parent_of = |id: &SessionId| state.sessions.get(id).and_then(|session| session.parent.clone());
    let parent = parent_of(author);
    author == caller || parent.is_some() && (parent.as_ref() == Some(caller) || parent == parent_of(caller))
}

/// A report was posted.
pub(super) fn posted(state: &mut State, sid: &SessionId, op: OperationId, plan: &Plan, at: At) -> Result<(), Illegal> {
    let Plan::Report { verdict, head, text, supersedes } = plan else { return Ok(()) };
    let session = state.sessions.get(sid).filter(|session| session.status != Status::Deleted);
    let episode = session.ok_or(Illegal("a report of a session that is gone"))?.episode;
    let id = ReportId(op.0);
    if let Some(earlier) = supersedes {
        let earlier = state.reports.get_mut(earlier).filter(|of| of.session == *sid && of.superseded_by.is_none());
        Arc::make_mut(earlier.ok_or(Illegal("a report in the place of one that is not there"))?).superseded_by =
            Some(id);
    }
    let content = Content::Posted { head: head.clone(), text: text.clone() };
    let (session, verdict, supersedes, posted_us) = (sid.clone(), *verdict, *supersedes, at.time.wall_us);
    let report = Report { id, session, episode, verdict, content, supersedes, superseded_by: None, posted_us };
    state.file(Arc::new(report));
    state.forget_reports(sid);
    Ok(())
}

/// An episode of a session that somebody's session started ended, and this record says so: where it left no report, this is it (requirements
/// R59, R62).
pub(super) fn unreported(state: &mut State, sid: &SessionId, (status, exit): (Status, &Exit), at: At) {
    let Some(session) = state.sessions.get(sid).filter(|session| session.parent.is_some()) else { return };
    let episode = session.episode;
    if state.reports_of(sid).any(|report| report.episode == episode) {
        return;
    }
    let verdict =
        if matches!(status, Status::Failed | Status::Interrupted) { Verdict::Failure } else { Verdict::Partial };
    let content = Content::Ended { status, exit: exit.clone() };
    let (id, session, posted_us) = (ReportId(at.seq), sid.clone(), at.time.wall_us);
    let report = Report { id, session, episode, verdict, content, supersedes: None, superseded_by: None, posted_us };
    state.file(Arc::new(report));
    state.forget_reports(sid);
}

impl State {
    /// The last report of the line that this one stands in.
    pub fn head_of_line(&self, report: &Report) -> ReportId {
        let mut head = report;
        // Each is later than the one before, so this ends.
        while let Some(next) = head.superseded_by.and_then(|id| self.reports.get(&id)).filter(|next| next.id > head.id)
        {
            head = next;
        }
        head.id
    }

    /// A session's reports that are kept, oldest first.
    pub fn reports_of(&self, sid: &SessionId) -> impl DoubleEndedIterator<Item = &Arc<Report>> + use<'_> {
        let ids = self.reported.get(sid).into_iter().flat_map(|ids| ids.iter());
        ids.filter_map(|id| self.reports.get(id))
    }

    /// A report takes its place. The lists are in the order of ids.
    pub(super) fn file(&mut self, report: Arc<Report>) {
        let mut ids = self.reported.get(&report.session).cloned().unwrap_or_default();
        Arc::make_mut(&mut ids).push(report.id);
        self.reported.insert(report.session.clone(), ids);
        self.reports.insert(report.id, report);
    }

    /// Forgets reports of a session that are too many or too long together, oldest first.
    fn forget_reports(&mut self, sid: &SessionId) {
        let mut bytes = self.reports_of(sid).fold(0_u64, |bytes, report| bytes.saturating_add(report.bytes()));
        let mut ids = self.reported.get(sid).cloned().unwrap_or_default();
        let mut gone = 0;
        while ids.len() - gone > limits::REPORTS || bytes > limits::REPORTS_BYTES && ids.len() - gone > 1 {
            let oldest = self.reports.remove(&ids[gone]);
            bytes = bytes.saturating_sub(oldest.map_or(0, |report| report.bytes()));
            gone += 1;
        }
        if gone > 0 {
            Arc::make_mut(&mut ids).drain(..gone);
            self.reported.insert(sid.clone(), ids);
        }
    }

    /// A session left the list, and its reports with it.
    pub(super) fn drop_reports(&mut self, sid: &SessionId) {
        let ids = self.reported.remove(sid).unwrap_or_default();
        ids.iter().for_each(|id| drop(self.reports.remove(id)));
    }

    /// What must hold of all this, for [`super::violations`].
    pub(super) fn reports_wrong(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut claim = |holds: bool, what: String| found.extend((!holds).then_some(what));
        let mut known = 0;
        for (sid, ids) in self.reported.iter() {
            known += ids.len();
            claim(self.sessions.get(sid).is_some(), format!("{sid}: reports without their session"));
            let own = |id: &ReportId| self.reports.get(id).is_some_and(|report| report.session == *sid);
            claim(ids.is_sorted() && ids.iter().all(own), format!("{sid}: a report that is not its own"));
            claim((1..=limits::REPORTS).contains(&ids.len()), format!("{sid}: {} reports", ids.len()));
        }
        claim(known == self.reports.len(), format!("{known} reports are listed, {} there", self.reports.len()));
        for (id, report) in self.reports.iter() {
            let earlier = report.supersedes.and_then(|earlier| self.reports.get(&earlier));
            let is_next = earlier.is_none_or(|earlier| earlier.superseded_by == Some(*id) && earlier.id < *id);
            claim(is_next, format!("{id}: two took the place of one"));
        }
        found
    }
}
