//! A map that forgets those entries that were not used for some time.

use std::borrow::Borrow;
use std::hash::Hash;

use foldhash::HashMap;
use foldhash::fast::RandomState;

/// The entries are in two generations. When the newer one is full, it replaces the older one. So an
/// entry survives the use of `capacity` other entries after its own last use, but not the use of
/// twice as many. All memory is allocated at the start, so that a long run needs no more memory
/// than a short one.
#[derive(Debug)]
pub struct Recent<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
    capacity: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Makes an empty map; see the type for what `capacity` means.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let empty = || HashMap::with_capacity_and_hasher(capacity, RandomState::default());
        Self {
            newer: empty(),
            older: empty(),
            capacity,
        }
    }

    /// Returns the entry.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.newer.get(key).or_else(|| self.older.get(key))
    }

    /// Returns the entry of a key, and marks it as used.
    pub fn touch<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, value)) = self.older.remove_entry(key) {
            self.insert(key, value);
        }
        self.newer.get_mut(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.newer.values().chain(self.older.values())
    }

    /// Adds an entry for a key that is not in the map.
    pub fn insert(&mut self, key: K, value: V) {
        if self.newer.len() >= self.capacity {
            std::mem::swap(&mut self.newer, &mut self.older);
            self.newer.clear();
        }
        self.newer.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_used_stays_and_the_others_are_forgotten() {
        let mut recent = Recent::new(100);
        let allocated = recent.newer.capacity();
        for number in 0..10_000 {
            recent.insert(number, number);
            assert_eq!(recent.touch(&0).copied(), Some(0));
            assert_eq!(recent.get(&number), Some(&number));
            assert!(recent.newer.len() + recent.older.len() <= 200);
            assert_eq!(recent.newer.capacity(), allocated);
        }
        let left = (0..10_000).filter(|number| recent.get(number).is_some());
        assert!((100..=200).contains(&left.count()));
        assert_eq!(recent.get(&5_000), None);
    }
}
