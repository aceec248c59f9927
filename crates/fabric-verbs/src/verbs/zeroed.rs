//! Structures of the library, filled with zeros before their fields are set.

use rdma_mummy_sys as ibv;

/// # Safety
///
/// A value whose bytes are all zero must be valid: the type consists only of numbers, raw pointers, arrays of them, and
/// options of function pointers.
pub(crate) unsafe trait AllZero: Sized {
    /// The value whose bytes are all zero.
    fn zeroed() -> Self {
        // SAFETY: the implementer of the trait guarantees that zeros are a valid value.
        unsafe { std::mem::zeroed() }
    }
}

/// Implements [`AllZero`] for C structures of numbers and pointers.
macro_rules! all_zero {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: a C structure of numbers, raw pointers and arrays and unions of them, as the header declares it.
            unsafe impl AllZero for ibv::$name {}
        )*
    };
}

all_zero!(
    ibv_device_attr_ex,
    ibv_gid,
    ibv_mw_bind_info,
    ibv_port_attr,
    ibv_qp_attr,
    ibv_qp_init_attr_ex,
    ibv_recv_wr,
    ibv_srq_init_attr,
    ibv_wc,
);
