//! Regions, windows, and the keys that open them.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_base::Span;
use stonecast_fabric::{Access, DeviceError, MemoryRegion, QueuePair, Rkey};
use stonecast_media::{MappedRegion, Means, Region, Sealing};

use super::completions::WorkId;
use super::queue_pair::Phase;
use super::region::{Grants, Ground, Opening, RegionState, WindowState, address_for};
use super::{State, quirks};
use crate::verbs::memory::{ProtectionDomain, Registration, Window};
use crate::verbs::posting::{Posting, Stamp};

/// The object that a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyUse {
    Region(u32),
    Window(u32),
}

/// Keys that ended, as far back as they are remembered.
#[derive(Default)]
pub(super) struct EndedKeys {
    known: BTreeSet<u32>,
    order: VecDeque<u32>,
}

/// Number of ended keys that are remembered. A peer that kept an older key has lost its connection long ago.
const ENDED_KEYS_MAX: usize = 1 << 16;
/// Number of attempts to get another key when the device gives one that ended earlier.
const KEY_ATTEMPTS: usize = 64;
/// Time that a binding may take: this machine's NIC executes it, after earlier posts.
const BINDING_PATIENCE: Duration = Duration::from_secs(2);

impl EndedKeys {
    fn insert(&mut self, key: u32) {
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        if self.order.len() > ENDED_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn contains(&self, key: u32) -> bool {
        self.known.contains(&key)
    }
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> DeviceError {
    move |source| DeviceError::System { doing, source }
}

impl State {
    pub(super) fn allocate(
        &mut self,
        size: u64,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError> {
        let memory = MappedRegion::create_memory("stonecast-verbs", size, Sealing::None)
            .map_err(system("allocating memory"))?;
        self.add_region(Rc::new(memory), access, None)
    }

    pub(super) fn add_region(
        &mut self,
        memory: Rc<dyn Region>,
        access: Access,
        means: Option<Means>,
    ) -> Result<MemoryRegion, DeviceError> {
        let address = address_for(self.keys.next_address, &*memory)?;
        let grants = Grants {
            windows: self.abilities.extra.windows,
            flush_global: self.abilities.extra.flush && self.hardware.facts.flush_global,
            flush_persistent: self.abilities.has_flush_persistent,
        };
        let make = || {
            RegionState::new(
                &self.hardware.domain,
                memory.clone(),
                address,
                access,
                means,
                grants,
            )
        };
        let region = self.with_fresh_key(make, RegionState::rkey)?;
        let (rkey, size) = (region.rkey(), region.size);
        self.keys.next_address = address + size;
        let index = self.regions.insert(region);
        self.keys.uses.insert(rkey, KeyUse::Region(index));
        Ok(MemoryRegion {
            index,
            address,
            size,
            rkey: Rkey(rkey),
        })
    }

    /// Makes an object with a key until the key is one that has not ended before.
    fn with_fresh_key<T>(
        &self,
        make: impl Fn() -> Result<T, DeviceError>,
        key_of: impl Fn(&T) -> u32,
    ) -> Result<T, DeviceError> {
        // Kept until the end, so that the device does not give the same key again.
        let mut unsuitable = Vec::new();
        while unsuitable.len() < KEY_ATTEMPTS {
            let made = make()?;
            if !self.keys.ended.contains(key_of(&made)) {
                return Ok(made);
            }
            unsuitable.push(made);
        }
        Err(DeviceError::Limit {
            what: "keys that were never used",
            limit: ENDED_KEYS_MAX as u64,
        })
    }

    pub(super) fn deregister(&mut self, region: MemoryRegion) -> Result<(), DeviceError> {
        let state = self.regions.get_mut(region.index)?;
        if state.is_open() {
            return Err(DeviceError::Malformed {
                reason: "a region whose key still opens it",
            });
        }
        if state.window_count > 0 {
            return Err(DeviceError::Malformed {
                reason: "a region with windows",
            });
        }
        state.end().map_err(system("ending a registration"))?;
        self.regions.remove(region.index)?;
        self.end_key(region.rkey.0);
        Ok(())
    }

    fn end_key(&mut self, key: u32) {
        self.keys.uses.remove(&key);
        self.keys.ended.insert(key);
    }

    pub(super) fn invalidate(&mut self, rkey: Rkey) -> Result<(), DeviceError> {
        match self.keys.uses.get(&rkey.0) {
            // The key ended earlier, or opens nothing.
            None => Ok(()),
            Some(&KeyUse::Window(window)) => self.end_window(window),
            Some(&KeyUse::Region(index)) => {
                let region = self.regions.get_mut(index)?;
                if region.is_open() {
                    region
                        .close()
                        .map_err(system("ending the registration for peers"))?;
                    self.end_key(rkey.0);
                }
                Ok(())
            }
        }
    }

    /// Ends a window. After this call has returned `Ok`, its key opens nothing.
    pub(super) fn end_window(&mut self, handle: u32) -> Result<(), DeviceError> {
        let window = self.windows.get_mut(handle)?;
        window
            .opening
            .end()
            .map_err(system("ending a memory window"))?;
        let window = self.windows.remove(handle)?;
        if let Ok(region) = self.regions.get_mut(window.region) {
            region.window_count -= 1;
        }
        if let Ok(qp) = self.qps.get_mut(window.qp) {
            qp.unbound.retain(|unbound| *unbound != handle);
        }
        self.end_key(window.opening.rkey());
        Ok(())
    }

    pub(super) fn bind_window(
        &mut self,
        qp: QueuePair,
        region: MemoryRegion,
        span: Span,
        access: Access,
    ) -> Result<Rkey, DeviceError> {
        let state = self.qps.get(qp.0)?;
        let (phase, domain) = (state.phase, state.domain.clone());
        let is_apart = !Rc::ptr_eq(&domain, &self.hardware.domain);
        if !self.abilities.extra.windows && !is_apart {
            let reason = "a window for a queue pair that was not made for windows, on a device without memory windows of its own";
            return Err(DeviceError::Malformed { reason });
        }
        if !self.regions.get(region.index)?.holds(span) || span.size == 0 {
            return Err(DeviceError::Malformed {
                reason: "a window that is empty or leaves its region",
            });
        }
        let opening = match is_apart {
            true => self.registered(&domain, region.index, span, access)?,
            false => self.opening(region.index, span, access)?,
        };
        let rkey = opening.rkey();
        let handle = self.windows.insert(WindowState {
            opening,
            region: region.index,
            qp: qp.0,
            span,
            access,
        });
        self.regions.get_mut(region.index)?.window_count += 1;
        self.keys.uses.insert(rkey, KeyUse::Window(handle));
        let bound = match phase {
            Phase::Accepted(_) | Phase::Connected(_) => self.bind(handle),
            // The key is known before the binding. The peer learns the key with the acceptance, which comes after the
            // binding.
            Phase::Fresh | Phase::Calling(_) => {
                self.qps.get_mut(qp.0)?.unbound.push(handle);
                Ok(())
            }
            Phase::Failed => Err(DeviceError::Malformed {
                reason: "a window for a queue pair that has failed",
            }),
        };
        if let Err(error) = bound {
            self.end_window(handle)?;
            return Err(error);
        }
        Ok(Rkey(rkey))
    }

    fn opening(&mut self, region: u32, span: Span, access: Access) -> Result<Opening, DeviceError> {
        let exact = quirks::windows_need_own_registration(&self.hardware.facts);
        let exact = match self
            .regions
            .get_mut(region)?
            .for_window(span, access, exact)?
        {
            Ground::Local => None,
            Ground::Exact(registration) => Some(registration),
            Ground::Reading => return self.registered(&self.hardware.domain, region, span, access),
        };
        let make = || Window::new(&self.hardware.domain).map_err(system("making a memory window"));
        Ok(Opening::Bound(
            self.with_fresh_key(make, Window::rkey)?,
            exact,
        ))
    }

    /// Opens bytes of a region by a registration, to every queue pair of `domain`.
    fn registered(
        &self,
        domain: &Rc<ProtectionDomain>,
        region: u32,
        span: Span,
        access: Access,
    ) -> Result<Opening, DeviceError> {
        let make = || self.regions.get(region)?.open(domain, span, access);
        self.with_fresh_key(make, Registration::rkey)
            .map(Opening::Registered)
    }

    /// Binds the windows that wait for the connection of `qp`.
    pub(super) fn bind_waiting(&mut self, qp: u32) -> Result<(), DeviceError> {
        let waiting = std::mem::take(&mut self.qps.get_mut(qp)?.unbound);
        let bound = waiting.iter().try_for_each(|&handle| self.bind(handle));
        if bound.is_err() {
            // The next attempt of the queue pair must include them.
            self.qps.get_mut(qp)?.unbound = waiting;
        }
        bound
    }

    /// Lets the NIC bind a window, and waits for the result.
    fn bind(&mut self, handle: u32) -> Result<(), DeviceError> {
        let window = self.windows.get(handle)?;
        let (qp, span, access) = (window.qp, window.span, window.access);
        let region = self.regions.get_mut(window.region)?;
        let bound = Span::new(region.address + span.offset, span.size);
        let (opened, registration) = match &window.opening {
            Opening::Bound(opened, Some(exact)) => (opened, exact),
            Opening::Bound(opened, None) => (opened, region.local()?),
            // Open since its registration.
            Opening::Registered(_) => return Ok(()),
        };
        let state = self.qps.get(qp)?;
        let mut posting = Posting::begin(&state.hardware);
        let stamp = Stamp {
            wr_id: WorkId::Binding.encode(),
            signalled: true,
            fence: false,
        };
        posting.bind(stamp, opened, registration, bound, access);
        posting
            .commit()
            .map_err(system("binding a memory window"))?;
        let cq = state.options.send_cq.0;
        let deadline = Instant::now() + BINDING_PATIENCE;
        loop {
            match self.collect(cq, usize::MAX) {
                Some(true) => return Ok(()),
                Some(false) => {
                    return Err(DeviceError::Malformed {
                        reason: "a window that the device does not bind",
                    });
                }
                None if Instant::now() > deadline => {
                    let source = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(DeviceError::System {
                        doing: "waiting until a memory window is bound",
                        source,
                    });
                }
                None => std::hint::spin_loop(),
            }
        }
    }
}
