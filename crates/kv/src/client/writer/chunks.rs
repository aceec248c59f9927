//! Puts of values that no record holds: chunks first, and then the record that names them.
//!
//! The chunks are records that no key of a user leads to. Some of them are in flight together. The last record is the
//! put: it has the condition, the token and the expiry, and the server decides it if all chunks are there. The chunks
//! of a put that is not done are abandoned, after all of them have ended; those of a put that is given up are abandoned
//! by the task of the connection. A client that ends before leaves chunks that the server drops after a time.

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use stonecast_log::{
    CHUNK_SIZE_MAX, Condition, Draft, Expiry, Form, Kind, UNIT_SIZE, record_size_until,
};

use super::{Tried, Writer, Written};
use crate::client::connection::Connection;
use crate::client::pending::Upload;
use crate::error::{Effect, StoreError};
use crate::wire::limits::{STAGING_SIZE, UPLOAD_MS};
use crate::wire::{ChunkName, Head};

/// Chunks that fill a segment, at least: chunks of about a quarter leave little room at the ends of segments.
const CHUNKS_IN_SEGMENT: u64 = 4;

/// Chunks of one value in flight, at most.
const TOGETHER_MAX: u64 = 8;
/// Bytes of staging memory that the chunks of one value take, at most: the rest is there for other writes.
const STAGED_MAX: u64 = STAGING_SIZE / 4 * 3;

/// Does a put whose value fits no record.
pub(super) async fn put_in_chunks(
    writer: &Writer,
    draft: &Draft<'_>,
) -> Result<Written, StoreError> {
    let keys = writer.connection.welcome.keys();
    let shard = keys.route(draft.key).shard;
    let now_ms = writer.connection.time_of_ms(shard).await?;
    let expires = Expiry::at_ms(now_ms + UPLOAD_MS);
    let head = Head {
        size: draft.value.len() as u64,
        upload: writer.unique_number(),
        chunk_size: chunk_size(writer, expires),
    };
    let upload = Underway::begin(writer, draft.key, head);
    let put = put_chunks(writer, draft, head, expires).await;
    let may_be_named = match &put {
        Ok(Written::Done(_)) => true,
        Ok(Written::Conflict(_)) => false,
        Err(error) => error.effect() != Effect::None || writer.connection.is_closed(),
    };
    if !may_be_named {
        writer.connection.abandon(upload.upload).await;
    }
    upload.end();
    put
}

/// An upload whose put has not ended. If it is dropped, the put was given up, and the chunks are abandoned.
struct Underway<'a> {
    connection: &'a Connection,
    upload: Upload,
    has_ended: bool,
}

impl<'a> Underway<'a> {
    fn begin(writer: &'a Writer, key: &[u8], head: Head) -> Self {
        let connection = &*writer.connection;
        Self {
            connection,
            upload: Upload {
                number: head.upload,
                whole: connection.welcome.keys().whole_hash(key),
            },
            has_ended: false,
        }
    }

    fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.connection.give_up(self.upload);
        }
    }
}

async fn put_chunks(
    writer: &Writer,
    draft: &Draft<'_>,
    head: Head,
    expires: Option<Expiry>,
) -> Result<Written, StoreError> {
    let whole = writer.connection.welcome.keys().whole_hash(draft.key);
    let chunks = draft.value.chunks(head.chunk_size as usize);
    let mut in_flight = FuturesOrdered::new();
    let mut put = Ok(());
    for (name, chunk) in head.names(whole).zip(chunks) {
        if in_flight.len() == together(head.chunk_size) {
            put = in_flight.next().await.unwrap_or(Ok(()));
        }
        if put.is_err() {
            break;
        }
        in_flight.push_back(put_chunk(writer, name, chunk, expires));
    }
    // A chunk on its way would come behind the message that abandons the upload.
    while let Some(ended) = in_flight.next().await {
        put = put.and(ended);
    }
    put.map_err(of_chunk)?;
    let draft = Draft {
        form: Form::Head,
        value: &head.bytes(),
        ..*draft
    };
    writer.put_in_record(&draft, Tried::InCall).await
}

async fn put_chunk(
    writer: &Writer,
    name: ChunkName,
    chunk: &[u8],
    expires: Option<Expiry>,
) -> Result<(), StoreError> {
    let draft = Draft {
        kind: Kind::Put,
        form: Form::Chunk,
        condition: Condition::Absent,
        token: 0,
        expires,
        key: &name.key(),
        value: chunk,
    };
    match writer.put_in_record(&draft, Tried::InCall).await? {
        Written::Done(_) => Ok(()),
        Written::Conflict(_) => Err(StoreError::Protocol {
            what: "the number of an upload was used before",
        }),
    }
}

/// Chunks that are in flight together.
fn together(chunk_size: u64) -> usize {
    (STAGED_MAX / chunk_size).clamp(1, TOGETHER_MAX) as usize
}

/// Bytes of each chunk but the last one.
fn chunk_size(writer: &Writer, expires: Option<Expiry>) -> u64 {
    let units = writer.segment_room() / CHUNKS_IN_SEGMENT / UNIT_SIZE;
    let beside = record_size_until(ChunkName::SIZE, 0, expires);
    (units * UNIT_SIZE - beside).min(CHUNK_SIZE_MAX as u64)
}

/// The error of a put whose chunk failed. A chunk alone changes no key, so nothing was done, whatever became of the
/// chunk.
fn of_chunk(error: StoreError) -> StoreError {
    match error {
        StoreError::Disconnected { .. } => StoreError::Disconnected { unknown: false },
        StoreError::NotPersisted => StoreError::ChunkFailed {
            reason: "the server could not make it durable",
        },
        StoreError::Protocol { what } => StoreError::ChunkFailed { reason: what },
        error => error,
    }
}
