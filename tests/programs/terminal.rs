//! Terminals: what is started from one does not hold it, and its end ends only what belongs to it.

use super::{ended, session};
use crate::support::{OSTLER, Process, Root, SOON, finish, wait_until};
use serde_json::json;
use std::process::Command;

/// Runs a command in a pseudo terminal of its own, reads until it has said `ready`, closes the terminal and waits for the
/// end of the command; prints its wait status, and what it said.
const IN_A_TERMINAL: &str = r#"
import os, pty, sys
ready, command = sys.argv[1].encode(), sys.argv[2:]
child, master = pty.fork()
if child == 0:
    os.execv(command[0], command)
said = b""
while ready not in said:
    try:
        said += os.read(master, 4096)
    except OSError:
        break
os.close(master)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), ready in said)
"#;

fn in_a_terminal(root: &Root, ready: &str, arguments: &[&str]) -> String {
    let mut python = Command::new("python3");
    python.args(["-c", IN_A_TERMINAL, ready, OSTLER]).args(arguments).env_clear().current_dir(root.folder());
    python.envs(root.command(["x"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    finish(&mut python, b"").exits(0).text()
}

#[test]
fn field_l06_a_closed_terminal_stops_run_and_leaves_the_broker_alive() {
    let root = Root::new();
    let said = in_a_terminal(&root, "up", &["run", "--name", "job", "--", "sh", "-c", "echo up; sleep 1000"]);
    assert_eq!(said, "143 True\n");
    assert_eq!(ended(&root, &json!("job"))["status"], "stopped");
    let broker = root.broker().expect("the broker that was started from the terminal lives");
    // It has no terminal of its own to lose.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", broker.pid)).unwrap();
    let terminal = stat.rsplit_once(") ").unwrap().1.split(' ').nth(4).unwrap().to_owned();
    assert_eq!(terminal, "0", "{stat}");
}

#[test]
fn field_d19_a_session_outlives_the_terminal_that_it_was_started_from() {
    let root = Root::new();
    let said = in_a_terminal(&root, "ready", &["spawn", "--name", "job", "--", "sh", "-c", "exec sleep 1000"]);
    // The end of the terminal may meet the program on its way out.
    assert!(said.ends_with(" True\n"), "{said}");
    let now = session(&root, &json!("job"));
    assert_eq!(now["status"], "ready");
    let process = Process::of_value(&now["pid"]);
    let holds = |fd: u32| std::fs::read_link(format!("/proc/{}/fd/{fd}", process.pid)).unwrap();
    for fd in 0..3 {
        assert!(!holds(fd).starts_with("/dev/pts"), "{fd} is {}", holds(fd).display());
    }
    root.ostler(["stop", "job"]).exits(0);
    wait_until(SOON, "its end", || !process.alive());
}

/// Colour is for terminals that want it, and a terminal is never driven by what a program is called.
#[test]
fn what_is_shown_on_a_terminal_cannot_drive_it() {
    let root = Root::new();
    root.ostler(["run", "--", "sh", "-c", "exit 0", "\u{1b}[31mred\u{7}"]).exits(0);
    let listed = root.ostler(["list"]).exits(0).text();
    assert!(!listed.contains('\u{1b}') && !listed.contains('\u{7}'), "{listed:?}");
    let shown = root.ostler(["show", listed.lines().nth(1).unwrap().split(' ').next().unwrap()]).exits(0).text();
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
}
