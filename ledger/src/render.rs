//! Anything that serde can serialise, straight into RFC 8785 form: what a caller's own types say becomes a record without a tree of
//! values in between, which would cost more than the record itself.
//!
//! Promise: the text is the one that [`write_value`](crate::canonical::write_value) gives for the same value, with the same limits.

use serde::ser::{self, Serialize};
use serde_json::Value;

use crate::canonical::{ValueFault, deeper, name_order, write_integer, write_string};

/// Why something has no canonical text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderFault {
    #[error(transparent)]
    Value(#[from] ValueFault),
    /// Its own serialisation says no, or JSON has nothing like it.
    #[error("{0}")]
    Other(String),
}

impl ser::Error for RenderFault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        RenderFault::Other(message.to_string())
    }
}

type Done = Result<(), RenderFault>;

/// A member of an object: its name, and where in the text name and value begin.
pub(crate) struct Member {
    pub(crate) name: Name,
    pub(crate) at: usize,
    pub(crate) value: usize,
}

pub(crate) enum Name {
    Field(&'static str),
    Key(String),
}

impl Name {
    pub(crate) fn text(&self) -> &str {
        match self {
            Name::Field(name) => name,
            Name::Key(name) => name,
        }
    }
}

/// The text of an object whose members stand at level `depth`, and those members. The object's own members come in the order in which
/// they were given, everything within them in the right one.
pub(crate) fn object(object: &impl Serialize, depth: usize) -> Result<(Vec<u8>, Vec<Member>), RenderFault> {
    let outside = depth - 1;
    let mut render = Render { out: Vec::with_capacity(512), depth: outside, outside, members: Vec::with_capacity(16) };
    object.serialize(&mut render)?;
    if render.out.first() != Some(&b'{') {
        return Err(RenderFault::Other("it is no object".to_owned()));
    }
    Ok((render.out, render.members))
}

struct Render {
    out: Vec<u8>,
    /// The level of the object that holds the next value.
    depth: usize,
    /// The level outside of the outermost object, whose members are kept.
    outside: usize,
    /// Members of the objects that are open, the innermost last.
    members: Vec<Member>,
}

impl Render {
    /// Opens an object; returns where its members begin.
    fn open(&mut self) -> Result<usize, RenderFault> {
        self.depth = deeper(self.depth)?;
        self.out.push(b'{');
        Ok(self.members.len())
    }

    fn name(&mut self, first: usize, name: Name) {
        if self.members.len() > first {
            self.out.push(b',');
        }
        let at = self.out.len();
        write_string(&mut self.out, name.text());
        self.out.push(b':');
        self.members.push(Member { name, at, value: self.out.len() });
    }

    fn close(&mut self, first: usize) -> Done {
        self.depth -= 1;
        if self.depth != self.outside {
            let in_order = |left: &Member, right: &Member| name_order(left.name.text(), right.name.text()).is_lt();
            if !self.members[first..].is_sorted_by(in_order) {
                self.sort(first)?;
            }
            self.members.truncate(first);
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Brings the members of the innermost object, which end with the text, into order.
    fn sort(&mut self, first: usize) -> Done {
        let from = self.members[first].at;
        let as_given = self.out.split_off(from);
        let ends = self.members[first + 1..].iter().map(|next| next.at - 1 - from);
        let ends: Vec<usize> = ends.chain([as_given.len()]).collect();
        let mut members: Vec<(&str, &[u8])> = self.members[first..]
            .iter()
            .zip(ends)
            .map(|(member, end)| (member.name.text(), &as_given[member.at - from..end]))
            .collect();
        members.sort_by(|(left, _), (right, _)| name_order(left, right));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RenderFault::Other(format!("the name {:?} stands twice in one object", pair[0].0)));
        }
        for (index, (_, text)) in members.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(text);
        }
        Ok(())
    }

    fn negative_or_not(&mut self, integer: i64) -> Done {
        if integer < 0 {
            self.out.push(b'-');
        }
        Ok(write_integer(&mut self.out, integer.unsigned_abs())?)
    }
}

/// An array or an object that is being written, perhaps as the value of a variant.
struct Open<'a> {
    render: &'a mut Render,
    /// Of an object: where its members begin.
    first: usize,
    /// Of an array: nothing stands in it yet.
    is_empty: bool,
    /// Where the members of the object around it begin, whose only one names the variant.
    around: Option<usize>,
}

impl<'a> Open<'a> {
    fn array(render: &'a mut Render, around: Option<usize>) -> Result<Self, RenderFault> {
        render.depth = deeper(render.depth)?;
        render.out.push(b'[');
        Ok(Open { render, first: 0, is_empty: true, around })
    }

