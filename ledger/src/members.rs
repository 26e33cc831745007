//! What a caller says in a record: the members of [`Entry`] beside type, session and episode, as values or, made from a
//! caller's own types, as their canonical text.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::canonical::{write_string, write_value};
use crate::entry::{Entry, EntryFault};
use crate::render::{self, RenderFault};

/// The level of R, in which the members stand; the line's own object is the first.
const R_DEPTH: usize = 2;

/// Any of `op kind key req st err` (strings) and `res act body` (any JSON without floats).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members(Said);

#[derive(Clone, Debug, PartialEq)]
enum Said {
    Values(Map<String, Value>),
    Texts(Texts),
}

impl Default for Said {
    fn default() -> Self {
        Said::Values(Map::new())
    }
}

/// Canonical texts in one piece, and from where to where the text of each member stands in it; an empty one is not given.
#[derive(Clone, Debug, Default, PartialEq)]
struct Texts {
    all: Vec<u8>,
    places: [(u32, u32); PLACES],
}

impl Texts {
    fn at(&self, Place(place): Place) -> Option<&[u8]> {
        let (from, to) = self.places[place];
        let place = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
        self.all.get(place).filter(|text| !text.is_empty())
    }
}

/// Which of the members that a caller may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

const PLACES: usize = 9;

impl Place {
    pub(crate) const ACT: Place = Place(0);
    pub(crate) const BODY: Place = Place(1);
    pub(crate) const ERR: Place = Place(2);
    pub(crate) const KEY: Place = Place(3);
    pub(crate) const KIND: Place = Place(4);
    pub(crate) const OP: Place = Place(5);
    pub(crate) const REQ: Place = Place(6);
    pub(crate) const RES: Place = Place(7);
    pub(crate) const ST: Place = Place(8);

    /// In the order in which RFC 8785 sorts them.
    const NAMES: [&'static str; PLACES] = ["act", "body", "err", "key", "kind", "op", "req", "res", "st"];

    fn of(name: &str) -> Option<Place> {
        Place::NAMES.iter().position(|known| *known == name).map(Place)
    }

    fn name(self) -> &'static str {
        Place::NAMES[self.0]
    }

    fn is_text(self) -> bool {
        ![Place::ACT, Place::BODY, Place::RES].contains(&self)
    }
}

/// The members of one entry, each at its place.
#[derive(Default)]
pub(crate) struct Given<'a>([Option<Piece<'a>>; PLACES]);

#[derive(Clone, Copy)]
enum Piece<'a> {
    Value(&'a Value),
    Text(&'a [u8]),
}

impl Given<'_> {
    /// Appends `named`, the member's value and a comma, if the member is given.
    pub(crate) fn write(&self, out: &mut Vec<u8>, place: Place, named: &[u8]) -> Result<(), EntryFault> {
        let Some(piece) = self.0[place.0] else { return Ok(()) };
        out.extend_from_slice(named);
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Value(Value::String(text)) => write_string(out, text),
            Piece::Value(value) => {
                let member = place.name();
                write_value(out, value, R_DEPTH).map_err(|fault| EntryFault::Value { member, fault })?;
            }
        }
        out.push(b',');
        Ok(())
    }
}

impl From<Map<String, Value>> for Members {
    fn from(values: Map<String, Value>) -> Self {
        Members(Said::Values(values))
    }
}

impl<const N: usize> From<[(String, Value); N]> for Members {
    fn from(values: [(String, Value); N]) -> Self {
        Members(Said::Values(values.into_iter().collect()))
    }
}

impl Members {
    /// The value of one, if it is given.
    pub fn get(&self, name: &str) -> Option<Cow<'_, Value>> {
        match &self.0 {
            Said::Values(values) => values.get(name).map(Cow::Borrowed),
            Said::Texts(texts) => serde_json::from_slice(texts.at(Place::of(name)?)?).ok().map(Cow::Owned),
        }
    }

    /// The length of their text, names and all, or a little more; bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Said::Texts(texts) => texts.all.len(),
            Said::Values(values) => {
                // What cannot be written is refused when it is appended.
                render::object(values, R_DEPTH).map_or(0, |(all, _)| all.len())
            }
        }
    }

    /// Each at its place.
    pub(crate) fn given(&self) -> Result<Given<'_>, EntryFault> {
        let mut given = Given::default();
        match &self.0 {
            Said::Texts(texts) => {
                for (place, piece) in given.0.iter_mut().enumerate() {
                    *piece = texts.at(Place(place)).map(Piece::Text);
                }
            }
            Said::Values(values) => {
                let mut no_string = None;
                for (name, value) in values {
                    let place = Place::of(name).ok_or_else(|| EntryFault::UnknownMember(name.clone()))?;
                    given.0[place.0] = Some(Piece::Value(value));
                    no_string = no_string.or((place.is_text() && !value.is_string()).then_some(place.name()));
                }
                no_string.map_or(Ok(()), |name| Err(EntryFault::NotAString(name)))?;
            }
        }
        Ok(given)
    }
}

