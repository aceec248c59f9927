//! Epochs, which are durable before they count.

use std::cell::{Cell, RefCell};
use std::future::ready;

use stonecast_cluster::{
    Configuration, Epoch, EpochCell, Epochs, Known, Pending, RaiseError, Stale, Timing,
};
use uuid::Uuid;

use crate::cluster::{NONCE, placed};

/// A pool's cell, which may refuse to keep an epoch.
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
    assert_eq!(epochs.known().unwrap().configuration, placed().id());
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
fn another_configuration_of_the_same_epoch_is_refused_by_the_attempts_that_stored_both() {
    let cell = Memory::default();
    let mut epochs = Epochs::load(&cell);
    let placed = placed();
    raise(&mut epochs, &cell, &placed).unwrap();
    raise(&mut epochs, &cell, &placed).expect("it is brought twice");
    let mut restored = placed.clone();
    restored.attempt.number = Uuid::from_u128(9);
    let refused = Epochs::load(&cell).is_ahead(&restored);
    let expected = Stale::OtherConfiguration {
        epoch: placed.epoch,
        found: Uuid::from_u128(9),
        known: placed.attempt.number,
    };
    assert_eq!(refused, Err(expected));
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
