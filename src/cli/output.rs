//! Where everything that the command line prints goes through: documents for programs on standard output, one a line, each with
//! `"schema":1`; text for eyes; progress and errors on standard error. Promise: a reader that has gone ends the program quietly
//! (`Failure::OutputClosed`), any other write error is reported, nothing is lost in a buffer.

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

use super::failure::{Failure, Report};
use crate::os::environment::Environment;
use crate::rpc::error::{ErrorCode, WireError};

/// The version of every document.
const SCHEMA: u32 = 1;
/// So much of a stream is kept back at most.
const STREAM_BYTES: usize = 64 * 1024;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Documents for programs, not text for eyes.
    pub(crate) json: bool,
    colour: bool,
    /// Columns of the terminal; none where the output goes elsewhere, and is not to be cut.
    pub(crate) width: Option<usize>,
}

/// What a colour means; which one it is, is decided here only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Notable,
    Bad,
    Faint,
}

#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: &'a WireError,
}

/// One JSON document with its version and one member, whose value is JSON text already, and the line feed.
pub(crate) fn document_of(name: &str, json: &str) -> Vec<u8> {
    format!("{{\"schema\":{SCHEMA},\"{name}\":{json}}}\n").into_bytes()
}

/// One JSON document with its version, and the line feed.
pub(crate) fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Document { schema: SCHEMA, body })
        .expect("documents are maps with text keys, without floats");
    line.push(b'\n');
    line
}

impl Output {
    /// Colour only on a terminal that understands it and whose user wants it (no-color.org).
    pub(crate) fn new(json: bool, environment: &Environment) -> Self {
        let unwanted = environment.get("NO_COLOR").is_some();
        let dumb = environment.get("TERM").is_none_or(|term| term == "dumb");
        let colour = !json && !unwanted && !dumb && io::stdout().is_terminal();
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        Output { json, colour, width }
    }

    /// Prints one document.
    pub(crate) fn document(&self, body: &impl Serialize) -> Result<(), Failure> {
        self.bytes(&encode(body))
    }

    /// Prints text for eyes.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Prints the document if documents are wanted, else the text.
    pub(crate) fn either<T: Serialize>(&self, body: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        if self.json { self.document(body) } else { self.text(&text(body)) }
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(write_failed)
    }

    /// Where many documents or lines go through.
    pub(crate) fn stream(&self) -> Stream {
        Stream { json: self.json, out: BufWriter::with_capacity(STREAM_BYTES, io::stdout()) }
    }

    /// Tells eyes what is going on. A standard error that is gone stops nothing.
    pub(crate) fn progress(&self, text: &str) {
        drop(io::stderr().lock().write_all(format!("{text}\n").as_bytes()));
    }

    /// Shows an error: as a document on standard output, or as text on standard error.
    pub(crate) fn error(&self, report: &Report) -> Result<(), Failure> {
        if self.json {
            return self.document(&ErrorDocument { error: &report.error });
        }
        drop(io::stderr().lock().write_all(report.render().as_bytes()));
        Ok(())
    }

    /// The text in the colour of its meaning.
    pub(crate) fn tone(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Notable => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
        };
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Many documents or lines on their way to standard output, some at a time. Whoever has written the last one ends it with `finish`.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Documents for programs, not lines for eyes.
    pub(crate) json: bool,
    out: BufWriter<io::Stdout>,
}

impl Stream {
    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(write_failed)
    }

    /// Lets out what is waiting.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().and_then(|()| self.out.get_mut().flush()).map_err(write_failed)
    }

    /// The end: all of it is out.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }
}

/// What helps where standard output takes nothing.
const STDOUT_REMEDY: &str = "make room where standard output goes; ostler list shows what is there";

/// What a failed write to standard output means.
pub(crate) fn write_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::OutputClosed;
    }
    let error = WireError::new(ErrorCode::Internal, error.to_string()).reason("stdout");
    let error = error.with("changed", "what the command did stays done; only its answer could not be written");
    Failure::new("write to standard output", error.with("remedy", STDOUT_REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_carry_their_version_first_and_end_with_a_line_feed() {
        let body = serde_json::json!({"a": 1});
        assert_eq!(encode(&body), b"{\"schema\":1,\"a\":1}\n");
        assert_eq!(document_of("a", "1"), encode(&body));
    }

    #[test]
    fn the_error_document_is_that_of_the_contract() {
        let error = WireError::new(ErrorCode::NotFound, "no session `x`");
        let text = String::from_utf8(encode(&ErrorDocument { error: &error })).unwrap();
        assert_eq!(
            text,
            "{\"schema\":1,\"error\":{\"code\":\"not_found\",\"message\":\"no session `x`\",\"retry\":\"never\",\"data\":{}}}\n"
        );
    }

    #[test]
    fn colour_needs_a_terminal() {
        let output = Output::new(false, &Environment::default());
        assert_eq!(output.tone(Tone::Bad, "x"), "x");
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        assert!(matches!(write_failed(io::ErrorKind::BrokenPipe.into()), Failure::OutputClosed));
        assert!(matches!(write_failed(io::ErrorKind::StorageFull.into()), Failure::Error(_)));
    }
}
