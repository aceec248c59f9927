//! Registers memory, and the keys and windows that open it.

use std::rc::Rc;

use rustix::fs::{Mode, fchmod};
use stonecast_base::Span;
use stonecast_fabric::{Access, DeviceError, MemoryRegion, QueuePair, Rkey};
use stonecast_media::{MappedRegion, Region, Sealing};

use crate::device::{State, system};
use crate::grants::SharedRegion;
use crate::key_table::{Key, changes_memory};
use crate::layout::{KEY_CAPACITY, PAGE_SIZE};
use crate::memory_region::LocalRegion;
use crate::table::TABLE_CAPACITY;

/// Remote address of the first region. No region lies at or near 0.
pub(crate) const FIRST_ADDRESS: u64 = 1 << 32;
/// Unused addresses after each region, so that an overrun hits nothing.
const GAP: u64 = 1 << 20;

fn refuse(reason: impl Into<String>) -> DeviceError {
    DeviceError::Registration {
        reason: reason.into(),
    }
}

impl State {
    pub(crate) fn allocate(
        &mut self,
        size: u64,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        if size == 0 {
            return Err(refuse("memory of 0 bytes"));
        }
        let memory = MappedRegion::create_memory("stonecast-memory", size, Sealing::None)
            .map_err(system("allocating memory"))?;
        // By default every user can open memory files through `/proc`.
        fchmod(memory.file(), Mode::RUSR | Mode::WUSR).map_err(system("protecting memory"))?;
        self.add_region(Rc::new(memory), access, true)
    }

    /// Registers memory. `is_own` means that only this device has the memory.
    pub(crate) fn add_region(
        &mut self,
        memory: Rc<dyn Region>,
        access: Access,
        is_own: bool,
    ) -> Result<MemoryRegion, DeviceError> {
        let size = memory.size();
        let shared = match memory.share() {
            Some(share) => Some(SharedRegion {
                file: share
                    .file
                    .try_clone_to_owned()
                    .map_err(system("sharing memory"))?,
                file_offset: share.file_offset,
                size,
                write_sealed: share.write_sealed,
                is_own,
                takes_appends: false,
                keys: Default::default(),
            }),
            None => None,
        };
        let write_sealed = shared.as_ref().is_some_and(|shared| shared.write_sealed);
        let local = LocalRegion {
            address: self.next_address,
            is_shared: shared.is_some(),
            write_sealed,
            is_own,
            size: memory.size(),
            memory,
        };
        check_access(&local, access)?;
        let length = size
            .checked_add(GAP)
            .and_then(|length| length.checked_next_multiple_of(PAGE_SIZE));
        let next = length.and_then(|length| self.next_address.checked_add(length));
        let next = next.ok_or_else(|| refuse("the addresses are used up"))?;
        let limit = DeviceError::Limit {
            what: "memory regions",
            limit: TABLE_CAPACITY as u64,
        };
        let address = local.address;
        let index = self.around.regions.insert(local).ok_or(limit)?;
        self.next_address = next;
        if let Some(shared) = shared {
            self.control
                .with_regions(|regions| regions.insert(index, shared));
        }
        match self.add_key(Key {
            access,
            address,
            size,
            region: index,
            queue_pair: 0,
            offset: 0,
        }) {
            Ok(rkey) => Ok(MemoryRegion {
                index,
                address,
                size,
                rkey,
            }),
            Err(error) => {
                self.forget_region(index);
                Err(error)
            }
        }
    }

    pub(crate) fn deregister(&mut self, region: MemoryRegion) -> Result<(), DeviceError> {
        self.region(region)?;
        if !self
            .keys
            .select(|key| key.region == region.index)
            .is_empty()
        {
            return Err(DeviceError::Malformed {
                reason: "the region has keys or windows that were not invalidated",
            });
        }
        self.forget_region(region.index);
        Ok(())
    }

    fn forget_region(&mut self, index: u32) {
        self.around.regions.remove(index);
        self.control.with_regions(|regions| regions.remove(&index));
    }

