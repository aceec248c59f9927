//! Shows the owner of memory whether a requester is in the middle of changing it: requesters announce their changes.
//!
//! ```text
//!   requester                                owner
//!     announce: word += 1 (now odd)            verdict: key := revoked (or connection := closed)
//!     full fence                               full fence
//!     check the verdict; refused? leave        check the word; even? no one is inside
//!     change memory                                              odd?  wait until it is another
//!     leave: word += 1 (now even), release
//! ```
//!
//! One of the two full fences comes first. If the requester's does, the owner sees the odd word and waits; if the
//! owner's does, the requester sees the verdict and changes nothing. A word that has changed at all shows that the
//! operation in question is over; a later operation would have seen the verdict. One announcement covers a whole posted
//! batch.
//!
//! A requester that dies inside leaves the word odd forever; the owner learns of the death by other means and stops
//! waiting.

use crate::primitive::Memory;

/// The requester's side of an announcement word.
#[derive(Debug)]
pub(crate) struct Announcement {
    word: u64,
    count: u64,
}

impl Announcement {
    /// Announces in the word at offset `word`, which is initially 0.
    pub(crate) fn new(word: u64) -> Self {
        Self { word, count: 0 }
    }

    /// Announces that memory may change from this point. The caller checks its permission after this call.
    pub(crate) fn enter(&mut self, memory: &impl Memory) {
        assert!(self.count.is_multiple_of(2), "announcements do not nest");
        self.count += 1;
        memory.store(self.word, self.count);
        memory.full_fence();
        crate::step::step("announcement: entered");
    }

    /// Announces that every change is done.
    pub(crate) fn leave(&mut self, memory: &impl Memory) {
        assert!(!self.count.is_multiple_of(2), "leave comes after enter");
        self.count += 1;
        memory.store(self.word, self.count);
    }
}

/// The requester that was inside when the owner looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside(u64);

/// Checks whether a requester is inside. The owner's verdict and a full fence come before.
pub(crate) fn look(memory: &impl Memory, word: u64) -> Option<Inside> {
    let count = memory.load(word);
    (!count.is_multiple_of(2)).then_some(Inside(count))
}

/// Whether the operation behind `inside` is over.
pub(crate) fn has_left(memory: &impl Memory, word: u64, inside: Inside) -> bool {
    memory.load(word) != inside.0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::testing::Words;

    #[test]
    fn a_requester_that_left_and_came_back_has_left() {
        let memory = Words::new(8);
        let mut announcement = Announcement::new(0);
        assert_eq!(look(&memory, 0), None);
        announcement.enter(&memory);
        let inside = look(&memory, 0).expect("a requester is inside");
        assert!(!has_left(&memory, 0, inside));
        announcement.leave(&memory);
        assert!(has_left(&memory, 0, inside));
        announcement.enter(&memory);
        assert!(
            has_left(&memory, 0, inside),
            "the second operation has seen the verdict"
        );
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitive::testing::{Weakness, Words};
    use loom::sync::Arc;

    const WORD: u64 = 0;
    const VERDICT: u64 = 8;
    const TARGET: u64 = 16;

    /// The owner revokes and then uses the memory for other data; a requester writes twice if it may. The owner's own
    /// bytes must survive.
    fn revocation(weakness: Weakness) {
        loom::model(move || {
            let memory = Arc::new(Words::weakened(24, weakness));
            let theirs = memory.clone();
            let requester = loom::thread::spawn(move || {
                let mut announcement = Announcement::new(WORD);
                for _ in 0..2 {
                    announcement.enter(&*theirs);
                    if theirs.load(VERDICT) == 0 {
                        theirs.copy_in(TARGET, &[1; 8]);
                    }
                    announcement.leave(&*theirs);
                }
            });
            memory.store(VERDICT, 1);
            memory.full_fence();
            if let Some(inside) = look(&*memory, WORD) {
                while !has_left(&*memory, WORD, inside) {
                    loom::thread::yield_now();
                }
            }
            memory.copy_in(TARGET, &[2; 8]);
            requester.join().unwrap();
            let mut found = [0; 8];
            memory.copy_out(TARGET, &mut found);
            assert_eq!(found, [2; 8], "a revoked requester changed memory");
        });
    }

    #[test]
    fn loom_nothing_is_written_after_a_revocation() {
        revocation(Weakness::None);
    }

    /// Without the fences the two sides may miss each other.
    #[test]
    #[should_panic(expected = "a revoked requester changed memory")]
    fn loom_revocation_needs_the_full_fences() {
        revocation(Weakness::Fence);
    }

    /// Without release order the word becomes even before the last bytes arrive.
    #[test]
    #[should_panic(expected = "a revoked requester changed memory")]
    fn loom_revocation_needs_the_release_of_the_leave() {
        revocation(Weakness::Store(WORD));
    }

    #[test]
    #[should_panic(expected = "a revoked requester changed memory")]
    fn loom_revocation_needs_the_acquire_of_the_look() {
        revocation(Weakness::Load(WORD));
    }

    /// A reader copies, then checks the verdict again. If it may still read, its copy is older than the data that the
    /// owner stored after the revocation.
    fn validated_read(weakness: Weakness, fenced: bool) {
        loom::model(move || {
            let memory = Arc::new(Words::weakened(24, weakness));
            let theirs = memory.clone();
            let owner = loom::thread::spawn(move || {
                theirs.store(VERDICT, 1);
                theirs.full_fence();
                theirs.copy_in(TARGET, &[2; 8]);
            });
            if memory.load(VERDICT) == 0 {
                let mut found = [0; 8];
                memory.copy_out(TARGET, &mut found);
                if fenced {
                    memory.read_fence();
                }
                assert!(
                    memory.load(VERDICT) != 0 || found == [0; 8],
                    "a revoked reader used what it read"
                );
            }
            owner.join().unwrap();
        });
    }

    #[test]
    fn loom_a_validated_read_returns_data_older_than_the_revocation() {
        validated_read(Weakness::None, true);
    }

    #[test]
    #[should_panic(expected = "a revoked reader used what it read")]
    fn loom_a_validated_read_needs_its_fence() {
        validated_read(Weakness::None, false);
    }

    #[test]
    #[should_panic(expected = "a revoked reader used what it read")]
    fn loom_a_validated_read_needs_the_fence_of_the_owner() {
        validated_read(Weakness::Fence, true);
    }
}
