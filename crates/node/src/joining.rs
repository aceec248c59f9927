//! Joiners, which drop their earlier copy, take appends, and pull the published records.
//!
//! ```text
//!   told of the join ──▶ dropped, durably ──▶ page 0, 1, ... ──▶ all pulled, durably ──▶ named: a copy
//!                                     entries are appended, and digested between two pages
//! ```
//!
//! A page is read after everything that the joiner has digested: nothing is digested while a page
//! is on its way. Each word of a page is therefore at least as new as the word here, and a key that
//! is missing in the page was deleted. Neither side keeps words of deleted keys.

use stonecast_backup::{Intake, StreamName};
use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{NodeName, Term};
use stonecast_replication::{Lineage, ShardCopy};

use crate::join::ANSWER_SIZE_MAX;
use crate::letter::{Piece, Says};
use crate::node::Shared;
use crate::shard::{Copies, Joined, Joins, Pull, Role, Shard};
use crate::state::{Keeping, State, Why};
use crate::store::Store;

/// Notes that the primary begins to fill this node, by `connection`.
pub fn hear_drop<C>(
    state: &mut State<C>,
    from: &NodeName,
    number: u32,
    (connection, join): (u64, u64),
    begun: Lineage,
) {
    let group = state.group(number);
    let is_led_so = group.is_some_and(|group| group.primary == *from && group.term == begun.term);
    let shard = state.shards.get_mut(&number).filter(|_| is_led_so);
    let joins = shard.and_then(Shard::joins);
    let Some(joins) = joins.filter(|joins| joins.join == join) else {
        return;
    };
    match &mut joins.filling {
        Some(filling) if filling.begun.term == begun.term => {
            filling.asked_by = Some(connection);
        }
        other => {
            *other = Some(Joined {
                from: from.clone(),
                begun,
                asked_by: Some(connection),
                copies: None,
                pull: Pull::Page(0, Vec::new()),
                asked_to: 0,
                said_at: None,
            });
        }
    }
}

/// Takes a part of a page. A part that comes twice, late, or after a gap is ignored.
pub fn hear_piece<C>(
    state: &mut State<C>,
    store: &impl Store,
    from: &NodeName,
    (number, term): (u32, Term),
    piece: &Piece,
) {
    let shard = state.shards.get_mut(&number);
    let joins = shard.and_then(Shard::joins);
    let joins = joins.filter(|joins| joins.join == piece.join);
    let Some(filling) = joins.and_then(|joins| joins.filling.as_mut()) else {
        return;
    };
    if filling.from == *from && filling.begun.term == term && filling.copies.is_some() {
        filling.take(store, number, piece);
    }
}

/// Drops, answers, and asks for the next page.
pub fn step_joiners<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, intake: &mut Intake) {
    for number in state.numbers() {
        let shard = state.shards.get_mut(&number).expect("it was listed");
        let Some(filling) = shard.joins().and_then(|joins| joins.filling.as_ref()) else {
            continue;
        };
        let (from, is_dropped) = (filling.from.clone(), filling.copies.is_some());
        if !is_dropped && !shard.is_silent(intake, &mut state.fences, &from) {
            continue;
        }
        let keeping = shard.joiner_to_keep(&*shared.store);
        state.keepings.extend(keeping);
        if is_dropped {
            say_as_joiner(state, shared, number);
        }
    }
}

fn say_as_joiner<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, number: u32) {
    let shard = state.shards.get_mut(&number).expect("it was listed");
    let Some(joins) = shard.joins() else {
        return;
    };
    let (join, filling) = (joins.join, joins.filling.as_mut());
    let filling = filling.expect("it was dropped");
    let (to, about) = (filling.from.clone(), (number, filling.begun.term));
    let copies = filling.copies.as_ref().expect("it was dropped");
    let has = copies.copy.end();
    let followed = filling.asked_by.take();
    let followed = followed.map(|connection| Says::Followed {
        connection,
        join,
        has,
    });
    let repeat_ns = shared.options.repeat_ns;
    let next = filling.says(join, shared.runtime.now(), repeat_ns);
    for says in followed.into_iter().chain(next) {
        shared.say(state, &to, about, says);
    }
}

