//! Answers a batch, in the order of arrival.

use stonecast_base::mutant;
use stonecast_persist::Persisted;

use super::batch::{Item, Owed, Question, RequestBatch, Source};
use crate::server::clients::Clients;
use crate::server::shard::outcomes::Outcome;
use crate::server::state::State;
use crate::wire::{Answer, Verdict};

/// The outcome of a batch's persist.
#[derive(Clone, Copy)]
pub(super) enum Durable<'p> {
    /// All stamped records are durable.
    Proven(&'p Persisted),
    /// Nothing was stamped, so no write is done.
    NothingStamped,
    /// The medium failed, and it is unknown which part of the batch is durable.
    Failed,
}

/// Queues the answer to a request of the batch.
pub(super) fn answer(
    state: &mut State,
    batch: &mut RequestBatch,
    item: &Item,
    durable: Durable<'_>,
) {
    let answer = match item.owed {
        Owed::Write(index) => answer_write(state, batch, (item, index), durable),
        Owed::Bundle(index) => answer_bundle(state, batch, (item, index), durable),
        Owed::Answer(ref answer) => return state.clients.sessions.answer(item.qp, answer),
        Owed::Release(slot) => {
            let Clients {
                sessions,
                departures,
                ..
            } = &mut state.clients;
            if let Some(lease) = sessions.give_back(item.qp, slot) {
                departures.end_extents([lease]);
            }
            Verdict::Done.into()
        }
        Owed::Outcome(..) if matches!(durable, Durable::Failed) => Verdict::Failed.into(),
        Owed::Outcome(question) => answer_question(state, question),
    };
    state.clients.sessions.answer(item.qp, &answer);
}

/// The outcome that a client asks for. A node that has resigned the shard meanwhile may have dropped its copy, outcomes
/// included, and knows nothing of a later term of its own: a done write would be *not done*.
fn answer_question(state: &mut State, question: Question) -> Answer {
    let Question {
        shard,
        term,
        token,
        since,
    } = question;
    if let Some(refused) = state.shards.refusal(shard, term)
        && !mutant!(OutcomeAfterLead)
    {
        return refused;
    }
    match state.shards.of_mut(shard).outcomes.find(token, since) {
        Outcome::Done(version) => Answer::Verdict {
            verdict: Verdict::Done,
            version,
        },
        Outcome::NotDone => Verdict::NotDone.into(),
        Outcome::Forgotten => Verdict::Forgotten.into(),
    }
}

/// The verdict on a bundle, which is visible by now.
fn answer_bundle(
    state: &mut State,
    batch: &mut RequestBatch,
    (item, index): (&Item, usize),
    durable: Durable<'_>,
) -> Answer {
    let bundle = &mut batch.bundles[index];
    assert!(
        matches!(durable, Durable::Proven(_))
            || bundle.verdict != Verdict::Done
            || bundle.writes.is_empty(),
        "an acknowledged batch is persisted"
    );
    bundle.give_back(&state.shards);
    for write in &batch.writes[bundle.writes.clone()] {
        let sizes = (write.key_size(), write.value_size());
        let served = &mut state.clients.served;
        served.count(item.path, (write.kind, write.verdict), sizes);
    }
    Answer::Verdict {
        verdict: bundle.verdict,
        version: bundle.number,
    }
}

/// The verdict on a write of the batch.
fn answer_write(
    state: &mut State,
    batch: &RequestBatch,
    (item, index): (&Item, usize),
    durable: Durable<'_>,
) -> Answer {
    let write = &batch.writes[index];
    assert!(
        matches!(durable, Durable::Proven(_)) || write.verdict != Verdict::Done,
        "an acknowledged write is persisted"
    );
    let Clients {
        sessions,
        lender,
        served,
        ..
    } = &mut state.clients;
    let sizes = (write.key_size(), write.value_size());
    served.count(item.path, (write.kind, write.verdict), sizes);
    let verdict = match (write.verdict, &write.source) {
        (Verdict::Done, Source::Placed(placed)) => {
            lender.verdict_on_done(sessions, item.qp, placed.segment)
        }
        (other, _) => other,
    };
    Answer::Verdict {
        verdict,
        version: write.version,
    }
}
