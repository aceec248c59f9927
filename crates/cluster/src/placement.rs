//! The placement of the copies of shards.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::NodeName;

/// There are too few nodes for the requested copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{replicas} copies need as many nodes, and there are {nodes}: start more nodes, or ask for fewer copies"
)]
pub struct NotPlaced {
    /// The number of copies.
    pub replicas: usize,
    /// The number of nodes that take copies.
    pub nodes: usize,
}

#[derive(Default)]
struct Load {
    copies: u32,
    primaries: u32,
    /// Number of groups of each primary in which the node is a backup.
    backs: BTreeMap<NodeName, u32>,
}

/// Places `replicas` copies of each of `shards` shards. Returns the nodes of each shard, the primary first.
///
/// `nodes` gives each node's power zone. The copies of a shard lie on different nodes, and in different zones if there
/// are enough zones. Primaries are spread evenly, then copies, then the backups of each primary. So the other nodes
/// share the load of a node that fails. The same arguments give the same places.
pub fn place(
    nodes: &BTreeMap<NodeName, Option<String>>,
    shards: u32,
    replicas: usize,
) -> Result<Vec<Vec<NodeName>>, NotPlaced> {
    if nodes.len() < replicas {
        return Err(NotPlaced {
            replicas,
            nodes: nodes.len(),
        });
    }
    let mut loads: BTreeMap<&NodeName, Load> =
        nodes.keys().map(|name| (name, Load::default())).collect();
    let zone_of = |name: &NodeName| nodes[name].as_deref();
    let place_one = |_| {
        let mut chosen: Vec<NodeName> = Vec::with_capacity(replicas);
        let mut zones = BTreeSet::new();
        for _ in 0..replicas {
            let primary = chosen.first();
            let open = loads.iter().filter(|(name, _)| !chosen.contains(name));
            let best = open.min_by_key(|(name, load)| {
                let shares_power = zone_of(name).is_some_and(|zone| zones.contains(zone));
                match primary {
                    None => (shares_power, load.primaries, load.copies, 0),
                    Some(primary) => {
                        let backs = load.backs.get(primary).copied().unwrap_or(0);
                        (shares_power, load.copies, backs, load.primaries)
                    }
                }
            });
            let name = (*best.expect("there are as many nodes as copies").0).clone();
            let load = loads
                .get_mut(&name)
                .expect("the node was chosen from these");
            load.copies += 1;
            match primary {
                None => load.primaries += 1,
                Some(primary) => *load.backs.entry(primary.clone()).or_default() += 1,
            }
            zones.extend(zone_of(&name));
            chosen.push(name);
        }
        chosen
    };
    Ok((0..shards).map(place_one).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(zones: &[Option<u8>]) -> BTreeMap<NodeName, Option<String>> {
        let name = |index: usize| format!("node-{index:02}").parse().unwrap();
        let all = zones.iter().enumerate();
        all.map(|(index, zone)| (name(index), zone.map(|zone| format!("zone-{zone}"))))
            .collect()
    }

    fn counts<'a>(names: impl Iterator<Item = &'a NodeName>) -> BTreeMap<&'a NodeName, usize> {
        names.fold(BTreeMap::new(), |mut counts, name| {
            *counts.entry(name).or_default() += 1;
            counts
        })
    }

    proptest! {
        #[test]
        fn copies_lie_on_different_nodes_and_primaries_are_even(nodes_count in 1usize..12, replicas in 1usize..6, shards in 1u32..128) {
            prop_assume!(replicas <= nodes_count);
            let nodes = nodes(&vec![None; nodes_count]);
            let places = place(&nodes, shards, replicas).unwrap();
            for copies in &places {
                let distinct: BTreeSet<_> = copies.iter().collect();
                prop_assert_eq!(distinct.len(), replicas);
            }
            let primaries = counts(places.iter().map(|copies| &copies[0]));
            let (least, most) = (shards as usize / nodes_count, (shards as usize).div_ceil(nodes_count));
            prop_assert!(nodes.keys().all(|name| (least..=most).contains(primaries.get(name).unwrap_or(&0))));
        }

        #[test]
        fn copies_lie_in_different_zones_where_there_are_as_many(
            zones in proptest::collection::vec(0u8..4, 3..10), shards in 1u32..64
        ) {
            let distinct: BTreeSet<_> = zones.iter().collect();
            prop_assume!(distinct.len() >= 3);
            let nodes = nodes(&zones.into_iter().map(Some).collect::<Vec<_>>());
            for copies in place(&nodes, shards, 3).unwrap() {
                let distinct: BTreeSet<_> = copies.iter().map(|name| &nodes[name]).collect();
                prop_assert_eq!(distinct.len(), 3);
            }
        }
    }

    #[test]
    fn the_load_of_a_node_that_fails_is_shared_by_the_others() {
        let places = place(&nodes(&[None; 5]), 60, 3).unwrap();
        for primary in nodes(&[None; 5]).keys() {
            let led = places.iter().filter(|copies| copies[0] == *primary);
            let backs = counts(led.flat_map(|copies| &copies[1..]));
            assert_eq!(backs.len(), 4, "every other node is a backup of {primary}");
        }
    }

    #[test]
    fn more_copies_than_nodes_are_refused_with_both_numbers() {
        let refused = place(&nodes(&[None; 2]), 4, 3).unwrap_err();
        assert_eq!((refused.replicas, refused.nodes), (3, 2));
    }
}
