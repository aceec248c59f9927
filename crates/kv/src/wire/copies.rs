//! The answer that tells of the copies of a node's shards.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use super::layout::message;
use crate::copies::{CopyOfShard, CopyPart};
use crate::wire::limits::ANSWER_SIZE_MAX;

/// Bytes of the longest name of a node.
const NAME_SIZE_MAX: usize = 64;
/// Copies in one answer: as many as a message takes.
pub(crate) const COPIES_PER_ANSWER: usize = 7;

message! {
    /// A copy on the wire.
    CopyBody, COPY:
    shard: U32, "number of the shard";
    part: U32, "part: 0 the primary, which serves; 1 the primary, which does not serve; 2 in sync; 3 being filled; 4 waits to be filled";
    survives_power: U32, "1 if the node promises that the copy survives a loss of power";
    name_size: U32, "bytes of the name of the node";
    name: [u8; NAME_SIZE_MAX], "the name, then zeros";
    behind_entries: U64, "entries that the copy has not reported";
    behind_bytes: U64, "bytes of those that are writes of the term";
    waits_ns: U64, "nanoseconds since the first of these writes was stamped";
    silent_ns: U64, "nanoseconds since the node last answered the primary";
    filled_bytes: U64, "being filled: bytes received";
    left_bytes: U64, "being filled: bytes that are left, as an estimate";
}

message! {
    /// The copies of a node's shards on the wire.
    CopiesBody, COPIES:
    total: U32, "copies of all shards whose primary the node is";
    count: U32, "copies in this answer";
    copies: [u8; COPIES_PER_ANSWER * size_of::<CopyBody>()], "these copies, each as below, then zeros";
}

const _: () = assert!(size_of::<CopiesBody>() < ANSWER_SIZE_MAX);

/// Some of the copies of a node's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiesPage {
    /// Copies that the node tells of in all.
    pub total: u32,
    /// The copies of this page, as many as one answer takes.
    pub copies: Vec<CopyOfShard>,
}

impl CopiesPage {
    /// The copies that follow the first `from`.
    pub fn of(copies: &[CopyOfShard], from: u32) -> Self {
        let rest = copies.iter().skip(from as usize);
        Self {
            total: copies.len() as u32,
            copies: rest.take(COPIES_PER_ANSWER).cloned().collect(),
        }
    }
}

impl From<&CopiesPage> for CopiesBody {
    fn from(page: &CopiesPage) -> Self {
        let mut body = Self::new_zeroed();
        body.total = U32::new(page.total);
        body.count = U32::new(page.copies.len() as u32);
        let places = body.copies.chunks_mut(size_of::<CopyBody>());
        for (place, copy) in places.zip(&page.copies) {
            place.copy_from_slice(CopyBody::from(copy).as_bytes());
        }
        body
    }
}

impl CopiesBody {
    /// `None` if the body has more copies than room, or a copy is none.
    pub fn page(&self) -> Option<CopiesPage> {
        let count = self.count.get() as usize;
        let places = self.copies.chunks(size_of::<CopyBody>());
        let copies = places.take(count).map(|place| {
            let copy = CopyBody::read_from_bytes(place).ok()?;
            copy.copy()
        });
        (count <= COPIES_PER_ANSWER).then_some(CopiesPage {
            total: self.total.get(),
            copies: copies.collect::<Option<_>>()?,
        })
    }
}

impl From<&CopyOfShard> for CopyBody {
    fn from(copy: &CopyOfShard) -> Self {
        let part = CopyPart::ALL.iter().position(|part| *part == copy.part);
        let mut name = [0; NAME_SIZE_MAX];
        let size = copy.node.len().min(NAME_SIZE_MAX);
        name[..size].copy_from_slice(&copy.node.as_bytes()[..size]);
        Self {
            shard: U32::new(copy.shard),
            part: U32::new(part.expect("it is one of all") as u32),
            survives_power: U32::new(copy.survives_power.into()),
            name_size: U32::new(size as u32),
            name,
            behind_entries: U64::new(copy.behind_entries),
            behind_bytes: U64::new(copy.behind_bytes),
            waits_ns: U64::new(copy.waits_ns),
            silent_ns: U64::new(copy.silent_ns),
            filled_bytes: U64::new(copy.filled_bytes),
            left_bytes: U64::new(copy.left_bytes),
        }
    }
}

impl CopyBody {
    fn copy(&self) -> Option<CopyOfShard> {
        let name = self.name.get(..self.name_size.get() as usize)?;
        Some(CopyOfShard {
            shard: self.shard.get(),
            node: std::str::from_utf8(name).ok()?.to_owned(),
            part: *CopyPart::ALL.get(self.part.get() as usize)?,
            survives_power: self.survives_power.get() == 1,
            behind_entries: self.behind_entries.get(),
            behind_bytes: self.behind_bytes.get(),
            waits_ns: self.waits_ns.get(),
            silent_ns: self.silent_ns.get(),
            filled_bytes: self.filled_bytes.get(),
            left_bytes: self.left_bytes.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(number: u32) -> CopyOfShard {
        let at = u64::from(number) << 40;
        CopyOfShard {
            shard: number,
            node: "n".repeat(1 + number as usize * 7),
            part: CopyPart::ALL[number as usize % CopyPart::ALL.len()],
            survives_power: number % 2 == 1,
            behind_entries: at + 1,
            behind_bytes: at + 2,
            waits_ns: at + 3,
            silent_ns: at + 4,
            filled_bytes: at + 5,
            left_bytes: at + 6,
        }
    }

    #[test]
    fn copies_survive_the_wire_page_by_page() {
        let all: Vec<_> = (0..9).map(copy).collect();
        let mut back = Vec::new();
        while back.len() < all.len() {
            let page = CopiesPage::of(&all, back.len() as u32);
            let read = CopiesBody::from(&page).page().expect("it is a page");
            assert_eq!((&read, read.total), (&page, 9));
            back.extend(read.copies);
        }
        assert_eq!(back, all);
    }

    /// Fails without each of the checks of a body.
    #[test]
    fn bytes_that_no_server_sends_are_no_page() {
        let sane = CopiesBody::from(&CopiesPage::of(&[copy(1)], 0));
        assert!(sane.page().is_some());
        let with = |change: fn(&mut CopyBody)| {
            let mut body = sane;
            let (place, _) = body.copies.split_at_mut(size_of::<CopyBody>());
            let mut copy = CopyBody::read_from_bytes(&*place).expect("it is one");
            change(&mut copy);
            place.copy_from_slice(copy.as_bytes());
            body.page()
        };
        assert_eq!(with(|copy| copy.part = U32::new(5)), None);
        assert_eq!(with(|copy| copy.name_size = U32::new(65)), None);
        assert_eq!(with(|copy| copy.name[0] = 0xff), None);
        let mut many = sane;
        many.count = U32::new(8);
        assert_eq!(many.page(), None);
    }
}
