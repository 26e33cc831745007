//! The example client, written from docs/PROTOCOL.md alone: what the document says is what the product does.

use serde_json::Value;

use crate::support::{OSTLER, Output, Root, finish};

/// Runs the example as its users do.
fn example(root: &Root, words: &[&str]) -> Output {
    let mut command = root.command::<_, &str>([]);
    let mut python = std::process::Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/examples/ostler_min.py")).args(words);
    python.current_dir(root.folder()).stdin(std::process::Stdio::null()).env_clear().env("OSTLER", OSTLER);
    python.envs(command.env("MINE", "given").get_envs().filter_map(|(name, value)| Some((name, value?))));
    finish(&mut python, b"")
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
