//! Completion queues, and the channel on which they announce new completions.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::rc::Rc;

use rdma_mummy_sys as ibv;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::context::Context;
use super::outcome;
use super::zeroed::AllZero;

/// Completions taken in one call.
const BATCH: usize = 32;

/// The NIC's report on one work request. If `status` is not success, only `wr_id`, `status` and `qp_number` are
/// meaningful.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawCompletion {
    pub wr_id: u64,
    /// One of `ibv_wc_status`.
    pub status: u32,
    /// One of `ibv_wc_opcode`.
    pub opcode: u32,
    pub qp_number: u32,
    pub byte_count: u32,
    /// In the machine's byte order.
    pub immediate: u32,
}

/// The channel on which completion queues announce themselves.
#[derive(Debug)]
pub(crate) struct CompletionChannel {
    raw: *mut ibv::ibv_comp_channel,
    context: Context,
}

impl CompletionChannel {
    /// A fresh channel.
    pub fn new(context: &Context) -> io::Result<Rc<Self>> {
        // SAFETY: the context is open.
        let raw = unsafe { ibv::ibv_create_comp_channel(context.raw()) };
        if raw.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Rc::new(Self {
                raw,
                context: context.clone(),
            }))
        }
    }

    /// Readable when an armed queue has a completion.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as `self`; the field never changes.
        let descriptor = unsafe { (*self.raw).fd };
        // SAFETY: the library keeps this descriptor open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    /// Takes every pending announcement, without blocking.
    pub fn drain(&self) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        while poll(
            &mut [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)],
            Some(&now),
        ) == Ok(1)
        {
            let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel is alive and has an announcement, so this does not block; both places are writable.
            if unsafe { ibv::ibv_get_cq_event(self.raw, &mut cq, &mut context) } != 0 {
                return;
            }
            // SAFETY: the queue that the announcement names is alive: freeing it waits for this acknowledgement, and
            // one thread uses the device.
            unsafe { ibv::ibv_ack_cq_events(cq, 1) };
        }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_comp_channel`, freed once; queues that use it hold the `Rc`.
        let _nothing_to_do = unsafe { ibv::ibv_destroy_comp_channel(self.raw) };
    }
}

/// A completion queue.
pub(crate) struct CompletionQueue {
    raw: *mut ibv::ibv_cq,
    channel: Rc<CompletionChannel>,
    /// The buffer for completions from the library: most polls find none, and preparing a batch would cost more than
    /// the poll.
    batch: RefCell<Box<[ibv::ibv_wc; BATCH]>>,
}

impl CompletionQueue {
    /// A queue of at least `capacity` entries. Events of the device carry `number`.
    pub fn new(
        channel: &Rc<CompletionChannel>,
        capacity: u32,
        number: u32,
    ) -> io::Result<Rc<Self>> {
        let capacity = i32::try_from(capacity).map_err(|_| io::ErrorKind::InvalidInput)?;
        let number = ptr::without_provenance_mut(number as usize);
        let batch = Box::new(std::array::from_fn(|_| ibv::ibv_wc::zeroed()));
        // SAFETY: context and channel are alive; the number is never used as a pointer; vector 0 always exists.
        let raw =
            unsafe { ibv::ibv_create_cq(channel.context.raw(), capacity, number, channel.raw, 0) };
        if raw.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Rc::new(Self {
                raw,
                channel: channel.clone(),
                batch: RefCell::new(batch),
            }))
        }
    }

    /// Takes up to `limit` completions, passes each to `take`, and returns their number.
    pub fn poll(&self, limit: usize, mut take: impl FnMut(RawCompletion)) -> io::Result<usize> {
        let mut found = 0;
        let batch = &mut **self.batch.borrow_mut();
        while found < limit {
            let asked = (limit - found).min(BATCH) as i32;
            // SAFETY: the queue is alive; `batch` has room for `asked` entries.
            let count = unsafe { ibv::ibv_poll_cq(self.raw, asked, batch.as_mut_ptr()) };
            let Ok(count) = usize::try_from(count) else {
                return Err(io::Error::last_os_error());
            };
            batch[..count].iter().map(decode).for_each(&mut take);
            found += count;
            if count < asked as usize {
                break;
            }
        }
        Ok(found)
    }

    /// Takes one completion, if there is one.
    pub fn poll_one(&self) -> io::Result<Option<RawCompletion>> {
        let batch = &mut **self.batch.borrow_mut();
        // SAFETY: the queue is alive; `batch` has room for one entry.
        match unsafe { ibv::ibv_poll_cq(self.raw, 1, batch.as_mut_ptr()) } {
            0 => Ok(None),
            1 => Ok(Some(decode(&batch[0]))),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Requests an announcement on the channel when the next completion arrives.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue is alive.
        outcome(unsafe { ibv::ibv_req_notify_cq(self.raw, 0) })
    }

    pub(super) fn raw(&self) -> *mut ibv::ibv_cq {
        self.raw
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // The call waits until every announcement is acknowledged.
        self.channel.drain();
        // SAFETY: made by `ibv_create_cq`, freed once; queue pairs that use it hold the `Rc`.
        let _nothing_to_do = unsafe { ibv::ibv_destroy_cq(self.raw) };
    }
}

fn decode(found: &ibv::ibv_wc) -> RawCompletion {
    // SAFETY: every bit pattern of the union is a number.
    let immediate = unsafe { found.imm_data_invalidated_rkey_union.imm_data };
    RawCompletion {
        wr_id: found.wr_id,
        status: found.status,
        opcode: found.opcode,
        qp_number: found.qp_num,
        byte_count: found.byte_len,
        immediate: u32::from_be(immediate),
    }
}
