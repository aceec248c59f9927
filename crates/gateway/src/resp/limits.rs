//! Limits on the size of a request.

/// Limits on one request. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The most arguments, including the command's name.
    pub arguments: u32,
    /// The longest argument.
    pub argument_size: u64,
    /// The longest request, as sent.
    pub size: u64,
}

/// The longest inline command, and the longest line of any kind.
pub(super) const INLINE_SIZE_MAX: usize = 64 << 10;
/// The longest line that announces a number: kind, sign, 19 digits and line end, rounded up.
pub(super) const NUMBER_LINE_SIZE_MAX: usize = 32;

impl RequestLimits {
    /// The limits before the password: enough to send it.
    pub const UNAUTHENTICATED: Self = Self {
        arguments: 10,
        argument_size: 16_384,
        size: 64 << 10,
    };
}
