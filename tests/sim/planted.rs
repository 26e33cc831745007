//! Bugs on purpose: each must be caught by the oracle within the seeds of the gate, or the oracle does not bite.

use super::broker::Bugs;
use super::seeds::{GATE_SEEDS, try_seed};
use ostler::broker::turn::Planted;

/// Some seed of the gate must find this promise broken. A bug may break others on the way.
#[track_caller]
fn check(bugs: Bugs, promise: &str) {
    let mut others = Vec::new();
    for seed in 0..GATE_SEEDS {
        let Err(failure) = try_seed(seed, bugs) else { continue };
        if failure.what.contains(promise) {
            return;
        }
        others.push(format!("seed {seed}: {}", failure.what));
    }
    panic!("no seed finds `{promise}`; found: {others:#?}");
}

fn turn(turn: Planted) -> Bugs {
    Bugs { turn, accept_half_turn: false }
}

#[test]
fn a_reply_before_the_sync_is_caught() {
    let bug = turn(Planted { reply_before_sync: true, ..Planted::default() });
    check(bug, "law 6: op-");
}

#[test]
fn an_owed_effect_that_is_forgotten_on_restart_is_caught() {
    check(turn(Planted { forget_owed: true, ..Planted::default() }), "liveness: ");
}

#[test]
fn a_start_that_is_issued_again_without_asking_the_life_lock_is_caught() {
    check(turn(Planted { launch_unasked: true, ..Planted::default() }), "is executed twice");
}

#[test]
fn a_key_whose_digest_is_ignored_is_caught() {
    check(turn(Planted { ignore_digest: true, ..Planted::default() }), "answers another request");
}

#[test]
fn a_key_that_is_lost_once_its_operation_is_let_go_is_caught() {
    check(turn(Planted { lose_let_go: true, ..Planted::default() }), "law 5: ");
}

#[test]
fn evidence_that_is_not_looked_at_is_caught() {
    check(turn(Planted { see_nothing: true, ..Planted::default() }), "law ");
}

#[test]
fn a_settled_outcome_that_is_overwritten_is_caught() {
    check(turn(Planted { overwrite_settled: true, ..Planted::default() }), "law ");
}

#[test]
fn a_fence_around_another_session_is_caught() {
    check(turn(Planted { fence_another: true, ..Planted::default() }), "law 8: ");
}

#[test]
fn a_host_that_is_adopted_without_a_hello_is_caught() {
    check(turn(Planted { adopt_unasked: true, ..Planted::default() }), "is ready and nothing runs");
}

#[test]
fn a_late_completion_that_revives_a_deleted_session_is_caught() {
    check(turn(Planted { revive_deleted: true, ..Planted::default() }), "a delete waits in ");
}

#[test]
fn an_exit_that_is_read_from_an_end_of_file_is_caught() {
    check(turn(Planted { exit_at_end_of_file: true, ..Planted::default() }), "law 11: ");
}

#[test]
fn a_snapshot_that_is_out_of_date_is_caught() {
    check(turn(Planted { stale_snapshot: true, ..Planted::default() }), "law 1: the state from a snapshot");
}

#[test]
fn a_state_that_is_stated_again_out_of_date_is_caught() {
    check(turn(Planted { stale_carry: true, ..Planted::default() }), "law 1: ");
}

#[test]
fn half_a_turn_that_is_accepted_on_recovery_is_caught() {
    check(Bugs { accept_half_turn: true, ..Bugs::default() }, "half a turn");
}

#[test]
fn a_session_turn_that_is_taken_for_over_is_caught() {
    check(turn(Planted { cut_turns: true, ..Planted::default() }), "turns: msg-");
}

#[test]
fn a_signal_in_another_turn_than_the_one_that_is_named_is_caught() {
    check(turn(Planted { interrupt_any_turn: true, ..Planted::default() }), " and interrupts ");
}

#[test]
fn a_second_path_that_recovers_messages_is_caught() {
    check(turn(Planted { recover_beside: true, ..Planted::default() }), "times: ");
}
