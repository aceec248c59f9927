//! How an owner of memory knows that nobody is in the middle of changing it: requesters announce.
//!
//! ```text
//!   requester                                owner
//!     announce: word += 1 (now odd)            verdict: key := revoked (or connection := closed)
//!     full fence                               full fence
//!     look at the verdict; refused? leave      look at the word; even? nobody is inside
//!     change memory                                              odd?  wait until it is another
//!     leave: word += 1 (now even), release
//! ```
//!
//! Of two full fences one comes first. If the requester's does, the owner sees the odd word and waits; if the owner's
//! does, the requester sees the verdict and changes nothing. A word that has changed at all shows that the operation in
//! question is over, and a later one would have seen the verdict. One announcement covers a whole posted batch.
//!
//! A requester that dies inside leaves the word odd for ever; the owner learns of the death elsewhere and stops waiting.

use crate::primitive::Memory;

/// The requester's side of one announcement word.
#[derive(Debug)]
pub(crate) struct Announcement {
    word: u64,
    count: u64,
}

impl Announcement {
    /// Announces in the word at offset `word`, which is 0 at first.
    pub(crate) fn new(word: u64) -> Self {
        Self { word, count: 0 }
    }

    /// Says that memory may be changed from now on. What decides whether it may is looked at after this.
    pub(crate) fn enter(&mut self, memory: &impl Memory) {
        assert!(self.count.is_multiple_of(2), "announcements do not nest");
        self.count += 1;
        memory.store(self.word, self.count);
        memory.full_fence();
        crate::step::step("announcement: entered");
    }

    /// Says that every change is done.
    pub(crate) fn leave(&mut self, memory: &impl Memory) {
        assert!(!self.count.is_multiple_of(2), "leave comes after enter");
        self.count += 1;
        memory.store(self.word, self.count);
    }
}

/// Who was inside when the owner looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside(u64);

/// Looks who is inside. The owner's verdict and a full fence come before.
pub(crate) fn look(memory: &impl Memory, word: u64) -> Option<Inside> {
    let count = memory.load(word);
    (!count.is_multiple_of(2)).then_some(Inside(count))
}

/// Whether the operation that `inside` stands for is over.
pub(crate) fn has_left(memory: &impl Memory, word: u64, inside: Inside) -> bool {
    memory.load(word) != inside.0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::testing::Words;

    #[test]
    fn who_left_and_came_back_has_left() {
        let memory = Words::new(8);
        let mut announcement = Announcement::new(0);
        assert_eq!(look(&memory, 0), None);
        announcement.enter(&memory);
        let inside = look(&memory, 0).expect("somebody is inside");
        assert!(!has_left(&memory, 0, inside));
        announcement.leave(&memory);
        assert!(has_left(&memory, 0, inside));
        announcement.enter(&memory);
        assert!(
            has_left(&memory, 0, inside),
            "that is another operation, which has seen the verdict"
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

    /// The owner revokes and then uses the memory for something else; a requester writes twice if it may. The owner's
    /// own bytes must survive.
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

    /// Without the fences both sides may miss each other.
    #[test]
    #[should_panic(expected = "a revoked requester changed memory")]
    fn loom_revocation_needs_the_full_fences() {
        revocation(Weakness::Fence);
    }

    /// Without release order the word turns even before the last bytes are there.
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

    /// A reader copies, then looks at the verdict again. If it still may read, what it copied is not what the owner put
    /// there after the revocation.
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
    fn loom_what_a_validated_read_returns_is_older_than_the_revocation() {
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
