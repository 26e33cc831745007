//! Output and input of a command: whole where somebody holds on to it, with honest gaps elsewhere.

use std::fs;
use std::thread;

use data_encoding::BASE64;
use ostler::host::client::Verdict;
use ostler::host::read::{Connection, Follower, Piece, ReadError, Stream, read_spool, spool_extent};
use ostler::host::spec::{Spec, Stdin};
use ostler::host::spool::SPOOL_BYTES_MAX;
use ostler::host::wire::{Exit, INPUT_BYTES_MAX, Reply, Request};
use serde_json::json;

use super::bed::{Bed, Talk};
use crate::support::{SOON, wait_for, wait_until};

/// Checks the numbered lines of the fixture's `print` as they come.
#[derive(Default)]
struct Lines {
    bytes: u64,
    open: Vec<u8>,
}

impl Lines {
    #[track_caller]
    fn take(&mut self, piece: Piece) {
        let Piece::Output { position, stream: Stream::Stdout, bytes, .. } = piece else { panic!("{piece:?}") };
        assert_eq!(position, self.bytes);
        self.bytes += u64::try_from(bytes.len()).unwrap();
        self.open.extend(bytes);
        let whole = self.open.len() / 16 * 16;
        let first = (self.bytes - u64::try_from(self.open.len()).unwrap()) / 16;
        for (number, line) in (first..).zip(self.open[..whole].chunks(16)) {
            assert_eq!(line, format!("{number:015}\n").as_bytes());
        }
        self.open.drain(..whole);
    }

    #[track_caller]
    fn take_all(follower: &mut Follower) -> u64 {
        let mut lines = Lines::default();
        while let Some(piece) = follower.next_piece().unwrap() {
            lines.take(piece);
        }
        lines.bytes
    }
}

fn following(steps: &[&str]) -> impl FnOnce(&mut Spec) {
    let steps: Vec<_> = steps.iter().map(|step| (*step).into()).collect();
    move |spec| {
        spec.command.extend(steps);
        spec.follow = true;
    }
}

#[test]
fn a_hundred_megabytes_arrive_whole() {
    let bed = Bed::with(following(&["print", "100000000", "--", "exit", "5"]));
    bed.start();
    assert_eq!(Lines::take_all(&mut bed.follow(true)), 100_000_000);
    assert_eq!(bed.ended().exit, Exit::Code(5));
    // What is kept is bounded, and is the end of it.
    let (from, to) = spool_extent(&bed.episode()).unwrap();
    assert_eq!(to, 100_000_000);
    assert!(to - from <= SPOOL_BYTES_MAX && to - from > SPOOL_BYTES_MAX / 2);
}

#[test]
fn a_command_waits_for_the_follower_that_was_announced() {
    let bed = Bed::with(following(&["print", "20000000", "--", "append", "printed", "x"]));
    bed.start();
    wait_until(SOON, "a full spool", || spool_extent(&bed.episode()).unwrap().1 > SPOOL_BYTES_MAX * 3 / 4);
    assert!(!bed.folder().join("printed").exists());
    assert_eq!(Lines::take_all(&mut bed.follow(true)), 20_000_000);
    assert_eq!(bed.ended().exit, Exit::Code(0));
}

#[test]
fn a_follower_that_leaves_lets_the_command_go_on() {
    let bed = Bed::with(following(&["print", "20000000"]));
    bed.start();
    let mut follower = bed.follow(true);
    assert!(follower.next_piece().unwrap().is_some());
    drop(follower);
    assert_eq!(bed.ended().exit, Exit::Code(0));
    assert!(spool_extent(&bed.episode()).unwrap().0 > 0);
}

