//! Nodes that lose power soon after they have left a shard.

use stonecast_cluster::Group;

use super::world::{Cluster, MS, Place, Shape};
use super::{has_all, put_all};

/// Keys that the node takes as a primary of other shards, after it has dropped its copy.
const LATE: u64 = 24;

/// The drop takes a version of the node's counter, and later records have later versions. A record that is durable
/// proves that all versions before its own were: without the drop in the ledger, the log would look damaged.
#[test]
pub fn a_node_that_has_left_a_shard_starts_again_after_a_power_cut() {
    let shape = Shape {
        nodes: 4,
        shards: 4,
        ..Shape::THREE.patient()
    };
    for seed in 61..65 {
        Cluster::tell(shape, seed, async |cluster, client| {
            put_all(client, 0..40).await;
            let (leaves, shard) = primary_with_another_copy(cluster);
            let stored = cluster.stored();
            let group = &stored.groups[shard];
            let (subject, from) = (group.subject.clone(), cluster.places[leaves].name.clone());
            let outside = |place: &&Place| !group.has_copy(&place.name);
            let to = cluster
                .places
                .iter()
                .find(outside)
                .expect("a node is free")
                .name
                .clone();
            cluster
                .request(leaves, |present| {
                    present.move_copy(&subject, Some(&from), &to)
                })
                .await;
            cluster
                .until("the node has left", || {
                    !cluster.stored().groups[shard].has_copy(&from)
                })
                .await;
            put_all(client, 40..40 + LATE).await;
            cluster.places[leaves].cut_power(&cluster.world);
            cluster.start(leaves);
            cluster.process.runtime().sleep(20 * MS).await;
            assert_eq!(cluster.ends()[leaves], None, "seed {seed}");
            cluster.until_served().await;
            has_all(client, 0..40 + LATE).await;
        });
    }
}

/// A node that leads a shard, and another shard of which the node has a copy and which another node leads.
fn primary_with_another_copy(cluster: &Cluster) -> (usize, usize) {
    let stored = cluster.stored();
    let leads = |place: &&Place| {
        let mut groups = stored.groups.iter();
        groups.any(|group| group.primary == place.name)
    };
    let place = cluster
        .places
        .iter()
        .find(leads)
        .expect("the shards are led");
    let follows = |group: &Group| group.primary != place.name && group.has_copy(&place.name);
    let shard = stored.groups.iter().position(follows);
    let is_it = |other: &Place| other.name == place.name;
    let index = cluster.places.iter().position(is_it);
    index.zip(shard).expect("each node has three copies")
}
