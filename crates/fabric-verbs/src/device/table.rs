//! Objects by their handles. A handle is never reused, so a stale handle finds nothing instead of another object.

use stonecast_fabric::DeviceError;

pub(super) struct Table<T> {
    /// The kind of its objects, for errors.
    what: &'static str,
    slots: Vec<Option<Box<T>>>,
}

impl<T> Table<T> {
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            slots: Vec::new(),
        }
    }

    pub fn insert(&mut self, object: T) -> u32 {
        self.slots.push(Some(Box::new(object)));
        u32::try_from(self.slots.len() - 1).expect("memory ends before 2^32 objects were made")
    }

    /// The handle that the next object will have.
    pub fn next_handle(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("memory ends before 2^32 objects were made")
    }

    pub fn get(&self, handle: u32) -> Result<&T, DeviceError> {
        self.slots
            .get(handle as usize)
            .and_then(Option::as_deref)
            .ok_or(self.no_such(handle))
    }

    pub fn get_mut(&mut self, handle: u32) -> Result<&mut T, DeviceError> {
        let missing = self.no_such(handle);
        self.slots
            .get_mut(handle as usize)
            .and_then(Option::as_deref_mut)
            .ok_or(missing)
    }

    pub fn remove(&mut self, handle: u32) -> Result<T, DeviceError> {
        let missing = self.no_such(handle);
        self.slots
            .get_mut(handle as usize)
            .and_then(Option::take)
            .map(|object| *object)
            .ok_or(missing)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(&self.slots)
            .filter_map(|(handle, slot)| Some((handle, slot.as_deref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    fn no_such(&self, handle: u32) -> DeviceError {
        DeviceError::NoSuch {
            what: self.what,
            index: handle.into(),
        }
    }
}
