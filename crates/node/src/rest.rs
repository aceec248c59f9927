//! The task of a node: one turn after the other, and the rest between them.
//!
//! A turn is called by news of a link, a letter, an event of the member, an entry or the end of a session in the
//! intake, a call of the store's pipeline, and the end of a task that the node has begun. After a call, the node takes
//! some turns at short pauses, since a step of a turn may make the next one possible. Then it rests: until the next
//! call, until a letter is to be repeated if something waits, and until a floor is to rise.
//!
//! A device that packs messages reports no entries. Looks at the memory find them for some time after the last call.
//! Then the node stops looking, and a sender that was quiet for a part of that time sends a letter after its entries,
//! which is a call.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_backup::{Attention, Intake};
use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::give_way;

use crate::error::NodeError;
use crate::node::Shared;
use crate::options::Options;
use crate::peer::Peer;
use crate::shard::{Followed, Role, Shard};
use crate::state::State;
use crate::store::Store;
use crate::turn::{Extent, bounded_turn};

/// Turns at short pauses after a call.
const AWAKE_TURNS: u32 = 16;

/// Pauses after which a whole turn follows a short one, even if calls for short turns go on.
const SHORT_PAUSES: u64 = 50;

/// The time since the last call.
struct Calm {
    /// The call for the next turn; `None`: the turn comes without a call.
    call: Option<Extent>,
    /// The time at which a whole turn is due.
    whole_at: Nanoseconds,
    /// Whole turns in a row that nothing called for.
    turns: u32,
    /// The end of the time in which the node looks for entries that its device does not report.
    looks_until: Nanoseconds,
}

impl Calm {
    fn new() -> Self {
        Self {
            call: Some(Extent::Whole),
            whole_at: 0,
            turns: 0,
            looks_until: 0,
        }
    }

    /// The extent of the turn that begins at `now`.
    fn extent(&mut self, now: Nanoseconds, options: &Options) -> Extent {
        let extent = match self.call {
            Some(Extent::Short) if now < self.whole_at => Extent::Short,
            _ => Extent::Whole,
        };
        if extent == Extent::Whole {
            self.whole_at = now + SHORT_PAUSES * options.pause_ns;
        }
        extent
    }
}

/// Takes turns until the node is over.
pub async fn run<S: Store>(shared: Rc<Shared<S>>, mut intake: Intake) {
    let mut calm = Calm::new();
    while !shared.is_over.get() {
        let gone = go_round(&shared, &mut intake, &mut calm).await;
        if let Err(error) = gone {
            shared.fail(error);
        }
    }
}

/// A turn, and the rest after it.
async fn go_round<S: Store>(
    shared: &Rc<Shared<S>>,
    intake: &mut Intake,
    calm: &mut Calm,
) -> Result<(), NodeError> {
    let extent = calm.extent(shared.runtime.now(), &shared.options);
    let has_kept = bounded_turn(shared, intake, extent).await?;
    let mut counts = shared.told.counts.get();
    counts.turns += 1;
    shared.told.counts.set(counts);
    calm.turns = if has_kept { 0 } else { calm.turns };
    let until = rests_until(shared, intake, calm.turns);
    // A whole turn settles writes after all other steps, so another one follows it, too.
    let until = match calm.call {
        Some(Extent::Short) => until.min(calm.whole_at),
        Some(Extent::Whole) | None => until,
    };
    calm.call = rest(shared, intake, (until, calm.looks_until)).await?;
    calm.turns = match calm.call {
        Some(Extent::Whole) => 0,
        Some(Extent::Short) => calm.turns,
        None => calm.turns + 1,
    };
    if calm.call.is_some() {
        calm.looks_until = shared.runtime.now() + shared.options.looks_ns();
    }
    Ok(())
}

/// The time at which the next turn is due, if nothing calls for one.
fn rests_until<S: Store>(shared: &Shared<S>, intake: &Intake, calm_turns: u32) -> Nanoseconds {
    let (now, options) = (shared.runtime.now(), &shared.options);
    let state = &*shared.state.borrow();
    let pause_ns = match () {
        () if calm_turns < AWAKE_TURNS || intake.is_turning() => options.pause_ns,
        () if waits(state) || intake.segments_wanted() > 0 => options.repeat_ns,
        () => options.rest_ns,
    };
    let commit = state.own_commits.due(options.medium_patience_ns);
    let due = next_horizon(state, now, options).min(now + pause_ns);
    let due = due.min(next_floor(state, now, options));
    commit.map_or(due, |commit| commit.min(due))
}

