//! The credits of one session, and the credits of sessions that have ended.
//!
//! ```text
//!   granted  =  used (found and handed on)  +  in the peer's hands or on their way
//! ```
//!
//! The receiver counts what it finds, so a peer that leaves a gap in its stream gets no more credit than a window.
//!
//! A session that ends leaves a *debt*: credits that a lost message may or may not have used. The queue gives out
//! places in the order of arrival. So when an entry of a later connection is found, everything that ended sessions have
//! used lies before that entry, and the open places there bound their debts. Usually no places are open. When every
//! segment that a session may have written is settled, the debt of the session is known.
//!
//! A debt that is forgiven or proved by a completion leaves places that stay empty and that no session owes. The next
//! entry may lie after all of them, so a search reaches beyond them until an entry of a later connection is found or
//! their segments are settled.

use std::collections::VecDeque;

use stonecast_base::mutant;

use super::error::EndCause;

/// Credits of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    size: u64,
    /// Credits of the longest entry.
    longest: u64,
    granted: u64,
    used: u64,
}

impl Window {
    pub fn new(size: u64, longest: u64) -> Self {
        Self {
            size,
            longest,
            granted: 0,
            used: 0,
        }
    }

    /// The credits to ask of the queue, once half the window is used or the longest entry cannot be paid. With the
    /// first rule alone, a window of less than two longest entries would wait for a sender that itself waits.
    pub fn wanted(&self) -> u64 {
        let left = self.held();
        let is_short = left < self.size.div_ceil(2);
        let cannot_pay = left < self.longest && !mutant!(RefilledAtHalfAlone);
        match is_short || cannot_pay {
            true => self.size - left,
            false => 0,
        }
    }

    /// Whether the peer can send an entry of any size.
    pub fn pays_longest(&self) -> bool {
        self.held() >= self.longest
    }

    pub fn add(&mut self, granted: u64) {
        self.granted += granted;
    }

    /// Notes that entries of `cost` credits were found.
    pub fn use_up(&mut self, cost: u64) {
        self.used += cost;
    }

    /// Credits that the found entries cost beyond the grant.
    pub fn excess(&self) -> u64 {
        self.used.saturating_sub(self.granted)
    }

    /// Takes up to `credits` of the excess back, because another session has held them. Returns the number of credits
    /// that are left.
    pub fn excuse(&mut self, credits: u64) -> u64 {
        let excused = credits.min(self.excess());
        self.used -= excused;
        credits - excused
    }

    /// Credits of `arrivals` that no entry explains.
    pub fn unexplained(&self, arrivals: u64) -> u64 {
        arrivals.saturating_sub(self.used)
    }

    /// All credits that were granted.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Credits that the peer may still use, or has used for entries that are not found yet.
    pub fn held(&self) -> u64 {
        self.granted.saturating_sub(self.used)
    }

    /// The overdraft of a session, if its peer has certainly used more than it was given. `arrivals` counts its
    /// messages on a device that completes each of them, which proves everything. Otherwise found entries are the
    /// evidence, and an entry may be charged to the wrong session: it names the stream alone, and a stream may pass to
    /// another node while entries of the node before are under way. Their sender still holds the credits for them, so
    /// an excess above the credits `held` by all sessions is the doing of its own peer.
    pub fn overdraft(&self, arrivals: Option<u64>, held: u64) -> Option<EndCause> {
        let granted = self.granted;
        let (used, is_over) = match arrivals {
            Some(arrivals) => (arrivals, arrivals > granted),
            None => (self.used, self.excess() > held),
        };
        let is_over = is_over && !mutant!(OverdraftUnnoticed);
        is_over.then_some(EndCause::Overdrawn { granted, used })
    }
}

/// Credits that one ended session held, until the segments `until` are settled.
#[derive(Default)]
struct Debt {
    /// The newest connection when the session ended.
    newest: u64,
    credits: u64,
    until: Vec<u32>,
}

/// The credits that ended sessions may or may not have used.
#[derive(Default)]
pub(super) struct Debts {
    open: VecDeque<Debt>,
    /// Places of all sessions that stay empty and that no session owes.
    lost: Debt,
    /// Grains of settled segments that no found entry explains.
    unexplained: u64,
}

impl Debts {
    /// Notes that a session ended with `credits`, and that it may have written into the segments with the numbers
    /// `until`. Connections that begin later have numbers above `newest`: entries of earlier connections may lie before
    /// those of the session.
    pub fn add(&mut self, newest: u64, credits: u64, until: Vec<u32>) {
        if credits > 0 {
            self.open.push_back(Debt {
                newest,
                credits,
                until,
            });
        }
    }

    /// The credits of all open debts.
    pub fn held(&self) -> u64 {
        self.open.iter().map(|debt| debt.credits).sum()
    }

    /// Notes that a segment is settled: `taken` grains of it were used, and found entries explain
    /// `explained`.
    pub fn note_settled(&mut self, number: u32, (taken, explained): (u64, u64)) {
        self.unexplained += taken.saturating_sub(explained);
        for debt in self.open.iter_mut().chain([&mut self.lost]) {
            debt.until.retain(|&waits| waits != number);
        }
        if self.lost.until.is_empty() {
            self.lost.credits = 0;
        }
    }

    /// Notes that an entry of `connection` was found, and that `open` grains of unsettled segments have none. Returns
    /// the credits that sessions which ended before cannot have used.
    pub fn bound(&mut self, connection: u64, open: u64) -> u64 {
        if self.lost.newest < connection {
            self.lost = Debt::default();
        }
        let earlier = self.open.iter_mut().filter(|debt| debt.newest < connection);
        let mut used = open + self.unexplained;
        let mut unused = 0;
        for debt in earlier {
            let rest = debt.credits.min(used);
            used -= rest;
            unused += debt.credits - rest;
            debt.credits = rest;
        }
        self.open.retain(|debt| debt.credits > 0);
        if mutant!(EndedCreditsKept) { 0 } else { unused }
    }

