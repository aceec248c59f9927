//! Objects by handle: an index and a generation in 32 bits, so that a handle of a removed object finds nothing.

/// The most objects of one table: indexes have 16 bits.
pub(crate) const TABLE_CAPACITY: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
}

#[derive(Debug)]
struct Slot<T> {
    handle: u32,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    /// Keeps `value` and returns its handle. `None` if the table is full. A handle is never 0.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[usize::from(index)];
            let generation = (slot.handle >> 16).wrapping_add(1) & 0xffff;
            slot.handle = generation.max(1) << 16 | u32::from(index);
            slot.value = Some(value);
            return Some(slot.handle);
        }
        let index = u16::try_from(self.slots.len()).ok()?;
        let handle = 1 << 16 | u32::from(index);
        self.slots.push(Slot {
            handle,
            value: Some(value),
        });
        Some(handle)
    }

    #[inline]
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        let slot = self.slots.get((handle & 0xffff) as usize)?;
        if slot.handle == handle {
            slot.value.as_ref()
        } else {
            None
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut((handle & 0xffff) as usize)?;
        if slot.handle == handle {
            slot.value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        let slot = self
            .slots
            .get_mut((handle & 0xffff) as usize)
            .filter(|slot| slot.handle == handle)?;
        let value = slot.value.take()?;
        self.free.push((handle & 0xffff) as u16);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .filter_map(|slot| Some((slot.handle, slot.value.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots
            .iter_mut()
            .filter_map(|slot| Some((slot.handle, slot.value.as_mut()?)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_a_removed_object_finds_nothing_even_when_its_place_is_reused() {
        let mut table = Table::default();
        let first = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_eq!(first & 0xffff, second & 0xffff);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert_eq!(table.remove(first), None);
    }

    #[test]
    fn no_handle_is_zero_and_a_full_table_reports_so() {
        let mut table = Table::default();
        for index in 0..TABLE_CAPACITY {
            assert_ne!(table.insert(index).unwrap(), 0);
        }
        assert_eq!(table.insert(0), None);
    }

    #[test]
    fn generations_wrap_around_without_reaching_zero() {
        let mut table = Table::default();
        for _ in 0..70_000 {
            let handle = table.insert(()).unwrap();
            assert_ne!(handle, 0);
            table.remove(handle);
        }
    }
}
