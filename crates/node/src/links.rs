//! Links to the copies of the shards that this node leads or takes over.

use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_backup::{BackupLink, LinkOptions};
use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::NodeName;
use stonecast_media::Durability;
use stonecast_replication::{Connection, Entry, Kind, Point, Report, ReportedOutOfOrder};

use crate::error::NoLink;
use crate::letter::{Says, WAKE};
use crate::node::Shared;
use crate::peer::Unsent;
use crate::shard::{Role, Shard};
use crate::state::State;
use crate::store::Store;

/// Connects to `peer`, in one attempt. The next attempt comes after a pause.
async fn connect<S: Store>(shared: Rc<Shared<S>>, peer: NodeName) {
    let (addresses, promise) = {
        let state = shared.state.borrow();
        (state.addresses(&peer), state.promise(&peer))
    };
    // Entries are as durable there as the peer promises: a cluster may have pools of several promises.
    let durability = promise.unwrap_or(shared.options.link.durability);
    let linked = link(&shared, &addresses, durability).await;
    if let Err(trouble) = &linked {
        if let Some(way) = shared.state.borrow_mut().peers.get_mut(&peer) {
            way.trouble = Some(trouble.to_string());
        }
        shared.runtime.sleep(shared.options.repeat_ns).await;
    }
    let state = &mut *shared.state.borrow_mut();
    // A peer that was dismissed meanwhile gets no entries.
    let Some(way) = state.peers.get_mut(&peer) else {
        return;
    };
    way.is_linking = false;
    if let Ok(link) = linked {
        way.linked(link);
    }
    shared.bells.turn.ring();
}

/// A link to the first of `addresses` that accepts: a peer has one session of this node, and a
/// second session would end the first.
async fn link<S: Store>(
    shared: &Shared<S>,
    addresses: &[String],
    durability: Durability,
) -> Result<BackupLink, NoLink> {
    let (port, runtime) = (&shared.port, &shared.runtime);
    let options = LinkOptions {
        durability,
        ..shared.options.link.clone()
    };
    let mut trouble = NoLink::NoAddress;
    for address in addresses {
        match BackupLink::connect(port, runtime, address, &options).await {
            Ok(link) => return Ok(link),
            Err(not_linked) => trouble = not_linked.into(),
        }
    }
    Err(trouble)
}

/// Takes the reports of all links, keeps links to all copies, tells them the histories that they do not follow yet, and
/// sends.
pub fn step_links<S: Store>(state: &mut State<S::Call>, shared: &Rc<Shared<S>>) {
    take_reports(state);
    let now = shared.runtime.now();
    for number in state.numbers() {
        for peer in state.targets(&state.shards[&number]).iter() {
            let way = state.peers.entry(peer.clone()).or_default();
            if way.link.is_none() {
                if !std::mem::replace(&mut way.is_linking, true) {
                    let connecting = connect(shared.clone(), peer.clone());
                    shared.runtime.spawn(Box::pin(connecting));
                }
                continue;
            }
            tell(state, shared, number, peer, now);
        }
    }
    let idle_ns = shared.options.idle_ns;
    for number in state.numbers() {
        queue_unsent(state, number, Some((now, idle_ns)));
    }
    send(state, shared);
}

/// Takes the reports of all links, and sends the entries that wait for credit.
pub fn hear_and_send<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>) {
    take_reports(state);
    send(state, shared);
}

/// Sends the entries of the shards `stamped`.
pub fn send_stamped<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    stamped: &BTreeSet<u32>,
) {
    for &number in stamped {
        queue_unsent(state, number, None);
    }
    send(state, shared);
}

/// Sends the entries that wait, and wakes the peers that may rest.
fn send<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>) {
    let (now, quiet_ns) = (shared.runtime.now(), shared.options.quiet_ns());
    let peers = state.peers.iter_mut();
    let resting = peers.filter_map(|(name, peer)| peer.send(now, quiet_ns).then(|| name.clone()));
    for peer in resting.collect::<Vec<_>>() {
        if !mutant!(RestingPeerNotWoken) {
            shared
                .post
                .send(&peer, &state.addresses(&peer), WAKE.to_vec());
        }
    }
}

fn take_reports<C>(state: &mut State<C>) {
    let State { peers, shards, .. } = state;
    for (name, peer) in peers {
        while let Some(report) = peer.take_report() {
            let heard = match report {
                Ok(report) => hear(shards.get_mut(&report.stream.shard), name, &report)
                    .map_err(|wrong| wrong.to_string()),
                Err(ended) => Err(ended.to_string()),
            };
            if let Err(trouble) = heard {
                peer.end(trouble);
            }
        }
    }
}

