//! `ostler show`: one screen about a session: how it is, its processes, how it ended, its last operations, its last output.

use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::frozen::{self, Frozen};
use super::{operation, sessions, text};
use crate::host::files;
use crate::host::read::last_lines;
use crate::rpc::method::Method;
use crate::rpc::wire::{GetParams, Operation, OperationListParams, OperationListResult, Session, SessionResult};

/// Show one session
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id, name, or unique prefix of the id (at least 3 characters)
    session: String,
}

#[derive(Serialize)]
struct Document {
    session: Session,
    operations: Vec<Operation>,
    output_tail: String,
}

/// How many operations one screen shows.
const OPERATIONS: u32 = 5;

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("show {}", args.session))?.about(&args.session);
    let SessionResult { session } = broker.call(Method::SessionGet, &GetParams { session: args.session.clone() })?;
    let params = OperationListParams { session: Some(session.id.clone()), limit: Some(OPERATIONS), cursor: None };
    let OperationListResult { operations, .. } = broker.call(Method::OperationList, &params)?;
    let root = broker.client.hello().broker.root.as_path();
    let output_tail = last_lines(&files::episode_folder(root, &session.id, session.episode));
    let frozen = frozen::of(&context.root_path("show")?, &session);
    context
        .output
        .either(&Document { session, operations, output_tail }, |document| screen(document, frozen.as_ref()))?;
    Ok(Exit::Done)
}

fn screen(document: &Document, frozen: Option<&Frozen>) -> String {
    let session = &document.session;
    let mut fields: Vec<(&str, String)> = vec![
        ("id", session.id.clone()),
        ("name", text::plain(session.name.as_deref().unwrap_or("-"))),
        ("status", sessions::status_name(session.status).to_owned()),
    ];
    fields.extend(sessions::reason(session).map(|reason| ("reason", text::plain(reason))));
    fields.extend(session.fence.as_ref().map(|fence| ("fenced", fenced(session, &fence.reason))));
    fields.extend(frozen.map(|frozen| ("stopped", frozen.told())));
    fields.push(("command", sessions::command(session)));
    fields.push(("cwd", text::shell(session.cwd.as_bytes())));
    fields.push(("episode", session.episode.to_string()));
    fields.extend(session.pid.map(|pid| ("pid", pid.to_string())));
    fields.extend(session.host_pid.map(|pid| ("host", pid.to_string())));
    fields.extend(session.endpoint.as_ref().map(|endpoint| ("endpoint", text::plain(&endpoint.address))));
    fields.extend(session.stop.as_ref().map(|stop| ("stop", sessions::stop(stop))));
    fields.extend(session.exit.as_ref().map(|exit| ("exit", sessions::exit(exit))));
    let labels = session.labels.iter().map(|(key, value)| ("label", text::plain(&format!("{key}={value}"))));
    fields.extend(labels);
    fields.push(("created", sessions::time(session.created_at)));
    fields.extend(session.started_at.map(|at| ("started", sessions::time(at))));
    fields.extend(session.ended_at.map(|at| ("ended", sessions::time(at))));
    fields.extend(session.last_seen_at.map(|at| ("last seen", sessions::time(at))));
    if session.queue.messages > 0 || session.queue.uncertain > 0 {
        fields.push(("queue", queue(session)));
    }
    let mut shown: String = fields.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect();
    if !document.operations.is_empty() {
        shown.push_str(&format!("\n{}", operation::table(&document.operations)));
    }
    if !document.output_tail.is_empty() {
        shown.push_str("\nlast output:\n");
        // Line by line: the output keeps its shape, but cannot drive the terminal.
        shown.extend(document.output_tail.lines().map(|line| format!("  {}\n", text::plain(line))));
    }
    shown
}

/// What waits for it, and of how much of that nobody knows whether it has it.
fn queue(session: &Session) -> String {
    let queue = &session.queue;
    let doubt = match queue.uncertain {
        0 => String::new(),
        count => format!("; {count} uncertain (ostler message list {})", session.id),
    };
    format!("{} messages, {} bytes{doubt}", queue.messages, queue.bytes)
}

/// Why it is fenced, and the way out.
fn fenced(session: &Session, reason: &str) -> String {
    format!("{} (ostler reconcile {})", text::plain(reason), session.id)
}
