//! Registered memory and the keys that open it.

use std::rc::Rc;
use std::task::Waker;

use stonecast_base::Span;
use stonecast_fabric::{Access, DeviceError, LocalSpan, MemoryRegion, RemoteAddress, Rkey, Status};
use stonecast_media::{PersistentRegion, Region};

use super::responder::line_of;
use super::{Key, Net, Registered};
use crate::faults::Fault;

/// Steps between rkeys, so that a guess from one to the next is wrong. Odd, so that numbers repeat only after 2^32.
const KEY_STRIDE: u32 = 0x9e37_79b1;
/// Its inverse modulo 2^32.
const KEY_STRIDE_INVERSE: u32 = {
    // Newton's iteration doubles the number of right bits; a number is its own inverse modulo 8.
    let mut inverse = KEY_STRIDE;
    let mut bits = 3;
    while bits < 32 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(KEY_STRIDE.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
};
const _: () = assert!(KEY_STRIDE.wrapping_mul(KEY_STRIDE_INVERSE) == 1);
/// Regions start at multiples of this, with a gap between them that no key opens.
const ADDRESS_GRAIN: u64 = 4096;

/// Where a remote address leads.
pub(super) struct Target {
    pub region: u32,
    pub offset: u64,
    pub key: u32,
}

impl Net {
    /// Registers memory.
    pub fn register(
        &mut self,
        context: u32,
        memory: Rc<dyn Region>,
        persistent: Option<Rc<dyn PersistentRegion>>,
        access: Access,
    ) -> MemoryRegion {
        let space = persistent
            .as_ref()
            .and_then(|memory| self.time.space_of(|| memory.prefetch(0, 0)));
        let state = &mut self.contexts[context as usize];
        let (size, address) = (memory.size(), state.next_address);
        state.next_address += (size + 2 * ADDRESS_GRAIN) & !(ADDRESS_GRAIN - 1);
        let region = state.regions.len() as u32;
        state.regions.push(Some(Registered {
            memory,
            persistent,
            space,
            address,
            size,
            keys: 0,
        }));
        let rkey = self.add_key(context, region, address, 0, size, access, None);
        MemoryRegion {
            index: region,
            address,
            size,
            rkey,
        }
    }

    /// Ends a registration.
    pub fn deregister(&mut self, context: u32, region: MemoryRegion) -> Result<(), DeviceError> {
        let missing = DeviceError::NoSuch {
            what: "memory region",
            index: u64::from(region.index),
        };
        let slot = self.contexts[context as usize]
            .regions
            .get_mut(region.index as usize)
            .ok_or(missing)?;
        if slot.as_ref().is_some_and(|registered| registered.keys > 0) {
            return Err(DeviceError::Malformed {
                reason: "a key still opens the region",
            });
        }
        slot.take().map(drop).ok_or(DeviceError::NoSuch {
            what: "memory region",
            index: u64::from(region.index),
        })
    }

    /// Opens a part of a region to the peer of a queue pair.
    pub fn bind_window(
        &mut self,
        context: u32,
        qp: u32,
        region: MemoryRegion,
        span: Span,
        access: Access,
    ) -> Result<Rkey, DeviceError> {
        let missing = DeviceError::NoSuch {
            what: "memory region",
            index: u64::from(region.index),
        };
        let registered = self.registered(context, region.index).ok_or(missing)?;
        if !span.fits(registered.size) {
            return Err(DeviceError::Malformed {
                reason: "the window leaves its region",
            });
        }
        let address = registered.address + span.offset;
        let rkey = self.add_key(
            context,
            region.index,
            address,
            span.offset,
            span.size,
            access,
            Some(qp),
        );
        let key = self.key_index(rkey).expect("just made");
        self.qp(qp)
            .expect("looked up by the caller")
            .windows
            .push(key);
        Ok(rkey)
    }

    /// Revokes a key; false while messages that passed its check are in flight: `waker` is called when there are none.
    pub fn invalidate(
        &mut self,
        context: u32,
        rkey: Rkey,
        waker: &Waker,
    ) -> Result<bool, DeviceError> {
        let index = self
            .key_index(rkey)
            .filter(|&index| self.keys[index as usize].context == context);
        let index = index.ok_or(DeviceError::NoSuch {
            what: "key",
            index: u64::from(rkey.0),
        })?;
        self.shut(index);
        let key = &mut self.keys[index as usize];
        if key.in_flight > 0 {
            self.faults.hit(Fault::LeaseEndInFlight);
            key.waiting = Some(waker.clone());
            return Ok(false);
        }
        Ok(true)
    }

    /// Makes a key open nothing more.
    pub(super) fn shut(&mut self, index: u32) {
        let key = &mut self.keys[index as usize];
        if std::mem::take(&mut key.valid) {
            let (context, region) = (key.context, key.region);
            if let Some(registered) = &mut self.contexts[context as usize].regions[region as usize]
            {
                registered.keys -= 1;
            }
        }
    }

    /// The message that passed the check of a key had its effect, or will have none.
    pub(super) fn leave_key(&mut self, index: u32) {
        let key = &mut self.keys[index as usize];
        key.in_flight -= 1;
        if key.in_flight == 0 {
            self.wakers.extend(key.waiting.take());
        }
    }

    /// Where `size` bytes at `remote` are, if the peer of queue pair `to` may use them so.
    pub(super) fn resolve(
        &self,
        to: u32,
        remote: RemoteAddress,
        size: u64,
        right: Access,
    ) -> Result<Target, Status> {
        let index = self.key_index(remote.rkey).ok_or(Status::RemoteAccess)?;
        let key = &self.keys[index as usize];
        let qp = self.qps[to as usize].as_ref().ok_or(Status::RemoteAccess)?;
        let opens = key.valid
            && key.context == qp.context
            && key.qp.is_none_or(|of| of == to)
            && key.access.grants(right);
        if !key.valid && key.context == qp.context {
            self.faults.hit(Fault::RevokedAccess);
        }
        let start = remote.address.checked_sub(key.address);
        match start.filter(|&start| opens && Span::new(start, size).fits(key.size)) {
            Some(start) => Ok(Target {
                region: key.region,
                offset: key.offset + start,
                key: index,
            }),
            None => Err(Status::RemoteAccess),
        }
    }

    /// What the NIC of `machine` has taken and not yet placed in memory `space`: offsets and bytes, in order. With
    /// `next_only`, of each queue pair what is placed next.
    pub fn in_flight(&self, machine: u32, space: u32, next_only: bool) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        for qp in self.qps.iter().flatten() {
            let context = &self.contexts[qp.context as usize];
            if context.machine != machine || context.dead {
                continue;
            }
            for &index in qp
                .placing
                .iter()
                .take(if next_only { 1 } else { usize::MAX })
            {
                let message = &self.messages[index as usize];
                let registered = self.registered(qp.context, message.region);
                let there = registered.is_some_and(|registered| registered.space == Some(space));
                if !there {
                    continue;
                }
                if let Some(lines) = &message.scattered {
                    let parts = lines.iter().map(|&line| line_of(message, line));
                    found.extend(parts.map(|part| {
                        (
                            message.offset + part.start as u64,
                            message.payload[part].to_vec(),
                        )
                    }));
                    continue;
                }
                let rest = &message.payload[message.done as usize..];
                if !rest.is_empty() {
                    found.push((message.offset + u64::from(message.done), rest.to_vec()));
                }
            }
        }
        found
    }

    /// A registered region.
    pub fn registered(&self, context: u32, region: u32) -> Option<&Registered> {
        self.contexts[context as usize]
            .regions
            .get(region as usize)?
            .as_ref()
    }

    /// The region of a local span that lies inside it, whatever size the handle claims.
    pub fn local(&self, context: u32, span: LocalSpan) -> Option<&Registered> {
        let registered = self.registered(context, span.region.index)?;
        Span::new(span.offset, span.size.into())
            .fits(registered.size)
            .then_some(registered)
    }

    #[expect(clippy::too_many_arguments, reason = "a key is these facts")]
    fn add_key(
        &mut self,
        context: u32,
        region: u32,
        address: u64,
        offset: u64,
        size: u64,
        access: Access,
        qp: Option<u32>,
    ) -> Rkey {
        let index = self.keys.len() as u32;
        self.keys.push(Key {
            context,
            region,
            address,
            offset,
            size,
            access,
            qp,
            valid: true,
            in_flight: 0,
            waiting: None,
        });
        if let Some(registered) = &mut self.contexts[context as usize].regions[region as usize] {
            registered.keys += 1;
        }
        Rkey(index.wrapping_mul(KEY_STRIDE).wrapping_add(self.key_offset))
    }

    fn key_index(&self, rkey: Rkey) -> Option<u32> {
        let index = rkey
            .0
            .wrapping_sub(self.key_offset)
            .wrapping_mul(KEY_STRIDE_INVERSE);
        ((index as usize) < self.keys.len()).then_some(index)
    }
}
