//! The memory that a peer's keys open: its key table, and mappings of its regions, made on first use.
//!
//! A region is mapped read-only as a whole. Writing goes through a second mapping of just the pages that a key covers,
//! so that the MMU catches a stray store elsewhere. All data from the peer (keys, sizes) are checked against the actual
//! mapping. Memory that can be shortened under a mapping is accepted only with explicit permission.
//!
//! A key that was looked up once is kept with the piece of a mapping that it leads to: the bytes that the key opens and
//! the region has. The kept key is valid as long as the first word in the peer's table is unchanged, which costs one
//! load of one cache line.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{Access, ReadInto, RemoteAddress, Rkey, Status};
use stonecast_media::{MappedPiece, MappedRegion, MappedWord, Region, Writable};

use crate::control::RegionFile;
use crate::key_table::{Key, changes_memory, key_offset, read_key, rights};
use crate::layout::PAGE_SIZE;

/// The memory of the peer at the other end of a connection.
#[derive(Debug)]
pub(crate) struct PeerMemory {
    table: Rc<MappedRegion>,
    /// The peer's queue pair, as named in its keys.
    queue_pair: u32,
    /// Whether files that can be shortened are mapped nonetheless.
    trusts_files: bool,
    /// Keys by index in the peer's table.
    keys: Vec<Option<KnownKey>>,
    /// Regions by region handle of the peer.
    regions: BTreeMap<u32, PeerRegion>,
}

#[derive(Debug)]
struct KnownKey {
    rkey: Rkey,
    /// First word in the peer's table: its value, and its offset.
    word: u64,
    word_now: MappedWord,
    key: Key,
    /// The piece that the key opens for reading, if any.
    read: Option<MappedPiece>,
    write: Option<Range>,
}

/// A writable mapping of part of a region.
#[derive(Clone, Debug)]
struct Range {
    mapping: Rc<MappedRegion>,
    /// Start in the region, in bytes.
    start: u64,
}

#[derive(Debug, Default)]
struct PeerRegion {
    /// The whole region for reading.
    whole: Option<Rc<MappedRegion>>,
    /// The peer's answers for reading and for writing.
    files: [Given; 2],
    /// The whole region for writing, for messages that are appended.
    appendable: Option<Rc<MappedRegion>>,
}

/// The state of a descriptor of a region.
#[derive(Debug, Default)]
enum Given {
    #[default]
    Unasked,
    Asked,
    Denied,
    File(RegionFile),
}

/// The place of remote bytes.
#[derive(Debug)]
pub(crate) enum Resolved {
    /// At this offset of this mapping.
    At(Rc<MappedRegion>, u64),
    /// In a region that must be requested.
    Missing(Wanted),
    /// In a region that was requested.
    Awaited,
    /// Nowhere: the work request completes with this status.
    Refused(Status),
}

/// A key that opens mapped memory for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readable<'a> {
    known: &'a KnownKey,
    piece: &'a MappedPiece,
}

impl Readable<'_> {
    /// Prefetches the bytes of `read`; `None` if the key does not open them.
    #[inline]
    pub(crate) fn prefetch(&self, read: &ReadInto<'_>) -> Option<()> {
        self.piece
            .prefetch(self.skip(read)?, read.into.len())
            .then_some(())
    }

    /// Copies the bytes of `read`; `None` if the key does not open them.
    #[inline]
    pub(crate) fn copy(&self, read: &mut ReadInto<'_>) -> Option<()> {
        self.piece.read(self.skip(read)?, read.into).then_some(())
    }

    /// Whether the key has been valid since it was looked up. Checked behind a read fence after bytes were copied out:
    /// if so, the copy came before any revocation.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.known.is_valid()
    }

    /// The offset in the piece of the bytes of `read`.
    #[inline]
    fn skip(&self, read: &ReadInto<'_>) -> Option<u64> {
        read.remote.address.checked_sub(self.known.key.address)
    }
}

impl KnownKey {
    #[inline]
    fn is_valid(&self) -> bool {
        self.word_now.load() == self.word
    }
}

/// The region to request from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) region: u32,
    pub(crate) writable: bool,
}

impl PeerMemory {
    /// The memory behind `table`. `queue_pair` is the peer's queue pair.
    pub(crate) fn new(table: MappedRegion, queue_pair: u32, trusts_files: bool) -> Self {
        Self {
            table: Rc::new(table),
            queue_pair,
            trusts_files,
            keys: Vec::new(),
            regions: BTreeMap::new(),
        }
    }

    /// The peer's device page.
    pub(crate) fn page(&self) -> &MappedRegion {
        &self.table
    }

