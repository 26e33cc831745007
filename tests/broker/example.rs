//! The example client, written from docs/PROTOCOL.md alone: what the document says is what the product does.

use serde_json::Value;

use crate::support::{FIXTURE, OSTLER, Output, Root, Running, finish};

/// Runs the example as its users do.
fn example(root: &Root, words: &[&str]) -> Output {
    finish(&mut example_command(root, words), b"")
}

fn example_command(root: &Root, words: &[&str]) -> std::process::Command {
    let mut command = root.command::<_, &str>([]);
    let mut python = std::process::Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/examples/ostler_min.py")).args(words);
    python.current_dir(root.folder()).stdin(std::process::Stdio::null()).env_clear().env("OSTLER", OSTLER);
    python.envs(command.env("MINE", "given").get_envs().filter_map(|(name, value)| Some((name, value?))));
    python
}

#[test]
fn it_runs_a_real_program_as_a_session() {
    let root = Root::new();
    let output = example(&root, &["--", "sh", "-c", "echo \"$MINE\"; echo err >&2; printf '\\377'; exit 7"]).exits(7);
    assert_eq!(output.stdout, b"given\n\xff");
    assert!(output.error_text().contains("err\n"), "{output:?}");
    let sessions = root.json(["list"])["sessions"].clone();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1));
    assert_eq!((&sessions[0]["exit"]["code"], &sessions[0]["cwd"]), (&7.into(), &Value::from(root.folder().to_str())));
}

#[test]
fn it_says_what_the_broker_refused() {
    let root = Root::new();
    let output = example(&root, &["--", "/nonexistent/program"]).exits(1);
    assert!(output.error_text().contains("/nonexistent/program"), "{output:?}");
}

/// Output that the broker keeps no longer is told to be missing: what was printed and what is said to be lost make up all of it.
#[test]
fn what_aged_out_before_it_was_read_is_told() {
    const BYTES: usize = 20_000_000;
    let root = Root::new();
    let output = example(&root, &["--", FIXTURE, "print", &BYTES.to_string()]).exits(0);
    let said = output.error_text();
    let lost = said.lines().filter_map(|line| {
        let told = line.strip_prefix("ostler_min.py: ")?.strip_suffix(" bytes of output have aged out here")?;
        told.parse::<usize>().ok()
    });
    assert_eq!(output.stdout.len() + lost.sum::<usize>(), BYTES, "{said}");
}

#[test]
fn it_prints_what_comes_while_it_comes_and_ends_as_the_command_did() {
    let root = Root::new();
    let steps = ["--", FIXTURE, "say", "up", "--", "until", "go", "--", "raise", "9"];
    let running = Running::start(&mut example_command(&root, &steps));
    running.says("up\n");
    std::fs::write(root.folder().join("go"), "").unwrap();
    running.end().exits(128 + 9);
}

#[test]
fn what_everyday_life_does_to_it_is_no_traceback() {
    let root = Root::new();
    let missing = finish(example_command(&root, &["--", "true"]).env("OSTLER", "/nonexistent/ostler"), b"").exits(1);
    assert!(missing.error_text().contains("set OSTLER") && !missing.error_text().contains("Traceback"), "{missing:?}");
    let example = example_command(&root, &["--", FIXTURE, "print", "1000000"]);
    let words: Vec<_> = std::iter::once(example.get_program()).chain(example.get_args()).collect();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "\"$@\" | head -c 1; :", "sh"]).args(words).current_dir(root.folder()).env_clear();
    shell.envs(example.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let left = finish(&mut shell, b"").exits(0);
    assert_eq!(left.stdout.len(), 1);
    assert!(!left.error_text().contains("Traceback") && !left.error_text().contains("BrokenPipe"), "{left:?}");
}
