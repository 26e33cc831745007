//! `ostler report post|read|list`: what a session says became of its work, and whoever gave it the work reads.

use clap::Subcommand;

use super::args;
use super::context::{Broker, Context};
use super::exit::Exit;
use super::failure::Failure;
use super::send::text_of;
use super::text::{self, Table};
use crate::rpc::method::Method;
use crate::rpc::wire::{
    REPORT_BYTES_MAX, Report, ReportListParams, ReportListResult, ReportOrigin, ReportPostParams, ReportPostResult,
    ReportReadParams, ReportReadResult, ReportStatus,
};

/// Post, read and list reports: what became of a session's work
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Inside a session: say what became of its work, for whoever gave it the work
    Post(Box<Post>),
    /// Read a report, or the latest one of a session
    Read {
        /// A report's id (rep-N), or a session by id, name, or unique prefix of the id
        #[arg(value_name = "REPORT|SESSION")]
        of: String,
        /// With --json: from which byte of the text on; without it all of the text is shown
        #[arg(long, value_name = "N")]
        offset: Option<u64>,
        /// With --json: at most so many bytes of the text, up to 16384 [default: 16384]
        #[arg(long, value_name = "N")]
        max_bytes: Option<u64>,
    },
    /// List a session's reports, newest first
    List {
        /// Id, name, or unique prefix of the id (at least 3 characters)
        session: String,
        /// At most so many, up to 1000 [default: 100]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on where the page before ended
        #[arg(long, value_name = "C")]
        cursor: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Post {
    /// What became of the work
    #[arg(long)]
    status: Status,
    /// What it is about: one line, up to 200 bytes
    #[arg(long)]
    title: String,
    /// It in short, up to 500 bytes
    #[arg(long = "abstract", value_name = "TEXT")]
    in_short: Option<String>,
    /// Something that was made: a file, an address
    #[arg(long = "artifact", value_name = "TEXT")]
    artifacts: Vec<String>,
    /// Something that was found out
    #[arg(long = "finding", value_name = "TEXT")]
    findings: Vec<String>,
    /// How it was checked
    #[arg(long, value_name = "TEXT")]
    validation: Option<String>,
    /// What should be done next
    #[arg(long, value_name = "TEXT")]
    recommendation: Option<String>,
    /// How much of the work is done, 0 to 100
    #[arg(long, value_name = "N")]
    percent: Option<u8>,
    /// The earlier report whose place it takes
    #[arg(long, value_name = "REPORT")]
    supersedes: Option<String>,
    #[command(flatten)]
    key: args::Key,
    /// The text, up to 1 MiB; `-` reads it from standard input
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Status {
    /// It is done
    Success,
    /// It cannot be done
    Failure,
    /// Something of it is done
    Partial,
}

pub(crate) fn run(args: Args, context: &Context) -> Result<Exit, Failure> {
    match args.command {
        Command::Post(args) => post(*args, context),
        Command::Read { of, offset, max_bytes } => read(&of, offset, max_bytes, context),
        Command::List { session, limit, cursor } => list(&ReportListParams { session, limit, cursor }, context),
    }
}

fn post(args: Post, context: &Context) -> Result<Exit, Failure> {
    const ATTEMPT: &str = "post a report";
    let body = text_of(args.text, ATTEMPT, REPORT_BYTES_MAX)?;
    let mut broker = context.broker(ATTEMPT)?;
    let params = ReportPostParams {
        key: args.key.key.unwrap_or_else(|| broker.fresh_key()),
        status: match args.status {
            Status::Success => ReportStatus::Success,
            Status::Failure => ReportStatus::Failure,
            Status::Partial => ReportStatus::Partial,
        },
        title: args.title,
        body,
        r#abstract: args.in_short,
        artifacts: args.artifacts,
        findings: args.findings,
        validation: args.validation,
        recommendation: args.recommendation,
        percent: args.percent,
        supersedes: args.supersedes,
    };
    let result: ReportPostResult = broker.change(Method::ReportPost, &params.key, &params)?;
    context.output.either(&result, |result| {
        let again = if result.operation.replayed { " (posted before)" } else { "" };
        let unread = match result.unconsumed.len() {
            0 => String::new(),
            some => format!("not acknowledged: {some} messages to this session. `ostler inbox read` shows them\n"),
        };
        format!("{}{again}\n{unread}", result.report.id)
    })?;
    Ok(Exit::Done)
}

fn read(of: &str, offset: Option<u64>, max_bytes: Option<u64>, context: &Context) -> Result<Exit, Failure> {
    let is_report = of.strip_prefix("rep-").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let named = Some(of.to_owned());
    let (report, session) = if is_report { (named, None) } else { (None, named) };
    let mut broker = context.broker(format!("read report {of}"))?;
    let mut params = ReportReadParams { report, session, offset, max_bytes };
    let first: ReportReadResult = broker.call(Method::ReportRead, &params)?;
    if context.globals.json {
        context.output.document(&first)?;
        return Ok(Exit::Done);
    }
    // The pages behind the first are of the same report, whatever is posted meanwhile.
    (params.report, params.session) = (Some(first.report.id.clone()), None);
    context.output.text(&summary(&first))?;
    context.output.text(&said(&first.body))?;
    let mut next = first.next;
    while next.is_some() {
        params.offset = next;
        next = rest(&params, &mut broker, context)?;
    }
    context.output.text("\n")?;
    Ok(Exit::Done)
}

fn rest(params: &ReportReadParams, broker: &mut Broker, context: &Context) -> Result<Option<u64>, Failure> {
    let page: ReportReadResult = broker.call(Method::ReportRead, params)?;
    context.output.text(&said(&page.body))?;
    Ok(page.next)
}

/// A text for eyes: its lines, and no control character that could do something to a terminal.
fn said(body: &str) -> String {
    body.split('\n').map(text::plain).collect::<Vec<_>>().join("\n")
}

fn summary(page: &ReportReadResult) -> String {
    let report = &page.report;
    let mut lines = vec![format!("{}  {}  {}", report.id, status(report), text::plain(&report.title))];
    let mut line = |what: &str, value: &str| lines.push(format!("{what:<16}{}", text::plain(value)));
    line("session", &format!("{}, episode {}", report.session_id, report.episode));
    line("posted", &report.posted_at.to_string());
    if report.origin == ReportOrigin::Broker {
        line("from", "the broker: the session said nothing");
    }
    report.percent.iter().for_each(|percent| line("done", &format!("{percent} %")));
    report.supersedes.iter().for_each(|id| line("supersedes", id));
    report.superseded_by.iter().for_each(|id| line("superseded by", id));
    report.lost.iter().for_each(|why| line("lost", why));
    report.r#abstract.iter().for_each(|text| line("abstract", text));
    page.artifacts.iter().for_each(|text| line("artifact", text));
    page.findings.iter().for_each(|text| line("finding", text));
    page.validation.iter().for_each(|text| line("validation", text));
    page.recommendation.iter().for_each(|text| line("recommendation", text));
    lines.join("\n") + "\n\n"
}

fn status(report: &Report) -> &'static str {
    match report.status {
        ReportStatus::Success => "success",
        ReportStatus::Failure => "failure",
        ReportStatus::Partial => "partial",
    }
}

fn list(params: &ReportListParams, context: &Context) -> Result<Exit, Failure> {
    let mut broker = context.broker(format!("list the reports of {}", params.session))?.about(&params.session);
    let page: ReportListResult = broker.call(Method::ReportList, params)?;
    context.output.either(&page, |page| {
        let mut table = Table::new(["REPORT", "EPISODE", "STATUS", "FROM", "POSTED", "BYTES", "TITLE"]);
        for report in &page.reports {
            let superseded =
                report.superseded_by.as_ref().map(|by| format!(" (superseded by {by})")).unwrap_or_default();
            let from = if report.origin == ReportOrigin::Broker { "broker" } else { "session" };
            table.row([
                text::plain(&report.id),
                report.episode.to_string(),
                status(report).to_owned() + &superseded,
                from.to_owned(),
                report.posted_at.to_string(),
                report.bytes.to_string(),
                text::plain(report.lost.as_deref().unwrap_or(&report.title)),
            ]);
        }
        let more = page.next.as_ref().map(|next| format!("more: --cursor {}\n", text::shell_str(next)));
        table.render() + &more.unwrap_or_default()
    })?;
    Ok(Exit::Done)
}
