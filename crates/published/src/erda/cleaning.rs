//! Erda's cleaner, as published (paper section 4.4): two phases, during which clients use messages.
//!
//! ```text
//!   notice, "maximum RTT"
//!   merging      from the last object back: the first object of each key goes to region 2
//!                clients' objects continue in region 1
//!   replication  objects written meanwhile go to a reserved part of region 2, clients' objects after it
//!   switch       head -> region 2, then the tag of every word is flipped, then a notice
//! ```

use std::collections::HashSet;

use stonecast_base::Nanoseconds;

use crate::erda::heads::{FIRST_OFFSET, Head, places, span_of};
use crate::erda::server::ErdaServer;
use crate::erda::word::Word;
use crate::message::{Kind, Message};
use crate::object::parse_object;

/// The state of a cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningState {
    /// Whether a head is being cleaned.
    pub running: bool,
    /// Number of finished cleanings.
    pub finished: u64,
}

/// A cleaning in progress.
pub(super) struct Cleaning {
    pub head: u8,
    /// The end of the log in the target region.
    pub new: Head,
    phase: Phase,
    /// Keys met while merging.
    seen: HashSet<Vec<u8>>,
    /// Keys that have a place in the new region.
    copied: HashSet<Vec<u8>>,
}

enum Phase {
    /// Time until which the notice may be in transit.
    Announced { until: Nanoseconds },
    /// Places still to examine, the last one first.
    Merging { left: Vec<u64>, end: u64 },
    /// Places still to copy, the next one last, and the places reserved for them.
    Replicating {
        left: Vec<u64>,
        reserved: Vec<u64>,
        reserved_end: u64,
    },
}

impl Cleaning {
    /// The place of an object that a client wrote to the new region, if the word names one.
    pub fn latest_in_new_region(&self, word: Word) -> Option<(u32, u64)> {
        let Phase::Replicating { reserved_end, .. } = self.phase else {
            return None;
        };
        word.older()
            .filter(|&offset| offset >= reserved_end)
            .map(|offset| (self.new.region, offset))
    }

    /// Whether clients' objects already go to the new region.
    pub fn writes_go_to_new_region(&self) -> bool {
        matches!(self.phase, Phase::Replicating { .. })
    }

    /// Notes that the word of `key` has a place in the new region.
    pub fn note_copied(&mut self, key: &[u8]) {
        self.copied.insert(key.to_vec());
    }
}

impl ErdaServer {
    /// Begins to clean a head: notifies all clients, and waits until the notice should have
    /// arrived.
    pub(super) fn begin_cleaning(&self, head: u8, until: Nanoseconds) {
        let state = &mut *self.state.borrow_mut();
        let region = state.free.pop().expect("the caller has seen a free region");
        state.cleaning = Some(Cleaning {
            head,
            new: Head::new(region),
            phase: Phase::Announced { until },
            seen: HashSet::new(),
            copied: HashSet::new(),
        });
        self.hub.send_all(&Message {
            kind: Kind::CleaningBegins,
            detail: head,
            number: 0,
            body: Vec::new(),
        });
    }

    /// Continues to clean, for `steps` objects.
    pub(super) fn clean(&self, steps: usize, now: Nanoseconds) {
        let Some(mut cleaning) = self.state.borrow_mut().cleaning.take() else {
            return;
        };
        let mut done = false;
        for _ in 0..steps {
            done = self.clean_one(&mut cleaning, now);
            if done {
                break;
            }
        }
        if done {
            self.switch(cleaning);
        } else {
            self.state.borrow_mut().cleaning = Some(cleaning);
        }
    }

    /// Examines one object. Returns whether the cleaning is done.
    fn clean_one(&self, cleaning: &mut Cleaning, now: Nanoseconds) -> bool {
        let head = self.state.borrow().heads[usize::from(cleaning.head)];
        let Cleaning {
            new,
            phase,
            seen,
            copied,
            ..
        } = cleaning;
        match phase {
            Phase::Announced { until } if now < *until => false,
            Phase::Announced { .. } => {
                *phase = Phase::Merging {
                    left: places(&self.geometry, FIRST_OFFSET, head.tail),
                    end: head.tail,
                };
                false
            }
            Phase::Merging { left, end } => {
                let Some(offset) = left.pop() else {
                    let mut left = places(&self.geometry, *end, head.tail);
                    left.reverse();
                    let reserved: Vec<u64> = left
                        .iter()
                        .map_while(|_| new.take(&self.geometry))
                        .collect();
                    *phase = Phase::Replicating {
                        left,
                        reserved: reserved.into_iter().rev().collect(),
                        reserved_end: new.tail,
                    };
                    return false;
                };
                let bytes = self.object(head.region, offset);
                let Some(object) =
                    parse_object(&bytes, self.geometry.key_size, self.geometry.value_size)
                else {
                    return false;
                };
                if !seen.insert(object.key.to_vec()) {
                    return false;
                }
                let Some((place, word)) = self.table.find(object.key) else {
                    return false;
                };
                if object.value.is_none() {
                    self.table.set_word(place, Word(word).with_older(0).0);
                } else if let Some(to) = new.take(&self.geometry) {
                    self.memory
                        .write(span_of(&self.geometry, new.region, to).offset, &bytes);
                    self.table.set_word(place, Word(word).with_older(to).0);
                    copied.insert(object.key.to_vec());
                }
                false
            }
            Phase::Replicating {
                left,
                reserved,
                reserved_end,
            } => {
                let Some(offset) = left.pop() else {
                    return true;
                };
                let bytes = self.object(head.region, offset);
                let Some(object) =
                    parse_object(&bytes, self.geometry.key_size, self.geometry.value_size)
                else {
                    return false;
                };
                if let Some((place, word)) = self.table.find(object.key) {
                    let newer = copied.contains(object.key)
                        && Word(word)
                            .older()
                            .is_some_and(|older| older >= *reserved_end);
                    if let Some(to) = reserved.pop().filter(|_| !newer) {
                        self.memory
                            .write(span_of(&self.geometry, new.region, to).offset, &bytes);
                        self.table.set_word(place, Word(word).with_older(to).0);
                        copied.insert(object.key.to_vec());
                    }
                }
                false
            }
        }
    }

    /// Points the head to the new region, then flips every word, one after the other (flaw E12).
    fn switch(&self, cleaning: Cleaning) {
        let old = {
            let state = &mut *self.state.borrow_mut();
            std::mem::replace(&mut state.heads[usize::from(cleaning.head)], cleaning.new)
        };
        self.point(cleaning.head);
        let of_head: Vec<_> = self
            .table
            .entries()
            .filter(|(_, entry)| entry.head == cleaning.head)
            .collect();
        for (place, entry) in of_head {
            if cleaning
                .copied
                .contains(&entry.key[..self.geometry.key_size])
            {
                self.table.set_word(place, Word(entry.word).switched().0);
            } else {
                self.table.remove(place);
            }
        }
        let base = self.geometry.region(cleaning.new.region).offset;
        self.hub.send_all(&Message {
            kind: Kind::CleaningEnds,
            detail: cleaning.head,
            number: base,
            body: Vec::new(),
        });
        let state = &mut *self.state.borrow_mut();
        state.free.push(old.region);
        state.cleaned += 1;
    }
}