    /// The key, if it is valid, was used for reading before, and can be used again without fetching anything. The fast
    /// path: no allocation, no change. The caller checks [`PeerMemory::is_current`] after the copy.
    #[inline]
    pub(crate) fn readable(&self, rkey: Rkey) -> Option<Readable<'_>> {
        let known = self.known(rkey)?;
        Some(Readable {
            known,
            piece: known.read.as_ref()?,
        })
    }

    /// The key, if it was looked up before and is valid.
    #[inline]
    fn known(&self, rkey: Rkey) -> Option<&KnownKey> {
        let known = self.keys.get((rkey.0 & 0xffff) as usize)?.as_ref()?;
        (known.rkey == rkey && known.is_valid()).then_some(known)
    }

    /// The place of `size` bytes at `remote` for a requester that needs `right` and has announced itself, if the key
    /// was used for such a change before and nothing must be fetched.
    #[inline]
    pub(crate) fn changeable(
        &self,
        remote: RemoteAddress,
        size: u64,
        right: Access,
    ) -> Option<(&MappedRegion, u64)> {
        let known = self
            .known(remote.rkey)
            .filter(|known| known.key.access.grants(right))?;
        let Range { mapping, start } = known.write.as_ref()?;
        let at = within(&known.key, remote.address, size)?.checked_sub(*start)?;
        (at.checked_add(size)? <= mapping.size()).then_some((mapping, at))
    }

    /// The mapping that READs at `remote` copy from, and the offset in it.
    pub(crate) fn read_mapping(&self, remote: RemoteAddress) -> Option<(Rc<MappedRegion>, u64)> {
        let Readable { known, piece } = self.readable(remote.rkey)?;
        let skip = remote.address.checked_sub(known.key.address)?;
        (skip <= piece.span().size).then(|| (piece.mapping().clone(), piece.span().offset + skip))
    }

    /// Whether the key has been valid since it was resolved. Checked behind a read fence after bytes were copied out:
    /// if so, the copy came before any revocation.
    #[inline]
    pub(crate) fn is_current(&self, rkey: Rkey) -> bool {
        let known = self
            .keys
            .get((rkey.0 & 0xffff) as usize)
            .and_then(Option::as_ref);
        known.is_some_and(|known| known.rkey == rkey && known.is_valid())
    }

    /// The place of `size` bytes at `remote` for a requester that needs `right`.
    pub(crate) fn resolve(&mut self, remote: RemoteAddress, size: u64, right: Access) -> Resolved {
        let Some(known) = self.look_up(remote.rkey) else {
            return Resolved::Refused(Status::RemoteAccess);
        };
        let key = known.key;
        if !key.access.grants(right) {
            return Resolved::Refused(Status::RemoteAccess);
        }
        let Some(offset) = within(&key, remote.address, size) else {
            return Resolved::Refused(Status::RemoteAccess);
        };
        let index = (remote.rkey.0 & 0xffff) as usize;
        let found = if changes_memory(right) {
            self.writable(index, &key)
        } else {
            self.whole(index, &key)
        };
        match found {
            Ok(Range { mapping, start }) => match offset.checked_sub(start) {
                Some(at)
                    if at
                        .checked_add(size)
                        .is_some_and(|end| end <= mapping.size()) =>
                {
                    Resolved::At(mapping, at)
                }
                // The key covers more than the region has.
                _ => Resolved::Refused(Status::RemoteAccess),
            },
            Err(other) => other,
        }
    }

    /// A region that messages are appended to, for writing.
    pub(crate) fn appendable(&mut self, region: u32) -> Resolved {
        let entry = self.regions.entry(region).or_default();
        if let Some(mapping) = &entry.appendable {
            return Resolved::At(mapping.clone(), 0);
        }
        let file = match entry.file(region, true) {
            Ok(file) => file,
            Err(other) => return other,
        };
        match map(file, 0, file.size, Writable::Yes, self.trusts_files) {
            Some(mapping) => Resolved::At(entry.appendable.insert(Rc::new(mapping)).clone(), 0),
            None => Resolved::Refused(Status::RemoteOperation),
        }
    }

    /// Notes that the request could not be sent.
    pub(crate) fn not_asked(&mut self, wanted: Wanted) {
        if let Some(entry) = self.regions.get_mut(&wanted.region) {
            entry.files[usize::from(wanted.writable)] = Given::Unasked;
        }
    }

    /// Takes the peer's answer on a region.
    pub(crate) fn answered(&mut self, region: u32, writable: bool, grant: Option<RegionFile>) {
        let Some(entry) = self.regions.get_mut(&region) else {
            return;
        };
        let given = &mut entry.files[usize::from(writable)];
        // An answer without a request is not kept.
        if matches!(given, Given::Asked) {
            *given = grant.map_or(Given::Denied, Given::File);
        }
    }

    /// The key, if it is valid and open to this connection.
    fn look_up(&mut self, rkey: Rkey) -> Option<&KnownKey> {
        let index = (rkey.0 & 0xffff) as usize;
        let word = self.table.load(key_offset(rkey));
        let access = rights(word, rkey)?;
        let is_known = self
            .keys
            .get(index)
            .and_then(Option::as_ref)
            .is_some_and(|known| known.word == word);
        if !is_known {
            let key = read_key(&self.table, rkey, access);
            if self.table.load(key_offset(rkey)) != word
                || (key.queue_pair != 0 && key.queue_pair != self.queue_pair)
            {
                return None;
            }
            if self.keys.len() <= index {
                self.keys.resize_with(index + 1, || None);
            }
            let word_now = MappedWord::new(self.table.clone(), key_offset(rkey));
            self.keys[index] = Some(KnownKey {
                rkey,
                word,
                word_now,
                key,
                read: None,
                write: None,
            });
        }
        self.keys[index].as_ref()
    }

    fn whole(&mut self, index: usize, key: &Key) -> Result<Range, Resolved> {
        let known = self.keys[index].as_mut().expect("look_up filled it");
        if let Some(piece) = &known.read {
            return Ok(Range {
                mapping: piece.mapping().clone(),
                start: 0,
            });
        }
        let entry = self.regions.entry(key.region).or_default();
        if entry.whole.is_none() {
            let file = entry.file(key.region, false)?;
            let mapping = map(file, 0, file.size, Writable::No, self.trusts_files);
            entry.whole = Some(Rc::new(
                mapping.ok_or(Resolved::Refused(Status::RemoteOperation))?,
            ));
        }
        let mapping = entry.whole.clone().expect("just made");
        // The key may claim more than the region has.
        let size = key.size.min(mapping.size().saturating_sub(key.offset));
        known.read = key
            .access
            .grants(Access::REMOTE_READ)
            .then(|| MappedPiece::new(mapping.clone(), Span::new(key.offset, size)))
            .flatten();
        Ok(Range { mapping, start: 0 })
    }

    fn writable(&mut self, index: usize, key: &Key) -> Result<Range, Resolved> {
        let known = self.keys[index].as_ref().expect("look_up filled it");
        if let Some(range) = &known.write {
            return Ok(range.clone());
        }
        self.forget_revoked();
        let entry = self.regions.entry(key.region).or_default();
        let file = entry.file(key.region, true)?;
        let start = key.offset - key.offset % PAGE_SIZE;
        let end = key
            .offset
            .checked_add(key.size)
            .filter(|&end| end <= file.size);
        let size = end.ok_or(Resolved::Refused(Status::RemoteAccess))? - start;
        let mapping = map(file, start, size, Writable::Yes, self.trusts_files);
        let range = Range {
            mapping: Rc::new(mapping.ok_or(Resolved::Refused(Status::RemoteOperation))?),
            start,
        };
        self.keys[index].as_mut().expect("look_up filled it").write = Some(range.clone());
        Ok(range)
    }

    /// Unmaps memory that only revoked keys lead to, so that short-lived keys leave no mappings.
    fn forget_revoked(&mut self) {
        for slot in &mut self.keys {
            if slot.as_ref().is_some_and(|known| !known.is_valid()) {
                *slot = None;
            }
        }
        let keys = &self.keys;
        let is_used = |region: u32| {
            keys.iter()
                .flatten()
                .any(|known| known.key.region == region)
        };
        self.regions.retain(|&region, entry| {
            entry.is_awaited() || entry.appendable.is_some() || is_used(region)
        });
    }
}

