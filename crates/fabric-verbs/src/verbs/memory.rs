//! Memory that the NIC may access: protection domain, registrations, windows.

use std::io;
use std::ptr;
use std::rc::Rc;

use rdma_mummy_sys as ibv;
use stonecast_base::Span;
use stonecast_fabric::Access;
use stonecast_media::Region;

use super::context::Context;
use super::outcome;

/// Separates objects of different owners: keys and queue pairs of different protection domains do not work together.
#[derive(Debug)]
pub(crate) struct ProtectionDomain {
    raw: *mut ibv::ibv_pd,
    context: Context,
}

impl ProtectionDomain {
    /// A fresh protection domain.
    pub fn new(context: &Context) -> io::Result<Rc<Self>> {
        // SAFETY: the context is open.
        let raw = unsafe { ibv::ibv_alloc_pd(context.raw()) };
        if raw.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Rc::new(Self {
                raw,
                context: context.clone(),
            }))
        }
    }

    /// The device of the protection domain.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// For calls of the library. Valid while `self` lives.
    pub(super) fn raw(&self) -> *mut ibv::ibv_pd {
        self.raw
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_alloc_pd`, freed once; every object made in it holds the `Rc`.
        let _nothing_to_do = unsafe { ibv::ibv_dealloc_pd(self.raw) };
    }
}

/// The rights of a registration, each named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Whether the NIC of this machine may write: as destination of READs and receives.
    pub local_write: bool,
    /// Whether windows may be bound to the memory.
    pub bind: bool,
    /// The rights of peers.
    pub remote: Access,
    /// Whether `remote` may grant FLUSH: the device has it.
    pub flush_global: bool,
    /// Whether `remote` may grant FLUSH with persistence: the device has it. Only for persistent memory.
    pub flush_persistent: bool,
}

impl Rights {
    /// The rights of a registration that peers cannot use.
    pub fn local(local_write: bool, bind: bool) -> Self {
        Self {
            local_write,
            bind,
            remote: Access::NONE,
            flush_global: false,
            flush_persistent: false,
        }
    }

    /// Whether the kernel must let the NIC write the memory.
    pub fn write(self) -> bool {
        self.local_write
            || self.bind
            || self.remote.grants(Access::REMOTE_WRITE)
            || self.remote.grants(Access::REMOTE_ATOMIC)
    }

    /// Whether FLUSH with persistence is requested.
    pub fn flushes_persistently(self) -> bool {
        self.remote.grants(Access::REMOTE_FLUSH) && self.flush_persistent
    }

    fn flags(self) -> u32 {
        use ibv::ibv_access_flags as flag;
        let flush = self.remote.grants(Access::REMOTE_FLUSH);
        let named = [
            // A peer's write also needs the right of the NIC of this machine to write (ibv_reg_mr(3)).
            (self.write(), flag::IBV_ACCESS_LOCAL_WRITE),
            (self.bind, flag::IBV_ACCESS_MW_BIND),
            (flush && self.flush_global, flag::IBV_ACCESS_FLUSH_GLOBAL),
            (
                flush && self.flush_persistent,
                flag::IBV_ACCESS_FLUSH_PERSISTENT,
            ),
        ];
        named
            .iter()
            .filter(|(granted, _)| *granted)
            .fold(remote_flags(self.remote), |flags, (_, bit)| flags | bit.0)
    }
}

/// The flags of the peers' rights, without FLUSH.
pub(super) fn remote_flags(access: Access) -> u32 {
    use ibv::ibv_access_flags as flag;
    let named = [
        (Access::REMOTE_READ, flag::IBV_ACCESS_REMOTE_READ),
        (Access::REMOTE_WRITE, flag::IBV_ACCESS_REMOTE_WRITE),
        (Access::REMOTE_ATOMIC, flag::IBV_ACCESS_REMOTE_ATOMIC),
    ];
    named
        .iter()
        .filter(|(right, _)| access.grants(*right))
        .fold(0, |flags, (_, bit)| flags | bit.0)
}

/// Registered, and so pinned, memory.
pub(crate) struct Registration {
    /// Null once ended.
    raw: *mut ibv::ibv_mr,
    lkey: u32,
    rkey: u32,
    _domain: Rc<ProtectionDomain>,
    /// The registered memory lives as long as the registration.
    _memory: Rc<dyn Region>,
}

impl Registration {
    /// Registers `span` of `memory`, whose first byte has the address `first_address` for peers. That address must
    /// equal the memory's own address modulo the page size.
    pub fn new(
        domain: &Rc<ProtectionDomain>,
        memory: Rc<dyn Region>,
        first_address: u64,
        span: Span,
        rights: Rights,
    ) -> io::Result<Self> {
        let place = memory
            .mapped_at()
            .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        if !span.fits(place.size()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let size = usize::try_from(span.size).map_err(|_| io::ErrorKind::InvalidInput)?;
        let offset = usize::try_from(span.offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let start = place.address().as_ptr().wrapping_add(offset).cast();
        let first_address = first_address + span.offset;
        // SAFETY: the protection domain is alive. A place names the bytes of a mapping and no other memory of this
        // program, and the span lies in it; the kernel checks the rights of the pages and pins them. The region keeps
        // its mapping, and this value keeps the region. Other parties may change the bytes afterwards, which a region
        // allows.
        let raw = unsafe {
            ibv::ibv_reg_mr_iova2(domain.raw(), start, size, first_address, rights.flags())
        };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: not null (checked), so the registration is alive.
        let lkey = unsafe { (*raw).lkey };
        // SAFETY: as above.
        let rkey = unsafe { (*raw).rkey };
        Ok(Self {
            raw,
            lkey,
            rkey,
            _domain: domain.clone(),
            _memory: memory,
        })
    }

    /// The key for the NIC of this machine.
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The key for peers.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Ends the registration. After this call has returned `Ok`, no request that any peer posts or has posted can
    /// access the memory through it: the kernel waits until the NIC has forgotten it.
    pub fn end(&mut self) -> io::Result<()> {
        if self.raw.is_null() {
            return Ok(());
        }
        // SAFETY: the registration is alive and is ended once: the pointer is cleared below.
        outcome(unsafe { ibv::ibv_dereg_mr(self.raw) })?;
        self.raw = ptr::null_mut();
        Ok(())
    }

    pub(super) fn raw(&self) -> *mut ibv::ibv_mr {
        self.raw
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A registration that cannot end here ends with the context.
        let _ = self.end();
    }
}

/// A memory window of type 2: a part of a registration that the peer of one queue pair may touch.
pub(crate) struct Window {
    /// Null once ended.
    raw: *mut ibv::ibv_mw,
    /// The key of the next binding.
    rkey: u32,
    _domain: Rc<ProtectionDomain>,
}

impl Window {
    /// A window that opens nothing yet.
    pub fn new(domain: &Rc<ProtectionDomain>) -> io::Result<Self> {
        // SAFETY: the protection domain is alive; the call fails if the device has no windows.
        let raw = unsafe { ibv::ibv_alloc_mw(domain.raw(), ibv::ibv_mw_type::IBV_MW_TYPE_2) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: not null (checked), so the window is alive.
        let fresh = unsafe { (*raw).rkey };
        // SAFETY: the call computes with a number.
        let rkey = unsafe { ibv::ibv_inc_rkey(fresh) };
        Ok(Self {
            raw,
            rkey,
            _domain: domain.clone(),
        })
    }

    /// The key to bind it with.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Ends the window, whatever the state of its queue pair. After this call has returned `Ok`, its key opens nothing.
    pub fn end(&mut self) -> io::Result<()> {
        if self.raw.is_null() {
            return Ok(());
        }
        // SAFETY: the window is alive and is ended once: the pointer is cleared below.
        outcome(unsafe { ibv::ibv_dealloc_mw(self.raw) })?;
        self.raw = ptr::null_mut();
        Ok(())
    }

    pub(super) fn raw(&self) -> *mut ibv::ibv_mw {
        self.raw
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // A window that cannot end here ends with the context.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSHING: Rights = Rights {
        local_write: false,
        bind: false,
        remote: Access::REMOTE_READ
            .and(Access::REMOTE_WRITE)
            .and(Access::REMOTE_ATOMIC)
            .and(Access::REMOTE_FLUSH),
        flush_global: true,
        flush_persistent: true,
    };

    /// Only explicitly named flags may be set. Relaxed ordering above all is never requested.
    #[test]
    fn no_set_of_rights_requests_relaxed_ordering_or_on_demand_paging() {
        use ibv::ibv_access_flags as flag;
        let forbidden = flag::IBV_ACCESS_RELAXED_ORDERING.0
            | flag::IBV_ACCESS_ON_DEMAND.0
            | flag::IBV_ACCESS_ZERO_BASED.0;
        for bits in 0..16 {
            let remote = Access::from_bits(bits).expect("four rights");
            for local_write in [false, true] {
                for bind in [false, true] {
                    let rights = Rights {
                        remote,
                        local_write,
                        bind,
                        ..FLUSHING
                    };
                    assert_eq!(rights.flags() & forbidden, 0, "{rights:?}");
                }
            }
        }
    }

    #[test]
    fn memory_that_peers_only_read_is_not_pinned_for_writing() {
        let rights = Rights {
            remote: Access::REMOTE_READ,
            ..Rights::local(false, false)
        };
        assert!(!rights.write());
        assert_eq!(
            rights.flags(),
            ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
        );
    }

    #[test]
    fn flush_with_persistence_is_granted_only_on_request() {
        use ibv::ibv_access_flags as flag;
        assert_ne!(FLUSHING.flags() & flag::IBV_ACCESS_FLUSH_PERSISTENT.0, 0);
        for rights in [
            Rights {
                flush_persistent: false,
                ..FLUSHING
            },
            Rights {
                remote: Access::REMOTE_WRITE,
                ..FLUSHING
            },
        ] {
            assert_eq!(
                rights.flags() & flag::IBV_ACCESS_FLUSH_PERSISTENT.0,
                0,
                "{rights:?}"
            );
        }
    }
}
