//! Messages for the command's standard input: written once, whole or said to be cut, and what is known of them when the
//! host has been killed between two steps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use ostler::host::client::{Link, LinkError, Probe, Verdict, probe};
use ostler::host::spec::{Adapter, Spec};
use ostler::host::wire::{DELIVER_BYTES_MAX, Delivery, EpisodeState, Exit, HostRecord, RefusalCode};
use ostler::os::arg::Arg;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::bed::{Bed, SESSION, Talk, process};
use crate::support::{OSTLER, SOON, Usage, wait_for, wait_until};

/// Far more than a pipe takes at once.
const LARGE: usize = 300_000;

type Begun = tokio::task::JoinHandle<Result<Delivery, LinkError>>;

/// A broker of a generation, over the link that brokers use.
struct Broker {
    runtime: Runtime,
    link: Link,
}

impl Broker {
    fn dial(record: &HostRecord, generation: u64) -> Broker {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (link, ..) = runtime.block_on(Link::dial(record, generation, SOON)).unwrap();
        Broker { runtime, link }
    }

    fn deliver(&self, message: &str, attempt: u64, bytes: &[u8]) -> Result<Delivery, LinkError> {
        self.runtime
            .block_on(async { tokio::time::timeout(SOON, self.link.deliver(message, attempt, bytes)).await })
            .unwrap()
    }

    /// Sends a delivery, and gives back how to wait for its answer.
    fn begin(&self, message: &'static str, attempt: u64, bytes: Vec<u8>) -> Begun {
        let link = self.link.clone();
        let begun = self.runtime.spawn(async move { link.deliver(message, attempt, &bytes).await });
        // It takes its place in the line before anything that this test asks for next.
        self.runtime.block_on(tokio::task::yield_now());
        begun
    }

    fn end(&self, begun: Begun) -> Result<Delivery, LinkError> {
        self.runtime.block_on(async { tokio::time::timeout(SOON, begun).await }).unwrap().unwrap()
    }

    /// A message is under way: it holds up all others.
    #[track_caller]
    fn is_under_way(&self) {
        assert!(refused(self.deliver("other", 1, b"x")).contains("under way"));
    }

    fn interrupt(&self) -> bool {
        self.runtime
            .block_on(async { tokio::time::timeout(SOON, self.link.interrupt(0, None)).await })
            .unwrap()
            .unwrap()
    }
}

#[track_caller]
fn refused(delivery: Result<Delivery, LinkError>) -> String {
    match delivery {
        Err(LinkError::Refused(refusal)) if refusal.code == RefusalCode::Unavailable => refusal.message,
        other => panic!("{other:?}"),
    }
}

fn is_accepted(delivery: &Delivery) -> bool {
    matches!(delivery, Delivery::Accepted { .. })
}

fn lines(spec: &mut Spec, command: &[&str]) {
    spec.command = command.iter().map(|part| Arg::from(*part)).collect();
    spec.adapter = Adapter::Lines;
}

fn taking_shell(script: &str) -> Bed {
    Bed::with(|spec| lines(spec, &["sh", "-c", script]))
}

fn probed(bed: &Bed, message: &str, attempt: u64) -> Probe {
    probe(&bed.state(), SESSION, 1, message, attempt).unwrap()
}

fn large() -> Vec<u8> {
    (0..u32::MAX).flat_map(u32::to_le_bytes).map(|byte| b'a' + byte % 26).take(LARGE).collect()
}

fn end(bed: &Bed, record: &HostRecord) {
    Talk::broker(record, 99).stop(0);
    bed.ended();
}

