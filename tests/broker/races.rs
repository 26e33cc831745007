//! Requests for one session that meet: each is told what became of the session, never that the disk failed.

use serde_json::Value;

use crate::support::scene::{at_once, text};
use crate::support::{Root, finish};

/// How often the two meet.
const MEETINGS: usize = 8;

/// A resume makes its episode's folder before it asks for good; a delete may take the session's folder meanwhile.
#[test]
fn field_e_own_a_resume_that_a_delete_overtakes_is_told_that_the_session_is_gone() {
    let root = Root::new();
    // Long enough for the delete to come to its end while the resume is about to make its folder.
    finish(root.command(["ensure"]).env("OSTLER_TEST_FAIL", "spawn.prepare=pause:300"), b"").exits(0);
    let mut overtaken = 0;
    for _ in 0..MEETINGS {
        let session = root.spawn(&[], &["true"]);
        let id = text(&session["id"]);
        root.json(["wait", id]);
        let command = |name: &str| root.command(["--json", name, id, "--timeout", "30s"]);
        let outputs = at_once(vec![command("resume"), command("delete")]);
        let [resumed, deleted] = outputs.try_into().expect("there were two");
        let told = |document: &Value| document["error"]["code"].as_str().map(str::to_owned);
        match told(&resumed.json()).as_deref() {
            None => {}
            Some("not_found" | "session_terminal") => overtaken += 1,
            Some(_) => panic!("{resumed:?}"),
        }
        // The resume may have been faster; then the session lived, or lives.
        match told(&deleted.json()).as_deref() {
            None | Some("session_live") => {}
            Some(_) => panic!("{deleted:?}"),
        }
    }
    assert!(overtaken > 0, "they never met");
}
