//! One declaration for each 64-byte layout: the type, and the table that the format page shows.

/// A field, as shown on the format page.
#[cfg(test)]
pub(crate) struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    pub writer: &'static str,
    pub meaning: &'static str,
}

/// Declares a layout of one line and the list of its fields. All field types have alignment 1, so
/// there is no padding, and the fields of a struct of 64 bytes name every byte.
macro_rules! layout {
    ($(#[$meta:meta])* $name:ident, $fields:ident: $($field:ident: $type:ty, $writer:literal, $meaning:literal;)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub $field: $type,)+
        }

        /// Every byte of the layout, in order.
        #[cfg(test)]
        pub(crate) const $fields: &[crate::layout::Field] = &[$(crate::layout::Field {
            name: stringify!($field),
            offset: std::mem::offset_of!($name, $field),
            size: size_of::<$type>(),
            writer: $writer,
            meaning: $meaning,
        },)+];

        const _: () = assert!(size_of::<$name>() == stonecast_base::LINE_SIZE);
    };
}
pub(crate) use layout;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::{appended, record, seal, segment};

    fn table(fields: &[Field]) -> String {
        let mut table = String::from(
            "| offset | size | field | written by | meaning |\n| --- | --- | --- | --- | --- |\n",
        );
        for Field {
            name,
            offset,
            size,
            writer,
            meaning,
        } in fields
        {
            let name = name.replace('_', " ");
            writeln!(
                table,
                "| {offset} | {size} | {name} | {writer} | {meaning} |"
            )
            .expect("writing to a String cannot fail");
        }
        table
    }

    fn offset_of(fields: &[Field], name: &str) -> usize {
        fields
            .iter()
            .find(|field| field.name == name)
            .expect("there is such a field")
            .offset
    }

    #[test]
    fn the_format_page_shows_the_tables_of_the_types() {
        let log = ("log.md", include_str!("../../../docs/formats/log.md"));
        let append_log = (
            "append-log.md",
            include_str!("../../../docs/formats/append-log.md"),
        );
        let tables = [
            (log, "record", record::FIELDS),
            (log, "segment header", segment::FIELDS),
            (log, "seal", seal::FIELDS),
            (append_log, "ledger", appended::LEDGER_FIELDS),
        ];
        for ((file, page), name, fields) in tables {
            let (_, rest) = page
                .split_once(&format!("<!-- {name} table -->\n"))
                .expect("the page has the first marker");
            let (shown, _) = rest
                .split_once("<!-- end -->")
                .expect("the page has the second marker");
            let printed = table(fields);
            assert!(
                shown == printed,
                "put this between the markers of the {name} in docs/formats/{file}:\n{printed}"
            );
        }
    }

    /// Moving a field changes the format of every pool, so this table must change with it, on
    /// purpose.
    #[test]
    fn the_fields_lie_where_the_second_version_put_them() {
        let record = ["sequence", "commit_tag", "links", "tag", "facts", "more"];
        assert_eq!(
            record.map(|name| offset_of(record::FIELDS, name)),
            [0, 8, 16, 24, 32, 40]
        );
        let header = ["magic", "version", "number", "uuid", "generation", "check"];
        assert_eq!(
            header.map(|name| offset_of(segment::FIELDS, name)),
            [0, 8, 12, 16, 32, 36]
        );
        let seal = ["serial", "end", "count", "xor", "checksum"];
        assert_eq!(
            seal.map(|name| offset_of(seal::FIELDS, name)),
            [0, 4, 8, 16, 48]
        );
    }
}
