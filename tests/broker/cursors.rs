//! Cursors of lists are few: the oldest goes when a new one comes, and nobody but its user learns of it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::Root;
use crate::support::scene::{at_once, text};

/// How many cursors are kept.
const KEPT: usize = 256;

fn three_ended_sessions(root: &Root) -> BTreeSet<String> {
    let sessions: Vec<Value> = (0..3).map(|_| root.spawn_fixture(&[], "exit 0")).collect();
    sessions
        .iter()
        .map(|session| {
            root.json(["wait", text(&session["id"])]);
            text(&session["id"]).to_owned()
        })
        .collect()
}

fn first_page(root: &Root) -> Value {
    root.json(["list", "--limit", "1"])
}

#[test]
fn the_oldest_of_257_cursors_is_evicted_and_nothing_fails() {
    let root = Root::new();
    let ids = three_ended_sessions(&root);
    let oldest = first_page(&root);
    let second = first_page(&root);
    let mut cursors = BTreeSet::new();
    for _ in 0..16 {
        let asked = (0..16).map(|_| root.command(["list", "--limit", "1", "--json"])).collect();
        for output in at_once(asked) {
            let page = output.exits(0).json();
            assert_eq!(page["sessions"][0]["id"], oldest["sessions"][0]["id"]);
            cursors.insert(text(&page["next"]).to_owned());
        }
    }
    assert_eq!(cursors.len(), KEPT, "no two alike");
    for gone in [&oldest, &second] {
        let refused = root.ostler(["list", "--json", "--cursor", text(&gone["next"])]).exits(4);
        assert_eq!(refused.error_code(), "expired_cursor");
    }
    // The newest 256 all lead on, each to the end, and are no two ways to the same end.
    let newest = cursors.iter().next_back().unwrap();
    let page = root.json(["list", "--cursor", newest, "--limit", "1"]);
    let rest = root.json(["list", "--cursor", text(&page["next"])]);
    let seen = [&oldest, &page, &rest].into_iter().flat_map(|page| page["sessions"].as_array().unwrap().clone());
    assert_eq!(seen.map(|session| text(&session["id"]).to_owned()).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn a_cursor_of_another_list_or_broker_or_of_nobody_is_told_apart_from_a_good_one() {
    let root = Root::new();
    three_ended_sessions(&root);
    let cursor = text(&first_page(&root)["next"]).to_owned();
    let other = root.ostler(["operation", "list", "--json", "--cursor", &cursor]).exits(2);
    assert_eq!(other.error_code(), "invalid_input");
    for nonsense in ["x", "", "-1", &"9".repeat(500)] {
        let refused = root.ostler(["list", "--json", &format!("--cursor={nonsense}")]);
        assert!([Some(2), Some(4)].contains(&refused.code()), "{refused:?}");
    }
    root.kill_broker();
    let refused = root.ostler(["list", "--json", "--cursor", &cursor]).exits(4);
    assert_eq!(refused.error_code(), "expired_cursor");
}
