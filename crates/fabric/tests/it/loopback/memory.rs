//! Regions and the keys that open them.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::Span;
use stonecast_fabric::{Access, LocalSpan, RemoteAddress, Status};
use stonecast_media::{Means, PersistCounts, PersistError, PersistState, PersistentRegion, Region};

use super::{Fault, Key, Net};

/// Bytes; words are whole because there is a single thread.
pub struct Memory {
    bytes: RefCell<Vec<u8>>,
    foreign: Option<Rc<dyn Region>>,
    persistent: bool,
    /// Whether the memory reads as zeros and accepts every write, at any offset.
    endless: bool,
}

impl Memory {
    /// Zeroed memory of its own.
    pub fn new(size: u64, persistent: bool) -> Self {
        Self {
            bytes: RefCell::new(vec![0; size as usize]),
            foreign: None,
            persistent,
            endless: false,
        }
    }

    /// Memory of another owner.
    pub fn of(foreign: Rc<dyn Region>, persistent: bool) -> Self {
        Self {
            bytes: RefCell::default(),
            foreign: Some(foreign),
            persistent,
            endless: false,
        }
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.persistent
    }
}

impl Region for Memory {
    fn size(&self) -> u64 {
        self.foreign
            .as_ref()
            .map_or(self.bytes.borrow().len() as u64, |foreign| foreign.size())
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        match &self.foreign {
            _ if self.endless => into.fill(0),
            Some(foreign) => foreign.read(offset, into),
            None => into.copy_from_slice(&self.bytes.borrow()[offset as usize..][..into.len()]),
        }
    }

    fn write(&self, offset: u64, from: &[u8]) {
        match &self.foreign {
            _ if self.endless => {}
            Some(foreign) => foreign.write(offset, from),
            None => self.bytes.borrow_mut()[offset as usize..][..from.len()].copy_from_slice(from),
        }
    }

    fn load(&self, offset: u64) -> u64 {
        assert!(offset.is_multiple_of(8), "words are aligned");
        self.word(offset)
    }

    fn store(&self, offset: u64, value: u64) {
        assert!(offset.is_multiple_of(8), "words are aligned");
        self.write(offset, &value.to_ne_bytes());
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.word(offset);
        if found != current {
            return Err(found);
        }
        self.write(offset, &new.to_ne_bytes());
        Ok(found)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        let found = self.word(offset);
        self.write(offset, &found.wrapping_add(add).to_ne_bytes());
        found
    }
}

impl Memory {
    fn word(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        self.read(offset, &mut word);
        u64::from_ne_bytes(word)
    }
}

impl PersistentRegion for Memory {
    fn means(&self) -> Means {
        Means::Process
    }

    fn persist_counts(&self) -> PersistCounts {
        // Memory that need not survive a power loss requires no work.
        PersistCounts::default()
    }

    fn poll_persist(
        &self,
        _: &[Span],
        _: &mut PersistState,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        Poll::Ready(Ok(()))
    }
}

impl Net {
    /// The memory of a local span, if the span is in it.
    pub(super) fn local(&self, node: usize, span: LocalSpan) -> Option<Rc<Memory>> {
        let memory = self.nodes[node]
            .regions
            .get(span.region.index as usize)?
            .clone()?;
        let fits = Span::new(span.offset, u64::from(span.size)).fits(memory.size());
        match self.fault {
            // Bytes outside are taken from elsewhere.
            Fault::LocalBoundsIgnored if !fits => Some(Rc::new(Memory {
                endless: true,
                ..Memory::new(0, false)
            })),
            _ => fits.then_some(memory),
        }
    }

    /// The place of `size` bytes at `remote` in the memory of `node`, for the peer of its queue pair `qp` with `right`.
    pub(super) fn resolve(
        &self,
        node: usize,
        qp: u32,
        remote: RemoteAddress,
        size: u64,
        right: Access,
    ) -> Result<(Rc<Memory>, u64), Status> {
        let refused = Status::RemoteAccess;
        let keys = &self.nodes[node].keys;
        let any = keys
            .values()
            .find(|_| self.fault == Fault::KeyNumberIgnored);
        let key = keys.get(&remote.rkey.0).or(any).ok_or(refused)?;
        let memory = self.nodes[node].regions[key.region]
            .clone()
            .ok_or(refused)?;
        let apart = self.flavour.protection_domains
            && self.nodes[node]
                .qps
                .get(&qp)
                .is_some_and(|qp| qp.options.windows);
        let foreign =
            key.qp.map_or(apart, |of| of != qp) && self.fault != Fault::WindowForEverybody;
        let revoked = !key.valid && self.fault != Fault::RevocationIgnored;
        let lacking = !key.access.grants(right) && self.fault != Fault::RightsIgnored;
        if foreign || revoked || lacking {
            return Err(refused);
        }
        let inside = remote.address.wrapping_sub(key.address);
        let reach = match self.fault {
            Fault::WindowOpensItsRegion => memory.size() - key.offset,
            _ => key.size,
        };
        let fits = Span::new(inside, size).fits(reach);
        match self.fault {
            Fault::BoundsIgnored | Fault::KeyNumberIgnored if !fits => {
                Ok((memory.clone(), memory.size().saturating_sub(size)))
            }
            _ if fits => Ok((memory, key.offset + inside)),
            _ => Err(refused),
        }
    }

    /// A key that no other key of `node` equals, or has equalled.
    pub(super) fn new_key(&mut self, node: usize, key: Key) -> u32 {
        let reuse = self.fault == Fault::KeysReused;
        let node = &mut self.nodes[node];
        let dead = node
            .keys
            .iter()
            .find(|(_, key)| reuse && !key.valid)
            .map(|(&number, _)| number);
        let number = dead.unwrap_or_else(|| {
            node.next_key += 1;
            0x100 + node.next_key
        });
        node.keys.insert(number, key);
        number
    }

    /// Whether an unfinished WRITE still places bytes through the key `rkey` of `node`.
    pub(super) fn writes_through(&self, node: usize, rkey: u32) -> bool {
        self.nodes
            .iter()
            .flat_map(|from| from.qps.values())
            .any(|qp| {
                qp.peer.is_some_and(|(to, _)| to == node)
                    && qp.send.iter().any(|posted| {
                        posted.status.is_none()
                            && posted.placed > 0
                            && posted.remote_key() == Some(rkey)
                    })
            })
    }
}