#[test]
fn without_a_follower_the_oldest_output_goes_and_the_gap_shows() {
    let bed = Bed::fixture(&["print", "20000000"]);
    bed.start();
    bed.ended();
    let mut reader = read_spool(&bed.episode(), 0);
    let Some(Piece::Gap { from: 0, to }) = reader.next_piece().unwrap() else { panic!("no gap") };
    let mut lines = Lines { bytes: to, open: format!("{:015}\n", to / 16).into_bytes() };
    lines.open.truncate(usize::try_from(to % 16).unwrap());
    while let Some(piece) = reader.next_piece().unwrap() {
        lines.take(piece);
    }
    assert_eq!(lines.bytes, 20_000_000);
    // A follower that comes when all is over sees the same.
    let mut follower = Follower::open(&bed.episode(), to - 1, true).unwrap();
    assert_eq!(follower.next_piece().unwrap(), Some(Piece::Gap { from: to - 1, to }));
    let mut last = to;
    while let Some(Piece::Output { position, bytes, .. }) = follower.next_piece().unwrap() {
        last = position + u64::try_from(bytes.len()).unwrap();
    }
    assert_eq!((last, follower.position()), (20_000_000, 20_000_000));
}

#[test]
fn both_streams_come_in_the_order_in_which_they_were_written() {
    let bed = Bed::with(|spec| {
        spec.command.extend(["say", "one", "--", "copy", "--", "say", "three"].map(Into::into));
        spec.stdin = Stdin::Client;
    });
    let record = bed.start();
    bed.line("one");
    let mut follower = bed.follow(false);
    let mut feeder = Connection::open(&record).unwrap();
    feed(&mut feeder, b"two\n", true);
    let mut got = Vec::new();
    while let Some(piece) = follower.next_piece().unwrap() {
        let Piece::Output { position, stream, at_us, bytes } = piece else { panic!("{piece:?}") };
        assert!(at_us >= record.started_us);
        assert_eq!(stream, Stream::Stdout);
        got.push((position, String::from_utf8(bytes).unwrap()));
    }
    let text: String = got.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(text, "one\ntwo\nthree\n");
    bed.ended();

    let bed = Bed::shell("echo out; sleep 0.1; echo err >&2");
    bed.start();
    bed.ended();
    let mut reader = read_spool(&bed.episode(), 0);
    for (at, wanted, text) in [(0, Stream::Stdout, "out\n"), (4, Stream::Stderr, "err\n")] {
        let Some(Piece::Output { position, stream, bytes, .. }) = reader.next_piece().unwrap() else {
            panic!("{text}")
        };
        assert_eq!((position, stream, bytes.as_slice()), (at, wanted, text.as_bytes()));
    }
}

#[test]
fn reading_by_request_pages_through_what_is_kept() {
    let bed = Bed::fixture(&["print", "1000000", "--", "say", "done", "--", "sleep"]);
    let record = bed.start();
    bed.line("done");
    let mut talk = Talk::reader(&record);
    let (mut position, mut pages) = (0, 0);
    loop {
        let answer = talk.ask(json!({ "request": "read", "from": position, "bytes_max": 100_000 }));
        assert_eq!(
            (answer["ok"].as_str(), &answer["from"], &answer["lost"]),
            (Some("read"), &json!(position), &json!(0))
        );
        let bytes = answer["bytes"].as_u64().unwrap();
        assert!(bytes <= 100_000);
        talk.bytes(bytes);
        if bytes == 0 {
            break;
        }
        position = answer["next"].as_u64().unwrap();
        pages += 1;
    }
    assert_eq!(position, 1_000_005);
    assert!(pages >= 10);
    let refused = talk.ask(json!({ "request": "read", "from": 0, "bytes_max": 1 }));
    assert_eq!(refused["error"]["code"], "invalid_input");
    Talk::broker(&record, 1).stop(10_000);
    bed.ended();
}

#[test]
fn a_follower_survives_a_killed_host_and_ends_with_it() {
    let bed = Bed::fixture(&["say", "hello", "--", "sleep"]);
    let record = bed.start();
    bed.line("hello");
    let mut follower = bed.follow(true);
    assert!(matches!(follower.next_piece().unwrap(), Some(Piece::Output { .. })));
    let waits = thread::spawn(move || follower.next_piece().unwrap());
    super::bed::process(&record.host).kill_9();
    assert_eq!(waits.join().unwrap(), None);
    assert!(matches!(bed.verdict(), Verdict::HostDied(_)));
}