#[test]
fn a_message_arrives_once_however_often_it_is_delivered() {
    let bed = Bed::taking(&["copy"]);
    let record = bed.start();
    let first = Broker::dial(&record, 2);
    let accepted = first.deliver("m1", 1, b"one\n").unwrap();
    assert!(is_accepted(&accepted), "{accepted:?}");
    // The same answer for whoever asks again, over this connection or as a later broker, and nothing is written.
    assert_eq!(first.deliver("m1", 1, b"one\n").unwrap(), accepted);
    let second = Broker::dial(&record, 3);
    assert_eq!(second.deliver("m1", 1, b"one\n").unwrap(), accepted);
    assert!(matches!(first.deliver("m1", 1, b"one\n"), Err(LinkError::Closed)));
    assert!(is_accepted(&second.deliver("m1", 2, b"two\n").unwrap()));
    assert!(is_accepted(&second.deliver("m2", 1, b"three\n").unwrap()));
    bed.line("three");
    assert_eq!(bed.output(), "one\ntwo\nthree\n");
    end(&bed, &record);
    // What has ended is still answered from the journal.
    let Delivery::Accepted { at_us } = accepted else { panic!("{accepted:?}") };
    assert_eq!(probed(&bed, "m1", 1), Probe::Accepted { at_us });
    assert_eq!(probed(&bed, "m1", 3), Probe::NotAccepted);
}

#[test]
fn a_command_that_does_not_read_holds_up_its_message_and_nobody_else() {
    let bed = Bed::taking(&["say", "up", "--", "until", "go", "--", "copy"]);
    let record = bed.start();
    let first = Broker::dial(&record, 2);
    let begun = first.begin("m1", 1, large());
    first.is_under_way();
    let status = first.runtime.block_on(first.link.status()).unwrap();
    assert_eq!(status.state, EpisodeState::Running);
    assert_eq!(Talk::reader(&record).ask(json!({ "request": "read", "from": 0, "bytes_max": 70_000 }))["next"], 3);
    let joined = first.begin("m1", 1, large());
    // A later broker joins what is under way; the earlier one is gone.
    let second = Broker::dial(&record, 3);
    let again = second.begin("m1", 1, large());
    second.is_under_way();
    fs::write(bed.folder().join("go"), "").unwrap();
    let accepted = second.end(again).unwrap();
    assert!(is_accepted(&accepted), "{accepted:?}");
    for cut in [begun, joined] {
        assert!(matches!(first.end(cut), Err(LinkError::Closed)));
    }
    assert!(is_accepted(&second.deliver("m2", 1, b"\nend\n").unwrap()));
    bed.line("end");
    let output = bed.output();
    let want = [b"up\n", large().as_slice(), b"\nend\n"].concat();
    assert!(output.as_bytes() == want, "{} bytes came through", output.len());
    end(&bed, &record);
}

#[test]
fn a_message_that_is_joined_is_answered_for_each() {
    let bed = Bed::taking(&["until", "go", "--", "copy"]);
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    let first = broker.begin("m1", 1, large());
    broker.is_under_way();
    let joined: Vec<_> = (0..3).map(|_| broker.begin("m1", 1, large())).collect();
    // The line is served in order, so an answer behind them says that they have joined.
    broker.is_under_way();
    fs::write(bed.folder().join("go"), "").unwrap();
    let accepted = broker.end(first).unwrap();
    assert!(is_accepted(&accepted), "{accepted:?}");
    for each in joined {
        assert_eq!(broker.end(each).unwrap(), accepted);
    }
    end(&bed, &record);
}

#[test]
fn a_command_that_closes_its_input_has_cut_what_was_under_way_and_gets_no_more() {
    let bed = taking_shell("head -c 1000 | wc -c; exec <&-; echo closed; exec sleep 1000");
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    let cut = broker.deliver("m1", 1, &large()).unwrap();
    let Delivery::Cut { written, total } = cut else { panic!("{cut:?}") };
    assert!(written >= 1000 && written < total && total == u64::try_from(LARGE).unwrap(), "{written} of {total}");
    bed.line("closed");
    assert_eq!(broker.deliver("m1", 1, &large()).unwrap(), cut, "it is not tried again");
    let closed = broker.deliver("m2", 1, b"x\n").unwrap();
    assert!(matches!(&closed, Delivery::Refused { reason } if reason.contains("closed")), "{closed:?}");
    end(&bed, &record);
    assert_eq!((probed(&bed, "m1", 1), probed(&bed, "m2", 1)), (Probe::CannotTell, Probe::NotAccepted));
}

