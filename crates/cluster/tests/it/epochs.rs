//! Epochs that are durable before they count, and pools that are copies or are not.

use std::cell::{Cell, RefCell};
use std::future::ready;

use stonecast_cluster::{
    Configuration, Epoch, EpochCell, Epochs, Known, NotACopy, Pending, PoolFacts, RaiseError,
    Stale, Survived, Timing, eligible,
};
use stonecast_media::Durability;
use uuid::Uuid;

use crate::cluster::{NONCE, name, placed, shard};

/// A pool's cell, which may refuse to keep anything.
#[derive(Default)]
struct Memory {
    kept: RefCell<Option<Known>>,
    refuses: Cell<bool>,
}

impl EpochCell for Memory {
    type Error = &'static str;

    fn load(&self) -> Option<Known> {
        *self.kept.borrow()
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>> {
        if self.refuses.get() {
            return Box::pin(ready(Err("the medium is full")));
        }
        *self.kept.borrow_mut() = Some(known);
        Box::pin(ready(Ok(())))
    }
}

fn raise(
    epochs: &mut Epochs,
    cell: &Memory,
    configuration: &Configuration,
) -> Result<(), RaiseError<&'static str>> {
    futures_util::FutureExt::now_or_never(epochs.raise(cell, configuration))
        .expect("a cell in memory is ready")
}

#[test]
fn a_node_is_in_an_epoch_when_that_is_durable_and_not_before() {
    let cell = Memory::default();
    let mut epochs = Epochs::load(&cell);
    cell.refuses.set(true);
    assert!(matches!(
        raise(&mut epochs, &cell, &placed()),
        Err(RaiseError::NotKept(_))
    ));
    assert_eq!(epochs.known(), None);
    cell.refuses.set(false);
    raise(&mut epochs, &cell, &placed()).unwrap();
    assert_eq!(epochs.known(), cell.load());
    assert_eq!(epochs.known().unwrap().epoch, placed().epoch);
}

#[test]
fn lower_epochs_and_other_clusters_are_refused_from_the_store_too() {
    let cell = Memory::default();
    let mut epochs = Epochs::load(&cell);
    let placed = placed();
    raise(&mut epochs, &cell, &placed).unwrap();
    let restored = Configuration {
        epoch: Epoch(2),
        ..placed.clone()
    };
    let refused = raise(&mut epochs, &cell, &restored).unwrap_err();
    assert!(
        matches!(refused, RaiseError::Stale(Stale::Epoch { .. })),
        "{refused}"
    );
    let other = Configuration {
        nonce: Uuid::from_u128(9),
        epoch: Epoch(99),
        ..placed
    };
    let refused = raise(&mut epochs, &cell, &other).unwrap_err();
    assert!(
        matches!(refused, RaiseError::Stale(Stale::Cluster { .. })),
        "{refused}"
    );
    assert_eq!(epochs.known().unwrap().nonce, NONCE);
}

#[test]
fn the_longest_lease_of_all_epochs_is_kept_for_the_next_start() {
    let cell = Memory::default();
    let mut epochs = Epochs::load(&cell);
    let mut configuration = placed();
    raise(&mut epochs, &cell, &configuration).unwrap();
    configuration.epoch.0 += 1;
    configuration.policy.lease = Timing::DEDICATED_CORES;
    raise(&mut epochs, &cell, &configuration).unwrap();
    assert_eq!(
        Epochs::load(&cell).known().unwrap().longest_lease,
        Timing::SHARED_CORES
    );
}

fn facts(configuration: &Configuration) -> PoolFacts {
    PoolFacts {
        pool: configuration.nodes[&name("a")].pool,
        known: Some(Known {
            nonce: NONCE,
            epoch: Epoch(3),
            longest_lease: Timing::SHARED_CORES,
        }),
        promise: Durability::Process,
        survived: Survived::ProcessDeath,
        contiguous: 90,
        horizon: 90,
    }
}

#[test]
fn a_pool_counts_as_a_copy_as_long_as_it_survived_what_it_promises_to() {
    let placed = placed();
    let judge = |facts: PoolFacts| eligible(&placed, &name("a"), &shard(&placed), &facts);
    let good = facts(&placed);
    assert_eq!(judge(good), Ok(()));
    let lost = judge(PoolFacts {
        survived: Survived::PowerLoss,
        ..good
    });
    assert_eq!(lost, Err(NotACopy::PromiseExceeded));
    let durable = PoolFacts {
        promise: Durability::Power,
        survived: Survived::PowerLoss,
        ..good
    };
    assert_eq!(judge(durable), Ok(()));
    let gap = judge(PoolFacts {
        contiguous: 88,
        ..good
    });
    assert_eq!(
        gap,
        Err(NotACopy::Gap {
            first: 89,
            horizon: 90
        })
    );
}

#[test]
fn a_wiped_or_foreign_pool_is_no_copy_under_whatever_name() {
    let placed = placed();
    let judge = |facts: PoolFacts| eligible(&placed, &name("a"), &shard(&placed), &facts);
    let good = facts(&placed);
    assert!(matches!(
        judge(PoolFacts {
            pool: Uuid::from_u128(77),
            ..good
        }),
        Err(NotACopy::OtherPool { .. })
    ));
    assert_eq!(
        judge(PoolFacts {
            known: None,
            ..good
        }),
        Err(NotACopy::OtherCluster)
    );
    let removed = placed.remove(&name("a")).unwrap();
    let refused = eligible(&removed, &name("a"), &shard(&placed), &good);
    assert!(matches!(refused, Err(NotACopy::NotNamed { .. })));
}
