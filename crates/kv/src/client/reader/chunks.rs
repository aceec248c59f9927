//! The value of a record that names chunks.

use std::pin::pin;

use futures_util::stream::{self, StreamExt as _};
use stonecast_log::Form;

use super::Reader;
use crate::error::StoreError;
use crate::index::WholeChunk;
use crate::wire::{ChunkName, Head};

/// Chunks of one value that are read together, at least and at most.
const TOGETHER_MIN: u64 = 4;
const TOGETHER_MAX: u64 = 16;
/// Bytes of short chunks that are read together: many times the bytes in transit on a fast network.
const BYTES_TOGETHER: u64 = 1 << 20;

/// Replaces the content of `value`, a head of `key`, by the value that its chunks make up. Returns whether all chunks
/// are there. Chunks do not change, so the value is the one that the head names, whenever they are read.
pub async fn take_chunks(
    reader: &Reader,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Result<bool, StoreError> {
    let head = Head::read(value).ok_or(StoreError::Protocol {
        what: "a record names chunks of impossible sizes",
    })?;
    value.clear();
    let names = head.names(reader.connection.welcome.keys().whole_hash(key));
    let chunks = names.map(|name| find_chunk(reader, name, head.size_of(name.number)));
    let mut chunks = pin!(stream::iter(chunks).buffered(together(head.chunk_size)));
    while let Some(chunk) = chunks.next().await {
        match chunk? {
            Some(chunk) => value.extend_from_slice(&chunk),
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The `size` bytes of a chunk; `None`: it is not there.
async fn find_chunk(
    reader: &Reader,
    name: ChunkName,
    size: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let key = name.key();
    let wanted = (WholeChunk(reader.whole_record(&key)), &key[..]);
    let route = reader.connection.welcome.keys().route_of(Form::Chunk, &key);
    let mut chunk = Vec::new();
    // A long value would displace the remembered places of many keys.
    let found = reader.find_record(wanted, route, None, &mut chunk).await?;
    Ok((found.is_some() && chunk.len() == size).then_some(chunk))
}

/// Chunks that are read together.
fn together(chunk_size: u64) -> usize {
    (BYTES_TOGETHER / chunk_size).clamp(TOGETHER_MIN, TOGETHER_MAX) as usize
}
