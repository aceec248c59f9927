//! The reserve for deletes, over restarts.

use stonecast_kv::StoreError;

use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

/// Fails unless puts leave partial segments of the reserve alone: the first put after a restart takes the rest of the
/// reserve, and the pool refuses deletes.
#[test]
fn a_full_pool_that_is_opened_again_and_again_still_deletes() {
    on_every_provider(|| {
        let world = World::small();
        let (mut next, mut deleted) = (0, 0);
        for round in 0..6 {
            let end = if round % 2 == 0 {
                End::Kill
            } else {
                End::Close
            };
            world.run_until(end, async |world| {
                let client = world.client().await;
                loop {
                    match client.put(&key(next), &value(next, 2000)).await {
                        Ok(_) => next += 1,
                        Err(StoreError::NoSpace { .. }) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                for _ in 0..3 {
                    let done = client.delete(&key(deleted)).await;
                    assert!(
                        matches!(done, Ok(true)),
                        "round {round}: a full pool deletes key {deleted}: {done:?}"
                    );
                    deleted += 1;
                }
            });
        }
        assert!(next > 400, "the pool was full: {next}");
    });
}
