//! A story as a page for eyes.

use super::super::super::output::{Output, Tone};
use super::super::super::text::{plain, shell_str};
use super::super::words::{self, counted};
use super::steps;
use super::story::{Story, Took};

/// A title, who asked, the steps, and what a retry would get.
pub(super) fn page(story: &Story, output: &Output) -> String {
    let mut page = title(story, output);
    page.push_str(&format!("asked for  {} by {}\n", plain(&story.accepted.at), who(story)));
    page.push_str(&format!("under key  {}\n", shell_str(story.text("key"))));
    let durable = match story.durable_since {
        Some(seq) => format!(", which was known to be on disk when record {seq} was written"),
        None => ", which no record after it says to be on disk".to_owned(),
    };
    page.push_str(&format!(
        "recorded   as record {} by broker {}{durable}\n\n",
        story.accepted.seq,
        story.accept()["bg"]
    ));
    page.extend(
        story.mail.as_ref().and_then(|mail| mail.last.as_ref()).map(|last| format!("message    {}\n\n", plain(last))),
    );
    let width = story.steps.iter().map(|step| step.at.seq.to_string().len()).max().unwrap_or(1);
    for step in &story.steps {
        let took = format!("{}+{}", if step.took.is_measured { "" } else { "~" }, span(step.took.ms));
        page.push_str(&format!("  record {:<width$}  {took:>10}  {}\n", step.at.seq, plain(&step.words)));
    }
    if story.omitted > 0 {
        page.push_str(&format!("  and {} more of that kind\n", story.omitted));
    }
    if story.steps.iter().any(|step| !step.took.is_measured) {
        page.push_str("  ~ by the wall clock: the machine was started anew in between\n");
    }
    if story.missing > 0 {
        let missing = counted(usize::try_from(story.missing).unwrap_or(usize::MAX), "record");
        page.push_str(&format!("\nmissing: {missing} of its session: ostler ledger verify tells more\n"));
    }
    page.push_str(&format!("\nretry: {}\n", steps::replay(story)));
    page.extend(steps::next(story).map(|next| format!("next: {}\n", plain(&next))));
    page
}

/// What it is and how it ended.
fn title(story: &Story, output: &Output) -> String {
    let verb = words::verb(story.accept());
    let of = if story.mail.is_some() { "to" } else { "of" };
    let about = match (story.accept()["sid"].as_str(), &story.name) {
        (Some(sid), Some(name)) => format!(" {of} {} (session {})", plain(name), plain(sid)),
        (Some(sid), None) => format!(" {of} session {}", plain(sid)),
        (None, _) => String::new(),
    };
    let (tone, state) = match story.state.as_str() {
        "succeeded" => (Tone::Good, "succeeded"),
        "failed" => (Tone::Bad, "failed"),
        "aborted" => (Tone::Notable, "aborted without any effect"),
        "uncertain" => (Tone::Bad, "uncertain"),
        _ => (Tone::Notable, "not settled yet"),
    };
    let took = match story.took() {
        Some(Took { ms, is_measured: true }) => format!(" after {}", span(ms)),
        Some(Took { ms, is_measured: false }) => format!(" after about {}", span(ms)),
        None => String::new(),
    };
    format!("{}: {}{about}, {}{took}\n", plain(story.text("op")), plain(&verb), output.tone(tone, state))
}

fn who(story: &Story) -> String {
    let act = &story.accept()["act"];
    let process = format!("process {} of uid {}", act["pid"], act["uid"]);
    match act["sid"].as_str() {
        Some(session) => format!("session {} ({process})", plain(session)),
        None => process,
    }
}

/// A time as people say it: milliseconds, seconds with three decimals, or longer.
fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{:03} s", ms / 1_000, ms % 1_000),
        _ => super::super::super::duration::show(std::time::Duration::from_secs(ms / 1_000)),
    }
}