#[test]
fn a_command_without_input_refuses_and_not_one_byte_was_written() {
    let bed = taking_shell("exec <&-; echo closed; exec sleep 1000");
    let record = bed.start();
    bed.line("closed");
    let broker = Broker::dial(&record, 2);
    for _ in 0..2 {
        let closed = broker.deliver("m1", 1, &large()).unwrap();
        assert!(matches!(&closed, Delivery::Refused { reason } if reason.contains("closed")), "{closed:?}");
    }
    process(&record.host).kill_9();
    wait_until(SOON, "the host's death", || matches!(bed.verdict(), Verdict::HostDied(_)));
    assert_eq!(probed(&bed, "m1", 1), Probe::NotAccepted);

    let inbox = Bed::fixture(&["copy", "--", "sleep"]);
    let record = inbox.start();
    let spec = Broker::dial(&record, 2).deliver("m1", 1, b"x\n").unwrap();
    assert!(matches!(&spec, Delivery::Refused { reason } if reason.contains("spec")), "{spec:?}");
    end(&inbox, &record);
}

#[test]
fn the_end_of_the_command_is_the_end_of_its_message() {
    let bed = Bed::taking(&["until", "go", "--", "exit", "4"]);
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    let begun = broker.begin("m1", 1, large());
    broker.is_under_way();
    fs::write(bed.folder().join("go"), "").unwrap();
    let cut = broker.end(begun).unwrap();
    assert!(matches!(cut, Delivery::Cut { written: 1.., .. }), "{cut:?}");
    assert_eq!(bed.ended().exit, Exit::Code(4));
    assert_eq!(probed(&bed, "m1", 1), Probe::CannotTell);
}

#[test]
fn of_a_message_that_was_under_way_when_its_host_died_nobody_can_tell() {
    let bed = Bed::taking(&["sleep"]);
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    let begun = broker.begin("m1", 1, large());
    broker.is_under_way();
    process(&record.host).kill_9();
    assert!(matches!(broker.end(begun), Err(LinkError::Closed)));
    wait_until(SOON, "the host's death", || matches!(bed.verdict(), Verdict::HostDied(_)));
    assert_eq!((probed(&bed, "m1", 1), probed(&bed, "other", 1)), (Probe::CannotTell, Probe::NotAccepted));
}

#[test]
fn what_has_ended_is_handed_nothing_and_not_interrupted() {
    let bed = Bed::taking(&["child", "ignore-term -- say ready -- sleep", "--", "until", "go"]);
    let record = bed.start();
    bed.line("ready");
    let broker = Broker::dial(&record, 2);
    let accepted = broker.deliver("m1", 1, b"x\n").unwrap();
    fs::write(bed.folder().join("go"), "").unwrap();
    bed.exit();
    // Its child is still there and holds the other end of the pipe.
    let ended = broker.deliver("m2", 1, b"x\n").unwrap();
    assert!(matches!(&ended, Delivery::Refused { reason } if reason.contains("ended")), "{ended:?}");
    assert_eq!(broker.deliver("m1", 1, b"x\n").unwrap(), accepted);
    assert!(!broker.interrupt());
    end(&bed, &record);
}

#[test]
fn large_messages_leave_a_host_small() {
    let bed = Bed::taking(&["copy"]);
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    let own = || Usage::of(process(&record.host)).own_kib;
    broker.deliver("m", 0, b"x\n").unwrap();
    let before = own();
    for attempt in 1..=5 {
        let delivery = broker.deliver("m", attempt, &vec![b'x'; DELIVER_BYTES_MAX]).unwrap();
        assert!(is_accepted(&delivery), "{delivery:?}");
    }
    let grown = own().saturating_sub(before);
    assert!(grown < 256, "{grown} KiB more than the {before} KiB before");
    end(&bed, &record);
}