/// Tells a copy the history of the term, unless it follows.
fn tell<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    number: u32,
    peer: &NodeName,
    now: Nanoseconds,
) {
    let Some(shard) = state.shards.get(&number) else {
        return;
    };
    let Some(term) = shard.term() else {
        return;
    };
    let is_awaited = matches!(shard.role, Role::TakesOver(_));
    let way = state.peers.get(peer);
    let follows = way.and_then(|way| way.follows(shard.stream_to(peer, term)));
    if follows.is_some() && !is_awaited {
        return;
    }
    let history = match &shard.role {
        Role::Leads(leads) => leads.history.clone(),
        Role::TakesOver(heir) => heir.takeover.history().0,
        Role::Absent | Role::Joins(_) | Role::Copies(_) => unreachable!("it has a term"),
    };
    let group = state.group(number);
    let is_joiner = group.is_some_and(|group| group.joining.contains_key(peer));
    let join = shard.join_of(peer);
    let begun = join.filter(|_| is_joiner).map(|join| join.begun.clone());
    let join = join.map_or(0, |join| join.number);
    if is_joiner && begun.is_none() {
        return;
    }
    let (about, repeat_ns) = ((number, history.term), shared.options.repeat_ns);
    let way = state.peers.entry(peer.clone()).or_default();
    if let Some(connection) = way.is_to_be_told(about, now, repeat_ns) {
        let says = match begun {
            Some(lineage) => Says::Drop {
                connection,
                join,
                lineage,
            },
            None => Says::History {
                connection,
                join,
                lineage: history,
            },
        };
        shared.say(state, peer, about, says);
    }
}

/// Hands the entries of a shard to the links of copies that follow. If a time is given, also hands over the horizon if
/// the shard is idle.
fn queue_unsent<C>(state: &mut State<C>, number: u32, idle: Option<(Nanoseconds, Nanoseconds)>) {
    let targets = state.targets(&state.shards[&number]);
    let State { shards, peers, .. } = state;
    let shard = shards.get_mut(&number).expect("it was listed");
    let Some(term) = shard.term() else {
        return;
    };
    for peer in targets.iter() {
        let Some(way) = peers.get_mut(peer) else {
            continue;
        };
        let Some(connection) = way.connection() else {
            continue;
        };
        let stream = shard.stream_to(peer, term);
        let unfollowed = mutant!(SentUnfollowed).then(Point::default);
        if let Some(has) = way.follows(stream).or(unfollowed) {
            let join = stream.join;
            for (entry, body) in unsent(shard, peer, (connection, has), idle) {
                way.push(Unsent { join, entry, body });
            }
        }
    }
}

/// Hands a report to its primary.
fn hear<C>(
    shard: Option<&mut Shard<C>>,
    from: &NodeName,
    report: &stonecast_backup::Report,
) -> Result<(), ReportedOutOfOrder> {
    let Some(leads) = shard.and_then(Shard::leads) else {
        return Ok(());
    };
    let report = Report {
        connection: Connection(report.connection),
        term: report.stream.term,
        version: report.version,
        kind: report.kind,
    };
    leads.primary.persisted(from, report)
}

/// The entries to send to `peer` by `connection`, each once. The peer has everything up to `has`.
fn unsent<C>(
    shard: &mut Shard<C>,
    peer: &NodeName,
    (connection, has): (u64, Point),
    idle: Option<(Nanoseconds, Nanoseconds)>,
) -> Vec<(Entry, Rc<[u8]>)> {
    let entries = match &mut shard.role {
        Role::Leads(leads) => {
            let way = Connection(connection);
            let mut entries = leads.primary.take_unsent(peer, way);
            if idle.is_some_and(|(now, idle_ns)| now >= leads.written_at + idle_ns) {
                entries.extend(leads.primary.take_idle(peer, way));
            }
            entries
        }
        Role::TakesOver(heir) if heir.sent.get(peer) != Some(&connection) => {
            heir.sent.insert(peer.clone(), connection);
            let mut entries = heir.takeover.history().1;
            // The copy does not find an entry below its floor, and gives no credit back for the entry.
            entries.retain(|entry| entry.point() > has);
            entries
        }
        Role::TakesOver(_) | Role::Absent | Role::Joins(_) | Role::Copies(_) => Vec::new(),
    };
    let bodies = &shard.bodies;
    let body_of = |entry: Entry| match entry.kind {
        Kind::Horizon => (entry, [].into()),
        Kind::Record => {
            let body = bodies.get(entry.point());
            (
                entry,
                body.expect("a body is kept until all copies have it")
                    .clone(),
            )
        }
    };
    entries.into_iter().map(body_of).collect()
}
