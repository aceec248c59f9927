//! Makes words of the index visible: of writes, of moved records, and of records that clients published themselves.

use stonecast_base::mutant;
use stonecast_log::{Expiry, Form, Kind, RecordHeader};
use stonecast_persist::Persisted;

use super::{Shard, chunks};
use crate::server::journal::Journal;
use crate::server::shard::keys::resident;
use crate::wire::{Route, Word};

/// The change that makes a finished write visible.
pub(in crate::server) struct Change {
    pub kind: Kind,
    /// The part of a value that a put holds.
    pub form: Form,
    pub route: Route,
    pub version: u64,
    /// The word that names the record.
    pub word: Word,
    /// The segment of the record, and the size of the record.
    pub segment: u32,
    pub size: u64,
    /// The moment from which on the key of a put is absent, or the mark that a delete carries.
    pub expires: Option<Expiry>,
}

/// A record that the cleaner copied.
pub(in crate::server) struct Move {
    pub route: Route,
    pub old: Word,
    pub new: Word,
    pub size: u64,
    pub sequence: u64,
    /// The segment of the copy.
    pub to: u32,
}

impl Shard {
    /// Stores the index word of a write that is done. Takes the proof that the record is durable.
    pub fn publish(&mut self, change: &Change, key: &[u8], journal: &mut Journal, _: &Persisted) {
        let (is_newest, old) = self.store(change, key);
        if let Some((word, header)) = old.filter(|_| is_newest) {
            self.live_bytes = self.live_bytes.saturating_sub(header.size());
            journal.note_replaced(word, header.sequence(), change.version);
            let space = &mut journal.space;
            space.note_death(word.position(), header.size(), change.version);
            // A record may come by a page and as an entry, and a node that has led digests its own records again.
            let is_again = header.sequence() == change.version && !mutant!(HeadReplacesItself);
            if header.form() == Form::Head && !is_again {
                chunks::drop_chunks(self, (word, &header), change.version, journal);
            }
        }
        let space = &mut journal.space;
        match change.kind {
            Kind::Put if is_newest => {
                self.chunks.note(change.form, old.is_none());
                if change.form == Form::Head {
                    chunks::note_head(self, change.word);
                }
                self.live_bytes += change.size;
                space.note_live(change.segment, change.size);
            }
            Kind::Put => {
                space.note_useless_copy(change.segment, change.version);
                if change.form == Form::Head {
                    chunks::drop_overtaken(self, change.word, journal);
                }
            }
            Kind::Delete => {}
        }
    }

    /// Stores the word of `change`. Returns whether the write is the newest of its key, and the record that the word
    /// named before.
    fn store(&mut self, change: &Change, key: &[u8]) -> (bool, Option<(Word, RecordHeader)>) {
        loop {
            let mut old = None;
            let found = self.index.find(change.route.hash, |word| {
                let resident = resident(&*self.log, word.position(), key, &mut self.scratch);
                old = resident
                    .filter(|resident| resident.same_key)
                    .map(|resident| (word, resident.header));
                old.is_some()
            });
            // A publishing client was faster: the client replaced the word that an earlier write of this batch had
            // published. The client's record is later than this one, which no reader ever sees.
            let is_overtaken = old.is_some_and(|(_, header)| header.sequence() > change.version);
            if is_overtaken && !mutant!(PlaceDecides) {
                return (false, old);
            }
            let done = match (change.kind, found) {
                (Kind::Put, Some(found)) => {
                    self.index.replace(change.route.hash, found, change.word)
                }
                (Kind::Put, None) => {
                    self.index.insert(change.route.hash, change.word);
                    true
                }
                (Kind::Delete, Some(found)) => self.index.remove(change.route.hash, found),
                // The key was present when the delete was decided. Only a client that overwrites published records of
                // the log, against the rules, makes the key vanish; the server survives that.
                (Kind::Delete, None) => true,
            };
            if done {
                return (true, old);
            }
        }
    }

    /// Stores the index word of a moved record. Takes the proof that the copy is durable.
    pub fn publish_move(&mut self, moved: &Move, journal: &mut Journal, _: &Persisted) {
        let is_moved = loop {
            let found = self
                .index
                .find(moved.route.hash, |word| word.names(moved.old));
            let Some(found) = found else {
                break false;
            };
            if self.index.replace(moved.route.hash, found, moved.new) {
                break true;
            }
        };
        let space = &mut journal.space;
        if is_moved {
            space.note_moved_away(moved.old.position(), moved.size, moved.sequence);
            space.note_live(moved.to, moved.size);
        } else {
            // A client has published a newer record meanwhile.
            space.note_useless_copy(moved.to, moved.sequence);
        }
    }

    /// Notes that a client replaced a record of `less` bytes by a record of `more`, or undid such a change.
    pub fn note_exchange(&mut self, less: u64, more: u64) {
        self.live_bytes = self.live_bytes.saturating_add(more).saturating_sub(less);
    }
}
