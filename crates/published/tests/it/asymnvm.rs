//! AsymNVM as published does what its structures promise, in every variant.

use stonecast_media::{Ddio, Durability};
use stonecast_persist::execute::Commit;
use stonecast_published::asymnvm::{AsymReader, AsymWriter, Variant, WriterOptions};
use stonecast_structures::shapes::StructureKind;

use crate::asymnvm_scene::{AsymScene, LAYOUT, change, description, writer_options};

const KEYED: [StructureKind; 6] = [
    StructureKind::HashTable,
    StructureKind::SkipList,
    StructureKind::Bst,
    StructureKind::BTree,
    StructureKind::MvBst,
    StructureKind::MvBTree,
];

/// Needs the words that are published and not applied, the order of both logs, and the ring: the logs begin again
/// several times.
#[test]
fn every_variant_finds_what_it_has_written_and_readers_find_it_when_it_is_applied() {
    for kind in KEYED {
        for variant in Variant::ALL
            .into_iter()
            .filter(|variant| !variant.is_local())
        {
            let scene = AsymScene::new(Ddio::Off);
            let back_end = scene.open();
            scene.serve(&back_end);
            let loaded = (0..100).map(|key| change(kind, key, key));
            AsymWriter::load(&*scene.memory(), (LAYOUT, 0), description(kind), loaded).unwrap();
            let (_process, session) = scene.session();
            let options = writer_options(variant);
            scene.world.block_on(async {
                let mut writer = AsymWriter::open(session, options, None).await.unwrap();
                for round in 1..4 {
                    let changes: Vec<_> = (50..150)
                        .map(|key| change(kind, key * 7 % 150, key * 7 % 150 + round))
                        .collect();
                    for changes in changes.chunks(20) {
                        writer.run(changes).await.unwrap();
                    }
                }
                writer.publish().await.unwrap();
                writer.settle().await.unwrap();
                for key in (50..150u64).map(|key| key * 7 % 150) {
                    let found = writer.get(&key.to_be_bytes()).await.unwrap();
                    assert_eq!(
                        found,
                        Some((key + 3).to_le_bytes().to_vec()),
                        "{kind:?} {variant:?}"
                    );
                }
            });
            scene.pass(10_000_000);
            let (_process, session) = scene.session();
            scene.world.block_on(async {
                let mut reader = AsymReader::open(session, kind).await.unwrap();
                for key in (50..150u64).map(|key| key * 7 % 150) {
                    let found = reader.get(&key.to_be_bytes()).await.unwrap();
                    assert_eq!(
                        found,
                        Some((key + 3).to_le_bytes().to_vec()),
                        "{kind:?} {variant:?}"
                    );
                }
            });
        }
    }
}

/// Needs words of the writer that stay known after a publication, and pieces of a node put together in their order.
#[test]
fn a_writer_that_remembers_or_reads_nodes_in_pieces_finds_the_same() {
    for kind in KEYED {
        let mut trips = Vec::new();
        for (remembers, read_size_max) in [(false, u64::MAX), (true, u64::MAX), (false, 16)] {
            let scene = AsymScene::new(Ddio::Off);
            let back_end = scene.open();
            scene.serve(&back_end);
            let loaded = (0..100).map(|key| change(kind, key, key));
            AsymWriter::load(&*scene.memory(), (LAYOUT, 0), description(kind), loaded).unwrap();
            let (_process, session) = scene.session();
            let options = WriterOptions {
                remembers,
                read_size_max,
                ..writer_options(Variant::R)
            };
            scene.world.block_on(async {
                let mut writer = AsymWriter::open(session, options, None).await.unwrap();
                let changes: Vec<_> = (50..150).map(|key| change(kind, key, key + 1)).collect();
                writer.run(&changes).await.unwrap();
                writer.finish().await.unwrap();
                let before = writer.counts().session.trips;
                writer.run(&changes).await.unwrap();
                trips.push(writer.counts().session.trips - before);
                writer.finish().await.unwrap();
                for key in 0..150_u64 {
                    let found = writer.get(&key.to_be_bytes()).await.unwrap();
                    let value = if key < 50 { key } else { key + 1 };
                    assert_eq!(found, Some(value.to_le_bytes().to_vec()), "{kind:?}");
                }
            });
        }
        let [usual, remembered, in_pieces] = *trips else {
            unreachable!("three runs")
        };
        // A tree with versions still reads a few words that are no nodes.
        let most = match kind {
            StructureKind::MvBst | StructureKind::MvBTree => usual / 8,
            _ => 0,
        };
        assert!(remembered <= most, "{kind:?}: {remembered} and {usual}");
        assert!(in_pieces > usual, "{kind:?}: {in_pieces} and {usual}");
    }
}

#[test]
fn the_symmetric_setting_keeps_its_structure_in_local_memory() {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    scene.serve(&back_end);
    let local = scene.local_memory();
    let kind = StructureKind::BTree;
    let loaded = (0..100).map(|key| change(kind, key, key));
    AsymWriter::load(&*local, (LAYOUT, 0), description(kind), loaded).unwrap();
    let (_process, session) = scene.session();
    scene.world.block_on(async {
        let commit = Commit::choose(
            stonecast_media::DeclaredPlatform {
                persistence_domain: stonecast_media::PersistenceDomain::Dmp,
                ddio: Ddio::Off,
                receive_buffers: stonecast_media::ReceiveBuffers::Dram,
            },
            Durability::Power,
            local.means(),
        );
        let local = Some((local, commit.unwrap()));
        let options = writer_options(Variant::Symmetric);
        let mut writer = AsymWriter::open(session, options, local).await.unwrap();
        writer.run(&[change(kind, 7, 8)]).await.unwrap();
        let found = writer.get(&7_u64.to_be_bytes()).await.unwrap();
        assert_eq!(found, Some(8_u64.to_le_bytes().to_vec()));
        assert_eq!(writer.counts().session.reads, 0, "nothing is read remotely");
    });
}
