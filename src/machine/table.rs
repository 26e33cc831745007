//! A map that remembers which rows a turn touched. The turn works on its own tables; when its records are durable
//! the touched rows are copied to the view, when the write failed they are copied back from it. So undo and publish
//! are one mechanism, and neither costs more than what changed.

use std::collections::{BTreeMap, BTreeSet};

/// An ordered map with a journal of touched keys.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    touched: BTreeSet<K>,
}

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), touched: BTreeSet::new() }
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
        self.touched.insert(key.clone());
        Some(row)
    }

    /// Puts a row, replacing an older one.
    pub fn insert(&mut self, key: K, value: V) {
        self.touched.insert(key.clone());
        self.rows.insert(key, value);
    }

    /// Takes a row away.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.rows.remove(key)?;
        self.touched.insert(key.clone());
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

    /// Makes the rows that `self` touched in `other` what they are in `self`.
    pub fn publish(&mut self, other: &mut Self) {
        for key in std::mem::take(&mut self.touched) {
            match self.rows.get(&key) {
                Some(row) => other.rows.insert(key, row.clone()),
                None => other.rows.remove(&key),
            };
        }
    }

    /// Makes the rows that `self` touched what they are in `other`.
    pub fn revert(&mut self, other: &Self) {
        for key in std::mem::take(&mut self.touched) {
            match other.rows.get(&key) {
                Some(row) => self.rows.insert(key, row.clone()),
                None => self.rows.remove(&key),
            };
        }
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
}
