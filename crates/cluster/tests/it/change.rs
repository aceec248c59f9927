//! Changes of a configuration through a store that fails in every possible way.

use stonecast_cluster::{
    ChangeError, Configuration, DocumentError, Policy, Refusal, Revision, change,
};
use uuid::Uuid;

use crate::cluster::{NONCE, an_attempt, name, placed, start, three_nodes};
use crate::faulty::{Faulty, finish, runtime, writer};

/// Registers node d each time it is called.
fn register(present: &Configuration) -> Result<Option<Configuration>, Refusal> {
    present.register(&name("d"), &start(4)).map(Some)
}

#[test]
fn a_change_comes_about_once_whatever_becomes_of_its_attempts() {
    let (mut done, mut unknown) = (0, 0);
    for seed in 0..2_000 {
        let store = Faulty::with(&placed(), seed, 60);
        let mut writer = writer(seed);
        if seed % 2 == 0 {
            writer.learn(Revision(1), &placed());
        }
        match finish(change(&store, &runtime(), &mut writer, NONCE, register)) {
            Ok(came) => {
                done += 1;
                assert_eq!(came.nodes[&name("d")].incarnation, 1, "seed {seed}");
                assert_eq!(
                    store.configuration().nodes[&name("d")].incarnation,
                    1,
                    "seed {seed}: registered once"
                );
            }
            Err(ChangeError::Store { is_unknown, .. }) => {
                unknown += u32::from(is_unknown);
                let came = store.configuration().nodes.contains_key(&name("d"));
                assert!(
                    is_unknown || !came,
                    "seed {seed}: what is told not to be done is not done"
                );
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(
        done > 1_500 && unknown > 0,
        "{done} done, {unknown} unknown"
    );
}

#[test]
fn a_writer_that_knows_the_newest_value_asks_the_store_once() {
    let store = Faulty::with(&placed(), 1, 0);
    let mut writer = writer(1);
    writer.learn(Revision(1), &placed());
    for incarnation in 1..=3 {
        let came = finish(change(&store, &runtime(), &mut writer, NONCE, register)).unwrap();
        assert_eq!(came.nodes[&name("d")].incarnation, incarnation);
        assert_eq!(store.reads.get(), 0, "its own change is what it knows next");
    }
}

#[test]
fn the_known_configuration_of_a_writer_neither_refuses_a_change_nor_makes_it_needless() {
    let store = Faulty::with(&placed(), 1, 0);
    let registered = register(&placed()).unwrap().unwrap();
    store.swap(Some(Revision(1)), &registered.encode());
    let (d, told) = (name("d"), |present: &Configuration| {
        present.nodes.contains_key(&name("d"))
    });
    type Decided = Result<Option<Configuration>, Refusal>;
    let change_by = |decide: &dyn Fn(&Configuration) -> Decided| {
        let mut writer = writer(1);
        writer.learn(Revision(1), &placed());
        finish(change(&store, &runtime(), &mut writer, NONCE, decide)).unwrap()
    };
    let refused_before = change_by(&|present| match told(present) {
        true => register(present),
        false => present.remove(&d).map(Some),
    });
    assert_eq!(refused_before.nodes[&d].incarnation, 2);
    let needless_before = change_by(&|present| match told(present) {
        true => register(present),
        false => Ok(None),
    });
    assert_eq!(needless_before.nodes[&d].incarnation, 3);
}

#[test]
fn somebody_elses_change_is_seen_before_the_next_attempt() {
    let store = Faulty::with(&placed(), 1, 0);
    let mut calls = 0;
    let (runtime, mut writer) = (runtime(), writer(1));
    let came = change(&store, &runtime, &mut writer, NONCE, |present| {
        calls += 1;
        if calls == 1 {
            let mut other = present.register(&name("e"), &start(5)).unwrap();
            other.attempt.number = Uuid::from_u128(99);
            store.swap(Some(Revision(1)), &other.encode());
        }
        register(present)
    });
    let came = finish(came).unwrap();
    assert_eq!(calls, 2);
    assert!(came.nodes.contains_key(&name("d")) && came.nodes.contains_key(&name("e")));
}

#[test]
fn a_change_that_is_not_needed_stores_nothing() {
    let store = Faulty::with(&placed(), 1, 0);
    let came = finish(change(&store, &runtime(), &mut writer(1), NONCE, |_| {
        Ok(None)
    }))
    .unwrap();
    assert_eq!(came, placed());
    assert_eq!(
        store.stored.borrow().as_ref().unwrap().revision,
        Revision(1)
    );
}

#[test]
fn the_content_of_a_store_without_this_cluster_is_named() {
    let attempt = |store: &Faulty| {
        finish(change(store, &runtime(), &mut writer(1), NONCE, register)).unwrap_err()
    };

    let empty = Faulty::with(&placed(), 1, 0);
    empty.stored.take();
    assert!(attempt(&empty).to_string().contains("cluster create"));

    let other = Configuration::create(Uuid::from_u128(8), Policy::new(3, 4), an_attempt());
    let refused = attempt(&Faulty::with(&other, 1, 0));
    assert!(
        matches!(refused, ChangeError::OtherCluster { .. }),
        "{refused}"
    );

    let newer = Faulty::with(&three_nodes(Policy::new(3, 4)), 1, 0);
    newer.stored.borrow_mut().as_mut().unwrap().bytes = b"stonecast-configuration 9 x\n".to_vec();
    let refused = attempt(&newer);
    let expected = DocumentError::Newer { found: 9 };
    assert!(
        matches!(&refused, ChangeError::Document { error, .. } if *error == expected),
        "{refused}"
    );
}
