//! Several writers, and attempts of unknown outcome.

use futures_util::future::join;
use stonecast_base::random_from_seed;
use stonecast_media::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};
use uuid::Uuid;

use super::{Handle, Scene, drop_on_its_way};
use crate::change::{Writer, change};
use crate::configuration::{Attempt, Configuration, Node, Nonce, Policy};
use crate::eligibility::Start;
use crate::name::NodeName;
use crate::store::{Revision, Swap};

const NONCE: Nonce = Uuid::from_u128(0x5707_eca5);
const ROUNDS: u32 = 20;

/// Returns the revision of the winner, and whether the first writer won.
fn winner(swaps: (Swap, Swap)) -> (Revision, bool) {
    match swaps {
        (Swap::Done(revision), Swap::Conflict) => (revision, true),
        (Swap::Conflict, Swap::Done(revision)) => (revision, false),
        other => panic!("one of two wins, and not {other:?}"),
    }
}

pub async fn of_two_first_values_one_is_stored(scene: Scene) {
    let (a, b) = (scene.handle(), scene.handle());
    let (revision, a_won) = winner(join(a.swap(None, b"a"), b.swap(None, b"b")).await);
    let stored = a.read().await.unwrap();
    assert_eq!(stored.revision, revision);
    assert_eq!(stored.bytes, if a_won { b"a" } else { b"b" });
}

pub async fn of_two_writers_that_expect_the_same_revision_one_wins_each_time(scene: Scene) {
    let (a, b) = (scene.handle(), scene.handle());
    let mut last = a.store(None, b"0").await;
    for round in 1..=ROUNDS {
        let of_a = format!("{round} of a").into_bytes();
        let of_b = format!("{round} of b").into_bytes();
        let swaps = join(a.swap(Some(last), &of_a), b.swap(Some(last), &of_b)).await;
        let (revision, a_won) = winner(swaps);
        assert!(last < revision, "{last:?} comes before {revision:?}");
        let stored = b.read().await.unwrap();
        assert_eq!(stored.revision, revision);
        assert_eq!(stored.bytes, if a_won { of_a } else { of_b });
        last = revision;
    }
}

pub async fn a_revision_that_was_overtaken_stores_nothing(scene: Scene) {
    let (a, b) = (scene.handle(), scene.handle());
    let first = a.store(None, b"1").await;
    let second = b.store(Some(first), b"2").await;
    assert_eq!(a.swap(Some(first), b"3").await, Swap::Conflict);
    assert_eq!(a.swap(None, b"3").await, Swap::Conflict);
    let stored = a.read().await.unwrap();
    assert_eq!((stored.revision, &*stored.bytes), (second, &b"2"[..]));
}

fn attempt(number: u32) -> Attempt {
    Attempt {
        writer: "a".to_owned(),
        number: Uuid::from_u128(u128::from(number) + 1),
    }
}

fn configuration(attempt: Attempt) -> Configuration {
    Configuration::create(NONCE, Policy::new(1, 4), attempt)
}

/// The attempt that stored the present configuration, and its revision.
async fn found(handle: &Handle) -> (Attempt, Revision) {
    let stored = handle.read().await.expect("a configuration was stored");
    let configuration = Configuration::decode(&stored.bytes).expect("a configuration was stored");
    (configuration.attempt, stored.revision)
}

/// An attempt is sent, and its answer is dropped. The attempt of another writer decides. Either that attempt succeeds,
/// and the dropped attempt never does. Or it meets the dropped attempt, whose number shows that the dropped attempt
/// succeeded.
pub async fn an_attempt_that_was_dropped_is_found_by_its_number(scene: Scene) {
    let (a, b) = (scene.handle(), scene.handle());
    let mut last = a.store(None, &configuration(attempt(0)).encode()).await;
    for round in 1..=ROUNDS {
        let (dropped, mine) = (attempt(2 * round), attempt(2 * round + 1));
        let bytes = configuration(dropped.clone()).encode();
        drop_on_its_way(a.store.compare_and_set(Some(last), &bytes)).await;
        let decisive = configuration(mine.clone()).encode();
        let came_about = match b.swap(Some(last), &decisive).await {
            Swap::Done(_) => mine,
            Swap::Conflict => dropped,
        };
        for handle in [&b, &a] {
            let (attempt, revision) = found(handle).await;
            assert_eq!(attempt, came_about, "round {round}");
            assert!(last < revision);
        }
        last = found(&a).await.1;
    }
}

pub async fn two_changes_of_a_configuration_both_come_about(scene: Scene) {
    let (a, b) = (scene.handle(), scene.handle());
    a.store(None, &configuration(attempt(0)).encode()).await;
    join(register(&scene, &a, "a", 1), register(&scene, &b, "b", 2)).await;
    let stored = a.read().await.unwrap();
    let configuration = Configuration::decode(&stored.bytes).unwrap();
    let names: Vec<_> = configuration.nodes.keys().map(NodeName::as_str).collect();
    assert_eq!(names, ["a", "b"]);
}

async fn register(scene: &Scene, handle: &Handle, text: &str, pool: u128) {
    let mut writer = Writer::new(text.to_owned(), random_from_seed(pool as u64));
    let name: NodeName = text.parse().expect("a letter is a name");
    let platform = DeclaredPlatform {
        persistence_domain: PersistenceDomain::Dmp,
        ddio: Ddio::Off,
        receive_buffers: ReceiveBuffers::Pm,
    };
    let addresses = vec![format!("shm:/run/{text}.sock")];
    let node = Node::new(
        Uuid::from_u128(pool),
        Durability::Power,
        platform,
        addresses,
    );
    let start = Start::first(node);
    let decide = |present: &Configuration| present.register(&name, &start).map(Some);
    let changed = change(&*handle.store, &scene.runtime, &mut writer, NONCE, decide);
    changed.await.expect("nothing fails in a story");
}
