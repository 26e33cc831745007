//! Cursors of lists, kept by the broker. A page is where the one before ended, whatever has been deleted since.
//!
//! Promises: at most 256, the oldest goes without anything failing; none lives longer than 15 minutes; a cursor means
//! something only to the caller that got it; whatever is not known (any more) is `expired_cursor`.

use std::collections::VecDeque;

use super::error::{ErrorCode, WireError};
use super::wire::Identity;
use crate::os::entropy;

/// Cursors kept.
pub const CURSORS_MAX: usize = 256;
/// Their longest life, microseconds.
pub const CURSOR_LIFE_US: u64 = 15 * 60 * 1_000_000;

/// The cursors of one broker. `T` is what a list needs to go on.
#[derive(Debug)]
pub struct Cursors<T> {
    /// Oldest first.
    entries: VecDeque<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    text: String,
    owner: Identity,
    until_us: u64,
    at: T,
}

impl<T> Default for Cursors<T> {
    fn default() -> Cursors<T> {
        Cursors { entries: VecDeque::new() }
    }
}

impl<T: Clone> Cursors<T> {
    /// Remembers where a list of this caller goes on and returns the cursor. `now_us` is boot time.
    pub fn keep(&mut self, owner: &Identity, at: T, now_us: u64) -> String {
        self.drop_old(now_us);
        if self.entries.len() >= CURSORS_MAX {
            self.entries.pop_front();
        }
        let text = entropy::hex::<16>();
        let until_us = now_us.saturating_add(CURSOR_LIFE_US);
        self.entries.push_back(Entry { text: text.clone(), owner: owner.clone(), until_us, at });
        text
    }

    /// Where the list goes on. The cursor stays, so that a page whose answer was lost can be asked for again.
    ///
    /// # Errors
    /// `expired_cursor`.
    pub fn find(&mut self, owner: &Identity, text: &str, now_us: u64) -> Result<T, WireError> {
        self.drop_old(now_us);
        let entry = self.entries.iter().find(|entry| entry.text == text && entry.owner == *owner);
        let expired = || WireError::new(ErrorCode::ExpiredCursor, "the cursor is no longer known; list from the start");
        entry.map(|entry| entry.at.clone()).ok_or_else(expired)
    }

    fn drop_old(&mut self, now_us: u64) {
        while self.entries.front().is_some_and(|entry| entry.until_us <= now_us) {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_257th_evicts_the_oldest_and_nothing_fails() {
        let mut cursors = Cursors::default();
        let texts: Vec<String> = (0..257).map(|at| cursors.keep(&Identity::Owner, at, 0)).collect();
        let error = cursors.find(&Identity::Owner, &texts[0], 0).unwrap_err();
        assert_eq!(error.code, ErrorCode::ExpiredCursor);
        for (at, text) in texts.iter().enumerate().skip(1) {
            assert_eq!(cursors.find(&Identity::Owner, text, 0).unwrap(), at);
            assert_eq!(cursors.find(&Identity::Owner, text, 0).unwrap(), at, "it may be asked again");
        }
    }

    #[test]
    fn a_cursor_ends_with_its_time_and_is_its_callers_own() {
        let mut cursors = Cursors::default();
        let text = cursors.keep(&Identity::Owner, 1, 100);
        assert!(cursors.find(&Identity::Session("a".into()), &text, 100).is_err());
        assert_eq!(cursors.find(&Identity::Owner, &text, 99 + CURSOR_LIFE_US).unwrap(), 1);
        assert!(cursors.find(&Identity::Owner, &text, 100 + CURSOR_LIFE_US).is_err());
        assert!(cursors.find(&Identity::Owner, "nonsense", 0).is_err());
        assert!(cursors.entries.is_empty());
    }
}
