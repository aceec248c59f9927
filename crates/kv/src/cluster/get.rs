//! The future of a GET of a cluster. If READs are executed in the call, the GET ends at its first poll: two loads, and
//! then one look at the clock.
//!
//! ```text
//!   Asked --found in the call, under a lease---------------> Over
//!     |   \--the same, others first--> Found --its turn--------^
//!     \--not so--> Attempted, a future in memory of its own----^
//! ```
//!
//! A future with room for attempts takes more instructions than the GET of one server, so the room is allocated only
//! when needed.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use stonecast_fabric::Boxed;

use super::ClusterClient;
use super::error::ClusterError;
use super::nodes::Node;
use crate::client::FoundKey;

type Outcome = Result<Option<u64>, ClusterError>;

/// The future of a GET.
#[must_use = "futures do nothing unless they are awaited"]
pub struct ClusterGet<'a> {
    client: &'a ClusterClient,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Asked {
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    },
    Found(Option<u64>),
    Attempted(Boxed<'a, Outcome>),
    Over,
}

impl<'a> ClusterGet<'a> {
    #[inline]
    pub(super) fn new(client: &'a ClusterClient, key: &'a [u8], value: &'a mut Vec<u8>) -> Self {
        Self {
            client,
            stage: Stage::Asked { key, value },
        }
    }

    /// Begins the attempts of a GET that has not ended in the call.
    #[cold]
    fn attempt(&mut self) {
        let client = self.client;
        let Stage::Asked { key, value } = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("asked and not begun")
        };
        self.stage = Stage::Attempted(client.get_until(client.deadline(), key, value));
    }

    /// The work of every later poll, and of a first poll that found nothing in the call.
    #[inline(never)]
    fn poll_on(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = match &mut self.stage {
            Stage::Attempted(attempts) => ready!(attempts.as_mut().poll(context)),
            Stage::Found(version) => Ok(*version),
            Stage::Asked { .. } | Stage::Over => {
                unreachable!("begun, and not polled after its end")
            }
        };
        self.stage = Stage::Over;
        Poll::Ready(outcome)
    }
}

impl Future for ClusterGet<'_> {
    type Output = Outcome;

    // The function is small. Where the compiler inlines it into the caller's await, the stages disappear.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        if let Stage::Asked { key, value } = &mut this.stage {
            if let Some((version, turn)) = get_in_call(this.client, key, value, context) {
                this.stage = match turn {
                    Poll::Ready(()) => Stage::Over,
                    Poll::Pending => Stage::Found(version),
                };
                return turn.map(|()| Ok(version));
            }
            this.attempt();
        }
        this.poll_on(context)
    }
}

/// A GET with the expiry of the key that ends in the call. `None`: it needs attempts, or no lease covers the call.
pub(super) fn find_in_call(
    client: &ClusterClient,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Option<Option<FoundKey>> {
    let shard = client.nodes.shard_of(key);
    client.nodes.routes.with(shard, |node| {
        let begun = node.leases.begin_in_call(shard, node.client.term(shard)?)?;
        let found = node.client.find_in_call(key, value)?;
        let now = client.runtime.now_at_most();
        node.leases.covers(shard, begun, now).then_some(found)
    })
}

/// Lets others go on before this task does, if it is their turn, as the node of `shard` sees it.
pub(super) async fn take_turn(client: &ClusterClient, shard: u32) {
    poll_fn(|context| {
        let turn = |node: &Node| Some(node.client.poll_turn(context));
        let turn = client.nodes.routes.with(shard, turn);
        turn.unwrap_or(Poll::Ready(()))
    })
    .await;
}

/// Reads `key` in the call at the node that the last call for its shard went to. Also returns whether it is this task's
/// turn to go on. `None`: the GET needs attempts, or no lease covers the call.
///
/// The map is not asked: a lease covers reads in its term whatever the latest configuration says, and ends before an
/// heir serves.
#[inline(always)]
fn get_in_call(
    client: &ClusterClient,
    key: &[u8],
    value: &mut Vec<u8>,
    context: &Context<'_>,
) -> Option<(Option<u64>, Poll<()>)> {
    let route = client.nodes.route(key);
    let shard = route.shard;
    client.nodes.routes.with(shard, |node| {
        let begun = node.leases.begin_in_call(shard, node.client.term(shard)?)?;
        let version = node.client.get_in_call(route, key, value)?;
        let is_covered = node
            .leases
            .covers(shard, begun, client.runtime.now_at_most());
        is_covered.then(|| (version, node.client.poll_turn(context)))
    })
}
