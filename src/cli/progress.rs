//! How far something long has come, on standard error: a bar on a terminal, once it has taken a moment; lines where `--progress` asks for
//! them and there is no terminal; else nothing.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::context::Context;
use crate::os::clock;

/// What takes no longer is not worth a bar.
const MOMENT_US: u64 = 500_000;
/// How often a line says how far it has come.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Between two looks at the clock.
const STEP_BYTES: u64 = 1024 * 1024;

/// Bytes done of a total.
pub(crate) struct Progress {
    total: u64,
    done: u64,
    looked_at: u64,
    shown: Shown,
}

enum Shown {
    Nothing,
    /// It becomes a bar once it has taken a moment.
    Soon {
        begun_us: u64,
    },
    Bar(ProgressBar),
    Lines {
        last_us: u64,
    },
}

impl Progress {
    /// Nothing done of so many bytes.
    pub(crate) fn of(total: u64, is_asked: bool, context: &Context) -> Progress {
        let is_dumb = context.environment.get("TERM").is_none_or(|term| term == "dumb");
        let shown = match (io::stderr().is_terminal() && !is_dumb, is_asked) {
            (true, _) => Shown::Soon { begun_us: clock::boot_us() },
            (false, true) => Shown::Lines { last_us: clock::boot_us() },
            (false, false) => Shown::Nothing,
        };
        Progress { total, done: 0, looked_at: 0, shown }
    }

    /// It begins anew.
    pub(crate) fn restart(&mut self) {
        (self.done, self.looked_at) = (0, 0);
    }

    /// So many more are done.
    pub(crate) fn add(&mut self, bytes: u64, context: &Context) {
        self.done += bytes;
        if self.done - self.looked_at < STEP_BYTES {
            return;
        }
        self.looked_at = self.done;
        // A ledger that grows meanwhile is never more than whole.
        self.total = self.total.max(self.done);
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Soon { begun_us } if clock::boot_us().saturating_sub(*begun_us) < MOMENT_US => {}
            Shown::Soon { .. } => self.shown = Shown::Bar(bar(self.total, self.done)),
            Shown::Bar(bar) => {
                bar.set_length(self.total);
                bar.set_position(self.done);
            }
            Shown::Lines { last_us } => {
                let now_us = clock::boot_us();
                if Duration::from_micros(now_us.saturating_sub(*last_us)) >= LINE_EVERY {
                    *last_us = now_us;
                    self.line(context);
                }
            }
        }
    }

    /// It is done: a bar goes, and lines end with one that says so.
    pub(crate) fn finish(self, context: &Context) {
        match &self.shown {
            Shown::Nothing | Shown::Soon { .. } => {}
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { .. } => self.line(context),
        }
    }

    fn line(&self, context: &Context) {
        let percent = self.done.saturating_mul(100).checked_div(self.total).unwrap_or(100);
        context.output.progress(&format!("{} of {} ({percent}%)", HumanBytes(self.done), HumanBytes(self.total)));
    }
}

fn bar(total: u64, done: u64) -> ProgressBar {
    const FORM: &str = "{bar:30} {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left";
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(FORM).expect("the form is one");
    bar.with_style(style.progress_chars("=> ")).with_position(done)
}
