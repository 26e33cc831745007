//! Seals: the second record of a segment closes the segment before it, with the count of its records, its last digest
//! and the root of a tree over all their digests. Writer and walk form them from the same [`Sealing`], so a seal that
//! does not fit what stands in the file was never written by this program.

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Position};
use crate::entry::Entry;
use crate::merkle::Tree;
use crate::segment::{SegmentBody, body_of, own_entry};
use crate::slice::Sliced;

/// The type of the record that closes the segment before its own.
pub(crate) const SEAL_TYPE: &str = "seal";

/// The `body` of a `seal` record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SealBody {
    /// How many records the segment has. Absent, as `root` is, if its writer found damage in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// The digest of its last record.
    pub(crate) last: Digest,
    /// Its number.
    pub(crate) number: u64,
    /// The digest of the seal in it, which closes the segment before; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prior: Option<Digest>,
    /// The root over the digests of its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<Digest>,
}

impl SealBody {
    /// The body of a record, if it is a `seal` record with a body that can be read.
    pub(crate) fn of(record: &Sliced<'_>) -> Option<SealBody> {
        body_of(record, SEAL_TYPE)
    }

    pub(crate) fn entry(&self) -> Entry {
        own_entry(SEAL_TYPE, serde_json::to_value(self).expect("strings and numbers always serialise"))
    }
}

/// What a record means for the seals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Opens the segment with this number.
    Segment(u64),
    Seal,
    /// Any other record, or one of the two whose body cannot be read.
    Nothing,
}

impl Says {
    pub(crate) fn of(record: &Sliced<'_>) -> Says {
        match (SegmentBody::of(record), record.t) {
            (Some(body), _) => Says::Segment(body.number),
            (None, SEAL_TYPE) => Says::Seal,
            (None, _) => Says::Nothing,
        }
    }
}

/// What is wrong with a seal in any other place.
pub(crate) const STRAY_SEAL: &str = "a seal that is not the second record of its segment";

/// The segment at the end of what was read or written, and the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sealing {
    here: Option<Growing>,
    before: Option<Growing>,
}

/// A segment by the records that are known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Growing {
    /// The first sequence number, as the file's name promises it.
    first_seq: u64,
    number: Option<u64>,
    /// Its second sequence number, at which the seal stands.
    second: u64,
    last: Position,
    /// The seal in it.
    seal: Option<Digest>,
    tree: Tree,
}

impl Growing {
    /// Whether none of its records is missing. Only then has it a root.
    fn is_whole(&self) -> bool {
        self.number.is_some() && self.first_seq + self.tree.count() == self.last.seq + 1
    }
}

impl Sealing {
    /// Goes on to the next record, which stands in the file with this first sequence number.
    pub(crate) fn admit(&mut self, first_seq: u64, position: Position, says: Says) {
        if self.here.as_ref().is_none_or(|here| here.first_seq != first_seq) {
            let (number, second, seal, tree) = (None, first_seq + 1, None, Tree::default());
            self.before = self.here.replace(Growing { first_seq, number, second, last: position, seal, tree });
        }
        let here = self.here.as_mut().expect("set above");
        here.last = position;
        here.tree.push(&position.digest);
        match says {
            Says::Segment(number) if here.tree.count() == 1 => {
                // The file may have another name than its first record.
                (here.number, here.second) = (Some(number), position.seq + 1);
            }
            Says::Seal if position.seq == here.second => here.seal = Some(position.digest),
            Says::Segment(_) | Says::Seal | Says::Nothing => {}
        }
    }

    /// Closes the segment at the end, which has this number; `None` before the first.
    pub(crate) fn seal(&self, number: u64) -> Option<SealBody> {
        let here = self.here.as_ref()?;
        let tree = here.is_whole().then_some(&here.tree);
        let (count, root) = (tree.map(Tree::count), tree.and_then(Tree::root));
        Some(SealBody { count, last: here.last.digest, number, prior: here.seal, root })
    }

    /// The number of the segment at the end, if that is the one with this first sequence number and it is known.
    pub(crate) fn number(&self, first_seq: u64) -> Option<u64> {
        self.here.as_ref().filter(|here| here.first_seq == first_seq)?.number
    }

    /// Where the seal stands in the segment at the end, if that is the one with this first sequence number.
    pub(crate) fn second(&self, first_seq: u64) -> Option<u64> {
        self.here.as_ref().filter(|here| here.first_seq == first_seq).map(|here| here.second)
    }

    /// The segment that the seal in the last one closes, by its first sequence number.
    pub(crate) fn closed(&self) -> Option<u64> {
        let before = self.before.as_ref()?;
        self.here.as_ref()?.seal.map(|_seal| before.first_seq)
    }

    /// What is wrong with the next record as the second of its segment, where the seal stands, or as any other. What a
    /// hole has swallowed cannot be compared, and is no fault here.
    pub(crate) fn fault(&self, first_seq: u64, record: &Sliced<'_>) -> Option<&'static str> {
        let second = self.second(first_seq).unwrap_or(first_seq + 1);
        match (record.seq == second, record.t == SEAL_TYPE) {
            (true, true) => match SealBody::of(record) {
                Some(body) => self.closing_fault(first_seq, record.seq, &body),
                None => Some("a seal whose body cannot be read"),
            },
            (true, false) if self.seals(first_seq) => Some("the segment before is not sealed"),
            (false, true) => Some(STRAY_SEAL),
            (true | false, false) => None,
        }
    }

    fn closing_fault(&self, first_seq: u64, seq: u64, body: &SealBody) -> Option<&'static str> {
        let before = self.before(first_seq).filter(|before| before.last.seq + 2 == seq)?;
        let number = before.number.is_some_and(|number| number != body.number);
        if number || before.last.digest != body.last {
            return Some("the seal does not fit the segment before");
        }
        let (count, root) = (Some(before.tree.count()), before.tree.root());
        if before.is_whole() {
            if before.seal != body.prior {
                return Some("the seal does not follow from the seal before");
            }
            if (body.count, body.root) != (None, None) && (body.count, body.root) != (count, root) {
                return Some("the seal does not fit the records of the segment before");
            }
        }
        None
    }

    /// Whether this ledger's writer seals: the segment before has a seal in it.
    fn seals(&self, first_seq: u64) -> bool {
        self.before(first_seq).is_some_and(|before| before.seal.is_some())
    }

    /// The segment before the one with this first sequence number, whether or not a record of the latter was admitted.
    fn before(&self, first_seq: u64) -> Option<&Growing> {
        match &self.here {
            Some(here) if here.first_seq == first_seq => self.before.as_ref(),
            here => here.as_ref(),
        }
    }
}
