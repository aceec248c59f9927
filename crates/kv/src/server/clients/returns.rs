//! Intents of clients that publish, and memory that clients have lost and cannot reach: both come back to the server.

use std::rc::Rc;

use stonecast_session::Ended;

use super::Clients;
use super::end::Leased;
use super::extent::Extent;
use super::rights::{Returned, Ring, Stamper};
use crate::server::state::State;
use crate::wire::Route;

/// Ends rights that clients do not use, and takes back memory that clients have lost and cannot reach.
pub(in crate::server) fn settle_returned(state: &mut State) {
    for qp in state.clients.publishing.take_unused() {
        state.clients.end_rights(qp);
    }
    for ended in state.clients.departures.take_ended() {
        settle(state, ended);
    }
}

/// Gives segments back, and forgets rings that no client can write to.
fn settle(state: &mut State, ended: Ended<Leased>) {
    let Ended {
        revoked,
        unquiesced,
    } = ended;
    // A client that was stopped in the middle of a publication may finish at any time, so memory lent to that client
    // stays untouched.
    let may_publish = unquiesced.iter().any(|part| part.object().publishes());
    if may_publish {
        state.clients.departures.note_publishing();
    }
    let (mut ended_ring, mut extents) = (None::<Rc<Ring>>, Vec::new());
    for part in revoked {
        match part.into_object() {
            Leased::Rights(rights) => ended_ring = Some(rights.into_ring()),
            Leased::Extent(extent) if extent.publishes && may_publish => {}
            Leased::Extent(extent) => extents.push(extent),
        }
    }
    if !extents.is_empty() {
        state.cleaner.note_given_back();
    }
    for Extent {
        segment, publishes, ..
    } in extents
    {
        let stamper = match (publishes, &ended_ring) {
            (false, _) => Stamper::Server,
            (true, Some(_)) => Stamper::DeadClient,
            (true, None) => Stamper::Client,
        };
        take_over(state, &Returned { segment, stamper });
        state.journal.give_back(segment);
    }
    if let Some(ended) = ended_ring.filter(|_| !may_publish) {
        drain_intents(state);
        state.clients.publishing.forget(&ended);
    }
}

/// Takes the intents of all clients. Returns whether there were any.
pub(in crate::server) fn drain_intents(state: &mut State) -> bool {
    let State {
        clients: Clients {
            publishing, served, ..
        },
        journal,
        shards,
        ..
    } = state;
    publishing.drain(served, &mut journal.space, shards.published_mut())
}

/// Takes over a segment in which a client has stamped records, before another appender gets that segment.
fn take_over(state: &mut State, returned: &Returned) {
    if returned.stamper == Stamper::Server {
        return;
    }
    // The client's last intents are taken before the segment is judged.
    drain_intents(state);
    let State {
        journal, shards, ..
    } = state;
    let mut live = 0;
    let died = returned.stamper == Stamper::DeadClient;
    journal.take_over(returned.segment, &mut |found| {
        if !died {
            return false;
        }
        let Route { shard, hash } = shards.route_of(found.header.form(), found.key);
        let is_named = shards.of(shard).word_of_record(hash, found).is_some();
        live += if is_named { found.header.size() } else { 0 };
        !is_named
    });
    if died {
        journal.space.set_live(returned.segment, live);
    }
}
