//! Copies, which follow the history of an heir, and digest the entries that are on all copies.

use stonecast_backup::{Intake, Silence, StreamName};
use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{NodeName, NotACopy, Term};
use stonecast_replication::{Judgement, Lineage, NotAdopted};

use crate::fences::Fences;
use crate::letter::Says;
use crate::lost::gap;
use crate::node::Shared;
use crate::options::Options;
use crate::shard::{Followed, Following, Role, Shard};
use crate::state::{Keeping, State, Why};
use crate::store::Store;

/// Takes the history that an heir or the primary has sent, for entries that come by `connection`.
pub fn hear_history<C>(
    state: &mut State<C>,
    from: &NodeName,
    number: u32,
    (connection, join): (u64, u64),
    history: Lineage,
) {
    let group = state.group(number);
    let is_led_so = group.is_some_and(|group| group.primary == *from && group.term == history.term);
    let Some(Shard {
        role: Role::Copies(copies),
        ..
    }) = state.shards.get_mut(&number).filter(|_| is_led_so)
    else {
        return;
    };
    match &mut copies.following {
        Some(following) if following.history.term == history.term => {
            following.asked_by = Some(connection);
        }
        other => {
            *other = Some(Following {
                from: from.clone(),
                history,
                join,
                asked_by: Some(connection),
                progress: Followed::Told,
            });
        }
    }
}

/// Follows histories, answers letters, and digests.
pub fn step_copies<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, intake: &mut Intake) {
    state.due.found.clear();
    for number in state.numbers() {
        let shard = state.shards.get_mut(&number).expect("it was listed");
        if let Some((heir, found)) = shard.follow(intake, &mut state.fences) {
            state.lost.insert((number, heir), found);
            continue;
        }
        state.keepings.extend(shard.to_keep());
        answer(state, shared, number);
        let shard = state.shards.get_mut(&number).expect("it was listed");
        shard.digest(&*shared.store);
        let floor = shard.floor_to_keep(&shared.options, shared.runtime.now());
        state.keepings.extend(floor);
    }
}

/// Digests the entries that the last ones found say are on all copies.
pub fn digest<S: Store>(state: &mut State<S::Call>, store: &S) {
    for number in std::mem::take(&mut state.due.found) {
        if let Some(shard) = state.shards.get_mut(&number) {
            shard.digest(store);
        }
    }
}

fn answer<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, number: u32) {
    let Some(Shard {
        role: Role::Copies(copies),
        ..
    }) = state.shards.get_mut(&number)
    else {
        return;
    };
    let has = copies.copy.end();
    let Some(following) = &mut copies.following else {
        return;
    };
    if following.progress < Followed::Adopted {
        return;
    }
    let Some(connection) = following.asked_by.take() else {
        return;
    };
    let (to, about) = (following.from.clone(), (number, following.history.term));
    let (is_kept, join) = (following.progress == Followed::Kept, following.join);
    let says = Says::Followed {
        connection,
        join,
        has,
    };
    shared.say(state, &to, about, says);
    if is_kept {
        shared.say(state, &to, about, Says::Confirmed);
    }
}

/// Notes that the history that this copy follows is durable, after all entries of the history.
pub fn kept_as_copy<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    number: u32,
    history: &Lineage,
) {
    let Some(Shard {
        role: Role::Copies(copies),
        ..
    }) = state.shards.get_mut(&number)
    else {
        return;
    };
    copies.copy.kept(history.term);
    let following = copies.following.as_mut();
    let Some(following) = following.filter(|one| one.history.term == history.term) else {
        return;
    };
    following.progress = Followed::Kept;
    let to = following.from.clone();
    shared.say(state, &to, (number, history.term), Says::Confirmed);
}

/// Notes that a floor is durable: the memory of the entries below it may be used again.
pub fn floor_kept<C>(state: &mut State<C>, (number, history): (u32, Lineage), now: Nanoseconds) {
    let Some(shard) = state.shards.get_mut(&number) else {
        return;
    };
    shard.floor = history.floor;
    shard.floor_at = now;
    let floor = history.floor;
    shard.bodies.forget_pieces(|point| point <= floor);
    if let Some(leads) = shard.leads() {
        let may_go = leads.primary.floor_kept(history);
        leads.digested = if may_go { 0 } else { leads.digested };
    } else if let Some(copies) = shard.copies_mut() {
        let may_go = copies.copy.floor_kept(history);
        copies.digested = if may_go { 0 } else { copies.digested };
    }
}

