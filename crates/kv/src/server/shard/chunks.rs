//! Values in chunks: each chunk is a record that the index names, and lives as long as the record that names it.
//!
//! ```text
//!   upload     chunks            nobody finds them but by a head; they go when their time has come
//!   head       decided only if each chunk is there          from now on no time counts
//!   the head is replaced, removed, or expires               its chunks leave the index in the same step
//! ```
//!
//! Each copy of a shard drops the chunks in the same way when it publishes, so no record has to say that a chunk is
//! gone. After a crash, chunks may be in the index whose head is gone: their time comes as well, or they are dropped at
//! the start of a server that is alone. `docs/design/0049` has the rules.

use std::collections::HashSet;

use stonecast_base::mutant;
use stonecast_log::{Expiry, Form, HEAD_SIZE, RecordHeader};

use super::Shard;
use super::keys::{header_behind, resident};
use crate::index::Place;
use crate::server::journal::Journal;
use crate::wire::{ChunkName, Head, KeyHash, Word};

/// The chunks of a shard.
#[derive(Default)]
pub(in crate::server) struct Chunks {
    /// Chunks that the index names.
    count: u64,
    /// Uploads whose heads are decided and not visible yet.
    awaited: HashSet<u64>,
    /// Whether pages of another node fill the shard: a chunk may come before the head that names it.
    is_filled_by_pages: bool,
}

impl Chunks {
    /// The number of chunks that the index names.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Notes a put of that form that was published, and whether its key was absent.
    pub fn note(&mut self, form: Form, is_new: bool) {
        if form == Form::Chunk && is_new {
            self.count += 1;
        }
    }

