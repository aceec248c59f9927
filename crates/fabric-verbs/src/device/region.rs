//! Registered memory: the parts for this machine's NIC, the parts for peers, and the windows.
//!
//! ```text
//!   region      |<-------------------------------- size ------------------------------->|
//!   local       registration for this machine's NIC and for windows; made when first needed
//!   remote      registration for peers, with the region's key; ends when that is invalidated
//!   windows           |<-- bound to one queue pair -->|
//! ```
//!
//! There are two registrations, because the key for peers must be able to end while this machine's NIC still uses the
//! memory. The local registration is made late, because memory that peers only read (a log that is a mapped file)
//! cannot always be pinned for writing.
//!
//! If it cannot, no window can be bound to it: a kernel pins memory for windows for writing. A window for reading is
//! then a registration of its bytes, with a key of its own that ends by itself. The registration opens the bytes to
//! every queue pair of the device whose peer knows the key.
//!
//! A device without windows has queue pairs with protection domains of their own. There a window is a registration of
//! its bytes, too, in the protection domain of its queue pair: the registration opens the bytes to that queue pair
//! alone. Posts of such a queue pair name the memory by a registration for this machine's NIC in the same protection
//! domain (`elsewhere`), which is made on first use and ends with the queue pair.

use std::io;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{Access, DeviceError, LocalSpan};
use stonecast_media::{Means, Region, Writable};

use crate::verbs::cause::{self, WantedRegion};
use crate::verbs::memory::{ProtectionDomain, Registration, Rights, Window};
use crate::verbs::posting::RawSpan;

/// The device's grants on memory.
#[derive(Clone, Copy)]
pub(super) struct Grants {
    pub windows: bool,
    pub flush_global: bool,
    pub flush_persistent: bool,
}

pub(super) struct RegionState {
    pub memory: Rc<dyn Region>,
    /// The address of the first byte for peers.
    pub address: u64,
    pub size: u64,
    domain: Rc<ProtectionDomain>,
    windows_possible: bool,
    local: Option<Registration>,
    /// The registrations for this machine's NIC in the protection domains of single queue pairs.
    elsewhere: Vec<(Rc<ProtectionDomain>, Registration)>,
    /// Whether the NIC may only read the memory: the kernel pins it for reading alone, which is known once `local` was
    /// made, or only a sync makes it durable. An older kernel would pin the latter for writing.
    is_read_only: bool,
    /// Whether only a sync makes the memory durable.
    is_synced: bool,
    remote: Option<Registration>,
    /// Windows that are bound to it.
    pub window_count: usize,
}

/// A window, and its region.
pub(super) struct WindowState {
    pub opening: Opening,
    pub region: u32,
    pub qp: u32,
    /// Bytes of the region.
    pub span: Span,
    pub access: Access,
}

/// The object that opens the bytes of a window.
pub(super) enum Opening {
    /// A window of the NIC, and the registration of exactly its bytes, if it needs its own.
    Bound(Window, Option<Registration>),
    /// A registration for reading.
    Registered(Registration),
}

/// The base of a window.
pub(super) enum Ground {
    /// The registration for this machine's NIC.
    Local,
    /// A registration of the window's bytes, to bind it to.
    Exact(Registration),
    /// A registration of the window's bytes alone.
    Reading,
}

impl Opening {
    pub fn rkey(&self) -> u32 {
        match self {
            Self::Bound(window, _) => window.rkey(),
            Self::Registered(registration) => registration.rkey(),
        }
    }

    /// Ends the window and its base. After this call has returned `Ok`, its key opens nothing.
    pub fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Bound(window, exact) => {
                window.end()?;
                exact.as_mut().map_or(Ok(()), Registration::end)
            }
            Self::Registered(registration) => registration.end(),
        }
    }
}

/// Addresses of regions differ by at least this size, and equal those of their memory modulo this size, so that any
/// page size fits.
const ADDRESS_GRAIN: u64 = 1 << 30;