/// Notes that the earlier copy of the joiner is dropped, and that the history of its join is
/// durable.
pub fn kept_as_joiner<C>(
    state: &mut State<C>,
    intake: &mut Intake,
    number: u32,
    history: &Lineage,
) {
    let Some(shard) = state.shards.get_mut(&number) else {
        return;
    };
    shard.close_streams(intake);
    shard.bodies.clear();
    let Some(Joins { join, filling }) = shard.joins() else {
        return;
    };
    let filling = filling.as_mut();
    let Some(filling) = filling.filter(|filling| filling.begun == *history) else {
        return;
    };
    let stream = StreamName {
        shard: number,
        term: history.term,
        join: *join,
    };
    let copy = ShardCopy::new(number, history.clone());
    intake.open_stream(stream, filling.from.clone(), copy.end_in(history.term));
    filling.copies = Some(Copies::new(copy));
    let sender = (filling.from.clone(), stream.join);
    shard.streams.insert(history.term, sender);
}

/// Notes that everything that was pulled is durable.
pub fn pulled<C>(state: &mut State<C>, number: u32, history: &Lineage) {
    let shard = state.shards.get_mut(&number);
    let joins = shard.and_then(Shard::joins);
    let filling = joins.and_then(|joins| joins.filling.as_mut());
    let filling = filling.filter(|filling| filling.begun.term == history.term);
    if let Some(filling) = filling.filter(|filling| filling.pull == Pull::Ended) {
        filling.pull = Pull::Durable;
    }
}

impl<C> Shard<C> {
    fn joins(&mut self) -> Option<&mut Joins> {
        match &mut self.role {
            Role::Joins(joins) => Some(joins),
            _ => None,
        }
    }

    /// The history to make durable next: first the history of the join, with the drop of the earlier copy; in the end
    /// the history of the copy, with everything that was pulled.
    fn joiner_to_keep(&mut self, store: &impl Store) -> Option<Keeping> {
        let shard = self.number;
        let filling = self.joins()?.filling.as_ref()?;
        let Some(copies) = &filling.copies else {
            if !mutant!(OldCopyKept) {
                store.dropped(shard);
            }
            return Some(Keeping {
                shard,
                history: filling.begun.clone(),
                why: Why::Joins,
            });
        };
        (filling.pull == Pull::Ended).then(|| Keeping {
            shard,
            history: copies.copy.lineage().clone(),
            why: Why::Pulled,
        })
    }

    /// Whether entries may be digested: not while a page is on its way.
    pub fn may_digest(&self) -> bool {
        let Role::Joins(joins) = &self.role else {
            return true;
        };
        let filling = joins.filling.as_ref();
        // A page that was read lies between two asks if it is longer than an answer.
        let is_on_its_way = filling.is_some_and(|filling| match &filling.pull {
            Pull::Page(_, has) => filling.said_at.is_some() || !has.is_empty(),
            Pull::Ended | Pull::Durable => false,
        });
        !is_on_its_way || mutant!(TombstonesForgotten)
    }

    /// Whether a floor may rise: not in a turn in which the history is kept for another reason.
    pub fn may_raise_floor(&self) -> bool {
        let Role::Joins(joins) = &self.role else {
            return true;
        };
        let filling = joins.filling.as_ref();
        filling.is_some_and(|filling| filling.pull != Pull::Ended)
    }
}

impl Joined {
    fn take(&mut self, store: &impl Store, shard: u32, piece: &Piece) {
        let Pull::Page(page, has) = &mut self.pull else {
            return;
        };
        if piece.page != *page || piece.offset != has.len() as u64 {
            return;
        }
        has.extend(&piece.bytes);
        if (has.len() as u64) < piece.size {
            if has.len() >= self.asked_to && !mutant!(LongPagesPause) {
                self.said_at = None;
            }
            return;
        }
        store.absorb(shard, has);
        self.said_at = None;
        self.pull = match piece.is_last {
            true => Pull::Ended,
            false => Pull::Page(*page + 1, Vec::new()),
        };
    }

    /// The letter that is due at `now`.
    fn says(&mut self, join: u64, now: Nanoseconds, repeat_ns: Nanoseconds) -> Option<Says> {
        if self.said_at.is_some_and(|at| now < at + repeat_ns) {
            return None;
        }
        let says = match &self.pull {
            Pull::Page(page, has) => Says::Ask {
                join,
                page: *page,
                offset: has.len() as u64,
            },
            Pull::Ended if !mutant!(PulledUnpersisted) => return None,
            Pull::Ended | Pull::Durable => Says::Pulled { join },
        };
        if let Pull::Page(_, has) = &self.pull {
            self.asked_to = has.len() + ANSWER_SIZE_MAX;
        }
        self.said_at = Some(now);
        Some(says)
    }
}
