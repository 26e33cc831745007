//! Stored events: a ledger that says the impossible stops a start with a reason. It never panics, and never half changes the view.

use ostler::machine::{At, Event, State, Time, apply, follow, next_deadline, outstanding, violations};

/// Most events of one run.
const EVENTS_MAX: u64 = 64;

/// One stored event a line, folded from an empty state. Every event is taken whole or refused; after each, the view equals
/// the state, and all that is derived from the state can be derived.
pub fn stored_events(bytes: &[u8]) -> bool {
    let mut refused = 0;
    let (mut state, mut view) = (State::default(), State::default());
    for (line, seq) in bytes.split(|byte| *byte == b'\n').zip(1..=EVENTS_MAX) {
        let Some(event) = crate::round_trip::<Event>(line) else {
            refused += usize::from(!line.is_empty());
            continue;
        };
        let time = Time { wall_us: seq, boot_us: seq };
        match apply(&mut state, &event, At { seq, time }) {
            Ok(()) => {
                state.close(time);
                state.publish(&mut view);
            }
            Err(_) => {
                refused += 1;
                state.revert(&view);
            }
        }
        assert!(state == view, "the view differs from the state after {event:?}");
        let _effects = outstanding(&state);
        let _deadline = next_deadline(&state, time);
        let _bugs = violations(&state);
        let lanes: Vec<_> = state.lanes.iter().map(|(session, _)| session.clone()).collect();
        let _following = lanes.iter().map(|session| follow(&state, time, session).len()).sum::<usize>();
    }
    refused == 0
}
