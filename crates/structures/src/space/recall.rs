//! The places that a walk of a writer asks for: known ones without a READ, the others from the pool.

use stonecast_base::Span;

use super::image::Image;
use crate::shapes::{Place, Places};

/// The bytes of one step of a walk. The memory is used again for the next step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recall {
    buffers: Vec<Vec<u8>>,
    used: usize,
    /// Places that were not known, and their buffers.
    missing: Vec<(usize, Span)>,
}

impl Recall {
    /// The bytes of the step.
    pub fn bytes(&self) -> &[Vec<u8>] {
        &self.buffers[..self.used]
    }

    /// Forgets an earlier walk.
    pub fn begin(&mut self) {
        self.used = 0;
        self.missing.clear();
    }

    /// Takes the places of the next step. Returns those that have to be read; `None`: all of them are known.
    pub(super) fn ask(&mut self, image: &mut Image, places: &[Place]) -> Option<Places> {
        self.begin();
        for Place { span, .. } in places {
            if self.used == self.buffers.len() {
                self.buffers.push(Vec::new());
            }
            let buffer = &mut self.buffers[self.used];
            buffer.resize(span.size as usize, 0);
            if !image.recall(*span, buffer) {
                self.missing.push((self.used, *span));
            }
            self.used += 1;
        }
        let missing = self.missing.iter();
        let missing: Places = missing.map(|(_, span)| Place::last(*span)).collect();
        (!missing.is_empty()).then_some(missing)
    }

    /// Takes the bytes of the missing places.
    pub(super) fn take(&mut self, image: &mut Image, read: &[Vec<u8>]) {
        for ((index, span), read) in self.missing.drain(..).zip(read) {
            let buffer = &mut self.buffers[index];
            buffer.clear();
            buffer.extend_from_slice(read);
            image.learn(span, buffer);
        }
    }
}