/// The first address from `next` on that equals the address of `memory` modulo the grain.
pub(super) fn address_for(next: u64, memory: &dyn Region) -> Result<u64, DeviceError> {
    let place = memory
        .mapped_at()
        .ok_or_else(|| DeviceError::Registration {
            reason: "this memory is not a mapping of this process, so no RDMA device can reach it"
                .into(),
        })?;
    Ok(next.next_multiple_of(ADDRESS_GRAIN) + place.address().addr().get() as u64 % ADDRESS_GRAIN)
}

impl RegionState {
    pub fn new(
        domain: &Rc<ProtectionDomain>,
        memory: Rc<dyn Region>,
        address: u64,
        access: Access,
        means: Option<Means>,
        grants: Grants,
    ) -> Result<Self, DeviceError> {
        let (size, is_synced) = (memory.size(), means == Some(Means::FileSync));
        let mut region = Self {
            memory,
            address,
            size,
            domain: domain.clone(),
            windows_possible: grants.windows,
            local: None,
            elsewhere: Vec::new(),
            is_read_only: is_synced,
            is_synced,
            remote: None,
            window_count: 0,
        };
        if access == Access::NONE {
            region.local()?;
        } else {
            let rights = Rights {
                local_write: false,
                bind: false,
                remote: access,
                flush_global: grants.flush_global,
                flush_persistent: means.is_some() && grants.flush_persistent,
            };
            if rights.write() {
                region.check_synced()?;
            }
            region.remote = Some(region.register(rights)?);
        }
        Ok(region)
    }

    fn register(&self, rights: Rights) -> Result<Registration, DeviceError> {
        self.register_span(&self.domain, Span::new(0, self.size), rights)
            .map_err(|error| self.refusal(&error, rights))
    }

    fn register_span(
        &self,
        domain: &Rc<ProtectionDomain>,
        span: Span,
        rights: Rights,
    ) -> io::Result<Registration> {
        Registration::new(domain, self.memory.clone(), self.address, span, rights)
    }

    fn refusal(&self, error: &io::Error, rights: Rights) -> DeviceError {
        let wanted = WantedRegion {
            size: self.size,
            writable: rights.write(),
            flush_persistent: rights.flushes_persistently(),
        };
        DeviceError::Registration {
            reason: cause::registration(error, wanted),
        }
    }

    /// Refuses memory that the NIC may not write, as far as known.
    pub fn check_written(&self) -> Result<(), DeviceError> {
        self.check_synced()?;
        if self.is_read_only {
            return Err(self.refusal(&rustix::io::Errno::FAULT.into(), Rights::local(true, true)));
        }
        Ok(())
    }

    /// Refuses memory that only a sync makes durable, if the NIC is to write it.
    fn check_synced(&self) -> Result<(), DeviceError> {
        if self.is_synced {
            return Err(DeviceError::SyncedFile {
                device: format!("verbs:{}", self.domain.context().name()),
                size: self.size,
            });
        }
        Ok(())
    }

    /// The base of a window with `access` to `span`. `exact`: its registration must cover exactly the span.
    pub fn for_window(
        &mut self,
        span: Span,
        access: Access,
        exact: bool,
    ) -> Result<Ground, DeviceError> {
        self.local()?;
        if access != Access::REMOTE_READ {
            self.check_written()?;
        }
        match (self.is_read_only, exact) {
            (true, _) => Ok(Ground::Reading),
            (false, false) => Ok(Ground::Local),
            (false, true) => {
                let rights = Rights::local(true, true);
                self.register_span(&self.domain, span, rights)
                    .map(Ground::Exact)
                    .map_err(|error| self.refusal(&error, rights))
            }
        }
    }

    /// Opens `span` to the queue pairs of `domain`, with the rights that a window would give.
    pub fn open(
        &self,
        domain: &Rc<ProtectionDomain>,
        span: Span,
        access: Access,
    ) -> Result<Registration, DeviceError> {
        let rights = Rights {
            remote: access,
            ..Rights::local(false, false)
        };
        self.register_span(domain, span, rights)
            .map_err(|error| self.refusal(&error, rights))
    }