#[test]
fn an_interrupt_reaches_the_whole_group() {
    let bed = taking_shell("trap 'echo caught; exit 5' INT; echo up; sleep 1000");
    let record = bed.start();
    bed.line("up");
    let broker = Broker::dial(&record, 2);
    // The shell starts its child behind what it says; both must be there, or it waits for a child that was not met.
    let children = format!("/proc/{0}/task/{0}/children", record.command.pid);
    wait_until(SOON, "the shell's child", || fs::read_to_string(&children).is_ok_and(|text| !text.is_empty()));
    assert!(broker.interrupt());
    bed.line("caught");
    assert_eq!(bed.ended().exit, Exit::Code(5));
}

#[test]
fn only_a_broker_delivers_and_only_so_much() {
    let bed = Bed::taking(&["copy"]);
    let record = bed.start();
    let deliver = |bytes: usize| json!({ "request": "deliver", "message": "m", "attempt": 1, "b64": BASE64.encode(&vec![b'x'; bytes]) });
    let mut reader = Talk::reader(&record);
    assert_eq!(reader.ask(deliver(1))["error"]["code"], "denied");
    assert_eq!(reader.ask(json!({ "request": "interrupt" }))["error"]["code"], "denied");
    reader.send(deliver(100_000));
    assert_eq!(
        reader.hear().map(|line| line["error"]["code"].clone()),
        Some(json!("too_large")),
        "its lines are short"
    );
    let mut broker = Talk::broker(&record, 2);
    assert_eq!(broker.ask(deliver(DELIVER_BYTES_MAX + 1))["error"]["code"], "too_large");
    assert_eq!(broker.ask(json!({ "request": "status" }))["ok"], "status", "the connection stays");
    let answer = broker.ask(deliver(DELIVER_BYTES_MAX));
    assert!(answer["delivery"]["accepted"].is_object(), "{answer}");
    wait_until(SOON, "all of it", || bed.output().len() == DELIVER_BYTES_MAX);
    broker.send_line(&"x".repeat(725_000));
    assert_eq!(broker.hear().map(|line| line["error"]["code"].clone()), Some(json!("too_large")));
    end(&bed, &record);
}

/// A host that does something at a point: `ostler` behind a script that tells it.
fn told(what: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("o").tempdir().unwrap();
    let image = folder.path().join("told");
    let counts = folder.path().join("points");
    fs::create_dir(&counts).unwrap();
    let variables = format!("OSTLER_TEST_FAIL={what} OSTLER_TEST_POINTS={}", counts.display());
    fs::write(&image, format!("#!/bin/sh\nexec env {variables} {OSTLER} \"$@\"\n")).unwrap();
    fs::set_permissions(&image, fs::Permissions::from_mode(0o700)).unwrap();
    (folder, image)
}

fn told_bed(image: &Path) -> Bed {
    Bed::with_image(image, |spec| {
        spec.command.push("copy".into());
        spec.adapter = Adapter::Lines;
    })
}

/// Delivers `m` to a host that dies at this pass of a point; gives back what is known afterwards.
fn known_after(point: &str) -> (Bed, Probe) {
    let (_folder, image) = told(&format!("{point}=kill@1"));
    let bed = told_bed(&image);
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    let answer = broker.deliver("m", 1, b"hello\n");
    assert!(matches!(answer, Err(LinkError::Closed)), "{point}: {answer:?}");
    wait_until(SOON, "the host's death", || matches!(bed.verdict(), Verdict::HostDied(_)));
    let known = probed(&bed, "m", 1);
    (bed, known)
}