    fn object(render: &'a mut Render, around: Option<usize>) -> Result<Self, RenderFault> {
        let first = render.open()?;
        Ok(Open { render, first, is_empty: true, around })
    }

    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Done {
        if !self.is_empty {
            self.render.out.push(b',');
        }
        self.is_empty = false;
        item.serialize(&mut *self.render)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: Name, value: &T) -> Done {
        self.render.name(self.first, name);
        value.serialize(&mut *self.render)
    }

    fn end_array(self) -> Done {
        self.render.depth -= 1;
        self.render.out.push(b']');
        self.around.map_or(Ok(()), |first| self.render.close(first))
    }

    fn end_object(self) -> Done {
        self.render.close(self.first)?;
        self.around.map_or(Ok(()), |first| self.render.close(first))
    }
}

impl<'a> ser::Serializer for &'a mut Render {
    type Ok = ();
    type Error = RenderFault;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    fn serialize_bool(self, value: bool) -> Done {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }
    fn serialize_i8(self, value: i8) -> Done {
        self.negative_or_not(value.into())
    }
    fn serialize_i16(self, value: i16) -> Done {
        self.negative_or_not(value.into())
    }
    fn serialize_i32(self, value: i32) -> Done {
        self.negative_or_not(value.into())
    }
    fn serialize_i64(self, value: i64) -> Done {
        self.negative_or_not(value)
    }
    fn serialize_u8(self, value: u8) -> Done {
        self.serialize_u64(value.into())
    }
    fn serialize_u16(self, value: u16) -> Done {
        self.serialize_u64(value.into())
    }
    fn serialize_u32(self, value: u32) -> Done {
        self.serialize_u64(value.into())
    }
    fn serialize_u64(self, value: u64) -> Done {
        Ok(write_integer(&mut self.out, value)?)
    }
    fn serialize_f32(self, _value: f32) -> Done {
        Err(ValueFault::Float.into())
    }
    fn serialize_f64(self, _value: f64) -> Done {
        Err(ValueFault::Float.into())
    }
    fn serialize_char(self, value: char) -> Done {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, value: &str) -> Done {
        write_string(&mut self.out, value);
        Ok(())
    }
    fn serialize_bytes(self, _value: &[u8]) -> Done {
        Err(RenderFault::Other("JSON has no bytes".to_owned()))
    }
    fn serialize_none(self) -> Done {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Done {
        self.out.extend_from_slice(b"null");
        Ok(())
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Done {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Done {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Done {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        let first = self.open()?;
        self.name(first, Name::Field(variant));
        value.serialize(&mut *self)?;
        self.close(first)
    }
    fn serialize_seq(self, _len: Option<usize>) -> Result<Open<'a>, RenderFault> {
        Open::array(self, None)
    }
    fn serialize_tuple(self, _len: usize) -> Result<Open<'a>, RenderFault> {
        Open::array(self, None)
    }
    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Open<'a>, RenderFault> {
        Open::array(self, None)
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Open<'a>, RenderFault> {
        let around = self.open()?;
        self.name(around, Name::Field(variant));
        Open::array(self, Some(around))
    }
    fn serialize_map(self, _len: Option<usize>) -> Result<Open<'a>, RenderFault> {
        Open::object(self, None)
    }
    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Open<'a>, RenderFault> {
        Open::object(self, None)
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Open<'a>, RenderFault> {
        let around = self.open()?;
        self.name(around, Name::Field(variant));
        Open::object(self, Some(around))
    }
}

/// The same few words for each kind of list.
macro_rules! list {
    ($kind:ident, $add:ident) => {
        impl ser::$kind for Open<'_> {
            type Ok = ();
            type Error = RenderFault;
            fn $add<T: Serialize + ?Sized>(&mut self, item: &T) -> Done {
                self.item(item)
            }
            fn end(self) -> Done {
                self.end_array()
            }
        }
    };
}

list!(SerializeSeq, serialize_element);
list!(SerializeTuple, serialize_element);
list!(SerializeTupleStruct, serialize_field);
list!(SerializeTupleVariant, serialize_field);

macro_rules! fields {
    ($kind:ident) => {
        impl ser::$kind for Open<'_> {
            type Ok = ();
            type Error = RenderFault;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
                self.member(Name::Field(name), value)
            }
            fn end(self) -> Done {
                self.end_object()
            }
        }
    };
}

