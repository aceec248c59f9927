//! The parts of a file that have space on the medium, as the file system reports them by `SEEK_DATA` and `SEEK_HOLE`.
//!
//! A part that is reported as data has its blocks. A part that is reported as a hole has none, or its blocks were
//! allocated and never written (the two differ only in the cost of the first write). A file system without this
//! information reports a whole file as data; [`holes_are_reported`] detects that.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use stonecast_base::Span;

/// The bytes from `offset` on that are data, up to the first hole or the end of the file. The file system looks at each
/// page of the answer, so a caller remembers it.
pub(super) fn data_from(file: &File, offset: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(start) if start == offset => Ok(seek(file, SeekFrom::Hole(offset))? - offset),
        Ok(_) | Err(Errno::NXIO) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// The parts of `span` that are data, in ascending order.
pub(super) fn data(file: &File, span: Span) -> io::Result<Vec<Span>> {
    let end = span.offset + span.size;
    let mut found = Vec::new();
    let mut position = span.offset;
    while position < end {
        let start = match seek(file, SeekFrom::Data(position)) {
            Ok(start) => start.min(end),
            // No data follow up to the end of the file.
            Err(Errno::NXIO) => end,
            Err(error) => return Err(error.into()),
        };
        position = if start < end {
            seek(file, SeekFrom::Hole(start))?.min(end)
        } else {
            end
        };
        if position > start {
            found.push(Span::new(start, position - start));
        }
    }
    Ok(found)
}

/// The parts of `span` that are holes, in ascending order.
pub(super) fn holes(file: &File, span: Span) -> io::Result<Vec<Span>> {
    let mut found = Vec::new();
    let mut position = span.offset;
    for part in data(file, span)? {
        if part.offset > position {
            found.push(Span::new(position, part.offset - position));
        }
        position = part.offset + part.size;
    }
    let end = span.offset + span.size;
    if end > position {
        found.push(Span::new(position, end - position));
    }
    Ok(found)
}

/// Whether the file system reports a new file of `size` bytes, none of them written, as one hole, or gives the file its
/// space at once, as file systems without holes do.
pub(super) fn holes_are_reported(file: &File, size: u64) -> io::Result<bool> {
    let empty = data(file, Span::new(0, size))?.is_empty();
    // The unit of this count is 512 bytes, whatever the block size.
    let allocated = file.metadata()?.blocks().saturating_mul(512);
    Ok(empty || allocated >= size)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn data_and_holes_together_are_the_span() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(holes_are_reported(&file, 1 << 20).unwrap());
        file.write_all_at(&[1; 65536], 131_072).unwrap();
        file.write_all_at(&[1; 65536], 524_288).unwrap();
        let whole = Span::new(0, 1 << 20);
        assert_eq!(
            data(&file, whole).unwrap(),
            [Span::new(131_072, 65536), Span::new(524_288, 65536)]
        );
        assert_eq!(
            holes(&file, whole).unwrap(),
            [
                Span::new(0, 131_072),
                Span::new(196_608, 327_680),
                Span::new(589_824, 458_752)
            ]
        );
        assert_eq!(
            data(&file, Span::new(135_168, 8192)).unwrap(),
            [Span::new(135_168, 8192)]
        );
        assert_eq!(holes(&file, Span::new(135_168, 8192)).unwrap(), []);
        let from = [131_072, 135_168, 196_608, 524_288, 1 << 20];
        let from = from.map(|offset| data_from(&file, offset).unwrap());
        assert_eq!(from, [65_536, 61_440, 0, 65_536, 0]);
        assert_eq!(data(&file, Span::new(1 << 19, 0)).unwrap(), []);
        assert_eq!(
            holes(&file, Span::new(600_000, 100)).unwrap(),
            [Span::new(600_000, 100)]
        );
    }
}
