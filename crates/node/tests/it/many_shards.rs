//! Sixteen shards, and ledgers with and without room for their rows.

use crate::world::{MS, Scene, Shape};

/// A cluster of sixteen shards in segments of `segment_size` bytes, in which a write of the next shard begins every
/// 10 us, until 40 ms have passed or no node is left.
fn after_forty_ms_of_writes(segment_size: u64) -> Scene {
    let shape = Shape {
        shards: 16,
        segment_size,
        ..Shape::THREE
    };
    let scene = Scene::settled(shape, 91);
    for turn in 0..4_000 {
        let shard = turn % shape.shards;
        if let Some(place) = scene.serving(shard) {
            scene.call(place.index, scene.new_write(shard, (turn / 16 % 7) as u8));
        }
        scene.run_for(MS / 100);
        if scene.ends().iter().all(Option::is_some) {
            break;
        }
    }
    scene
}

/// A ledger has two rows for each shard here, and a segment of 16 KiB keeps eight rows.
#[test]
fn a_node_whose_ledger_has_no_room_names_the_rows_as_the_reason_of_its_end() {
    let scene = after_forty_ms_of_writes(16 << 10);
    for end in scene.ends() {
        let reason = end.expect("the node has ended");
        assert!(
            reason.contains("and a segment keeps 8: use larger segments, or fewer shards"),
            "{reason}"
        );
    }
}

#[test]
fn sixteen_shards_whose_rows_fit_a_segment_go_on() {
    let scene = after_forty_ms_of_writes(128 << 10);
    assert_eq!(scene.ends(), [None, None, None]);
    let answers = scene.oracle.borrow().answers;
    assert!(answers > 3_900, "{answers} of 4,000 writes are answered");
    scene.assert_agreement();
}