    /// Forgives the oldest debt when no credits are left: no sender could send an entry that bounds the debt. Credits
    /// that the session has used are then given twice, and a sender may wait for the next segment.
    pub fn forgive(&mut self) -> u64 {
        let Some(debt) = self.open.pop_front() else {
            return 0;
        };
        let forgiven = debt.credits;
        self.lose(debt.newest, debt.credits, debt.until);
        if mutant!(EndedCreditsKept) {
            0
        } else {
            forgiven
        }
    }

    /// Notes that places for `credits` stay empty in the segments `until`, and no session owes them; see
    /// [`Debts::add`].
    pub fn lose(&mut self, newest: u64, credits: u64, until: Vec<u32>) {
        let lost = &mut self.lost;
        lost.newest = lost.newest.max(newest);
        lost.credits += credits;
        lost.until.extend(until);
        lost.until.sort_unstable();
        lost.until.dedup();
    }

    /// All credits for which places after the last entry may stay empty.
    pub fn lost(&self) -> u64 {
        match mutant!(DeadPlacesForgotten) {
            true => self.held(),
            false => self.held() + self.lost.credits,
        }
    }

    /// Takes the credits that were not used after all.
    pub fn take_unused(&mut self) -> u64 {
        let mut unused = 0;
        while let Some(debt) = self.open.pop_front_if(|debt| debt.until.is_empty()) {
            let used = debt.credits.min(self.unexplained);
            self.unexplained -= used;
            unused += debt.credits - used;
        }
        if mutant!(EndedCreditsKept) { 0 } else { unused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the rule for the longest entry.
    #[test]
    fn a_peer_can_always_pay_the_longest_entry_once_all_that_it_sent_is_found_whatever_the_window()
    {
        for longest in 1..=12 {
            for size in longest..=3 * longest {
                let mut window = Window::new(size, longest);
                for cost in (1..=longest).cycle().take(200) {
                    window.add(window.wanted());
                    assert!(window.held() >= longest, "window {size}, longest {longest}");
                    assert!(window.held() <= size);
                    window.use_up(cost);
                }
            }
        }
    }

    /// Needs the credits of other sessions: an entry of a stream that has passed to this peer may be an entry of the
    /// node before.
    #[test]
    fn an_excess_that_others_may_have_caused_is_no_overdraft_and_ends_with_their_session() {
        let mut window = Window::new(8, 4);
        window.add(8);
        window.use_up(11);
        assert_eq!((window.held(), window.excess()), (0, 3));
        assert_eq!(window.overdraft(None, 3), None);
        let (granted, used) = (8, 11);
        let cause = Some(EndCause::Overdrawn { granted, used });
        assert_eq!(window.overdraft(None, 2), cause);
        assert_eq!(window.overdraft(Some(8), 0), None, "all of it arrived");
        assert_eq!(window.overdraft(Some(11), 100), cause);
        assert_eq!(window.excuse(5), 2);
        assert_eq!((window.held(), window.excess()), (0, 0));
    }

    #[test]
    fn the_credits_of_an_ended_session_come_back_less_the_places_that_nothing_explains() {
        let mut debts = Debts::default();
        debts.add(1, 10, vec![1, 2]);
        debts.add(2, 4, vec![2]);
        debts.note_settled(2, (100, 97));
        assert_eq!(debts.take_unused(), 0, "segment 1 may hold more of it");
        assert_eq!(debts.held(), 14);
        debts.note_settled(1, (50, 50));
        assert_eq!(debts.take_unused(), 10 - 3 + 4);
        assert_eq!((debts.held(), debts.take_unused()), (0, 0));
    }

    /// Needs the order of places: an entry of a later connection lies after all places that earlier connections have
    /// used.
    #[test]
    fn an_entry_of_a_later_connection_bounds_what_earlier_ones_have_used_by_what_is_open() {
        let mut debts = Debts::default();
        debts.add(1, 10, vec![1]);
        debts.add(4, 8, vec![1]);
        assert_eq!(debts.bound(1, 0), 0, "the session itself proves nothing");
        assert_eq!(debts.bound(3, 7), 3, "7 of 10 may be used");
        assert_eq!(debts.bound(5, 2), 5 + 8);
        assert_eq!(debts.held(), 2);
        assert_eq!((debts.forgive(), debts.forgive()), (2, 0));
    }

    /// Needs the places of forgiven debts: the next entry lies after all of them.
    #[test]
    fn a_search_goes_over_places_that_nobody_owes_until_an_entry_lies_behind_them() {
        let mut debts = Debts::default();
        debts.add(3, 10, vec![1, 2]);
        assert_eq!((debts.forgive(), debts.held(), debts.lost()), (10, 0, 10));
        debts.lose(5, 4, vec![2, 3]);
        assert_eq!(debts.lost(), 14);
        debts.bound(5, 0);
        assert_eq!(debts.lost(), 14, "connection 5 may have written before");
        debts.bound(6, 0);
        assert_eq!(debts.lost(), 0);
        debts.lose(6, 4, vec![3]);
        debts.note_settled(2, (0, 0));
        assert_eq!(debts.lost(), 4);
        debts.note_settled(3, (0, 0));
        assert_eq!(debts.lost(), 0, "no place is left to search");
    }
}
