//! Making a batch durable, and then visible.

use std::ops::Range;

use stonecast_base::{Span, mutant};
use stonecast_log::{Kind, UNIT_SIZE, record_size};
use stonecast_media::MediaError;
use stonecast_persist::Persisted;

use super::batch::{Batch, Write};
use super::{Server, State};
use crate::error::StoreError;
use crate::server::recovery::rebuild::resident;
use crate::wire::Verdict;

impl Server {
    /// Makes durable what the batch has stamped, with one persist. `None`: there is nothing.
    pub(super) async fn persist_batch(
        &self,
        batch: &mut Batch,
    ) -> Result<Option<Persisted>, StoreError> {
        // The mutant has writes that are done and nothing that is stamped.
        if batch.spans.is_empty() && !mutant!(TombstoneLeftOut) {
            return Ok(None);
        }
        {
            let state = &mut *self.state.borrow_mut();
            batch.spans.append(&mut state.unpersisted);
            batch.spans.extend(state.space.take_due_witnesses());
            leave_out(&mut batch.spans, self.format.segment_size);
        }
        let start = self.runtime.now();
        let persisted = self
            .commit
            .persist(&*self.log, &batch.spans)
            .await
            .map_err(MediaError::from)?;
        let took = self.runtime.now() - start;
        let state = &mut *self.state.borrow_mut();
        state.persist_ns = took;
        state.last_batch = batch.operations().max(state.last_batch * 7 / 8);
        state.counters.persists += 1;
        Ok(Some(persisted))
    }

    /// Stores the index words of those of `writes` that are done. Takes the proof that what they point to is durable.
    pub(super) fn publish(&self, batch: &mut Batch, writes: Range<usize>, _: &Persisted) {
        let state = &mut *self.state.borrow_mut();
        let State {
            index,
            space,
            live_bytes,
            counters,
            ..
        } = state;
        let done = |write: &&Write| write.verdict == Verdict::Done;
        for write in batch.writes[writes].iter().filter(done) {
            if !mutant!(TombstoneLeftOut) || write.kind == Kind::Put {
                space.note_durable(write.segment, &*self.log);
            }
            let key = &batch.bytes[write.key.0..write.key.1];
            let mut old;
            let is_newest = loop {
                old = None;
                let found = index.find(write.hash, |word| {
                    let resident = resident(&*self.log, word.position(), key, &mut batch.record);
                    old = resident
                        .filter(|resident| resident.same_key)
                        .map(|resident| (word.position(), resident.header));
                    old.is_some()
                });
                // A client that publishes was faster: it replaced what an earlier write of this batch had published, and so comes
                // after this one, which nobody ever sees.
                if old.is_some_and(|(_, header)| header.sequence() > write.version) {
                    break false;
                }
                let done = match (write.kind, found) {
                    (Kind::Put, Some(found)) => index.replace(write.hash, found, write.word),
                    (Kind::Put, None) => {
                        index.insert(write.hash, write.word);
                        true
                    }
                    (Kind::Delete, Some(found)) => index.remove(write.hash, found),
                    // It was there when this was decided. Only a client that overwrites published records of the log, which it
                    // must not, makes it vanish; the server outlives that.
                    (Kind::Delete, None) => true,
                };
                if done {
                    break true;
                }
            };
            if let Some((position, header)) = old.filter(|_| is_newest) {
                *live_bytes = live_bytes.saturating_sub(header.size());
                space.note_death(position, header.size(), write.version);
            }
            match write.kind {
                Kind::Put if is_newest => {
                    let size = record_size(key.len(), write.value.1 - write.value.0);
                    *live_bytes += size;
                    space.note_live(write.segment, size);
                }
                Kind::Put => space.note_useless_copy(write.segment, write.version),
                Kind::Delete => {}
            }
            match write.kind {
                Kind::Put => counters.puts += 1,
                Kind::Delete => counters.deletes += 1,
            }
        }
    }
}

/// What the mutants of a batch leave out of a persist; nothing without them.
fn leave_out(spans: &mut Vec<Span>, segment_size: u64) {
    let is_header = |span: &Span| span.offset.is_multiple_of(segment_size);
    if mutant!(RecordNotWrittenBack) {
        spans.retain(is_header);
    }
    if mutant!(SegmentHeaderNotWrittenBack) {
        spans.retain(|span| !is_header(span));
    }
    if mutant!(LastLineNotWrittenBack) {
        spans
            .iter_mut()
            .filter(|span| span.size > UNIT_SIZE && !is_header(span))
            .for_each(|span| span.size -= UNIT_SIZE);
    }
}
