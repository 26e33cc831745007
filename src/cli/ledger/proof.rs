//! `ostler ledger prove SEQ` and `ostler ledger verify --proof FILE --head SEQ:DIGEST`: one document shows that a record belongs to the history
//! that ends with a head which somebody kept, and is verified without the ledger and without trusting whoever hands it out.

use std::io::Read;
use std::path::{Path, PathBuf};

use ostler_ledger::limits::PROOF_BYTES_MAX;
use ostler_ledger::{Position, Proof, ProveError, Record, prove, verify_proof};
use serde_json::json;

use super::super::context::Context;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::output::document_of;
use super::super::text;
use super::destination::{self, Destination};
use super::source::{Look, Source};
use super::verify::{reader, unreadable, verdict};
use super::{record, words::words};
use crate::os::arg::Arg;
use crate::os::clock;
use crate::rpc::error::{ErrorCode, WireError};

/// What to prove.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The record's sequence number
    seq: u64,
    /// The head that the proof is to lead to, one that was kept elsewhere [default: the newest]
    #[arg(long, value_name = "SEQ:DIGEST")]
    head: Option<Position>,
    /// Write the proof to this file, which is replaced at once when all is written; `-` is standard output [default: -]
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
}

pub(super) fn run(args: &Args, source: &Source, context: &Context) -> Result<Exit, Failure> {
    let look = source.look(format!("prove record {}", args.seq), context)?;
    let proof = prove(&look.storage, args.seq, args.head).map_err(|error| unproved(&error, &look))?;
    match destination::file(args.export.as_deref()) {
        Some(path) => to_file(path, &proof, &look, context)?,
        None if context.output.json => {
            let document = String::from_utf8(proof.document()).expect("JSON is UTF-8");
            context.output.bytes(&document_of("proof", &document))?;
        }
        None => {
            let mut document = proof.document();
            document.push(b'\n');
            context.output.bytes(&document)?;
        }
    }
    Ok(Exit::Done)
}

fn to_file(path: &Path, proof: &Proof, look: &Look, context: &Context) -> Result<(), Failure> {
    let document = proof.document();
    let destination = Destination { path, flag: "export", look };
    destination.fill(|sink| sink.put(&document).and_then(|()| sink.put(b"\n")))?;
    let bytes = document.len() + 1;
    let document = json!({
        "output": Arg::from(path.as_os_str()), "seq": proof.seq, "head": proof.head, "bytes": bytes,
    });
    context.output.either(&document, |_| {
        let path = text::plain(&path.display().to_string());
        format!("{path}: record {}, {bytes} bytes, to the head {}\n", proof.seq, proof.head)
    })
}

/// What keeps a record from being proved, as an error of the contract.
fn unproved(error: &ProveError, look: &Look) -> Failure {
    let missing = "ostler ledger head tells the newest record";
    let (code, reason, remedy) = match error {
        ProveError::Missing(_) => return look.missing("record", error.to_string(), missing),
        ProveError::Io(_) => (ErrorCode::StorageFailed, "ledger", "ostler ledger verify"),
        ProveError::Unsealed(_) => (ErrorCode::NotFound, "unsealed", "ostler ledger verify checks it in its place"),
        ProveError::Head(_) => (ErrorCode::Integrity, "head", "ostler ledger verify --since with that head"),
        ProveError::Damaged { .. } => (ErrorCode::Integrity, "damage", "ostler ledger verify"),
        ProveError::Length => (ErrorCode::TooLarge, "proof", "a head nearer to the record, with --head"),
    };
    look.failure(WireError::new(code, error.to_string()).reason(reason).with("remedy", remedy))
}

/// Verifies a document by itself. Exit 8 if it does not prove what it says.
pub(super) fn verify(path: &Path, head: &Position, context: &Context) -> Result<Exit, Failure> {
    let began_us = clock::boot_us();
    let document = read(path).map_err(|error| unreadable(path, &error, "verify a proof", "proof"))?;
    let verified = verify_proof(&document, head);
    let elapsed_ms = clock::boot_us().saturating_sub(began_us) / 1000;
    let found = verified.as_ref().ok();
    let shown = json!({
        "ok": found.is_some(), "seq": found.map(|found| found.header.seq), "head": head,
        "record": found.map(record::document), "reason": verified.as_ref().err().map(ToString::to_string),
        "elapsed_ms": elapsed_ms,
    });
    context.output.either(&shown, |_| match &verified {
        Ok(found) => format!("{}  {}\n", verdict(true, context), told(found)),
        Err(error) => format!("{}  {}\n", verdict(false, context), text::plain(&error.to_string())),
    })?;
    Ok(if found.is_some() { Exit::Done } else { Exit::Integrity })
}

/// At most one byte more than a proof can have.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(PROOF_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut document = Vec::new();
    reader(path)?.take(limit).read_to_end(&mut document)?;
    Ok(document)
}

fn told(found: &Record) -> String {
    let session = found.header.sid.as_deref().map(|sid| format!("  session {}", text::plain(sid))).unwrap_or_default();
    let words = text::plain(&words(&record::document(found)));
    format!("record {} is part of that history: {}{session}  {words}", found.header.seq, text::plain(&found.header.at))
}