#[test]
fn an_episode_that_never_started_cannot_be_followed() {
    let bed = Bed::fixture(&["exit", "0"]);
    assert!(matches!(Follower::open(&bed.episode(), 0, false), Err(ReadError::NotStarted(_))));
}

/// Feeds bytes as `run -i` does and gives back how many have been taken in all.
#[track_caller]
fn feed(feeder: &mut Connection, bytes: &[u8], eof: bool) -> u64 {
    let reply = feeder.ask(Request::Input { b64: BASE64.encode(bytes), eof }).unwrap();
    let Reply::Input { total } = reply else { panic!("{reply:?}") };
    total
}

#[test]
fn input_arrives_whole_and_its_sender_waits_for_a_slow_command() {
    let bed = Bed::with(|spec| {
        // It reads nothing until it is told to, so the pipe fills up.
        spec.command.extend(["until", "go", "--", "copy"].map(Into::into));
        spec.stdin = Stdin::Client;
    });
    let record = bed.start();
    let data: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).take(500_000).collect();
    let sent = data.clone();
    let feeding = thread::spawn(move || {
        let mut feeder = Connection::open(&record).unwrap();
        sent.chunks(INPUT_BYTES_MAX).map(|chunk| feed(&mut feeder, chunk, false)).last()
    });
    wait_until(SOON, "somebody feeds it", || {
        let held = fs::read_link(format!("/proc/{}/fd/0", super::bed::process(&bed.evidence_command()).pid));
        held.is_ok_and(|target| target.to_string_lossy().starts_with("pipe:"))
    });
    assert!(!feeding.is_finished(), "it cannot have sent everything");
    fs::write(bed.folder().join("go"), "").unwrap();
    // The feeder goes without a word: as at the end of a pipeline, that is the end of the input.
    assert_eq!(feeding.join().unwrap(), Some(500_000));
    assert_eq!(bed.ended().exit, Exit::Code(0));
    let mut got = Vec::new();
    let mut reader = read_spool(&bed.episode(), 0);
    while let Some(Piece::Output { bytes, .. }) = reader.next_piece().unwrap() {
        got.extend(bytes);
    }
    assert!(got == data, "{} bytes came back", got.len());
}

#[test]
fn input_is_for_one_and_only_where_the_spec_says_so() {
    let bed = Bed::with(|spec| {
        spec.command.push("copy".into());
        spec.stdin = Stdin::Client;
    });
    let record = bed.start();
    let mut first = Connection::open(&record).unwrap();
    assert_eq!(feed(&mut first, b"a", false), 1);
    let mut second = Talk::reader(&record);
    let refused = second.ask(json!({ "request": "input", "b64": "Yg==" }));
    assert_eq!(refused["error"]["code"], "unavailable");
    assert_eq!(feed(&mut first, b"b", true), 2);
    assert_eq!(bed.ended().exit, Exit::Code(0));
    assert_eq!(bed.output(), "ab");

    let bed = Bed::fixture(&["copy", "--", "say", "empty"]);
    bed.start();
    bed.ended();
    assert_eq!(bed.output(), "empty\n");
}

#[test]
fn a_command_that_closes_its_input_is_told_to_its_feeder() {
    let bed = Bed::with(|spec| {
        spec.command = ["sh", "-c", "exec <&-; echo closed; exec sleep 1000"].map(Into::into).to_vec();
        spec.stdin = Stdin::Client;
    });
    let record = bed.start();
    bed.line("closed");
    let mut talk = Talk::reader(&record);
    let refused = wait_for(SOON, "a refusal", || {
        let answer = talk.ask(json!({ "request": "input", "b64": "Yg==" }));
        answer.get("error").cloned()
    });
    assert_eq!(refused["code"], "unavailable");
    Talk::broker(&record, 1).stop(10_000);
    bed.ended();
}