/// An entry of anything that serialises as an object.
pub(crate) fn entry_of(object: &impl Serialize) -> Result<Entry, EntryFault> {
    let (all, members) = render::object(object, R_DEPTH).map_err(|fault| match fault {
        RenderFault::Value(fault) => EntryFault::Unwritable(fault.to_string()),
        RenderFault::Other(why) => EntryFault::Unwritable(why),
    })?;
    let (mut entry, mut places) = (Entry::default(), [(0, 0); PLACES]);
    let position = |at| u32::try_from(at).map_err(|_| EntryFault::LineTooLong { bytes: all.len() });
    let ends = members[members.len().min(1)..].iter().map(|next| next.at - 1).chain([all.len() - 1]);
    for (member, end) in members.iter().zip(ends) {
        let text = &all[member.value..end];
        match member.name.text() {
            "t" => entry.t = own(text, "t")?,
            "sid" => entry.sid = own(text, "sid")?,
            "ep" => entry.ep = own(text, "ep")?,
            name => {
                let place = Place::of(name).ok_or_else(|| EntryFault::UnknownMember(name.to_owned()))?;
                if place.is_text() && text.first() != Some(&b'"') {
                    return Err(EntryFault::NotAString(place.name()));
                }
                places[place.0] = (position(member.value)?, position(end)?);
            }
        }
    }
    entry.members = Members(Said::Texts(Texts { all, places }));
    Ok(entry)
}

fn own<T: serde::de::DeserializeOwned>(text: &[u8], name: &str) -> Result<T, EntryFault> {
    serde_json::from_slice(text).map_err(|error| EntryFault::Unwritable(format!("\"{name}\": {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_are_in_the_order_of_their_names() {
        assert!(Place::NAMES.is_sorted());
        let named = [
            (Place::ACT, "act"),
            (Place::BODY, "body"),
            (Place::ERR, "err"),
            (Place::KEY, "key"),
            (Place::KIND, "kind"),
            (Place::OP, "op"),
            (Place::REQ, "req"),
            (Place::RES, "res"),
            (Place::ST, "st"),
        ];
        assert!(named.into_iter().all(|(place, name)| place.name() == name && Place::of(name) == Some(place)));
    }

    #[test]
    fn an_entry_of_an_object_has_its_members_apart() {
        let entry = Entry::of(&json!({
            "t": "accept", "sid": "s", "ep": 3, "key": "k\"", "body": {"z": [1], "a": null}, "st": "x",
        }))
        .unwrap();
        assert_eq!(
            (entry.t.as_str(), entry.sid.as_deref(), entry.ep, entry.fin),
            ("accept", Some("s"), Some(3), false)
        );
        assert_eq!(entry.members.get("key").as_deref(), Some(&json!("k\"")));
        assert_eq!(entry.members.get("body").as_deref(), Some(&json!({"a": null, "z": [1]})));
        assert_eq!((entry.members.get("op"), entry.members.get("t")), (None, None));
        let bare = Entry::of(&json!({"t": "beat"})).unwrap();
        assert_eq!((bare.t.as_str(), bare.sid, bare.ep), ("beat", None, None));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        assert_eq!(Entry::of(&json!({"t": "a", "seq": 1})), Err(EntryFault::UnknownMember("seq".to_owned())));
        assert_eq!(Entry::of(&json!({"t": "a", "key": 1})), Err(EntryFault::NotAString("key")));
        for object in
            [json!({"t": 1}), json!({"t": "a", "ep": -1}), json!({"body": 0.5}), json!([]), json!({"sid": [1]})]
        {
            assert!(matches!(Entry::of(&object), Err(EntryFault::Unwritable(_))), "{object}");
        }
        let empty = Entry::of(&json!({})).unwrap();
        assert_eq!((empty.t.as_str(), empty.members.bytes()), ("", 2));
    }
}