/// Waits until something calls for a turn, or until `until`, and looks for entries until `looks_until` if the device
/// reports none. Returns the call.
async fn rest<S: Store>(
    shared: &Rc<Shared<S>>,
    intake: &mut Intake,
    (until, looks_until): (Nanoseconds, Nanoseconds),
) -> Result<Option<Extent>, NodeError> {
    let runtime = &shared.runtime;
    give_way().await;
    let mut over = runtime.sleep_until(until);
    let mut next_look = runtime.sleep_until(until);
    let mut events = pin!(shared.member.news());
    poll_fn(|context| {
        let is_told = events.as_mut().poll(context).is_ready();
        let call = shared.call(context).max(is_told.then_some(Extent::Whole));
        if call.is_some() {
            return Poll::Ready(Ok(call));
        }
        let mut counts = shared.told.counts.get();
        counts.looks += 1;
        shared.told.counts.set(counts);
        if intake.poll_news(runtime.now(), context)?.is_ready() {
            // A short turn takes entries, and leaves the ends of sessions.
            let extent = match intake.has_ended() {
                true => Extent::Whole,
                false => Extent::Short,
            };
            return Poll::Ready(Ok(Some(extent)));
        }
        if Pin::new(&mut over).poll(context).is_ready() {
            return Poll::Ready(Ok(None));
        }
        let pause_ns = match intake.attention() {
            // The other tasks run between two steps of a search.
            Attention::AtOnce => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Attention::Soon => shared.options.pause_ns,
            Attention::Seldom => shared.options.look_ns,
            Attention::Unreported if runtime.now() < looks_until => shared.options.look_ns,
            Attention::Unreported | Attention::WhenWoken => return Poll::Pending,
        };
        next_look = runtime.sleep(pause_ns);
        Pin::new(&mut next_look).poll(context).map(|()| Ok(None))
    })
    .await
}

impl<S: Store> Shared<S> {
    /// The turn for which something other than the member and the intake calls. If nothing does,
    /// `context` is woken when something does.
    fn call(&self, context: &mut Context<'_>) -> Option<Extent> {
        let mut state = self.state.borrow_mut();
        let links = state.peers.values_mut();
        let reported = links.filter_map(|peer| peer.poll_news(context).is_ready().then_some(()));
        let is_reported = reported.count() > 0 && !mutant!(ReportsWakeNobody);
        let has_letters = self.post.poll_news(context).is_ready();
        let is_whole = self.bells.turn.poll_rung(context).is_ready() | has_letters;
        let is_short = self.bells.batch.poll_rung(context).is_ready() | is_reported;
        let short = is_short.then_some(Extent::Short);
        short.max(is_whole.then_some(Extent::Whole))
    }
}

/// Whether something waits for a peer, or for a time: a letter may have to be repeated, or a patience may end.
fn waits<C>(state: &State<C>) -> bool {
    let is_leaving = state.configuration.relieved(&state.me).next().is_some();
    is_leaving
        || state.peers.values().any(Peer::is_behind)
        || state.shards.values().any(|shard| shard_waits(state, shard))
}

fn shard_waits<C>(state: &State<C>, shard: &Shard<C>) -> bool {
    match &shard.role {
        Role::Absent => false,
        Role::Joins(joins) => joins.filling.is_some(),
        Role::Copies(copies) => {
            let following = copies.following.as_ref();
            following.is_some_and(|following| following.progress < Followed::Kept)
        }
        Role::TakesOver(_) => true,
        Role::Leads(leads) => {
            let follows = |name| {
                let peer = state.peers.get(name);
                let stream = shard.stream_to(name, leads.primary.term());
                peer.is_some_and(|peer| peer.follows(stream).is_some())
            };
            leads.handover.is_some() || !state.targets(shard).iter().all(follows)
        }
    }
}

/// The time at which the next idle shard reports the horizon to its copies.
fn next_horizon<C>(state: &State<C>, now: Nanoseconds, options: &Options) -> Nanoseconds {
    let written = state.shards.values().filter_map(|shard| match &shard.role {
        Role::Leads(leads) => Some(leads.written_at + options.idle_ns),
        _ => None,
    });
    let due = written.filter(|&at| at > now);
    due.min().unwrap_or(Nanoseconds::MAX)
}

/// The time at which the floor of a shard with few writes rises. A floor that cannot rise yet is examined again after
/// the same time.
fn next_floor<C>(state: &State<C>, now: Nanoseconds, options: &Options) -> Nanoseconds {
    let after_ns = options.floor_after_ns;
    let digested = state.shards.values().filter(|shard| shard.digested() > 0);
    let due = digested.map(|shard| match shard.floor_at + after_ns {
        due if due > now => due,
        _ => now + after_ns,
    });
    due.min().unwrap_or(Nanoseconds::MAX)
}
