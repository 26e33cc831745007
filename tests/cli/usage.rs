//! Usage errors, help, and what is printed about the program itself: none of it touches a state root.

use crate::support::Root;

#[test]
fn a_usage_error_is_a_document_where_documents_are_wanted() {
    let root = Root::new();
    let output = root.ostler(["--json", "frobnicate"]).exits(2);
    let error = &output.json()["error"];
    assert_eq!(
        (&error["code"], &error["retry"], &error["data"]["reason"]),
        (&"invalid_input".into(), &"never".into(), &"usage".into())
    );
    assert!(output.stderr.is_empty(), "{output:?}");
    let output = root.ostler(["stop", "--json"]).exits(2).json();
    assert!(output["error"]["message"].as_str().unwrap().ends_with(": <SESSION>..."), "{output}");
    let output = root.ostler(["kill", "x"]).exits(2).error_text();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "ostler: cannot understand the command line: there is no command `kill` (invalid_input)");
    assert_eq!(lines[lines.len() - 2..], ["  changed: nothing", "  next: ostler stop SESSION"]);
    let output = root.ostler(["spawn", "--name", "x"]).exits(2);
    assert!(output.stdout.is_empty() && output.error_text().contains("CMD"), "{output:?}");
    // Every other code of `run` is its command's.
    for (verb, code) in [("spawn", 2), ("run", 125)] {
        let output = root.ostler([verb, "sleep", "1"]).exits(code);
        assert!(output.error_text().contains("put -- before the command"), "{output:?}");
    }
    let output = root.ostler(["--json", "spawn", "true"]).exits(2);
    assert!(output.json()["error"]["data"]["remedy"].as_str().unwrap().contains("put --"), "{output:?}");
    // Behind the dashes everything is the command's.
    let output = root.ostler(["spawn", "--frob", "--", "--json"]).exits(2);
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!root.path().exists());
}

/// Who types too little wants to see what there is.
#[test]
fn a_command_that_lacks_its_subcommand_gets_its_help_on_standard_error() {
    let root = Root::new();
    for (line, names) in
        [("", "ensure"), ("ledger", "verify"), ("message", "resolve"), ("inbox", "ack"), ("operation", "resolve")]
    {
        let output = root.ostler(line.split_whitespace()).exits(2);
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = output.error_text();
        assert!(
            said.contains("Usage: ostler") && said.contains(names) && !said.contains("cannot understand"),
            "{said}"
        );
        let document = root.ostler(["--json"].into_iter().chain(line.split_whitespace())).exits(2).json();
        assert!(document["error"]["message"].as_str().unwrap().contains(names), "{document}");
    }
    assert!(!root.path().exists());
}

#[test]
fn help_manual_schema_and_completions_need_no_root() {
    let root = Root::new();
    for arguments in [&["--help"][..], &["--version"], &["ledger", "verify", "--help"], &["man"]] {
        let output = root.ostler(arguments).exits(0);
        assert!(output.text().contains("ostler") && output.stderr.is_empty(), "{output:?}");
    }
    for (help, flag) in
        [(&["help"][..], &["--help"][..]), (&["help", "ledger", "verify"], &["ledger", "verify", "--help"])]
    {
        assert_eq!(root.ostler(help).exits(0).text(), root.ostler(flag).exits(0).text());
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(root.ostler(["completions", shell]).exits(0).text().contains("resume"), "{shell}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = root.ostler(["completions", shell]).exits(0).text();
        assert!(
            !script.contains("ostler__broker") && !script.contains("ostler broker"),
            "{shell} offers what is hidden"
        );
        assert!(!script.contains("ostler__subcmd__broker") && !script.contains("-a \"broker\""), "{shell}");
    }
    let schema = root.json(["schema"]);
    assert_eq!(schema["schema"], 1);
    assert!(schema["methods"]["session.spawn"]["params"].is_object());
    assert!(!root.path().exists());
}

#[test]
fn a_key_is_checked_before_anything_is_started() {
    let root = Root::new();
    for key in ["", "\u{fc}", "a\tb", &"k".repeat(129)] {
        assert_eq!(root.ostler(["--json", "spawn", "--key", key, "--", "true"]).exits(2).error_code(), "invalid_input");
    }
    assert!(!root.path().exists());
}