    pub(crate) fn region(&self, region: MemoryRegion) -> Result<&LocalRegion, DeviceError> {
        let index = region.index;
        self.around.regions.get(index).ok_or(DeviceError::NoSuch {
            what: "memory region",
            index: index.into(),
        })
    }

    pub(crate) fn bind_window(
        &mut self,
        qp: QueuePair,
        region: MemoryRegion,
        span: Span,
        access: Access,
    ) -> Result<Rkey, DeviceError> {
        let local = self.region(region)?;
        let size = local.memory.size();
        if span.size == 0 || !span.fits(size) {
            return Err(DeviceError::Malformed {
                reason: "the window is not in its region",
            });
        }
        check_access(local, access)?;
        let connection = self.queue_pair(qp)?.connection.as_ref();
        let is_stranger = connection.is_some_and(|connection| !connection.line.same_user);
        let is_private = local.is_own && span == Span::new(0, size);
        if changes_memory(access) && is_stranger && !is_private {
            let capability = "write access to anything but whole allocated regions for a process of another user";
            return Err(self.lacks(capability));
        }
        let address = local.address + span.offset;
        self.add_key(Key {
            access,
            address,
            size: span.size,
            region: region.index,
            queue_pair: qp.0,
            offset: span.offset,
        })
    }

    fn add_key(&mut self, key: Key) -> Result<Rkey, DeviceError> {
        let limit = DeviceError::Limit {
            what: "keys",
            limit: KEY_CAPACITY,
        };
        let rkey = self.keys.insert(key).ok_or(limit)?;
        self.control.with_regions(|regions| {
            if let Some(shared) = regions.get_mut(&key.region) {
                shared.keys.insert(rkey, key);
            }
        });
        Ok(rkey)
    }
}

/// Whether peers can be given `access` to the region at all.
fn check_access(local: &LocalRegion, access: Access) -> Result<(), DeviceError> {
    if access != Access::NONE && !local.is_shared {
        return Err(refuse(
            "peers can reach only memory that has a file which this process may write; register it with no access",
        ));
    }
    if changes_memory(access) && local.write_sealed {
        return Err(refuse(
            "the memory is sealed against writing by any other process",
        ));
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use stonecast_fabric::Device;

    use super::*;
    use crate::{ShmDevice, ShmOptions};

    /// Needs the change of the mode: memory files are created with all rights for every user.
    #[test]
    fn only_the_user_of_the_process_can_open_allocated_memory() {
        let device = ShmDevice::new(ShmOptions::default()).unwrap();
        let region = device.allocate(4096, Access::REMOTE_READ).unwrap();
        let memory = device.memory(region);
        let status = rustix::fs::fstat(memory.share().unwrap().file).unwrap();
        assert_eq!(status.st_mode & 0o777, 0o600);
    }

    #[test]
    fn memory_that_cannot_be_shared_or_written_is_registered_only_with_possible_rights() {
        let device = ShmDevice::new(ShmOptions::default()).unwrap();
        let sealed =
            || Rc::new(MappedRegion::create_memory("test", 4096, Sealing::FutureWrite).unwrap());
        assert!(device.register(sealed(), Access::REMOTE_READ).is_ok());
        let refused = device.register(sealed(), Access::REMOTE_WRITE).unwrap_err();
        assert!(
            matches!(refused, DeviceError::Registration { .. }),
            "{refused}"
        );
        let file = sealed().file().try_clone_to_owned().unwrap();
        let foreign = || {
            Rc::new(
                MappedRegion::map(
                    file.try_clone().unwrap(),
                    0,
                    4096,
                    stonecast_media::Writable::No,
                )
                .unwrap(),
            )
        };
        assert!(
            device.register(foreign(), Access::NONE).is_ok(),
            "its owner may use it"
        );
        let refused = device.register(foreign(), Access::REMOTE_READ).unwrap_err();
        assert!(
            matches!(refused, DeviceError::Registration { .. }),
            "{refused}"
        );
        assert!(device.allocate(0, Access::NONE).is_err());
    }
}
