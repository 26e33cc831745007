//! The table of points: every place at which a test build can be told to pause, to fail or to die (`fail`). One stands behind
//! each durable write, and one before and behind each effect.
//!
//! A durable write asks for its point (`durable`), so none can be forgotten; what is not in this table does not compile, and a
//! point that no run of the kill matrix reaches fails it. A release build knows the words but none of their names.

macro_rules! points {
    ($($point:ident = $name:literal,)*) => {
        /// A place between two steps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = $name] $point,)*
        }

        #[cfg(feature = "testing")]
        impl Point {
            /// All of them, in the order of the table.
            pub const ALL: &[Point] = &[$(Point::$point,)*];

            /// Its name, `area.step`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$point => $name,)*
                }
            }
        }
    };
}

points! {
    // Find or start, in the client.
    EnsureGuarded = "ensure.guarded",
    EnsureStart = "ensure.start",
    EnsureStarted = "ensure.started",
    EnsureReady = "ensure.ready",
    EnsureMet = "ensure.met",
    CallSend = "call.send",
    CallSent = "call.sent",
    CallAnswered = "call.answered",

    // The start of a broker up to its beat.
    StartFolder = "start.folder",
    LockHad = "lock.had",
    LockAsideContent = "lock.aside_content",
    LockAside = "lock.aside",
    LockRecorded = "lock.recorded",
    LockNamed = "lock.named",
    MovedAside = "aside.moved",
    StartWithdrawn = "start.withdrawn",
    SecretContent = "secret.content",
    SecretNamed = "secret.named",
    StartGeneration = "start.generation",
    StartSwept = "start.swept",
    StartBeat = "start.beat",

    // Publishing, and publishing again what is gone.
    StartListening = "start.listening",
    StartAnswered = "start.answered",
    StartPublish = "start.publish",
    PublishContent = "publish.content",
    PublishNamed = "publish.named",
    StartCleared = "start.cleared",
    StartReport = "start.report",
    StartReported = "start.reported",
    PublishAgain = "publish.again",
    PublishBoundAgain = "publish.bound_again",

    // The ledger's files: turns, new segments, snapshots, what recovery mends, what is retired.
    LedgerLocked = "ledger.locked",
    SegmentCreated = "segment.created",
    SegmentReserved = "segment.reserved",
    SegmentWritten = "segment.written",
    SegmentSynced = "segment.synced",
    SegmentSealed = "segment.sealed",
    SegmentUnsealed = "segment.unsealed",
    SegmentCut = "segment.cut",
    SegmentRemoved = "segment.removed",
    ReplacementCreated = "replacement.created",
    ReplacementWritten = "replacement.written",
    ReplacementSynced = "replacement.synced",
    ReplacementNamed = "replacement.named",
    SnapshotBegin = "snapshot.begin",
    SnapshotCreated = "snapshot.created",
    SnapshotWritten = "snapshot.written",
    SnapshotSynced = "snapshot.synced",
    SnapshotNamed = "snapshot.named",
    SnapshotRemoved = "snapshot.removed",
    SnapshotEnd = "snapshot.end",
    LedgerFolder = "ledger.folder",
    QuarantineCreated = "quarantine.created",
    QuarantineWritten = "quarantine.written",
    QuarantineSynced = "quarantine.synced",
    QuarantineFolder = "quarantine.folder",
    ArchiveLinked = "archive.linked",
    ArchiveFolder = "archive.folder",

    // Records that are synced, before anything that follows from them leaves.
    RecordGeneration = "record.generation",
    RecordBeat = "record.beat",
    RecordSpawn = "record.spawn",
    RecordResume = "record.resume",
    RecordStop = "record.stop",
    RecordDelete = "record.delete",
    RecordPrune = "record.prune",
    RecordStarted = "record.started",
    RecordAdopted = "record.adopted",
    RecordEnded = "record.ended",
    RecordRemoved = "record.removed",
    RecordOutcome = "record.outcome",
    RecordSend = "record.send",
    RecordReport = "record.report",
    RecordInterrupt = "record.interrupt",
    RecordSending = "record.sending",
    RecordDelivered = "record.delivered",
    RecordPulled = "record.pulled",
    RecordInterruptSent = "record.interrupt_sent",
    RecordClosed = "record.closed",
    RecordNotice = "record.notice",
    RecordTurnEnded = "record.turn_ended",
    RecordReady = "record.ready",
    RecordUnready = "record.unready",

    // Files of a session before its start is accepted.
    SpawnSessions = "spawn.sessions",
    SpawnFolder = "spawn.folder",
    SpawnCredential = "spawn.credential",
    SpawnSpecContent = "spawn.spec_content",
    SpawnSpecNamed = "spawn.spec_named",
    SpawnPrepare = "spawn.prepare",
    EpisodeFolder = "episode.folder",
    EpisodeLock = "episode.lock",
    EpisodeLockNamed = "episode.lock_named",
    BodyContent = "body.content",
    BodyNamed = "body.named",

    // Effects as they leave the broker, and the words that come back.
    EffectJudge = "effect.judge",
    EffectSpawn = "effect.spawn",
    EffectResume = "effect.resume",
    EffectStop = "effect.stop",
    EffectRemove = "effect.remove",
    EffectDeliver = "effect.deliver",
    EffectProbe = "effect.probe",
    EffectInterrupt = "effect.interrupt",
    WordStarted = "word.started",
    WordFailed = "word.failed",
    WordAdopted = "word.adopted",
    WordEnded = "word.ended",
    WordHostLost = "word.host_lost",
    WordRemoved = "word.removed",
    WordMail = "word.mail",
    WordInterrupted = "word.interrupted",
    WordTurn = "word.turn",
    WordReady = "word.ready",
    DeliverHanding = "deliver.handing",
    DeliverHanded = "deliver.handed",
    LaunchLocked = "launch.locked",
    LaunchForked = "launch.forked",
    AdoptDial = "adopt.dial",
    AdoptDialled = "adopt.dialled",
    AdoptAsked = "adopt.asked",
    FinishBegin = "finish.begin",
    FinishKilled = "finish.killed",
    FinishEnd = "finish.end",
    RemoveBegun = "remove.begun",
    RemoveSynced = "remove.synced",
    ReplyBegin = "reply.begin",
    ReplyEnd = "reply.end",
    ReplySent = "reply.sent",

    // The host.
    HostInherited = "host.inherited",
    HostBound = "host.bound",
    HostExitPrepared = "host.exit_prepared",
    HostForked = "host.forked",
    HostRecordContent = "host.record_content",
    HostRecordNamed = "host.record_named",
    HostGateOpened = "host.gate_opened",
    HostReport = "host.report",
    HostReported = "host.reported",
    HostDeliver = "host.deliver",
    HostJournalAttempt = "host.journal_attempt",
    HostDelivered = "host.delivered",
    HostJournalEnd = "host.journal_end",
    HostJournalContent = "host.journal_content",
    HostJournalNamed = "host.journal_named",
    HostTurnEnded = "host.turn_ended",
    HostReady = "host.ready",
    HostInterrupt = "host.interrupt",
    HostInterrupted = "host.interrupted",
    HostStop = "host.stop",
    HostStopping = "host.stopping",
    HostExitSeen = "host.exit_seen",
    HostExitCompleted = "host.exit_completed",
    HostExitPushed = "host.exit_pushed",
    HostEnded = "host.ended",
    HostOver = "host.over",
    HostBoundAgain = "host.bound_again",

    // Leaving in order.
    ShutdownStop = "shutdown.stop",
    ShutdownAsked = "shutdown.asked",
    ShutdownMarked = "shutdown.marked",
    ShutdownDrained = "shutdown.drained",
    ShutdownBeaten = "shutdown.beaten",
    ShutdownClosed = "shutdown.closed",
    ShutdownWithdrawn = "shutdown.withdrawn",
    ShutdownUnbound = "shutdown.unbound",
    ShutdownLeave = "shutdown.leave",
    ShutdownUnlocked = "shutdown.unlocked",
    ShutdownReleased = "shutdown.released",

    // What the command line writes itself.
    ExportContent = "export.content",
    ExportNamed = "export.named",
    DoctorQuarantine = "doctor.quarantine",
    DoctorRoot = "doctor.root",
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::Point;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_areas_and_steps_and_all_differ() {
        let names: BTreeSet<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        for name in names {
            assert!(name.split_once('.').is_some_and(|(area, step)| is_word(area) && is_word(step)), "{name}");
        }
    }
}