impl PeerRegion {
    /// The descriptor that the peer gave, or the step to get it.
    fn file(&mut self, region: u32, writable: bool) -> Result<&RegionFile, Resolved> {
        let given = &mut self.files[usize::from(writable)];
        match given {
            Given::File(file) => Ok(file),
            Given::Asked => Err(Resolved::Awaited),
            Given::Unasked => {
                *given = Given::Asked;
                Err(Resolved::Missing(Wanted { region, writable }))
            }
            Given::Denied => {
                // Rights may change; the next user asks again.
                *given = Given::Unasked;
                Err(Resolved::Refused(Status::RemoteAccess))
            }
        }
    }

    fn is_awaited(&self) -> bool {
        self.files.iter().any(|given| matches!(given, Given::Asked))
    }
}

/// Offset in the region of `size` bytes at `address`, if the key covers them.
#[inline]
fn within(key: &Key, address: u64, size: u64) -> Option<u64> {
    let skip = address.checked_sub(key.address)?;
    if skip.checked_add(size)? > key.size {
        None
    } else {
        key.offset.checked_add(skip)
    }
}

fn map(
    file: &RegionFile,
    start: u64,
    size: u64,
    writable: Writable,
    trusts_files: bool,
) -> Option<MappedRegion> {
    let offset = file.file_offset.checked_add(start)?;
    let mapping = MappedRegion::map(file.file.try_clone().ok()?, offset, size, writable).ok()?;
    (trusts_files || mapping.cannot_shrink()).then_some(mapping)
}
