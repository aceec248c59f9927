//! Limits on the size of a request.

/// Limits on one request. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Most arguments, including the command's name.
    pub arguments: u32,
    /// Longest argument.
    pub argument_size: u64,
    /// Longest request, as it is sent.
    pub size: u64,
}

/// Longest inline command, and longest line at all.
pub(super) const INLINE_SIZE_MAX: usize = 64 << 10;
/// Longest line that announces a number: kind, sign, 19 digits and line end, rounded up.
pub(super) const NUMBER_LINE_SIZE_MAX: usize = 32;

impl RequestLimits {
    /// The limits before the password: enough to send it.
    pub const UNAUTHENTICATED: Self = Self {
        arguments: 10,
        argument_size: 16_384,
        size: 64 << 10,
    };
}
