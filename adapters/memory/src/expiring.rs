use std::hash::Hash;

use domain::Timestamp;
use foldhash::fast::RandomState;
use indexmap::IndexMap;

/// Number of entries that each insertion checks for expiry. More than one, so that the sweep is faster than growth:
/// once the number of entries has doubled, all entries that had expired are removed.
const SWEEP_LEN: usize = 2;

/// A map with an expiry time per entry and a bounded number of entries.
///
/// There is no background task and no pause: each insertion moves a hand over the next few entries and removes the
/// expired ones. When the map is full of live entries, a new key replaces the entry at the hand.
#[derive(Debug)]
pub(crate) struct ExpiringMap<K, V> {
    entries: IndexMap<K, ExpiringEntry<V>, RandomState>,
    hand: usize,
    len_max: usize,
}

#[derive(Debug)]
struct ExpiringEntry<V> {
    value: V,
    expires_at: Timestamp,
}

impl<K: Hash + Eq, V> ExpiringMap<K, V> {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { entries: IndexMap::default(), hand: 0, len_max }
    }

    /// The value of a key, unless it has expired.
    pub(crate) fn get(&self, key: &K, now: Timestamp) -> Option<&V> {
        self.entries.get(key).filter(|entry| entry.expires_at > now).map(|entry| &entry.value)
    }

    /// All values that have not expired.
    pub(crate) fn values(&self, now: Timestamp) -> impl Iterator<Item = &V> {
        self.entries.values().filter(move |entry| entry.expires_at > now).map(|entry| &entry.value)
    }

    /// Sets the value of a key and its expiry time.
    pub(crate) fn insert(&mut self, key: K, value: V, expires_at: Timestamp, now: Timestamp) {
        self.sweep(now);
        if self.entries.len() >= self.len_max && !self.entries.contains_key(&key) {
            self.hand %= self.entries.len();
            self.entries.swap_remove_index(self.hand);
        }
        self.entries.insert(key, ExpiringEntry { value, expires_at });
    }

    /// Removes a key and returns its value, unless it has expired.
    pub(crate) fn remove(&mut self, key: &K, now: Timestamp) -> Option<V> {
        self.entries.swap_remove(key).filter(|entry| entry.expires_at > now).map(|entry| entry.value)
    }

    fn sweep(&mut self, now: Timestamp) {
        for _ in 0..SWEEP_LEN {
            match self.entries.get_index(self.hand) {
                // `swap_remove` moves the last entry here; the next iteration checks it.
                Some((_, entry)) if entry.expires_at <= now => {
                    self.entries.swap_remove_index(self.hand);
                }
                Some(_) => self.hand += 1,
                None => self.hand = 0,
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn an_entry_is_void_from_its_moment_on() {
        let mut map = ExpiringMap::new(10);
        map.insert("ticket", 7, at(100), at(0));
        assert_eq!(map.get(&"ticket", at(99)), Some(&7));
        assert_eq!(map.get(&"ticket", at(100)), None);
        assert_eq!(map.remove(&"ticket", at(100)), None);
    }

    #[test]
    fn entries_of_the_past_are_gone_after_as_many_insertions() {
        let mut map = ExpiringMap::new(10_000);
        for key in 0..1000 {
            map.insert(key, (), at(100), at(0));
        }
        for key in 1000..2001 {
            map.insert(key, (), at(300), at(200));
        }
        assert_eq!(map.len(), 1001);
    }

    #[test]
    fn a_full_map_gives_up_an_old_entry_for_a_new_one() {
        let mut map = ExpiringMap::new(3);
        for key in 0..100 {
            map.insert(key, (), at(1000), at(0));
            assert!(map.len() <= 3);
            assert_eq!(map.get(&key, at(0)), Some(&()), "the newest is there");
        }
    }

    #[test]
    fn an_existing_key_displaces_no_other() {
        let mut map = ExpiringMap::new(3);
        for key in [1, 2, 3, 1, 1, 1, 1, 1] {
            map.insert(key, (), at(1000), at(0));
        }
        assert!([1, 2, 3].iter().all(|key| map.get(key, at(0)).is_some()));
    }
}
