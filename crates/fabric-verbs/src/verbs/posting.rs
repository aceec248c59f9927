//! One batch of work requests for the NIC, with one doorbell.

use std::io;

use rdma_mummy_sys as ibv;
use stonecast_base::Span;
use stonecast_fabric::{Access, FlushPlacement};

use super::memory::{Registration, Window, remote_flags};
use super::outcome;
use super::queue_pair::QueuePair;

/// Local bytes in the terms of the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSpan {
    pub address: u64,
    pub size: u32,
    pub lkey: u32,
}

/// A place of the peer in the terms of the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPlace {
    pub address: u64,
    pub rkey: u32,
}

/// The settings of the next request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub wr_id: u64,
    pub signalled: bool,
    pub fence: bool,
}

/// A batch that has begun and is not yet with the NIC. Its drop posts nothing.
pub(crate) struct Posting<'a> {
    qp: &'a QueuePair,
    /// The same queue pair, for the calls; alive while `qp` is borrowed.
    raw: *mut ibv::ibv_qp_ex,
    committed: bool,
}

impl<'a> Posting<'a> {
    /// Begins a batch.
    pub fn begin(qp: &'a QueuePair) -> Self {
        let raw = qp.extended();
        // SAFETY: the queue pair is alive and was made with the extended interface. One thread posts to it, and the
        // previous batch was ended by `commit` or `drop`.
        unsafe { ibv::ibv_wr_start(raw) };
        Self {
            qp,
            raw,
            committed: false,
        }
    }

    fn stamp(&mut self, stamp: Stamp) {
        use ibv::ibv_send_flags as flag;
        let named = [
            (stamp.signalled, flag::IBV_SEND_SIGNALED),
            (stamp.fence, flag::IBV_SEND_FENCE),
        ];
        let flags = named
            .iter()
            .filter(|(set, _)| *set)
            .fold(0, |flags, (_, bit)| flags | bit.0);
        // SAFETY: the queue pair is alive, and the field belongs to the caller between start and complete.
        unsafe { (*self.raw).wr_id = stamp.wr_id };
        // SAFETY: as above.
        unsafe { (*self.raw).wr_flags = flags };
    }

    fn local(&mut self, local: RawSpan) {
        // SAFETY: a batch has begun and its current request takes one span. The NIC checks the span against its key.
        unsafe { ibv::ibv_wr_set_sge(self.raw, local.lkey, local.address, local.size) };
    }

    /// Adds a WRITE from `local` to `place`.
    pub fn write(&mut self, stamp: Stamp, local: RawSpan, place: RawPlace) {
        self.stamp(stamp);
        // SAFETY: a batch is begun on a queue pair that was made with this operation.
        unsafe { ibv::ibv_wr_rdma_write(self.raw, place.rkey, place.address) };
        self.local(local);
    }

    /// Adds a WRITE_WITH_IMM, whose responder is handed `immediate`.
    pub fn write_with_immediate(
        &mut self,
        stamp: Stamp,
        local: RawSpan,
        place: RawPlace,
        immediate: u32,
    ) {
        self.stamp(stamp);
        // SAFETY: a batch is begun on a queue pair that was made with this operation.
        unsafe {
            ibv::ibv_wr_rdma_write_imm(self.raw, place.rkey, place.address, immediate.to_be())
        };
        self.local(local);
    }

    /// Adds a SEND into the next receive buffer of the responder.
    pub fn send(&mut self, stamp: Stamp, local: RawSpan) {
        self.stamp(stamp);
        // SAFETY: a batch is begun on a queue pair that was made with this operation.
        unsafe { ibv::ibv_wr_send(self.raw) };
        self.local(local);
    }

    /// Adds a READ from `place` to `local`.
    pub fn read(&mut self, stamp: Stamp, local: RawSpan, place: RawPlace) {
        self.stamp(stamp);
        // SAFETY: a batch is begun on a queue pair that was made with this operation.
        unsafe { ibv::ibv_wr_rdma_read(self.raw, place.rkey, place.address) };
        self.local(local);
    }

