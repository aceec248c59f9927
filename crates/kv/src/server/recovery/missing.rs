//! The values of a pool that miss a chunk.

use stonecast_log::{Form, HEAD_SIZE, RecordHeader};
use stonecast_media::Region;

use crate::server::shard::keys::{Keys, resident};
use crate::wire::{ChunkName, Head, KeyMap, Word};

/// A value whose head names a chunk that the log does not have. A server opens the pool, and a reader of the key gets
/// an error.
///
/// ```
/// # use stonecast_kv::MissingChunk;
/// let missing = MissingChunk { key: b"film".to_vec(), version: 7, offset: 4096, chunk: 2, chunks: 9 };
/// assert_eq!(
///     missing.to_string(),
///     "the value of \"film\" at version 7, whose head lies at byte 4096 of the log, misses chunk 2 of 9"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the value of \"{}\" at version {version}, whose head lies at byte {offset} of the log, misses chunk {chunk} of \
     {chunks}",
    key.escape_ascii()
)]
pub struct MissingChunk {
    /// The key.
    pub key: Vec<u8>,
    /// The version of the value.
    pub version: u64,
    /// Byte position in the log of the record that names the chunks.
    pub offset: u64,
    /// Number of the missing chunk, from 0.
    pub chunk: u32,
    /// Number of the chunks that the record names.
    pub chunks: u32,
}

/// The chunks that the heads among `keys`, a shard of `log`, name and that are not there.
///
/// Heads of keys that expire are left out: when the moment of such a key has come, its chunks may go before its record.
pub(super) fn missing_chunks(
    log: &dyn Region,
    map: KeyMap,
    keys: &Keys,
    found: &mut Vec<MissingChunk>,
) {
    let mut heads = Vec::new();
    keys.index.each(log, map, |(_, word), header| {
        if header.form() == Form::Head && header.expires().is_none() {
            heads.push((word, *header));
        }
    });
    for (word, header) in heads {
        let (key, head) = read_head(log, word, &header);
        let Some(head) = head else {
            continue;
        };
        let names: Vec<ChunkName> = head.names(map.whole_hash(&key)).collect();
        let is_missing = |name: &&ChunkName| !is_there(log, map, keys, **name, head);
        let missing = names.iter().filter(is_missing).map(|name| MissingChunk {
            key: key.clone(),
            version: header.sequence(),
            offset: word.position(),
            chunk: name.number,
            chunks: names.len() as u32,
        });
        found.extend(missing);
    }
}

/// Whether the index has the chunk `name` of `head`.
fn is_there(log: &dyn Region, map: KeyMap, keys: &Keys, name: ChunkName, head: Head) -> bool {
    let key = name.key();
    let mut scratch = Vec::new();
    let is_it = |word: Word| {
        let chunk = resident(log, word.position(), &key, &mut scratch);
        chunk.is_some_and(|it| {
            it.same_key
                && it.header.form() == Form::Chunk
                && it.header.value_size() == head.size_of(name.number)
        })
    };
    let hash = map.route_of(Form::Chunk, &key).hash;
    keys.index.find(hash, is_it).is_some()
}

/// The key of the record behind `word`, which has `header`, and the head that the record is.
fn read_head(log: &dyn Region, word: Word, header: &RecordHeader) -> (Vec<u8>, Option<Head>) {
    let mut key = vec![0; header.key_size()];
    let start = word.position() + header.key_start() as u64;
    log.read(start, &mut key);
    let mut value = [0; HEAD_SIZE];
    log.read(start + key.len() as u64, &mut value);
    (key, Head::read(&value))
}
