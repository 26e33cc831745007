//! An operation that was let go, made anew from its records: the same as the fold had it.

use super::apply::{At, accepted, decided};
use super::event::Event;
use super::id::Digest;
use super::operation::{Gained, Operation};

/// The operation that this record accepted and that one settled; none if they are not the two records of one.
pub fn recalled(first: (&Event, At), last: (&Event, At, Digest)) -> Option<Operation> {
    let (Event::Accept { sid, op, kind, key, req, act, body, .. }, at) = first else { return None };
    let mut operation = accepted((*op, *kind, body), (act, key), *req, sid.as_ref(), at);
    let (event, at, digest) = last;
    let settled = match event {
        Event::Finish { op, st, res, body, .. } if *op == operation.id => {
            operation.settle(*st, at.seq, res.clone(), body.clone())
        }
        Event::Operator { body, .. } if body.operation == operation.id => {
            operation.settle(body.outcome, at.seq, Gained::default(), decided(body))
        }
        Event::Finish { .. }
        | Event::Operator { .. }
        | Event::Generation { .. }
        | Event::Accept { .. }
        | Event::Host { .. }
        | Event::Session { .. }
        | Event::Fence { .. }
        | Event::Message { .. }
        | Event::Queue { .. }
        | Event::Notice { .. }
        | Event::Beat { .. }
        | Event::Conflict { .. } => return None,
    };
    settled.ok()?;
    operation.digest = digest;
    (operation.id.0 == first.1.seq).then_some(operation)
}