    /// Adds a CAS of 8 bytes.
    pub fn compare_and_swap(
        &mut self,
        stamp: Stamp,
        found: RawSpan,
        place: RawPlace,
        expected: u64,
        swap: u64,
    ) {
        self.stamp(stamp);
        // SAFETY: a batch is begun on a queue pair that was made with this operation.
        unsafe { ibv::ibv_wr_atomic_cmp_swp(self.raw, place.rkey, place.address, expected, swap) };
        self.local(found);
    }

    /// Adds an FAA of 8 bytes; the word found goes to `found`.
    pub fn fetch_and_add(&mut self, stamp: Stamp, found: RawSpan, place: RawPlace, add: u64) {
        self.stamp(stamp);
        // SAFETY: a batch is begun on a queue pair that was made with this operation.
        unsafe { ibv::ibv_wr_atomic_fetch_add(self.raw, place.rkey, place.address, add) };
        self.local(found);
    }

    /// FLUSH of a range. Some devices report success for an empty type or an empty range without doing anything, so
    /// neither can be expressed or posted.
    pub fn flush(&mut self, stamp: Stamp, place: RawPlace, size: u64, placement: FlushPlacement) {
        assert!(self.qp.extra.flush, "the queue pair was made with FLUSH");
        assert!(size > 0, "a FLUSH covers at least one byte");
        self.stamp(stamp);
        let kind = match placement {
            FlushPlacement::Global => ibv::IBV_FLUSH_GLOBAL,
            FlushPlacement::Persistent => ibv::IBV_FLUSH_PERSISTENT,
        };
        let size = usize::try_from(size).expect("addresses have 64 bits");
        // SAFETY: the queue pair was made with this operation (asserted), so the library is new enough to have the
        // field.
        let post =
            unsafe { (*self.raw).wr_flush }.expect("the library made a queue pair with FLUSH");
        // SAFETY: a batch is begun on this queue pair.
        unsafe {
            post(
                self.raw,
                place.rkey,
                place.address,
                size,
                kind as u8,
                ibv::IBV_FLUSH_RANGE as u8,
            )
        };
    }

    /// Adds an ATOMIC_WRITE of 8 bytes.
    pub fn atomic_write(&mut self, stamp: Stamp, place: RawPlace, value: u64) {
        assert!(
            self.qp.extra.atomic_write,
            "the queue pair was made with ATOMIC_WRITE"
        );
        self.stamp(stamp);
        // SAFETY: the queue pair was made with this operation (asserted), so the library is new enough to have the
        // field.
        let post = unsafe { (*self.raw).wr_atomic_write }
            .expect("the library made a queue pair with ATOMIC_WRITE");
        // SAFETY: a batch is begun on this queue pair; eight bytes are copied from `value` before the call returns.
        unsafe {
            post(
                self.raw,
                place.rkey,
                place.address,
                (&raw const value).cast(),
            )
        };
    }

    /// Binds `window` to `span` (addresses as peers use them) of `registration`, for the peer of this queue pair alone.
    pub fn bind(
        &mut self,
        stamp: Stamp,
        window: &Window,
        registration: &Registration,
        span: Span,
        access: Access,
    ) {
        assert!(
            self.qp.extra.windows,
            "the queue pair was made with windows"
        );
        self.stamp(stamp);
        let bound = ibv::ibv_mw_bind_info {
            mr: registration.raw(),
            addr: span.offset,
            length: span.size,
            mw_access_flags: remote_flags(access),
        };
        // SAFETY: a batch is begun on a queue pair that was made with this operation; window and registration are
        // alive, and `bound` is copied before the call returns.
        unsafe { ibv::ibv_wr_bind_mw(self.raw, window.raw(), window.rkey(), &bound) };
    }

    /// Rings the doorbell. After an error nothing was posted.
    pub fn commit(mut self) -> io::Result<()> {
        self.committed = true;
        // SAFETY: a batch is begun and ends here.
        outcome(unsafe { ibv::ibv_wr_complete(self.raw) })
    }
}

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        if !self.committed {
            // SAFETY: a batch has begun and was not ended; it ends here, and none of it is posted.
            unsafe { ibv::ibv_wr_abort(self.raw) };
        }
    }
}