#[test]
fn law_07_a_host_that_dies_on_its_way_is_believed_only_what_it_has_written_down() {
    assert_eq!(known_after("host.deliver").1, Probe::NotAccepted);
    // Not a byte was written here, but nobody can see that.
    assert_eq!(known_after("host.journal_attempt").1, Probe::CannotTell);
    let (bed, known) = known_after("host.delivered");
    assert_eq!(known, Probe::CannotTell);
    assert_eq!(probed(&bed, "m", 2), Probe::NotAccepted, "of another attempt it is known");
    let known = known_after("host.journal_end").1;
    assert!(matches!(known, Probe::Accepted { .. }), "{known:?}");
}

#[test]
fn a_journal_that_was_removed_is_written_anew_before_the_next_message() {
    for (point, want) in [("host.journal_content", None), ("host.journal_named", Some(()))] {
        let (_folder, image) = told(&format!("{point}=kill"));
        let bed = told_bed(&image);
        let record = bed.start();
        let broker = Broker::dial(&record, 2);
        assert!(is_accepted(&broker.deliver("m", 1, b"one\n").unwrap()));
        fs::remove_file(bed.episode().join("journal")).unwrap();
        assert!(matches!(broker.deliver("m", 2, b"two\n"), Err(LinkError::Closed)));
        wait_until(SOON, "the host's death", || matches!(bed.verdict(), Verdict::HostDied(_)));
        let known = [probed(&bed, "m", 1), probed(&bed, "m", 2)];
        match want {
            // Somebody took it away, and no other stands there yet.
            None => assert_eq!(known, [Probe::CannotTell; 2]),
            Some(()) => assert!(matches!(known, [Probe::Accepted { .. }, Probe::NotAccepted]), "{known:?}"),
        }
    }
}

#[test]
fn what_cannot_be_written_down_does_not_begin_and_what_was_done_is_said() {
    let (_folder, image) = told("host.journal_attempt=error@1,host.journal_end=error@1");
    let bed = told_bed(&image);
    let record = bed.start();
    let broker = Broker::dial(&record, 2);
    assert!(refused(broker.deliver("m", 1, b"one\n")).starts_with("nothing was written"));
    assert_eq!(probed(&bed, "m", 1), Probe::NotAccepted);
    // Its end cannot be written down either, and it is accepted all the same.
    let accepted = broker.deliver("m", 1, b"one\n").unwrap();
    assert!(is_accepted(&accepted), "{accepted:?}");
    assert_eq!(probed(&bed, "m", 1), Probe::CannotTell);
    assert_eq!(broker.deliver("m", 1, b"one\n").unwrap(), accepted);
    // With the next message the journal has it again.
    broker.deliver("m", 2, b"two\n").unwrap();
    bed.line("two");
    assert_eq!(bed.output(), "one\ntwo\n");
    process(&record.host).kill_9();
    let known = wait_for(SOON, "what is known", || Some([probed(&bed, "m", 1), probed(&bed, "m", 2)]));
    assert!(matches!(known, [Probe::Accepted { .. }, Probe::Accepted { .. }]), "{known:?}");
}

#[test]
fn the_journal_is_a_small_file_of_its_episode() {
    let bed = Bed::taking(&["copy"]);
    let record = bed.start();
    let journal = bed.episode().join("journal");
    assert_eq!(fs::metadata(&journal).unwrap().permissions().mode() & 0o777, 0o600);
    Broker::dial(&record, 2).deliver("m1", 1, b"secret words\n").unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({ "message": "m1", "attempt": 1, "begun": { "bytes": 13 } }));
    assert!(lines[1]["ended"]["accepted"]["at_us"].is_u64() && lines.len() == 2, "{text}");
    end(&bed, &record);
    let inbox = Bed::fixture(&["exit", "0"]);
    inbox.start();
    inbox.ended();
    assert!(!inbox.episode().join("journal").exists());
}
