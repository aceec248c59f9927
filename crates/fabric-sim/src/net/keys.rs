//! Remote keys: the memory that each opens, the peers it is opened to, and the messages in transit through it.

use std::ops::{Index, IndexMut};
use std::task::Waker;

use stonecast_base::Span;
use stonecast_fabric::{Access, RemoteAddress, Rkey};

/// Step between rkeys, so that a guess from one to the next is wrong. Odd, so that numbers repeat only after 2^32.
const KEY_STRIDE: u32 = 0x9e37_79b1;
/// The inverse of the step modulo 2^32.
const KEY_STRIDE_INVERSE: u32 = {
    // Newton's iteration doubles the number of correct bits; an odd number is its own inverse modulo 8.
    let mut inverse = KEY_STRIDE;
    let mut bits = 3;
    while bits < 32 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(KEY_STRIDE.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
};
const _: () = assert!(KEY_STRIDE.wrapping_mul(KEY_STRIDE_INVERSE) == 1);

/// The memory that a key opens.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    pub context: u32,
    pub region: u32,
    /// Remote address of the first byte.
    pub address: u64,
    /// Offset of the first byte in the region.
    pub offset: u64,
    pub size: u64,
    pub access: Access,
    /// The queue pair of a window.
    pub qp: Option<u32>,
}

/// The state of an rkey.
pub(super) struct Key {
    pub opening: Opening,
    pub valid: bool,
    /// Messages that passed the check and have not had their effect.
    in_flight: u32,
    /// The waker to call when no message is in flight.
    waiting: Option<Waker>,
}

/// All keys that were ever made, by number.
pub(super) struct Keys {
    keys: Vec<Key>,
    /// The offset from which rkeys are computed.
    offset: u32,
}

impl Keys {
    pub fn new(offset: u32) -> Self {
        Self {
            keys: Vec::new(),
            offset,
        }
    }

    /// Makes a key.
    pub fn add(&mut self, opening: Opening) -> Rkey {
        let index = self.keys.len() as u32;
        self.keys.push(Key {
            opening,
            valid: true,
            in_flight: 0,
            waiting: None,
        });
        Rkey(index.wrapping_mul(KEY_STRIDE).wrapping_add(self.offset))
    }

    /// The number of a key.
    pub fn index(&self, rkey: Rkey) -> Option<u32> {
        let index = rkey
            .0
            .wrapping_sub(self.offset)
            .wrapping_mul(KEY_STRIDE_INVERSE);
        ((index as usize) < self.keys.len()).then_some(index)
    }

    /// Notes that a message has passed the check of key `index`.
    pub fn enter(&mut self, index: u32) {
        self[index].in_flight += 1;
    }

    /// Notes that a message that passed the check of key `index` had its effect, or will have none. Returns the waker
    /// to call.
    pub fn leave(&mut self, index: u32) -> Option<Waker> {
        let key = &mut self[index];
        key.in_flight -= 1;
        if key.in_flight == 0 {
            key.waiting.take()
        } else {
            None
        }
    }

    /// Whether messages are in flight through key `index`; if so, `waker` is called when there are none.
    pub fn wait(&mut self, index: u32, waker: &Waker) -> bool {
        let key = &mut self[index];
        let waits = key.in_flight > 0;
        if waits {
            key.waiting = Some(waker.clone());
        }
        waits
    }
}

impl Index<u32> for Keys {
    type Output = Key;

    fn index(&self, index: u32) -> &Key {
        &self.keys[index as usize]
    }
}

impl IndexMut<u32> for Keys {
    fn index_mut(&mut self, index: u32) -> &mut Key {
        &mut self.keys[index as usize]
    }
}

impl Key {
    /// The offset in the region that `remote` names, if the key opens `size` bytes from there to the peer of queue pair
    /// `qp` of `context`.
    pub fn resolve(
        &self,
        (context, qp): (u32, u32),
        remote: RemoteAddress,
        size: u64,
        right: Access,
    ) -> Option<u64> {
        let opening = &self.opening;
        let opens = self.valid
            && opening.context == context
            && opening.qp.is_none_or(|of| of == qp)
            && opening.access.grants(right);
        let start = remote.address.checked_sub(opening.address)?;
        (opens && Span::new(start, size).fits(opening.size)).then_some(opening.offset + start)
    }
}
