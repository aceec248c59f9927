//! A map of bounded size, which forgets by a clock.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use super::clock::Clock;

/// Values by key, of bounded size. A value that was requested since the hand of the clock last passed it stays.
#[derive(Clone, Debug)]
pub(crate) struct ClockMap<K, V, H> {
    size_max: u64,
    size: u64,
    index: HashMap<K, usize, H>,
    slots: Vec<Slot<K, V>>,
    clock: Clock,
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    size: u64,
    was_asked: bool,
}

impl<K: Clone + Eq + Hash, V, H: BuildHasher + Default> ClockMap<K, V, H> {
    /// An empty map for values of at most `size_max` together.
    pub fn new(size_max: u64) -> Self {
        Self {
            size_max,
            size: 0,
            index: HashMap::default(),
            slots: Vec::new(),
            clock: Clock::default(),
        }
    }

    /// The size of the values that have room.
    pub fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.size_max);
    }

    /// The value of a key, which stays for another round of the hand.
    #[inline]
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let slot = &mut self.slots[*self.index.get(key)?];
        slot.was_asked = true;
        Some(&mut slot.value)
    }

    /// Gives a key a value, and returns the previous value. A value that is larger than the map is returned, too.
    pub fn put(&mut self, key: K, value: V, size: u64) -> Option<V> {
        let before = self.remove(&key);
        if size > self.size_max {
            return Some(value);
        }
        while self.size + size > self.size_max {
            let slots = &mut self.slots;
            let forgotten = self.clock.next(slots.len(), |index| {
                std::mem::take(&mut slots[index].was_asked)
            });
            self.take(forgotten.expect("nothing has to stay"));
        }
        self.size += size;
        self.index.insert(key.clone(), self.slots.len());
        self.slots.push(Slot {
            key,
            value,
            size,
            was_asked: false,
        });
        before
    }

    /// Forgets the value of a key.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let index = *self.index.get(key)?;
        Some(self.take(index))
    }

    fn take(&mut self, index: usize) -> V {
        let gone = self.slots.swap_remove(index);
        self.index.remove(&gone.key);
        self.size -= gone.size;
        if let Some(moved) = self.slots.get(index) {
            self.index.insert(moved.key.clone(), index);
        }
        gone.value
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    type Map = ClockMap<u64, u64, BuildHasherDefault<DefaultHasher>>;

    #[test]
    fn values_that_are_asked_for_stay_and_the_map_never_outgrows_its_size() {
        let mut map = Map::new(4);
        for key in 0..100 {
            assert_eq!(map.put(key, key * 2, 1), None);
            assert!(map.slots.len() <= 4 && map.size <= 4);
            assert_eq!(map.get(&0), Some(&mut 0), "{key}");
            assert!(map.index.contains_key(&key));
        }
        assert_eq!(map.put(0, 7, 2), Some(0));
        assert_eq!(map.get(&0), Some(&mut 7));
        assert!(map.size <= 4);
        assert_eq!(map.put(5, 8, 5), Some(8), "it is larger than the map");
        assert_eq!(map.remove(&0), Some(7));
        assert_eq!(map.get(&0), None);
        map.clear();
        assert_eq!((map.size, map.get(&99)), (0, None));
    }
}
