//! What evidence means: one literal table, and a test that proves that exactly one row answers every combination.

use serde::{Deserialize, Serialize};

/// Where the evidence lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Above every `dur`: nothing there is known to have been synced, so nothing is known to be acknowledged.
    Tail,
    /// At or below a `dur`: it was synced.
    Synced,
}

/// What it looks like. The order is by what a crash can explain least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// Sound records after the last whole turn.
    HalfTurn,
    /// A last line without LF.
    Fragment,
    /// A line with LF that does not verify.
    BadLine,
    /// Sound lines that do not follow from one another: missing, doubled, swapped, foreign.
    BrokenChain,
    /// A seal that does not fit the segment before it, or is missing where the ledger seals.
    WrongSeal,
    /// A whole segment is not there.
    MissingSegment,
    /// A sound line of a version that this crate does not know.
    Newer,
}

/// Whether the machine was started anew since the segment was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    Same,
    Other,
}

/// Whether a crash can have left that much: no more than one batch, and in one file, because the next begins only when
/// all before it is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    WithinBatch,
    Beyond,
}

/// What a finding is. The names are those of `ledger verify --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Never acknowledged, and shaped as a crash shapes it: set aside, go on.
    TornTail,
    /// Never acknowledged, but no crash looks like that: set aside, degraded until an operator accepts it.
    SuspiciousTail,
    /// Synced bytes that do not verify: never rewritten; the owner is fenced, the rest works.
    Damage,
    /// Sound records in an order that nobody wrote: as damage, and degraded until an operator accepts it. As a tail:
    /// more than a crash leaves, so that nothing of it is cut and the ledger is not opened.
    ChainBroken,
    /// Records are gone: as a broken chain; outcomes that may have been among them are uncertain.
    Loss,
    /// Written by a later version: refused, nothing changed.
    TooNew,
}

pub(crate) struct Row {
    zones: &'static [Zone],
    shapes: &'static [Shape],
    boots: &'static [Boot],
    extents: &'static [Extent],
    pub(crate) class: Class,
}

const ANY_ZONE: &[Zone] = &[Zone::Tail, Zone::Synced];
const ANY_BOOT: &[Boot] = &[Boot::Same, Boot::Other];
const ANY_EXTENT: &[Extent] = &[Extent::WithinBatch, Extent::Beyond];
const TAIL: &[Zone] = &[Zone::Tail];
const SYNCED: &[Zone] = &[Zone::Synced];
const SAME: &[Boot] = &[Boot::Same];
const OTHER: &[Boot] = &[Boot::Other];
const TAIL_SHAPES: &[Shape] =
    &[Shape::HalfTurn, Shape::Fragment, Shape::BadLine, Shape::BrokenChain, Shape::WrongSeal, Shape::MissingSegment];
const WITHIN: &[Extent] = &[Extent::WithinBatch];
const BEYOND: &[Extent] = &[Extent::Beyond];

#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    Row { zones: TAIL,     shapes: &[Shape::HalfTurn, Shape::Fragment],                 boots: ANY_BOOT, extents: WITHIN,     class: Class::TornTail },
    // After a reboot sectors of what was never synced may be missing anywhere in it.
    Row { zones: TAIL,     shapes: &[Shape::BadLine],                                   boots: OTHER,    extents: WITHIN,     class: Class::TornTail },
    Row { zones: TAIL,     shapes: &[Shape::BadLine],                                   boots: SAME,     extents: WITHIN,     class: Class::SuspiciousTail },
    Row { zones: TAIL,     shapes: &[Shape::BrokenChain, Shape::WrongSeal, Shape::MissingSegment], boots: ANY_BOOT, extents: WITHIN,     class: Class::SuspiciousTail },
    // Whole files in a wrong place can look like this. What may have been acknowledged is not cut.
    Row { zones: TAIL,     shapes: TAIL_SHAPES,                                         boots: ANY_BOOT, extents: BEYOND,     class: Class::ChainBroken },
    Row { zones: SYNCED,   shapes: &[Shape::Fragment, Shape::BadLine],                  boots: ANY_BOOT, extents: ANY_EXTENT, class: Class::Damage },
    Row { zones: SYNCED,   shapes: &[Shape::HalfTurn, Shape::BrokenChain, Shape::WrongSeal], boots: ANY_BOOT, extents: ANY_EXTENT, class: Class::ChainBroken },
    Row { zones: SYNCED,   shapes: &[Shape::MissingSegment],                            boots: ANY_BOOT, extents: ANY_EXTENT, class: Class::Loss },
    Row { zones: ANY_ZONE, shapes: &[Shape::Newer],                                     boots: ANY_BOOT, extents: ANY_EXTENT, class: Class::TooNew },
];

/// The class of the evidence.
pub(crate) fn classify(zone: Zone, shape: Shape, boot: Boot, extent: Extent) -> Class {
    let row = TABLE.iter().find(|row| row.matches(zone, shape, boot, extent));
    row.expect("the table is total, which a test proves").class
}

impl Row {
    fn matches(&self, zone: Zone, shape: Shape, boot: Boot, extent: Extent) -> bool {
        self.zones.contains(&zone)
            && self.shapes.contains(&shape)
            && self.boots.contains(&boot)
            && self.extents.contains(&extent)
    }
}

impl Class {
    /// Whether the operator has to say that they know, before `verify` is content again.
    pub fn degrades(self) -> bool {
        match self {
            Class::TornTail => false,
            Class::SuspiciousTail | Class::Damage | Class::ChainBroken | Class::Loss | Class::TooNew => true,
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::TornTail => "torn_tail",
            Class::SuspiciousTail => "suspicious_tail",
            Class::Damage => "damage",
            Class::ChainBroken => "chain_broken",
            Class::Loss => "loss",
            Class::TooNew => "too_new",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_row_answers_every_combination() {
        let shapes = [
            Shape::HalfTurn,
            Shape::Fragment,
            Shape::BadLine,
            Shape::BrokenChain,
            Shape::WrongSeal,
            Shape::MissingSegment,
            Shape::Newer,
        ];
        for zone in ANY_ZONE {
            for shape in shapes {
                for boot in ANY_BOOT {
                    for extent in ANY_EXTENT {
                        let rows = TABLE.iter().filter(|row| row.matches(*zone, shape, *boot, *extent)).count();
                        assert_eq!(rows, 1, "{zone:?} {shape:?} {boot:?} {extent:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_synced_is_ever_taken_for_a_tail() {
        for row in TABLE.iter().filter(|row| row.zones.contains(&Zone::Synced)) {
            assert!(!matches!(row.class, Class::TornTail | Class::SuspiciousTail));
        }
    }

    #[test]
    fn the_names_are_the_serialised_ones() {
        let classes = TABLE.iter().map(|row| row.class);
        for class in classes {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }
}
