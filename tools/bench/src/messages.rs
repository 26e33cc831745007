//! Messages from a client to a program's standard input, beside the least that their path demands: the syncs of text, ledger and journal, and one
//! write into a pipe.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::broker::{Broker, Client};
use crate::floor::Raw;
use crate::measure::{Contender, Plan, Series, in_turns};
use crate::report::{Goal, Row};
use crate::socket::{Keys, at_once, timed};
use crate::{Scratch, at, machine, parse, report};

/// Senders of the rows with many, each with one message that it waits for.
const SENDERS: usize = 100;
/// Sessions of the last row.
const SESSIONS: usize = 50;
/// A short text.
const TEXT: &str = "please look at the third failing test and say what it needs";
/// What stands before a text on disk.
const SALT_BYTES: usize = 16;
/// A line of a host's journal, about.
const JOURNAL_BYTES: usize = 80;
/// Of the plan's many requests one in so many is made: these take several syncs each.
const PART: u64 = 8;

/// Runs the benchmark that the arguments ask for.
///
/// # Errors
/// What could not be measured and why.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let asked = parse("messages", arguments)?;
    at("the folder", std::fs::create_dir_all(&asked.folder))?;
    let scratch = Scratch::new(&asked.folder)?;
    let before = machine::Pressure::now();
    let rows = rows(&scratch.0, &asked.program, &asked.plan)?;
    rows.iter().for_each(|row| println!("{}", row.line()));
    let text = report::document(&rows, &asked.plan, &scratch.0, before);
    println!("\n{text}");
    let document = asked.document.as_ref().filter(|_| !asked.is_brief);
    document.map_or(Ok(()), |document| report::write(document, "messages", &text))
}

fn rows(scratch: &Path, program: &Path, plan: &Plan) -> Result<Vec<Row>, String> {
    let broker = Broker::start(&scratch.join("root"), program)?;
    let sessions = (0..SESSIONS).map(|_| session(&broker)).collect::<Result<Vec<_>, _>>()?;
    let keys = std::cell::RefCell::new(Keys::new());
    let send = |session: &str| {
        let params = json!({"session": session, "text": TEXT, "wait_for": "delivered"});
        keys.borrow_mut().request("message.send", params)
    };
    let mut client = broker.client()?;
    let before = broker.ledger_bytes()?;
    (0..16).try_for_each(|_| client.ask(&send(&sessions[0])))?;
    let ledger_bytes = usize::try_from((broker.ledger_bytes()? - before) / 16).unwrap_or(0);
    let mut clients: Vec<Client> = (0..SENDERS).map(|_| broker.client()).collect::<Result<_, _>>()?;
    let clients = std::cell::RefCell::new(&mut clients);
    let mut least = Least::new(&scratch.join("least"), ledger_bytes)?;
    let many = plan.many / PART;

    let mut one =
        |series: &mut Series| timed(&broker, series, plan.single, || send(&sessions[0]), |line| client.ask(line));
    let mut floor = |series: &mut Series| (0..plan.single).try_for_each(|_| series.single(|| least.carry()));
    let mut to = |sessions: &[String], series: &mut Series| {
        let requests: Vec<Vec<u8>> =
            sessions.iter().cycle().take(usize::try_from(many).unwrap_or(0)).map(|of| send(of)).collect();
        at_once(&mut clients.borrow_mut(), &requests, series, || broker.cpu())
    };
    let to = std::cell::RefCell::new(&mut to);
    let mut to_one = |series: &mut Series| (to.borrow_mut())(&sessions[..1], series);
    let mut to_fifty = |series: &mut Series| (to.borrow_mut())(&sessions, series);
    let contenders: &mut [Contender<'_>] = &mut [&mut one, &mut floor, &mut to_one, &mut to_fifty];
    let (series, pressure) = in_turns(plan.rounds, contenders)?;
    let [one, floor, to_one, to_fifty] = series.as_slice() else { return Err("four contenders".to_owned()) };
    let bytes =
        format!("five syncs one after the other ({ledger_bytes} bytes of ledger in two) and a write into a pipe");
    let row = |name: &str, what: &str, ours| Row::new(name, what, Goal::None, ours, pressure).against(&bytes, floor);
    Ok(vec![
        row("message-1", "a message to an idle program, from send to delivered", one),
        row(
            "messages-1",
            &format!("{SENDERS} senders, each waiting for its message to be delivered, to one program"),
            to_one,
        ),
        row("messages-50", &format!("the same to {SESSIONS} programs in turn"), to_fifty),
    ])
}

/// A session that reads all that comes; its id.
fn session(broker: &Broker) -> Result<String, String> {
    let said = broker.run(&["spawn", "--adapter", "lines", "--", "sh", "-c", "exec cat > /dev/null"])?;
    Ok(said["session"]["id"].as_str().ok_or_else(|| format!("no session: {said}"))?.to_owned())
}

/// What a message's path demands, and nothing else: text, record, beginning, pipe, end, record.
struct Least {
    text: Raw,
    ledger: Raw,
    journal: Raw,
    reader: Child,
    record: Vec<u8>,
}

impl Least {
    fn new(folder: &Path, ledger_bytes: usize) -> Result<Least, String> {
        let raw = |name: &str| Raw::new(&folder.join(name));
        let (text, ledger, journal) = (raw("text")?, raw("ledger")?, raw("journal")?);
        let reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Ok(Least { text, ledger, journal, reader: at("cat", reader)?, record: vec![b'x'; ledger_bytes / 2] })
    }

    fn carry(&mut self) -> Result<(), String> {
        self.text.append(&vec![b'x'; SALT_BYTES + TEXT.len()])?;
        self.ledger.append(&self.record)?;
        self.journal.append(&[b'x'; JOURNAL_BYTES])?;
        let pipe = self.reader.stdin.as_mut().ok_or("the reader has no pipe")?;
        at("the pipe", pipe.write_all(format!("{TEXT}\n").as_bytes()))?;
        self.journal.append(&[b'x'; JOURNAL_BYTES])?;
        self.ledger.append(&self.record)
    }
}

impl Drop for Least {
    fn drop(&mut self) {
        // Its end is the end of what it reads.
        drop(self.reader.stdin.take());
        drop(self.reader.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::{JOURNAL_BYTES, Least, SALT_BYTES, TEXT};

    #[test]
    fn the_floor_writes_what_the_path_demands() {
        let folder = std::env::temp_dir().join(format!("ostler-bench-messages-{}", std::process::id()));
        let mut least = Least::new(&folder, 1_000).unwrap();
        (0..3).for_each(|_| least.carry().unwrap());
        drop(least);
        let length = |name: &str| std::fs::metadata(folder.join(name).join("0")).unwrap().len();
        let lengths = ["text", "ledger", "journal"].map(|name| usize::try_from(length(name)).unwrap() / 3);
        assert_eq!(lengths, [SALT_BYTES + TEXT.len(), 1_000, 2 * JOURNAL_BYTES]);
        std::fs::remove_dir_all(&folder).expect("it leaves nothing else");
    }
}
