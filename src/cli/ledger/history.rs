//! `ostler ledger history`: what happened to one session, told from its records; also of one that is deleted, whose name only the ledger
//! still knows.

use std::path::PathBuf;

use ostler_ledger::Record;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::output::{Stream, document_of};
use super::super::text;
use super::export;
use super::filter::Narrow;
use super::record;
use super::source::Source;
use super::words::{counted, words};

/// What to tell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session's id, its name (the newest session that was spawned with it) or a unique prefix of its id
    #[arg(value_name = "ID")]
    session: String,
    /// Write its records to this file as they are stored: `ostler ledger verify --history FILE` proves them without the ledger; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["operation", "key", "types", "since", "until", "from", "to"])]
    export: Option<PathBuf>,
    #[command(flatten)]
    narrow: Narrow,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look(format!("show the history of {}", args.session), context)?;
    let selection = args.narrow.resolve(Some(&args.session), &look)?;
    if args.export.is_some() {
        return export::to(args.export.as_deref(), "export", &selection, &look, context);
    }
    let id = selection.session.as_deref().unwrap_or_default();
    let mut telling = Telling {
        stream: context.output.stream(),
        begins_late: look.begins_late()?,
        own: 0,
        missing: 0,
        retired: 0,
        told: 0,
    };
    telling.begin(id)?;
    for found in look.records() {
        let found = found?;
        if found.header.sid.as_deref() == Some(id) {
            telling.tell(&found, selection.holds(&found))?;
        }
    }
    telling.end()?;
    Ok(Exit::Done)
}

/// The story on its way out: one document, or lines, written as records come.
struct Telling {
    stream: Stream,
    /// The record that the ledger begins with, if what stood before was retired.
    begins_late: Option<u64>,
    /// The last number of the session's own.
    own: u64,
    /// So many of the session's records are not there.
    missing: u64,
    /// So many of them were retired.
    retired: u64,
    told: u64,
}

impl Telling {
    fn begin(&mut self, id: &str) -> Result<(), Failure> {
        if self.stream.json {
            let document = document_of("session_id", &serde_json::Value::from(id).to_string());
            let open = document.strip_suffix(b"}\n").unwrap_or(&document);
            return self.stream.bytes(&[open, b",\"records\":["].concat());
        }
        self.stream.bytes(format!("session {}\n", text::plain(id)).as_bytes())
    }

    fn tell(&mut self, found: &Record, is_meant: bool) -> Result<(), Failure> {
        let own = found.header.sn.unwrap_or_default();
        let missing = own.saturating_sub(self.own + 1);
        let retired = self.begins_late.filter(|_| self.own == 0);
        self.own = own;
        if let Some(first) = retired.filter(|_| missing > 0) {
            self.retired = missing;
            return self.tell_retired(first).and_then(|()| self.tell_one(found, is_meant));
        }
        self.missing += missing;
        if missing > 0 && is_meant && !self.stream.json {
            let count = counted(usize::try_from(missing).unwrap_or(usize::MAX), "record");
            self.stream
                .bytes(format!("   -  {count} of this session missing here: ostler ledger verify\n").as_bytes())?;
        }
        self.tell_one(found, is_meant)
    }

    fn tell_retired(&mut self, first: u64) -> Result<(), Failure> {
        if self.stream.json {
            return Ok(());
        }
        let count = counted(usize::try_from(self.retired).unwrap_or(usize::MAX), "record");
        let told =
            format!("   -  {count} of this session retired, with all before record {first}: ledger/archive, if kept\n");
        self.stream.bytes(told.as_bytes())
    }

    fn tell_one(&mut self, found: &Record, is_meant: bool) -> Result<(), Failure> {
        let own = self.own;
        if !is_meant {
            return Ok(());
        }
        self.told += 1;
        if self.stream.json {
            let comma = if self.told > 1 { "," } else { "" };
            return self.stream.bytes(format!("{comma}{}", record::json(found)).as_bytes());
        }
        let (at, words) = (text::plain(&found.header.at), text::plain(&words(&record::document(found))));
        self.stream.bytes(format!("{own:>4}  {at}  {words}\n").as_bytes())
    }

    fn end(mut self) -> Result<(), Failure> {
        if self.stream.json {
            self.stream.bytes(format!("],\"missing\":{},\"retired\":{}}}\n", self.missing, self.retired).as_bytes())?;
        }
        self.stream.finish()
    }
}
