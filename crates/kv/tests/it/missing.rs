//! Checks of pools whose values miss a chunk.

use stonecast_kv::{MissingChunk, verify};
use stonecast_log::{Finding, Form, LogFormat, commit_tag_position, void_tag, walk_segment};
use stonecast_media::{OpenMode, Pool};

use crate::world::{End, World, value};

/// Seven chunks.
const LONG: usize = 400_000;

/// The records of `pool` with their positions, forms, and the last four bytes of their keys.
fn records(pool: &Pool) -> Vec<(u64, Form, Vec<u8>)> {
    let (log, format) = (pool.log(), LogFormat::of(pool));
    let mut found = Vec::new();
    for number in 0..format.segment_count {
        walk_segment(&*log, &format, "log", number, &mut |finding| {
            if let Finding::Record(record) = finding {
                let name = record.key[record.key.len().saturating_sub(4)..].to_vec();
                found.push((record.position, record.header.form(), name));
            }
        });
    }
    found
}

/// Makes the record at `position` void, as if it had never been written.
fn remove(pool: &Pool, position: u64) {
    let (log, place) = (pool.log(), commit_tag_position(position));
    let mut tag = [0; 8];
    log.read(place, &mut tag);
    log.write(place, &void_tag(u64::from_le_bytes(tag)).to_le_bytes());
}

#[test]
fn a_check_names_the_head_and_the_number_of_each_chunk_that_is_missing() {
    for end in [End::Kill, End::Close] {
        let world = World::small();
        world.run_until(end, async |world: &World| {
            let client = world.client().await;
            client.put(b"short", b"value").await.unwrap();
            client.put(b"key", &value(1, LONG)).await.unwrap();
        });
        let check = || {
            let pool = world.open_pool_for(OpenMode::Inspect);
            verify(&pool, &mut |_, _| {}).unwrap().missing
        };
        assert_eq!(check(), []);
        let pool = world.open_pool_for(OpenMode::Serve);
        let found = records(&pool);
        let chunk = |number: u32| {
            let is_it =
                |it: &&(u64, Form, Vec<u8>)| it.1 == Form::Chunk && it.2 == number.to_le_bytes();
            found.iter().find(is_it).unwrap().0
        };
        let head = found.iter().find(|it| it.1 == Form::Head).unwrap().0;
        remove(&pool, chunk(2));
        remove(&pool, chunk(6));
        drop(pool);
        let missing = check();
        let version = missing[0].version;
        let named = |chunk| MissingChunk {
            key: b"key".to_vec(),
            version,
            offset: head,
            chunk,
            chunks: 7,
        };
        assert_eq!(missing, [named(2), named(6)]);
    }
}
