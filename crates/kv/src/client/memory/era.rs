//! The end of the READs that may still use an index.

use std::rc::{Rc, Weak};

/// The time between two changes of indexes. Posted READs hold their era. The call that gives an
/// index back also holds the era, until none of these READs is left. The end of an era is therefore
/// the end of all earlier eras, too.
#[derive(Default)]
pub(super) struct Era {
    earlier: Weak<Era>,
}

impl Era {
    pub fn next(self: &Rc<Self>) -> Rc<Self> {
        let earlier = Rc::downgrade(self);
        Rc::new(Self { earlier })
    }

    /// Whether no READ of this era or of an earlier one is in flight. The caller holds the era, which has ended.
    pub fn is_over(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1 && self.earlier.strong_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if an index is given back when the reads of the last era alone have ended: a READ of this index may be
    /// older.
    #[test]
    fn an_era_is_over_when_no_read_of_it_or_of_an_earlier_one_is_in_flight() {
        let first = Rc::<Era>::default();
        let read = Rc::clone(&first);
        let second = first.next();
        assert!(!first.is_over());
        drop(first);
        assert!(!second.is_over());
        let later = Rc::clone(&second);
        drop(read);
        assert!(!second.is_over());
        drop(later);
        assert!(second.is_over());
    }
}
