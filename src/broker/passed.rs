//! The points that the turn and the hands of the broker pass: which one a record, an effect or a word of the world stands at.
//! Nothing is decided here, and a release build does nothing here.

use crate::machine::{Effect, Event, HostChange, Kind, MessageChange, SessionChange, Word};
use crate::os::fail::{Point, pass};

/// These records are synced, and nothing that follows from them has left.
pub(super) fn recorded(events: &[Event]) {
    events.iter().filter_map(of_record).for_each(pass);
}

/// This effect is about to leave.
pub(super) fn effect(effect: &Effect) {
    pass(match effect {
        Effect::Judge { .. } => Point::EffectJudge,
        Effect::Launch { episode: 1, .. } => Point::EffectSpawn,
        Effect::Launch { .. } => Point::EffectResume,
        Effect::Stop { .. } => Point::EffectStop,
        Effect::Remove { .. } => Point::EffectRemove,
        Effect::Deliver { .. } => Point::EffectDeliver,
        Effect::Probe { .. } => Point::EffectProbe,
        Effect::Interrupt { .. } => Point::EffectInterrupt,
    });
}

/// A message is about to be handed to its host.
pub(super) fn handing() {
    pass(Point::DeliverHanding);
}

/// Its host has answered, or will not.
pub(super) fn handed() {
    pass(Point::DeliverHanded);
}

/// The world has said this, and nobody knows yet.
pub(super) fn word(word: &Word) {
    of_word(word).into_iter().for_each(pass);
}

/// Of what only doubt, damage or an operator brings about there is no point of its own: the ledger's are passed.
fn of_record(event: &Event) -> Option<Point> {
    Some(match event {
        Event::Generation { .. } => Point::RecordGeneration,
        Event::Beat { .. } => Point::RecordBeat,
        Event::Accept { kind, .. } => match kind {
            Kind::Spawn | Kind::Fork => Point::RecordSpawn,
            Kind::Resume => Point::RecordResume,
            Kind::Stop => Point::RecordStop,
            Kind::Delete => Point::RecordDelete,
            Kind::Prune => Point::RecordPrune,
            Kind::Send => Point::RecordSend,
            Kind::Interrupt => Point::RecordInterrupt,
            Kind::Report => Point::RecordReport,
            Kind::Reconcile
            | Kind::Resolve
            | Kind::Cancel
            | Kind::ResolveMessage
            | Kind::Acknowledge
            | Kind::Turn
            | Kind::Ready => return None,
        },
        Event::Host { body: HostChange::Started(_), .. } => Point::RecordStarted,
        Event::Host { body: HostChange::Adopted(_), .. } => Point::RecordAdopted,
        Event::Session { body: SessionChange::Ended { .. }, .. } => Point::RecordEnded,
        Event::Session { body: SessionChange::Removed, .. } => Point::RecordRemoved,
        Event::Session { body: SessionChange::TurnEnded { .. }, .. } => Point::RecordTurnEnded,
        Event::Session { body: SessionChange::Ready, .. } => Point::RecordReady,
        Event::Session { body: SessionChange::Unready { .. }, .. } => Point::RecordUnready,
        Event::Finish { .. } => Point::RecordOutcome,
        Event::Message { body, .. } => match body.change {
            MessageChange::Sending => Point::RecordSending,
            MessageChange::Delivered { .. } => Point::RecordDelivered,
            MessageChange::Pulled => Point::RecordPulled,
            MessageChange::InterruptSent => Point::RecordInterruptSent,
            MessageChange::Acknowledged
            | MessageChange::Returned { .. }
            | MessageChange::Uncertain { .. }
            | MessageChange::Cancelled { .. }
            | MessageChange::Expired
            | MessageChange::Failed { .. } => return None,
        },
        Event::Queue { .. } => Point::RecordClosed,
        Event::Notice { .. } => Point::RecordNotice,
        Event::Host { body: HostChange::Unopened, .. }
        | Event::Session {
            body:
                SessionChange::Aborted
                | SessionChange::Deleting
                | SessionChange::Forgotten
                | SessionChange::Woken { .. }
                | SessionChange::Overdue { .. }
                | SessionChange::TurnBegan { .. },
            ..
        }
        | Event::Fence { .. }
        | Event::Conflict { .. }
        | Event::Operator { .. } => return None,
    })
}

fn of_word(word: &Word) -> Option<Point> {
    Some(match word {
        Word::Started(_) => Point::WordStarted,
        Word::LaunchFailed { .. } => Point::WordFailed,
        Word::Adopted(_) => Point::WordAdopted,
        Word::Exited { .. } => Point::WordEnded,
        Word::HostLost => Point::WordHostLost,
        Word::Removed => Point::WordRemoved,
        Word::Mail { .. } => Point::WordMail,
        Word::Interrupted { .. } => Point::WordInterrupted,
        Word::Turn { .. } => Point::WordTurn,
        Word::Ready => Point::WordReady,
        Word::NeverOpened | Word::MachineLost | Word::Foreign { .. } => return None,
    })
}
