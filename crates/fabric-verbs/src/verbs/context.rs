//! An open device.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;

use rdma_mummy_sys as ibv;
use stonecast_fabric::DeviceError;

use super::zeroed::AllZero;
use super::{cause, outcome};

/// An open device, shared by all objects made from it. Any thread may call the library.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    context: *mut ibv::ibv_context,
    name: String,
}

// SAFETY: libibverbs locks the state that calls on one context share (ibv_open_device(3): thread safe); the pointer is
// only read, and freed once, by the last owner.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened by `ibv_open_device` and closed only here; every object made from it holds the `Arc`.
        let _nothing_to_do = unsafe { ibv::ibv_close_device(self.context) };
    }
}

/// Limits and abilities of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub queue_depth_max: u32,
    pub completion_queue_depth_max: u32,
    pub shared_receive_depth_max: u32,
    /// READs and atomics that a queue pair may have outstanding, as requester.
    pub reads_out_max: u8,
    /// READs and atomics that a queue pair may have outstanding, as responder.
    pub reads_in_max: u8,
    pub windows: bool,
    /// Whether this is soft-RoCE, whose peculiarities `device/quirks.rs` lists.
    pub is_soft_roce: bool,
    pub flush_global: bool,
    pub flush_persistent: bool,
    pub atomic_write: bool,
}

/// Bits of `device_cap_flags_ex` above those of the first structure (rdma-core, `ib_user_verbs.h`).
const FLUSH_GLOBAL: u64 = 1 << 38;
const FLUSH_PERSISTENT: u64 = 1 << 39;
const ATOMIC_WRITE: u64 = 1 << 40;
/// Bits of `device_cap_flags`: memory windows of type 2 that are bound to a queue pair.
const MEMORY_WINDOW_TYPE_2B: u64 = 1 << 24;

/// The vendor that soft-RoCE reports (Linux, `rxe_param.h`).
const SOFT_ROCE_VENDOR: u32 = 0xff_ffff;

/// The list of devices, freed when dropped.
struct DeviceList {
    list: *mut *mut ibv::ibv_device,
    count: usize,
}

impl DeviceList {
    fn new() -> io::Result<Self> {
        let mut count = 0;
        // SAFETY: `count` is written before the call returns.
        let list = unsafe { ibv::ibv_get_device_list(&mut count) };
        if list.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self {
                list,
                count: usize::try_from(count).unwrap_or(0),
            })
        }
    }

    fn iter(&self) -> impl Iterator<Item = *mut ibv::ibv_device> + '_ {
        // SAFETY: not null (checked by `new`); the library reports `count` pointers there, which do not change while
        // the list lives, as long as `self`.
        unsafe { std::slice::from_raw_parts(self.list, self.count) }
            .iter()
            .copied()
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_get_device_list`, freed once; open devices stay valid (its manual page).
        unsafe { ibv::ibv_free_device_list(self.list) };
    }
}

fn name_of(device: *mut ibv::ibv_device) -> String {
    // SAFETY: `device` comes from a list that is alive.
    let name = unsafe { ibv::ibv_get_device_name(device) };
    if name.is_null() {
        return String::new();
    }
    // SAFETY: not null (checked), and a string of the device, which the list keeps alive; copied at once.
    unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
}

/// The names of the devices of this machine; an error if the library or its kernel part is missing.
pub(crate) fn device_names() -> Result<Vec<String>, DeviceError> {
    let list = DeviceList::new().map_err(|error| unusable(cause::no_library(&error)))?;
    Ok(list.iter().map(name_of).collect())
}

fn unusable(reason: String) -> DeviceError {
    DeviceError::System {
        doing: "opening an RDMA device",
        source: io::Error::other(reason),
    }
}

impl Context {
    /// Opens the device `wanted`, or the first one.
    pub fn open(wanted: Option<&str>) -> Result<Self, DeviceError> {
        let list = DeviceList::new().map_err(|error| unusable(cause::no_library(&error)))?;
        if list.count == 0 {
            return Err(unusable(cause::NO_DEVICE.into()));
        }
        let Some(device) = list
            .iter()
            .find(|&device| wanted.is_none_or(|wanted| name_of(device) == wanted))
        else {
            let present: Vec<_> = list.iter().map(name_of).collect();
            return Err(unusable(cause::no_such_device(
                wanted.unwrap_or_default(),
                &present,
            )));
        };
        let name = name_of(device);
        // SAFETY: `device` belongs to a list that is alive.
        let context = unsafe { ibv::ibv_open_device(device) };
        if context.is_null() {
            return Err(unusable(cause::cannot_open(
                &name,
                &io::Error::last_os_error(),
            )));
        }
        Ok(Self {
            handle: Arc::new(Handle { context, name }),
        })
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    /// For calls of the library that take the context. Valid while `self` lives.
    pub(super) fn raw(&self) -> *mut ibv::ibv_context {
        self.handle.context
    }

    /// The descriptor on which events of the device are announced.
    pub fn event_descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open while `self` lives; the field never changes.
        let descriptor = unsafe { (*self.raw()).async_fd };
        // SAFETY: the library keeps this descriptor open as long as the context, which the borrow of `self` keeps.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    /// Queries the abilities of the device. FLUSH and ATOMIC_WRITE are its claims; whether the library can post them
    /// shows when a queue pair is made.
    pub fn facts(&self) -> Result<Facts, DeviceError> {
        let mut found = ibv::ibv_device_attr_ex::zeroed();
        // SAFETY: the context is open; no input is allowed to be null; `found` is writable and large enough.
        let code = unsafe { ibv::ibv_query_device_ex(self.raw(), ptr::null(), &mut found) };
        outcome(code).map_err(|source| DeviceError::System {
            doing: "asking the RDMA device for its limits",
            source,
        })?;
        let base = &found.orig_attr;
        let count = |number: i32| u32::try_from(number).unwrap_or(0);
        let depth = |number: i32| u8::try_from(number.clamp(0, 16)).unwrap_or(0);
        let extended = found.device_cap_flags_ex;
        let window_flag =
            MEMORY_WINDOW_TYPE_2B & (u64::from(base.device_cap_flags) | extended) != 0;
        Ok(Facts {
            queue_depth_max: count(base.max_qp_wr),
            completion_queue_depth_max: count(base.max_cqe),
            shared_receive_depth_max: count(base.max_srq_wr),
            reads_out_max: depth(base.max_qp_init_rd_atom),
            reads_in_max: depth(base.max_qp_rd_atom),
            windows: window_flag && base.max_mw > 0,
            is_soft_roce: base.vendor_id == SOFT_ROCE_VENDOR,
            flush_global: extended & FLUSH_GLOBAL != 0,
            flush_persistent: extended & FLUSH_PERSISTENT != 0,
            atomic_write: extended & ATOMIC_WRITE != 0,
        })
    }
}