    /// The registration for this machine's NIC.
    pub fn local(&mut self) -> Result<&Registration, DeviceError> {
        if self.local.is_none() {
            self.local = Some(self.local_in(&self.domain.clone())?);
        }
        Ok(self.local.as_ref().expect("just made"))
    }

    /// Makes a registration for this machine's NIC.
    fn local_in(&mut self, domain: &Rc<ProtectionDomain>) -> Result<Registration, DeviceError> {
        let may_be_written = self
            .memory
            .mapped_at()
            .is_some_and(|place| place.writable() == Writable::Yes);
        let writable = may_be_written && !self.is_synced;
        let rights = Rights::local(writable, writable && self.windows_possible);
        let whole = Span::new(0, self.size);
        match self.register_span(domain, whole, rights) {
            // Pages of a file, which the kernel writes back without asking the NIC: the kernel lets the NIC only read
            // them.
            Err(error) if writable && cause::is_file(&error) => {
                self.is_read_only = true;
                let rights = Rights::local(false, false);
                self.register_span(domain, whole, rights)
                    .map_err(|error| self.refusal(&error, rights))
            }
            made => made.map_err(|error| self.refusal(&error, rights)),
        }
    }

    /// The local key for queue pairs of `domain`.
    fn lkey(&mut self, domain: &Rc<ProtectionDomain>) -> Result<u32, DeviceError> {
        if Rc::ptr_eq(domain, &self.domain) {
            return Ok(self.local()?.lkey());
        }
        if let Some((_, made)) = self.elsewhere.iter().find(|(of, _)| Rc::ptr_eq(of, domain)) {
            return Ok(made.lkey());
        }
        let made = self.local_in(domain)?;
        let lkey = made.lkey();
        self.elsewhere.push((domain.clone(), made));
        Ok(lkey)
    }

    /// Ends the registration of this machine's NIC for queue pairs of `domain`, which are gone.
    pub fn leave(&mut self, domain: &Rc<ProtectionDomain>) {
        self.elsewhere.retain(|(of, _)| !Rc::ptr_eq(of, domain));
    }

    /// The remote key of the region. For a region of local use it opens nothing.
    pub fn rkey(&self) -> u32 {
        let registration = self.remote.as_ref().or(self.local.as_ref());
        registration
            .expect("a region is registered in one way at least")
            .rkey()
    }

    /// Whether the region's own key opens it to peers.
    pub fn is_open(&self) -> bool {
        self.remote.is_some()
    }

    /// Ends the access of peers through the region's own key.
    pub fn close(&mut self) -> io::Result<()> {
        if let Some(remote) = &mut self.remote {
            remote.end()?;
            self.remote = None;
        }
        Ok(())
    }

    /// Ends the registrations for this machine's NIC.
    pub fn end(&mut self) -> io::Result<()> {
        self.elsewhere
            .iter_mut()
            .try_for_each(|(_, made)| made.end())?;
        self.local.as_mut().map_or(Ok(()), Registration::end)
    }

    /// Whether `span` lies in the region.
    pub fn holds(&self, span: Span) -> bool {
        span.fits(self.size)
    }

    /// `local` in the terms of the NIC, for a queue pair of `domain`. Bytes outside the region become the first ones
    /// behind it, so that the NIC itself refuses them, in the order in which they were posted.
    pub fn raw(
        &mut self,
        local: LocalSpan,
        domain: &Rc<ProtectionDomain>,
    ) -> Result<RawSpan, DeviceError> {
        let inside = self.holds(Span::new(local.offset, local.size.into()));
        let offset = if inside { local.offset } else { self.size };
        let address = self.address + offset;
        Ok(RawSpan {
            address,
            size: local.size,
            lkey: self.lkey(domain)?,
        })
    }
}