    /// Notes a chunk that left the index.
    fn note_gone(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// Lets the chunks of `upload` wait for the record that names them, which is stamped and
    /// becomes visible at any later time.
    pub fn await_head(&mut self, upload: u64) {
        self.awaited.insert(upload);
    }

    /// Forgets which uploads wait for a head: the node no longer leads the shard, and another node decides about the
    /// uploads.
    pub fn await_no_heads(&mut self) {
        self.awaited.clear();
    }

    /// Notes whether pages of another node fill the shard.
    pub fn note_pages(&mut self, fill: bool) {
        self.is_filled_by_pages = fill;
    }

    /// Whether pages of another node fill the shard.
    pub fn is_filled_by_pages(&self) -> bool {
        self.is_filled_by_pages
    }
}

/// Whether each chunk that `head` names is there, with a moment that `is_to_come` accepts, and no record names them
/// yet.
pub(in crate::server) fn has_chunks(
    shard: &mut Shard,
    (key, head): (&[u8], Head),
    is_to_come: impl Fn(Expiry) -> bool,
) -> bool {
    let whole = shard.keys.whole_hash(key);
    // A head that is written twice would have no chunks after a write between the two.
    let first = head.names(whole).next();
    if first.is_some_and(|name| has_whole(shard, name)) {
        return false;
    }
    let is_there = |name: ChunkName| {
        find_chunk(shard, name).is_some_and(|(_, header)| {
            header.value_size() == head.size_of(name.number)
                && header.expires().is_some_and(&is_to_come)
        })
    };
    head.names(whole).all(is_there) || mutant!(HeadWithoutChunks)
}

/// Drops the chunks of the upload of `name`, unless a record names them. Chunks that are sent together may have gone
/// through but for one of them, so each possible number is looked for.
pub(in crate::server) fn abandon(shard: &mut Shard, name: ChunkName, journal: &mut Journal) {
    if has_whole(shard, name) {
        return;
    }
    let numbers = (0..Head::CHUNKS_MAX).map(|number| ChunkName { number, ..name });
    for name in numbers {
        drop_chunk(shard, name, u64::MAX, journal);
    }
}

/// Whether the time of a chunk with `hash` has come at `now_ms`.
pub(in crate::server) fn has_chunk_of_past(shard: &Shard, hash: KeyHash, now_ms: u64) -> bool {
    shard.chunks.count > 0 && chunk_of_past(shard, hash, now_ms, |_| true).is_some()
}

/// Drops the chunks with `hash` whose time has come, unless the record that names them is there or on its way.
pub(in crate::server) fn drop_uploads(
    shard: &mut Shard,
    hash: KeyHash,
    now_ms: u64,
    journal: &mut Journal,
) {
    let is_unnamed = |shard: &Shard, name| !has_whole(shard, name) || mutant!(NamedChunkExpires);
    while let Some(name) = chunk_of_past(shard, hash, now_ms, |name| is_unnamed(shard, name)) {
        drop_chunk(shard, name, u64::MAX, journal);
    }
}

/// A chunk with `hash` whose time has come and whose name is `wanted`.
fn chunk_of_past(
    shard: &Shard,
    hash: KeyHash,
    now_ms: u64,
    wanted: impl Fn(ChunkName) -> bool,
) -> Option<ChunkName> {
    let mut found = None;
    shard.index.find(hash, |word| {
        let header = header_behind(&*shard.log, word).filter(|it| it.form() == Form::Chunk);
        let has_come = |it: &RecordHeader| it.expires().is_some_and(|it| it.has_come(now_ms));
        let header = header.filter(has_come);
        let name = header.and_then(|header| chunk_behind(shard, word, &header));
        found = name.filter(|&name| wanted(name));
        found.is_some()
    });
    found
}

/// Counts the chunks in the index. Without `keeps_uploads`, drops the chunks that no record names.
pub(in crate::server) fn take_over_chunks(
    shard: &mut Shard,
    journal: &mut Journal,
    keeps_uploads: bool,
) {
    let mut names = Vec::new();
    let mut count = 0;
    shard
        .index
        .each(&*shard.log, shard.keys, |(_, word), header| {
            if header.form() == Form::Chunk {
                count += 1;
                names.extend(chunk_behind(shard, word, header));
            }
        });
    shard.chunks.count = count;
    if !keeps_uploads {
        names.retain(|&name| !has_whole(shard, name));
        for name in names {
            drop_chunk(shard, name, u64::MAX, journal);
        }
    }
}

/// Whether the value that the chunk is a part of is there, or on its way.
pub(in crate::server) fn has_whole(shard: &Shard, name: ChunkName) -> bool {
    if shard.chunks.awaited.contains(&name.upload) {
        return true;
    }
    let hash = shard.keys.whole_of(name).hash;
    let names_it = |word: Word| {
        let head = head_behind(shard, word);
        head.is_some_and(|head| head.upload == name.upload)
    };
    shard.index.find(hash, names_it).is_some()
}

/// Drops the chunks of the record of `header` behind `word`, which is a head, because of the write of `version`.
pub(in crate::server) fn drop_chunks(
    shard: &mut Shard,
    (word, header): (Word, &RecordHeader),
    version: u64,
    journal: &mut Journal,
) {
    let Some(head) = head_behind(shard, word) else {
        return;
    };
    if mutant!(ChunksOutliveHead) {
        return;
    }
    let key = key_behind(shard, word, header);
    for name in head.names(shard.keys.whole_hash(&key)) {
        drop_chunk(shard, name, version, journal);
    }
}

/// Removes a chunk from the index, because of the write of `version`. Returns whether the chunk was there.
pub(in crate::server) fn drop_chunk(
    shard: &mut Shard,
    name: ChunkName,
    version: u64,
    journal: &mut Journal,
) -> bool {
    let hash = shard.keys.route_of(Form::Chunk, &name.key()).hash;
    if let Some((found, header)) = find_chunk(shard, name)
        && shard.index.remove(hash, found)
    {
        let word = found.1;
        shard.chunks.note_gone();
        shard.live_bytes = shard.live_bytes.saturating_sub(header.size());
        journal.note_replaced(word, header.sequence(), version);
        let space = &mut journal.space;
        // A chunk is written once, so no tombstone has to outlive it.
        space.note_death(word.position(), header.size(), u64::MAX);
        return true;
    }
    false
}

/// The word of a chunk with its place in the index, and the header of its record.
fn find_chunk(shard: &mut Shard, name: ChunkName) -> Option<((Place, Word), RecordHeader)> {
    let key = name.key();
    let hash = shard.keys.route_of(Form::Chunk, &key).hash;
    let mut header = None;
    let found = shard.index.find(hash, |word| {
        let resident = resident(&*shard.log, word.position(), &key, &mut shard.scratch);
        let chunk = resident.filter(|it| it.same_key && it.header.form() == Form::Chunk);
        header = chunk.map(|chunk| chunk.header);
        header.is_some()
    });
    found.zip(header)
}

/// Notes that the head behind `word` is visible.
pub(in crate::server) fn note_head(shard: &mut Shard, word: Word) {
    if let Some(head) = head_behind(shard, word) {
        shard.chunks.awaited.remove(&head.upload);
    }
}

/// Drops the chunks of a head that a publishing client has overtaken: no reader ever sees it.
pub(in crate::server) fn drop_overtaken(shard: &mut Shard, word: Word, journal: &mut Journal) {
    note_head(shard, word);
    if let Some(header) = header_behind(&*shard.log, word) {
        drop_chunks(shard, (word, &header), u64::MAX, journal);
    }
}

/// The head that the record behind `word` is.
fn head_behind(shard: &Shard, word: Word) -> Option<Head> {
    let header = header_behind(&*shard.log, word)?;
    if header.form() != Form::Head {
        return None;
    }
    let mut value = [0; HEAD_SIZE];
    let start = word.position() + (header.key_start() + header.key_size()) as u64;
    if start + HEAD_SIZE as u64 > shard.log.size() {
        return None;
    }
    shard.log.read(start, &mut value);
    Head::read(&value)
}

/// The name of the chunk behind `word`, whose record has `header`.
pub(in crate::server) fn chunk_behind(
    shard: &Shard,
    word: Word,
    header: &RecordHeader,
) -> Option<ChunkName> {
    match header.form() {
        Form::Chunk => ChunkName::read(&key_behind(shard, word, header)),
        Form::Whole | Form::Head => None,
    }
}

/// The key of the record behind `word`, which has `header`.
fn key_behind(shard: &Shard, word: Word, header: &RecordHeader) -> Vec<u8> {
    let mut key = vec![0; header.key_size()];
    let start = word.position() + header.key_start() as u64;
    shard.log.read(start, &mut key);
    key
}
