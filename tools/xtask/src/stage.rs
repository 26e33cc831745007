//! One stage of a check: a command with a time budget, measured and printed.
//!
//! Over its budget a stage warns; at three times the budget it is ended and has failed, so that nothing hangs unseen.
#![expect(clippy::disallowed_methods, reason = "a tool that starts programs and measures them")]

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How many budgets a stage may use before it is ended.
const HARD_FACTOR: u32 = 3;

/// How often a running stage is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a stage came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Passed,
    Slow,
    Failed,
    Hung,
}

/// Runs `command` to its end within the hard limit of `budget`.
pub(crate) fn run(command: &mut Command, budget: Duration) -> Result<(Verdict, Duration), String> {
    let began = Instant::now();
    let hard = budget * HARD_FACTOR;
    let program = command.get_program().to_string_lossy().into_owned();
    // At a terminal the stage stays in the foreground group, so that an interrupt from the keyboard ends it too.
    let own_group = !std::io::stdin().is_terminal();
    let mut child =
        start(command.stdin(Stdio::null()), own_group).map_err(|error| format!("cannot run {program}: {error}"))?;
    loop {
        let ended = child.try_wait().map_err(|error| format!("cannot wait for {program}: {error}"))?;
        let elapsed = began.elapsed();
        if let Some(status) = ended {
            if status.code().is_none() {
                // A program that a signal ended has said nothing itself.
                eprintln!("{program}: {status}");
            }
            return Ok((judge(status, elapsed, budget), elapsed));
        }
        if elapsed > hard {
            end(&mut child, own_group);
            return Ok((Verdict::Hung, elapsed));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A command that runs cargo in `top` with `arguments`, offline-safe: the lock file is never touched.
pub(crate) fn cargo(top: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(top).args(arguments);
    command
}

fn judge(status: ExitStatus, elapsed: Duration, budget: Duration) -> Verdict {
    match (status.success(), elapsed > budget) {
        (false, _) => Verdict::Failed,
        (true, true) => Verdict::Slow,
        (true, false) => Verdict::Passed,
    }
}

fn start(command: &mut Command, own_group: bool) -> std::io::Result<Child> {
    #[cfg(unix)]
    if own_group {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }
    command.spawn()
}

/// Ends the stage and, where it has a group of its own, what it started.
fn end(child: &mut Child, own_group: bool) {
    if own_group {
        let group = format!("-{}", child.id());
        // `kill` is there on every Unix; if it fails the next line still ends the leader.
        drop(Command::new("kill").args(["-KILL", "--", &group]).status());
    }
    drop(child.kill());
    drop(child.wait());
}

#[cfg(test)]
mod tests {
    use super::{Verdict, run};
    use std::process::Command;
    use std::time::Duration;

    fn verdict(script: &str, budget: Duration) -> Verdict {
        run(Command::new("sh").args(["-c", script]), budget).unwrap().0
    }

    #[test]
    fn a_stage_passes_warns_fails_or_is_ended() {
        let (ample, none) = (Duration::from_secs(600), Duration::ZERO);
        assert_eq!(verdict("exit 0", ample), Verdict::Passed);
        assert_eq!(verdict("exit 3", ample), Verdict::Failed);
        assert_eq!(verdict("sleep 1000", none), Verdict::Hung);
        assert!(run(&mut Command::new("no-such-program-of-ours"), ample).is_err());
    }

    #[test]
    fn over_the_budget_a_success_is_slow_and_a_failure_stays_one() {
        let status = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
        let (long, short) = (Duration::from_secs(3), Duration::from_secs(1));
        assert_eq!(super::judge(status("exit 0"), long, short), Verdict::Slow);
        assert_eq!(super::judge(status("exit 1"), long, short), Verdict::Failed);
        assert_eq!(super::judge(status("exit 0"), short, long), Verdict::Passed);
    }
}
