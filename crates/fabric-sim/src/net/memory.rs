//! Registered memory and the keys that open it.

use std::rc::Rc;
use std::task::Waker;

use stonecast_base::Span;
use stonecast_fabric::{Access, DeviceError, LocalSpan, MemoryRegion, RemoteAddress, Rkey, Status};
use stonecast_media::{PersistentRegion, Region};

use super::keys::Opening;
use super::{Net, Registered};
use crate::faults::Fault;

/// Regions start at multiples of this, with a gap between them that no key opens.
const ADDRESS_GRAIN: u64 = 4096;

/// The target of a remote address.
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
        let rkey = self.add_key(Opening {
            context,
            region,
            address,
            offset: 0,
            size,
            access,
            qp: None,
        });
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
        let rkey = self.add_key(Opening {
            context,
            region: region.index,
            address,
            offset: span.offset,
            size: span.size,
            access,
            qp: Some(qp),
        });
        let key = self.keys.index(rkey).expect("just made");
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
            .keys
            .index(rkey)
            .filter(|&index| self.keys[index].opening.context == context);
        let index = index.ok_or(DeviceError::NoSuch {
            what: "key",
            index: u64::from(rkey.0),
        })?;
        self.shut(index);
        let waits = self.keys.wait(index, waker);
        if waits {
            self.faults.hit(Fault::LeaseEndInFlight);
        }
        Ok(!waits)
    }

    /// Closes a key.
    pub(super) fn shut(&mut self, index: u32) {
        let key = &mut self.keys[index];
        if std::mem::take(&mut key.valid) {
            let Opening {
                context, region, ..
            } = key.opening;
            if let Some(registered) = &mut self.contexts[context as usize].regions[region as usize]
            {
                registered.keys -= 1;
            }
        }
    }

    /// Notes that a message that passed the check of a key had its effect, or will have none.
    pub(super) fn leave_key(&mut self, index: u32) {
        self.news.wakers.extend(self.keys.leave(index));
    }

    /// The place of `size` bytes at `remote`, if the peer of queue pair `to` may use them in this way.
    pub(super) fn resolve(
        &self,
        to: u32,
        remote: RemoteAddress,
        size: u64,
        right: Access,
    ) -> Result<Target, Status> {
        let index = self.keys.index(remote.rkey).ok_or(Status::RemoteAccess)?;
        let key = &self.keys[index];
        let qp = self.qps[to as usize].as_ref().ok_or(Status::RemoteAccess)?;
        if !key.valid && key.opening.context == qp.context {
            self.faults.hit(Fault::RevokedAccess);
        }
        let offset = key
            .resolve((qp.context, to), remote, size, right)
            .ok_or(Status::RemoteAccess)?;
        Ok(Target {
            region: key.opening.region,
            offset,
            key: index,
        })
    }

    /// The data that the NIC of `machine` has taken and not yet placed in memory `space`: offsets and bytes, in order.
    /// With `next_only`, only the next message of each queue pair.
    pub fn in_flight(&self, machine: u32, space: u32, next_only: bool) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        for qp in self.qps.iter().flatten() {
            let context = &self.contexts[qp.context as usize];
            if context.machine != machine || context.dead {
                continue;
            }
            for &index in qp
                .inbound
                .placing
                .iter()
                .take(if next_only { 1 } else { usize::MAX })
            {
                let message = &self.messages[index];
                let registered = self.registered(qp.context, message.target.region);
                let there = registered.is_some_and(|registered| registered.space == Some(space));
                if !there {
                    continue;
                }
                if let Some(lines) = &message.progress.scattered {
                    let parts = lines.iter().map(|&line| message.line(line));
                    found.extend(parts.map(|part| {
                        (
                            message.target.offset + part.start as u64,
                            message.payload[part].to_vec(),
                        )
                    }));
                    continue;
                }
                let rest = &message.payload[message.progress.done as usize..];
                if !rest.is_empty() {
                    found.push((
                        message.target.offset + u64::from(message.progress.done),
                        rest.to_vec(),
                    ));
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

    fn add_key(&mut self, opening: Opening) -> Rkey {
        let region = &mut self.contexts[opening.context as usize].regions[opening.region as usize];
        if let Some(registered) = region {
            registered.keys += 1;
        }
        self.keys.add(opening)
    }
}
