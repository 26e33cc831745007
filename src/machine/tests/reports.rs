//! Reports in the pure core: who may post and read, lines of amendments, what is kept, and what stands in for one that was never posted.

use super::*;

fn bodies(bytes: u64) -> (Body, Body) {
    let body = |bytes| Body { file: 1, offset: 0, bytes, digest: Digest([7; 32]) };
    (body(10), body(bytes))
}

fn post(bytes: u64, supersedes: Option<u64>) -> Action {
    let supersedes = supersedes.map(|seq| Ok(ReportId(seq)));
    Action::Report(Box::new(Post { verdict: Verdict::Success, bodies: Some(bodies(bytes)), supersedes }))
}

/// A parent and its child, both ready.
fn family() -> World {
    let mut world = World::new();
    world.fresh(spawn(A, None));
    world.saw(A, 1, Word::Started(run(1)));
    world.ask_as(Scope::Session(sid(A)), "child", 1, spawn(B, None));
    world.saw(B, 1, Word::Started(run(1)));
    world
}

impl World {
    fn posts(&mut self, session: &str, action: Action) -> String {
        let key = format!("post-{}", self.next_seq());
        self.ask_as(Scope::Session(sid(session)), &key, 1, action)
    }

    fn kept(&self, session: &str) -> String {
        let each = self.state.reports_of(&sid(session)).map(|report| {
            let by = report.superseded_by.map(|by| format!(" -> {by}")).unwrap_or_default();
            format!("{}/{} {:?}{by}", report.id, report.episode, report.verdict)
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn a_session_posts_and_amends_the_last_of_a_line_and_nothing_else() {
    let mut world = family();
    let Action::Report(unwritten) = post(1, None) else { unreachable!() };
    let unwritten = Action::Report(Box::new(Post { bodies: None, ..*unwritten }));
    assert_eq!(world.posts(B, unwritten), format!("=> store for {B}"));
    let first = world.next_seq();
    assert_eq!(
        world.posts(B, post(1, None)),
        format!(
            "accept op-{first} report.post report, finish op-{first} succeeded, notice to {A} (rep-{first}), => op-{first}"
        )
    );
    let second = world.next_seq();
    world.posts(B, post(1, Some(first)));
    assert_eq!(world.posts(B, post(1, Some(first))), "=> refused Superseded", "one took its place");
    assert_eq!(world.posts(A, post(1, Some(second))), "=> refused NoReport", "another's is as unknown as none");
    assert_eq!(world.posts(B, post(1, Some(999))), "=> refused NoReport");
    assert_eq!(world.fresh(post(1, None)), "=> refused SessionOnly");
    assert_eq!(world.kept(B), format!("rep-{first}/1 Success -> rep-{second}, rep-{second}/1 Success"));
    let head = world.state.reports.get(&ReportId(first)).map(|report| world.state.head_of_line(report));
    assert_eq!(head, Some(ReportId(second)));
}

/// Two amend one at the same time: in every order one wins, and the other is told by whom.
#[test]
fn of_two_amendments_one_wins() {
    let mut world = family();
    let first = world.next_seq();
    world.posts(B, post(1, None));
    let told: Vec<_> = (0..2).map(|_| world.posts(B, post(1, Some(first)))).collect();
    assert!(told[0].contains("succeeded") && told[1] == "=> refused Superseded", "{told:?}");
}

#[test]
fn the_oldest_of_too_many_and_of_too_long_ones_are_forgotten() {
    let mut world = family();
    let first = world.next_seq();
    world.posts(B, post(1, None));
    let second = world.next_seq();
    for _ in 0..limits::REPORTS {
        world.posts(B, post(1, None));
    }
    let kept: Vec<_> = world.state.reports_of(&sid(B)).map(|report| report.id.0).collect();
    assert_eq!((kept.len(), kept[0]), (limits::REPORTS, second));
    world.posts(B, post(limits::REPORTS_BYTES - 10, None));
    assert_eq!(world.state.reports_of(&sid(B)).count(), 1, "the last one stays, and fills it");
    world.posts(B, post(limits::REPORTS_BYTES + 1, None));
    assert_eq!(world.state.reports_of(&sid(B)).count(), 1);
    assert_eq!(world.posts(B, post(1, Some(first))), "=> refused NoReport", "what is forgotten is amended no more");
}

#[test]
fn who_ends_without_a_report_gets_one_of_the_broker_s_once_for_each_episode() {
    let mut world = family();
    let posted = world.next_seq();
    world.posts(B, post(1, None));
    world.saw(B, 1, exited(1));
    assert_eq!(world.kept(B), format!("rep-{posted}/1 Success"), "it had posted one");
    world.fresh(resume(B, 2));
    world.saw(B, 2, Word::Started(run(2)));
    let ended = world.next_seq();
    world.saw(
        B,
        2,
        Word::Exited { run: Some(run(2)), exit: Exit::Signal("SIGKILL".to_owned()), at_us: 5, survivors: Vec::new() },
    );
    assert_eq!(
        world.kept(B),
        format!("rep-{posted}/1 Success, rep-{ended}/2 Failure"),
        "that one was of another episode"
    );
    let report = world.state.reports.get(&ReportId(ended)).unwrap();
    let how = Content::Ended { status: Status::Failed, exit: Exit::Signal("SIGKILL".to_owned()) };
    assert_eq!(report.content, how);
    // Nobody gave the parent its work through a session.
    world.saw(A, 1, exited(1));
    assert_eq!(world.kept(A), "");
}

#[test]
fn reports_go_with_their_session() {
    let mut world = family();
    world.posts(B, post(1, None));
    world.saw(B, 1, exited(0));
    world.fresh(delete(B, false));
    assert_eq!(world.posts(B, post(1, None)), "=> refused NoSession");
    world.saw(B, 1, Word::Removed);
    assert_eq!((world.kept(B).as_str(), world.state.reports.len()), ("", 0));
}

#[test]
fn reports_are_read_by_the_owner_the_author_its_parent_and_its_siblings() {
    const C: &str = "cccccccccccc";
    const D: &str = "dddddddddddd";
    let mut world = family();
    world.ask_as(Scope::Session(sid(A)), "sibling", 1, spawn(C, None));
    world.ask_as(Scope::Session(sid(B)), "grandchild", 1, spawn(D, None));
    let reads = |reader: &str, author: &str| may_read(&world.state, &Scope::Session(sid(reader)), &sid(author));
    let table: Vec<String> = [A, B, C, D]
        .map(|reader| [A, B, C, D].iter().map(|author| if reads(reader, author) { 'x' } else { '.' }).collect())
        .into();
    // Rows read: a parent, its child, that one's sibling, its grandchild.
    assert_eq!(table, ["xxx.", ".xxx", ".xx.", "...x"]);
    assert!(may_read(&world.state, &Scope::Owner, &sid(D)));
    assert!(!may_read(&world.state, &Scope::Session(sid(A)), &sid("eeeeeeeeeeee")));
}
