//! Writes that are repeated while their shard moves to another node.

use futures_util::future::join3;
use stonecast_cluster::{Group, NodeName, Timing};
use stonecast_kv::{ClusterClient, Condition, Written};

use super::world::{Cluster, MS, Shape};
use crate::world::key;

/// Time for which a copy stands still: less than a lease, and more than a move of a shard takes.
const STANDS_STILL_NS: u64 = 60 * MS;
/// The longest time for which a client waits before it looks for an heir.
const ATTEMPT_NS: u64 = 150 * MS;
/// Time for which the answers of a node are lost.
const LOST_NS: u64 = 700 * MS;

/// Several shards of each primary, and leases that outlast a copy that stands still. Copies answer by their processors.
const SHAPE: Shape = Shape {
    nodes: 5,
    shards: 6,
    one_sided: false,
    lease: Timing::SHARED_CORES,
    ..Shape::THREE
};

/// Two shards of one primary: a copy of the second shard has none of the first.
struct Places {
    primary: usize,
    /// The shard that moves, and the node that gets it.
    moved: usize,
    to: NodeName,
    /// The shard that waits for a copy, and the node of the copy.
    waiting: usize,
    copy: usize,
}

impl Places {
    fn of(cluster: &Cluster) -> Self {
        let groups = cluster.stored().groups;
        let place = |name: &NodeName| {
            let index = cluster.places.iter().position(|place| place.name == *name);
            index.expect("it is a node of the cluster")
        };
        let pairs = (0..groups.len()).flat_map(|one| (0..groups.len()).map(move |two| (one, two)));
        let of_one_primary =
            |&(one, two): &(usize, usize)| one != two && groups[one].primary == groups[two].primary;
        let mut all = pairs.filter(of_one_primary).filter_map(|(moved, waiting)| {
            let group: &Group = &groups[moved];
            let mut only = groups[waiting].in_sync.difference(&group.in_sync);
            let copy = only.next()?;
            let free = |name: &&NodeName| !group.in_sync.contains(*name) && *name != copy;
            let to = cluster.places.iter().map(|place| &place.name).find(free)?;
            Some(Self {
                primary: place(&group.primary),
                moved,
                to: to.clone(),
                waiting,
                copy: place(copy),
            })
        });
        all.next().expect("a node leads two shards")
    }
}

/// Two keys of a shard.
fn keys_of(client: &ClusterClient, shard: usize) -> [Vec<u8>; 2] {
    let keys = (0..).map(key);
    let mut own = keys.filter(|key| client.shard_of(key) == shard as u32);
    [(); 2].map(|()| own.next().expect("the shard has keys"))
}

/// The answer to the first attempt is lost, and another client writes before the second one. The question for the
/// outcome waits at the primary behind a write that waits for a copy. Meanwhile the primary hands the shard over, and
/// drops its copy. Needs the look at the lead when the question is answered: the outcomes went with the copy, and the
/// heir would do the write again.
#[test]
pub fn a_question_that_outlives_the_lead_of_its_node_is_answered_by_the_heir() {
    Cluster::tell(SHAPE.patient(), 77, async |cluster, other| {
        let runtime = cluster.process.runtime();
        let places = Places::of(cluster);
        let writer = cluster.client_that_waits(4 * ATTEMPT_NS, ATTEMPT_NS).await;
        let third = cluster.client_that_waits(4_000 * MS, ATTEMPT_NS).await;
        let [name, other_name] = keys_of(other, places.moved);
        let [beside, _] = keys_of(other, places.waiting);
        writer.put(&name, b"zero").await.unwrap();
        third.put(&beside, b"zero").await.unwrap();
        let primary = &cluster.places[places.primary];
        let (from, to) = (Some(primary.machine), Some(cluster.machine));
        let lost_since = runtime.now();
        cluster.world.block(from, to, 0, LOST_NS);
        let (mut token, none) = (None, Condition::None);
        let unanswered = writer.put_with(&mut token, &name, b"one", none).await;
        unanswered.expect_err("no answer leaves the primary");
        runtime.sleep(lost_since + LOST_NS - runtime.now()).await;
        let mut found = Vec::new();
        let first = other.get(&name, &mut found).await.unwrap();
        assert_eq!(found, b"one");
        other.put(&name, b"two").await.unwrap();
        // The writer is in the shard again: a request to enter it would wait behind the write, too.
        writer.put(&other_name, b"a session again").await.unwrap();
        third.put(&beside, b"a session again").await.unwrap();
        // No reader has a lease any more, so the primary hands over at once.
        runtime.sleep(SHAPE.lease.duration_ns).await;

        cluster.places[places.copy].pause(STANDS_STILL_NS);
        let begin = runtime.now();
        let write = third.put(&beside, b"waits for the copy");
        let repeat = async {
            runtime.sleep(MS).await;
            let again = writer.put_with(&mut token, &name, b"one", none).await;
            again.unwrap()
        };
        let moves = async {
            runtime.sleep(2 * MS).await;
            let subject = cluster.stored().groups[places.moved].subject.clone();
            let request = cluster.request(places.primary, |present| {
                present.move_copy(&subject, Some(&primary.name), &places.to)
            });
            request.await;
            let has_left = || !cluster.stored().groups[places.moved].has_copy(&primary.name);
            cluster.until("the node has left", has_left).await;
            runtime.now() - begin
        };
        let (write, again, moved_ns) = join3(write, repeat, moves).await;
        write.unwrap();
        assert!(moved_ns < STANDS_STILL_NS, "the move took {moved_ns} ns");
        assert_eq!(again, Written::Done(first.expect("the write was done")));
        other.get(&name, &mut found).await.unwrap();
        assert_eq!(found, b"two");
    });
}
