//! Operations whose futures are dropped before they end.

use std::pin::pin;
use std::task::{Context, Waker};

use crate::fabric::on_every_provider;
use crate::world::{World, key, value};

/// Fails unless `Lent` is freed when its batch has ended: the memory of every READ that is given up is lost.
#[test]
fn gets_that_are_given_up_leak_no_memory_and_disturb_no_other_get() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let mut found = Vec::new();
            for n in 0..4 {
                client.put(&key(n), &value(n, 3000)).await.unwrap();
                assert!(client.get(&key(n), &mut found).await.unwrap().is_some());
            }
            let registered = || world.fabric().region_count(1);
            let before = registered();
            for round in 0..400u64 {
                let mut given_up = 0;
                for n in 0..4 {
                    let (key, mut nothing) = (key(n), Vec::new());
                    let mut get = pin!(client.get(&key, &mut nothing));
                    given_up += u32::from(
                        get.as_mut()
                            .poll(&mut Context::from_waker(Waker::noop()))
                            .is_pending(),
                    );
                }
                if round == 0 {
                    assert!(
                        given_up > 0 || before.is_none(),
                        "where READs are posted a GET waits"
                    );
                }
                // The abandoned READs must not write to the memory of other reads.
                let n = round % 4;
                assert!(client.get(&key(n), &mut found).await.unwrap().is_some());
                assert_eq!(found, value(n, 3000), "in round {round}");
            }
            let beyond = registered()
                .zip(before)
                .map_or(0, |(after, before)| after - before);
            assert!(
                beyond <= 16,
                "{beyond} pieces of memory for four GETs at a time"
            );
        });
    });
}