impl<C> Shard<C> {
    /// Adopts the received history, once no entry of earlier senders can land any more. Returns the heir if its history
    /// lacks entries, with its term.
    fn follow(
        &mut self,
        intake: &mut Intake,
        fences: &mut Fences,
    ) -> Option<(NodeName, (Term, NotACopy))> {
        let Role::Copies(copies) = &mut self.role else {
            return None;
        };
        let following = copies.following.as_ref()?;
        if following.progress > Followed::Told {
            return None;
        }
        let from = following.from.clone();
        if !self.is_silent(intake, fences, &from) {
            return None;
        }
        let Role::Copies(copies) = &mut self.role else {
            return None;
        };
        let following = copies.following.as_mut()?;
        if let Err(refused) = copies.copy.adopt(&following.history) {
            let term = following.history.term;
            copies.following = None;
            return match refused {
                NotAdopted::HeirLostEntries { found, horizon } if !mutant!(ShortHeirStays) => {
                    Some((from, (term, gap(found, horizon))))
                }
                // The heir is deposed, or of another cluster.
                _ => None,
            };
        }
        following.progress = Followed::Adopted;
        let lineage = copies.copy.lineage();
        self.bodies
            .retain(|point| lineage.judge(point) == Judgement::Counts);
        self.open_streams(intake);
        None
    }

    /// Keeps out all senders except `from`. Returns whether no entry of them can land any more,
    /// apart from entries of senders in doubt.
    pub fn is_silent(&self, intake: &mut Intake, fences: &mut Fences, from: &NodeName) -> bool {
        let earlier = self.streams.values().map(|(peer, _)| peer);
        let earlier = earlier.filter(|&peer| peer != from);
        let loud = earlier.filter(|peer| match fences.ask(intake, peer) {
            Silence::Silent => false,
            // An entry that a sender in doubt writes later is void here, or is one that the heir
            // sends, too. The intake keeps its segments until the doubt is over.
            Silence::Doubtful => mutant!(DoubtStopsCopies),
            Silence::UnderWay => true,
        });
        loud.count() == 0
    }

    /// Opens the streams of the history that this copy follows: of the open term, and of closed ones whose entries the
    /// heir sends again.
    fn open_streams(&mut self, intake: &mut Intake) {
        let Role::Copies(copies) = &mut self.role else {
            return;
        };
        let Some(Following {
            from,
            history,
            join,
            ..
        }) = &copies.following
        else {
            return;
        };
        let copy = &copies.copy;
        let floor = copy.lineage().floor.term;
        let closed = history.cuts.keys().filter(|&&term| term >= floor);
        let terms: Vec<_> = closed.copied().chain([history.term]).collect();
        for (term, _) in self.streams.extract_if(.., |term, _| !terms.contains(term)) {
            intake.close_stream(self.number, term);
        }
        // All streams are opened again: a stream of an earlier history may have reached beyond a cut, and would not
        // take entries up to that point again. If a stream gives up entries that way, the heir sends them by its next
        // connection.
        for term in terms {
            let sender = (from.clone(), *join);
            let stream = StreamName {
                shard: self.number,
                term,
                join: *join,
            };
            intake.open_stream(stream, from.clone(), copy.end_in(term));
            self.streams.insert(term, sender);
        }
    }

    /// Closes all streams. Only the copy judges entries that are found later.
    pub fn close_streams(&mut self, intake: &mut Intake) {
        for term in std::mem::take(&mut self.streams).into_keys() {
            intake.close_stream(self.number, term);
        }
    }

    /// The history to make durable, once all of its entries are found and durable.
    fn to_keep(&self) -> Option<Keeping> {
        let Role::Copies(copies) = &self.role else {
            return None;
        };
        let following = copies.following.as_ref()?;
        let history = match following.progress {
            Followed::Adopted => copies.copy.to_keep()?.clone(),
            Followed::Told | Followed::Kept => return None,
        };
        Some(Keeping {
            shard: self.number,
            history,
            why: Why::Follows,
        })
    }

    fn digest(&mut self, store: &impl Store) {
        if !self.may_digest() {
            return;
        }
        while let Some(entry) = self.copies_mut().and_then(|copies| copies.copy.digest()) {
            let body = self.bodies.remove(entry.point());
            store.digest(&entry, &body.expect("a body is kept until it is digested"));
            self.copies_mut().expect("it digests").digested += 1;
        }
    }

    /// The floor that is to be durable, when enough was digested, or the floor is old.
    fn floor_to_keep(&mut self, options: &Options, now: Nanoseconds) -> Option<Keeping> {
        if !self.may_raise_floor() {
            return None;
        }
        // A shard with few writes would otherwise hold the segments of all others.
        let is_late = now >= self.floor_at + options.floor_after_ns && !mutant!(FloorByCountAlone);
        let digested = self.digested();
        if digested == 0 || (digested < options.floor_after && !is_late) {
            return None;
        }
        let raised = match self.leads() {
            Some(leads) => leads.primary.raised_floor(),
            None => self.copies_mut()?.copy.raised_floor(),
        };
        let history = raised.filter(|raised| raised.floor > self.floor)?;
        Some(Keeping {
            shard: self.number,
            history,
            why: Why::Floor,
        })
    }
}
