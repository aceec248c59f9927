//! One declaration for each layout on the wire gives the type and the table that the page of the format shows.

/// A field as the page shows it.
#[cfg(test)]
pub(crate) struct Field {
    pub offset: usize,
    pub size: usize,
    pub meaning: &'static str,
}

/// Declares a layout and the list of its fields. All field types have alignment 1, so there is no padding.
macro_rules! message {
    ($(#[$meta:meta])* $name:ident, $fields:ident: $($field:ident: $type:ty, $meaning:literal;)+) => {
        $(#[$meta])*
        #[derive(
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable, zerocopy::Unaligned, Clone, Copy,
        )]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub $field: $type,)+
        }

        /// Every byte of the layout, in order.
        #[cfg(test)]
        pub(crate) const $fields: &[crate::wire::layout::Field] = &[$(crate::wire::layout::Field {
            offset: std::mem::offset_of!($name, $field),
            size: size_of::<$type>(),
            meaning: $meaning,
        },)+];
    };
}
pub(crate) use message;
