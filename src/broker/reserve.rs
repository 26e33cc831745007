//! Room on the disk that is kept for what must still work when nothing else does: to stop, to delete, to record how things
//! ended. What begins something leaves all of it; what ends something leaves what its own outcome and those of others need;
//! outcomes may take the rest.
//!
//! It grows with the state, so that a broker that took something on can also bring it to its end. The sizes are those of ordinary
//! records, not of the longest: the reserve is one for all. Where the file system cannot reserve nothing is promised.

use super::turn::{Asked, Batch, Failed, Fatal, Release, Told, Turn};
use crate::machine::{Action, Answer, Input, State, Time};
use ostler_ledger::{AppendError, Storage};

/// An outcome, or the end of a session's process.
const OUTCOME_BYTES: u64 = 2 * 1024;
/// A stop with its outcome.
const STOP_BYTES: u64 = 3 * 1024;
/// A delete with the session's last records.
const DELETE_BYTES: u64 = 3 * 1024;
/// Some starts of a broker, and some operations that are about no session.
const ALWAYS_BYTES: u64 = 128 * 1024;

/// What a batch may take of the reserve, by what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// It records what has happened.
    #[default]
    Settles,
    /// It ends something.
    Ends,
    /// It begins something, or is not needed at all.
    Begins,
}

impl Need {
    /// `serving`: the start is over. Without its generation and its first beat there is no broker that could end anything.
    pub(super) fn of(input: &Input, serving: bool) -> Self {
        match input {
            Input::Observation(_) | Input::Tick => Self::Settles,
            Input::Generation(_) | Input::Pull { .. } => Self::Ends,
            Input::Beat { .. } if serving => Self::Begins,
            Input::Beat { .. } => Self::Ends,
            Input::Request(request) => match request.action {
                Action::Spawn { .. } | Action::Resume { .. } | Action::Send(_) | Action::Report(_) => Self::Begins,
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
                | Action::Acknowledge { .. } => Self::Ends,
            },
        }
    }

    /// How many bytes must be left behind a batch that leads to this state.
    pub(super) fn leaves(self, state: &State) -> u64 {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (open, live, all) = (count(state.open), count(state.live), count(state.sessions.len()));
        let outcomes = (open + live) * OUTCOME_BYTES;
        match self {
            Self::Settles => 0,
            Self::Ends => outcomes,
            Self::Begins => outcomes + live * STOP_BYTES + all * DELETE_BYTES + ALWAYS_BYTES,
        }
    }
}

impl<S: Storage, T> Turn<S, T> {
    /// Why room for what must still work cannot be kept on the disk, while it cannot.
    pub fn short(&self) -> Option<String> {
        self.short.clone()
    }

    /// Keeps room for the ends of all that was begun. Costs nothing while enough is kept.
    pub(super) fn keep_room(&mut self) {
        let kept = self.ledger.reserve(Need::Begins.leaves(&self.state));
        self.short = kept.err().map(|error| error.to_string());
    }

    /// The start is over: beats are less urgent from here on.
    pub fn serve(&mut self) {
        self.serving = true;
    }

    /// The write failed and nothing of the batch happened. If only room is lacking, what needs less of it is tried alone.
    pub(super) fn undone(
        &mut self,
        now: Time,
        mut batch: Batch<T>,
        error: AppendError,
        release: &mut dyn FnMut(Release<T>),
        failed: &mut dyn FnMut(Failed),
    ) -> Result<(), Fatal> {
        self.view.undo(&mut self.state);
        let full = matches!(error, AppendError::StorageFull(_));
        // There was no room for a new segment, and the last one goes on.
        let moved = full && self.ledger.next_seq() != batch.first_seq;
        let (need, serving) = (batch.need, self.serving);
        let goes_on = |(input, ..): &Asked<T>| moved || full && Need::of(input, serving) < need;
        let (again, lost): (Vec<_>, Vec<_>) = std::mem::take(&mut batch.inputs).into_iter().partition(goes_on);
        if !lost.is_empty() {
            let told = Told::Storage { full, message: error.to_string() };
            let words = lost.iter().any(|(input, ..)| matches!(input, Input::Observation(_)));
            failed(Failed { error, words });
            // What needs no disk is answered: a refusal binds nothing, and what an earlier turn recorded still holds.
            let undone = |answer: &Answer| match answer {
                Answer::Operation { id, .. } => self.state.operations.get(id).is_none(),
                Answer::Pulled => true,
                Answer::Nothing
                | Answer::Refused(_)
                | Answer::Prepare { .. }
                | Answer::Recall(_)
                | Answer::Look { .. }
                | Answer::Store { .. }
                | Answer::Recalled(_) => false,
            };
            let (lost, kept): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(_, _, answer)| undone(answer));
            let lost: Vec<_> =
                lost.into_iter().filter_map(|(_, ticket, _)| ticket).map(|ticket| (ticket, told.clone())).collect();
            batch.gone.clear();
            let kept = self.answers(kept, &batch);
            lost.into_iter().chain(kept).for_each(|(ticket, told)| release(Release::Answer(ticket, told)));
        }
        if again.is_empty() {
            return Ok(());
        }
        self.run(now, again.into_iter().map(|(input, ticket, _)| (input, ticket)).collect(), release, failed)
    }
}
