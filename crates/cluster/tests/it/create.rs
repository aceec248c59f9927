//! The first configuration of a store that may fail.

use stonecast_cluster::{
    Configuration, CreateError, DocumentError, Policy, Revision, StoreError, Stored, create,
};
use uuid::Uuid;

use crate::cluster::{NONCE, placed};
use crate::faulty::{Faulty, finish, runtime, writer};

fn create_in(store: &Faulty, nonce: Uuid, seed: u64) -> Result<Configuration, CreateError> {
    let policy = Policy::new(3, 4);
    finish(create(store, &runtime(), &mut writer(seed), nonce, policy))
}

/// Needs the read after an unknown outcome, and the nonce: an attempt that took effect late is a conflict for the next
/// one.
#[test]
fn a_creation_comes_about_once_whatever_becomes_of_its_attempts() {
    let (mut done, mut unknown) = (0, 0);
    for seed in 0..2_000 {
        let store = Faulty::empty(seed, 60);
        match create_in(&store, NONCE, seed) {
            Ok(created) => {
                done += 1;
                assert_eq!((created.nonce, created.epoch.0), (NONCE, 1), "seed {seed}");
                assert_eq!(store.configuration().nonce, NONCE, "seed {seed}");
            }
            Err(CreateError::Store {
                is_unknown, error, ..
            }) => {
                unknown += u32::from(is_unknown);
                let is_there = store.stored.borrow().is_some() || store.late.borrow().is_some();
                assert!(
                    is_unknown || !is_there,
                    "seed {seed}: {error}, but it is done"
                );
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(done > 1_000, "{done} done, {unknown} unknown");
}

#[test]
fn of_two_creations_one_wins_and_the_other_names_the_winner() {
    let store = Faulty::empty(1, 0);
    create_in(&store, NONCE, 1).unwrap();
    let refused = create_in(&store, Uuid::from_u128(8), 2).unwrap_err();
    let expected = CreateError::Exists {
        store: "memory".to_owned(),
        nonce: NONCE,
        epoch: store.configuration().epoch,
    };
    assert_eq!(refused, expected);
    assert_eq!(store.configuration().nonce, NONCE);
}

#[test]
fn a_value_that_is_no_configuration_is_not_overwritten() {
    let store = Faulty::with(&placed(), 1, 0);
    let bytes = b"stonecast-configuration 99 tag\nunknown".to_vec();
    let foreign = Stored {
        revision: Revision(1),
        bytes,
    };
    store.stored.replace(Some(foreign.clone()));
    let refused = create_in(&store, NONCE, 1).unwrap_err();
    let newer = DocumentError::Newer { found: 99 };
    assert!(
        matches!(&refused, CreateError::Document { error, .. } if error == &newer),
        "{refused}"
    );
    assert_eq!(*store.stored.borrow(), Some(foreign));
}

#[test]
fn a_store_that_is_not_reached_is_asked_once() {
    // Some seed draws a refusal as its fault.
    let refused = (0..50).find_map(|seed| {
        let store = Faulty::empty(seed, 100);
        let refused = create_in(&store, NONCE, seed).unwrap_err();
        (store.reads.get() == 0).then_some(refused)
    });
    let Some(CreateError::Store {
        error: StoreError::Refused { .. },
        is_unknown: false,
    }) = refused
    else {
        panic!("{refused:?}");
    };
}

#[test]
fn impossible_numbers_are_refused_before_the_store_is_asked() {
    let store = Faulty::empty(1, 0);
    let policy = Policy {
        min_copies: 4,
        ..Policy::new(3, 4)
    };
    let (runtime, mut writer) = (runtime(), writer(1));
    let created = create(&store, &runtime, &mut writer, NONCE, policy);
    let refused = finish(created).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the fewest copies is 4; it has to be 1 to 3"
    );
    assert_eq!(*store.stored.borrow(), None);
}
