//! A map that remembers which rows a turn touched. The turn works on its own tables; when its records are durable
//! the touched rows are copied to the view, when the write failed they are copied back from it. So undo and publish
//! are one mechanism, and neither costs more than what changed.
//!
//! Until it is published first, a table keeps no journal: all of it is what the view lacks. A fold would otherwise
//! remember every key of the whole history.

use std::collections::{BTreeMap, BTreeSet};

/// An ordered map with a journal of touched keys.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// None as long as there is no view of it.
    touched: Option<BTreeSet<K>>,
}

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), touched: None }
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Table<K, V> {
    /// Two tables are equal if their rows are; the journal is no part of the state.
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    /// The row of this key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// The row of this key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        touch(&mut self.touched, key);
        Some(row)
    }

    /// Puts a row, replacing an older one.
    pub fn insert(&mut self, key: K, value: V) {
        touch(&mut self.touched, &key);
        self.rows.insert(key, value);
    }

    /// Takes a row away.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.rows.remove(key)?;
        touch(&mut self.touched, key);
        Some(old)
    }

    /// All rows in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// All values in key order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.rows.values()
    }

    /// The rows after `key`, or all of them for `None`.
    pub fn after(&self, key: Option<&K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        use std::ops::Bound;
        let lower = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows.range((lower, Bound::Unbounded))
    }

    /// The rows from `key` on.
    pub fn from(&self, key: &K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(key..)
    }

    /// The rows before `key`, or all of them for `None`.
    pub fn before(&self, key: Option<&K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        use std::ops::Bound;
        let upper = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows.range((Bound::Unbounded, upper))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes the rows that `self` touched in `other` what they are in `self`; from now on it keeps a journal.
    pub fn publish(&mut self, other: &mut Self) {
        match self.touched.replace(BTreeSet::new()) {
            Some(touched) => copy(touched, &self.rows, &mut other.rows),
            None => other.rows.clone_from(&self.rows),
        }
    }

    /// Makes the rows that `self` touched what they are in `other`.
    pub fn revert(&mut self, other: &Self) {
        match self.touched.replace(BTreeSet::new()) {
            Some(touched) => copy(touched, &other.rows, &mut self.rows),
            None => self.rows.clone_from(&other.rows),
        }
    }
}

fn touch<K: Ord + Clone>(journal: &mut Option<BTreeSet<K>>, key: &K) {
    if let Some(touched) = journal {
        touched.insert(key.clone());
    }
}

fn copy<K: Ord, V: Clone>(keys: BTreeSet<K>, from: &BTreeMap<K, V>, to: &mut BTreeMap<K, V>) {
    for key in keys {
        match from.get(&key) {
            Some(row) => to.insert(key, row.clone()),
            None => to.remove(&key),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_and_revert_move_exactly_what_was_touched() {
        let mut work: Table<u8, &str> = Table::default();
        let mut view = Table::default();
        work.insert(1, "one");
        work.insert(2, "two");
        work.publish(&mut view);
        assert_eq!(work, view);

        work.insert(3, "three");
        work.remove(&1);
        *work.get_mut(&2).unwrap() = "deux";
        assert_eq!(view.get(&1), Some(&"one"), "the view does not see a turn before it is published");
        work.revert(&view);
        assert_eq!(work, view);
        assert_eq!(work.get(&2), Some(&"two"));

        work.remove(&2);
        work.publish(&mut view);
        assert_eq!(view.iter().collect::<Vec<_>>(), [(&1, &"one")]);
    }

    #[test]
    fn a_table_without_a_view_remembers_no_key_and_is_published_as_a_whole() {
        let mut folded: Table<u8, &str> = Table::default();
        folded.insert(1, "one");
        folded.insert(2, "two");
        folded.remove(&1);
        *folded.get_mut(&2).unwrap() = "deux";
        assert_eq!(folded.touched, None);
        let mut view = Table::default();
        view.insert(9, "of another");
        folded.publish(&mut view);
        assert_eq!((&folded, folded.touched.as_ref()), (&view, Some(&BTreeSet::new())));
        folded.remove(&2);
        assert_eq!(folded.touched, Some(BTreeSet::from([2])));

        let mut work: Table<u8, &str> = Table::default();
        work.insert(1, "one");
        work.revert(&view);
        assert_eq!(work, view, "what was never published is undone as a whole");
    }
}