fields!(SerializeStruct);
fields!(SerializeStructVariant);

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = RenderFault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        match serde_json::to_value(key) {
            Ok(Value::String(name)) => {
                self.render.name(self.first, Name::Key(name));
                Ok(())
            }
            Ok(_) | Err(_) => Err(RenderFault::Other("a name is not a string".to_owned())),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(&mut *self.render)
    }

    fn end(self) -> Done {
        self.end_object()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::write_value;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Unit,
        Newtype(u8),
        Tuple(i64, bool),
        Struct { zeta: Option<char>, alpha: (), beta: [i32; 2] },
    }

    #[derive(serde::Serialize)]
    struct All {
        zeta: Vec<Kind>,
        names: BTreeMap<String, Option<u64>>,
        newtype: Wrapped,
        nothing: Nothing,
        alpha: (u16, &'static str),
    }

    #[derive(serde::Serialize)]
    struct Wrapped(String);

    #[derive(serde::Serialize)]
    struct Nothing;

    fn all() -> All {
        // U+1F600 comes before U+FB33 by UTF-16 and behind it by bytes.
        let names = ["\u{fb33}", "\u{1f600}", "\r", "a\"b", ""].map(|name| (name.to_owned(), Some(1)));
        let variant = Kind::Struct { zeta: Some('é'), alpha: (), beta: [-1, 0] };
        All {
            zeta: vec![Kind::Unit, Kind::Newtype(7), Kind::Tuple(-9_007_199_254_740_991, true), variant],
            names: names.into_iter().chain([("none".to_owned(), None)]).collect(),
            newtype: Wrapped("a\\\n\u{1}\u{7f}\u{2028}".to_owned()),
            nothing: Nothing,
            alpha: (65_535, "x"),
        }
    }

    #[derive(serde::Serialize)]
    struct Around<T>(BTreeMap<&'static str, T>);

    fn text_of(value: &impl Serialize) -> Result<String, RenderFault> {
        let (out, members) = object(&Around([("of", value)].into()), 1)?;
        assert_eq!((members.len(), members[0].at, members[0].value), (1, 1, 6));
        Ok(String::from_utf8(out[6..out.len() - 1].to_vec()).unwrap())
    }

    #[test]
    fn the_text_is_the_one_of_the_tree_of_values() {
        let mut tree = Vec::new();
        write_value(&mut tree, &serde_json::to_value(all()).unwrap(), 1).unwrap();
        assert_eq!(text_of(&all()).unwrap(), String::from_utf8(tree).unwrap());
        for value in [json!({}), json!([]), json!({"b": {}, "a": [[], {"d": 1, "c": null}]}), json!("")] {
            let mut tree = Vec::new();
            write_value(&mut tree, &value, 1).unwrap();
            assert_eq!(text_of(&value).unwrap(), String::from_utf8(tree).unwrap());
        }
    }

    #[test]
    fn the_members_of_the_outermost_object_stay_as_they_came() {
        let (out, members) = object(&all(), 1).unwrap();
        let names: Vec<_> = members.iter().map(|member| member.name.text()).collect();
        assert_eq!(names, ["zeta", "names", "newtype", "nothing", "alpha"]);
        let ends = members[1..].iter().map(|next| next.at - 1).chain([out.len() - 1]);
        let values =
            members.iter().zip(ends).map(|(member, end)| std::str::from_utf8(&out[member.value..end]).unwrap());
        assert_eq!(
            values.skip(2).collect::<Vec<_>>(),
            [r#""a\\\n\u0001"#.to_owned() + "\u{7f}\u{2028}\"", "null".to_owned(), "[65535,\"x\"]".to_owned()]
        );
    }

    #[test]
    fn limits_are_those_of_the_tree_of_values() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        for levels in crate::limits::DEPTH_MAX - 4..crate::limits::DEPTH_MAX + 4 {
            let tree = write_value(&mut Vec::new(), &nested(levels), 1);
            assert_eq!(text_of(&nested(levels)).is_ok(), tree.is_ok(), "{levels}");
        }
        assert!(matches!(text_of(&(1_u64 << 53)), Err(RenderFault::Value(ValueFault::Integer))));
        assert!(matches!(text_of(&-(1_i64 << 53)), Err(RenderFault::Value(ValueFault::Integer))));
        assert!(matches!(text_of(&0.5), Err(RenderFault::Value(ValueFault::Float))));
        assert!(matches!(text_of(&BTreeMap::from([(1, 2)])), Err(RenderFault::Other(_))));
        assert!(matches!(object(&[1], 1), Err(RenderFault::Other(_))));
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        struct Twice;
        impl Serialize for Twice {
            fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("a", &1)?;
                map.serialize_entry("a", &2)?;
                map.end()
            }
        }
        assert!(matches!(text_of(&Twice), Err(RenderFault::Other(_))));
    }
}
