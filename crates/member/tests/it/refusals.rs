//! Nodes under a false identity, and stores with another configuration.

use std::rc::Rc;

use stonecast_cluster::{ChangeError, ConfigStore as _, Configuration, Nonce, Stale, StoreError};
use stonecast_fabric::{LocalSpan, Operation, Port, ReceiveQueue};
use stonecast_member::{MemberError, MemberEvent};
use stonecast_session::{ConnectError, Endpoint, Greeting, Protocol, Queues, ReceiveBuffers};
use uuid::Uuid;

use crate::scene::{MS, NONCE, Scene, THREE, name};

const QUEUES: Queues = Queues {
    send_capacity: 4,
    receive_capacity: 4,
    shared_receive_queue: None,
    windows: false,
    rnr_retry_count: 10,
    rnr_retry_delay_ns: 10_000,
};

const NODE_A: &str = "sim:node-a";

/// The identity in a hello.
struct Caller {
    version: u32,
    cluster: Nonce,
    pool: u128,
    incarnation: u64,
    name: String,
}

impl Caller {
    fn hello(&self) -> Vec<u8> {
        let greeting = Greeting::of(Protocol {
            magic: *b"SCmember",
            name: "the nodes of a cluster",
            version: self.version,
        });
        let mut rest = self.cluster.as_bytes().to_vec();
        rest.extend_from_slice(Uuid::from_u128(self.pool).as_bytes());
        rest.extend_from_slice(&self.incarnation.to_le_bytes());
        rest.extend_from_slice(self.name.as_bytes());
        greeting.say(&rest)
    }
}

fn said(scene: &Scene, port: &Rc<Port>, hello: &[u8]) -> String {
    let endpoint = Endpoint::new(port, QUEUES).unwrap();
    let outcome = scene.world.block_on(endpoint.connect(NODE_A, hello));
    match outcome {
        Err(ConnectError::Refused { reason }) => reason,
        other => panic!("a refusal, not {other:?}"),
    }
}

#[test]
fn a_peer_that_is_not_the_node_of_its_name_is_refused_by_name() {
    let scene = Scene::settled(THREE, 21);
    let stranger = scene.world.process(scene.seats[0]);
    let port = stranger.port(64).unwrap();
    let known = scene.stored().nodes[&name(1)].incarnation;
    let honest = || the_node_b(&scene.stored());
    let refused = |caller: Caller| said(&scene, &port, &caller.hello());

    let newer = Caller {
        version: 9,
        ..honest()
    };
    assert!(refused(newer).contains("protocol version 9"));
    let cluster = Uuid::from_u128(8);
    let reason = refused(Caller {
        cluster,
        ..honest()
    });
    assert!(reason.contains(&cluster.to_string()), "{reason}");
    let reason = refused(Caller {
        pool: 7,
        ..honest()
    });
    assert!(reason.contains("b is the name of pool"), "{reason}");
    let incarnation = known - 1;
    let reason = refused(Caller {
        incarnation,
        ..honest()
    });
    assert!(reason.contains("b was started again"), "{reason}");
    let reason = refused(Caller {
        name: "zoe".to_owned(),
        ..honest()
    });
    assert!(reason.contains("names no node zoe"), "{reason}");
    let reason = refused(Caller {
        name: "no name".to_owned(),
        ..honest()
    });
    assert!(reason.contains("no name of a node"), "{reason}");

    scene.run_for(50 * MS);
    assert!(scene.all_led(), "the cluster goes on");
    let diary = scene.places[0].diary.borrow();
    let told = diary
        .iter()
        .filter(|(_, event)| matches!(event, MemberEvent::PeerTrouble { .. }));
    assert!(told.count() >= 5, "the store hears of each");
}

/// An ask for all groups, in the configuration of `present`.
fn ask(present: &Configuration) -> Vec<u8> {
    let mut bytes = 1_u32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&present.epoch.0.to_le_bytes());
    bytes.extend_from_slice(present.attempt.number.as_bytes());
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes
}

/// The length of the leases that `answer` grants.
fn held_ns(answer: &[u8]) -> u64 {
    u64::from_le_bytes(answer[32..40].try_into().unwrap())
}

/// The identity of node b as `present` knows it.
fn the_node_b(present: &Configuration) -> Caller {
    Caller {
        version: 2,
        cluster: NONCE,
        pool: 2,
        incarnation: present.nodes[&name(1)].incarnation,
        name: "b".to_owned(),
    }
}

/// The answer of node a to `request`, after `hello`.
fn answered(scene: &Scene, port: &Rc<Port>, hello: &[u8], request: &[u8]) -> Vec<u8> {
    const SIZE: u32 = 1024;
    let endpoint = Endpoint::new(port, QUEUES).unwrap();
    let region = endpoint.allocate(2 * u64::from(SIZE)).unwrap();
    let buffers = ReceiveBuffers::new(region, SIZE);
    let device = port.device();
    let queue = ReceiveQueue::Own(endpoint.qp());
    buffers.post_all(&**device, queue, 1).unwrap();
    let local = LocalSpan {
        region,
        offset: SIZE.into(),
        size: request.len() as u32,
    };
    device.memory(region).write(local.offset, request);
    scene.world.block_on(async {
        endpoint.connect(NODE_A, hello).await.unwrap();
        port.post(endpoint.qp(), [Operation::Send { local }])
            .unwrap();
        let inbox = endpoint.inbox();
        loop {
            if let Some(arrival) = inbox.take_received() {
                let mut answer = Vec::new();
                buffers.copy_out(&**device, &arrival, &mut answer);
                return answer;
            }
            inbox.activity().await;
        }
    })
}

/// Needs the configuration to name a start before leases are granted to the start: any peer can claim to be a later
/// start.
#[test]
pub fn a_start_that_the_configuration_does_not_name_is_heard_and_granted_nothing() {
    let scene = Scene::settled(THREE, 30);
    let stranger = scene.world.process(scene.seats[0]);
    let port = stranger.port(64).unwrap();
    let stored = scene.stored();
    let mut false_start = the_node_b(&stored);
    false_start.incarnation += 1;
    let mut led_always = true;
    for _ in 0..40 {
        let answer = answered(&scene, &port, &false_start.hello(), &ask(&stored));
        assert_eq!(answer[..8], stored.epoch.0.to_le_bytes());
        assert_eq!(held_ns(&answer), 0);
        scene.run_until(MS, || {
            led_always &= scene.all_led();
            false
        });
    }
    assert!(led_always, "the session of the known start goes on");
}

#[test]
fn a_peer_in_another_configuration_of_the_epoch_is_granted_nothing_and_told_of() {
    let scene = Scene::settled(THREE, 31);
    let stranger = scene.world.process(scene.seats[0]);
    let port = stranger.port(64).unwrap();
    let stored = scene.stored();
    let hello = the_node_b(&stored).hello();
    let granted = answered(&scene, &port, &hello, &ask(&stored));
    assert!(held_ns(&granted) > 0, "b leads a group");
    let mut other = stored.clone();
    other.attempt.number = Uuid::from_u128(0xdead);
    let refused = answered(&scene, &port, &hello, &ask(&other));
    assert_eq!(held_ns(&refused), 0);
    let stale = Stale::OtherConfiguration {
        epoch: stored.epoch,
        found: other.attempt.number,
        known: stored.attempt.number,
    };
    let reason = format!("b: {stale}");
    let diary = scene.places[0].diary.borrow();
    let told = MemberEvent::PeerTrouble { reason };
    assert!(diary.iter().any(|(_, event)| *event == told), "{diary:?}");
}

/// Stores `next` as an operator does who replaces the configuration.
fn replace(scene: &Scene, next: &Configuration) {
    let operator = scene.world.process(scene.seats[0]);
    let port = operator.port(64).unwrap();
    let store = scene.service.store(&port, &operator.runtime());
    let revision = scene.service.value().unwrap().revision;
    let swap = store.compare_and_set(Some(revision), &next.encode());
    scene.world.block_on(swap).unwrap();
}

#[test]
fn a_store_with_another_cluster_ends_every_member_with_an_error_that_names_both() {
    let scene = Scene::settled(THREE, 22);
    let mut other = scene.stored();
    other.nonce = Uuid::from_u128(0xdead);
    replace(&scene, &other);
    scene.run_for(50 * MS);
    for place in &scene.places {
        let found = other.nonce;
        let known = NONCE;
        let expected = MemberError::Stale(Stale::Cluster { found, known });
        assert_eq!(*place.end.borrow(), Some(expected));
    }
    assert!(
        scene
            .subjects()
            .iter()
            .all(|subject| scene.leaders(subject).is_empty())
    );
}

#[test]
fn a_store_that_went_back_to_an_earlier_epoch_is_not_followed_and_leases_go_on() {
    let scene = Scene::settled(THREE, 23);
    let mut earlier = scene.stored();
    earlier.epoch.0 -= 1;
    earlier.groups.iter_mut().for_each(|group| group.term.0 = 1);
    replace(&scene, &earlier);
    let mut led_always = true;
    scene.run_until(100 * MS, || {
        led_always &= scene.all_led();
        false
    });
    assert!(led_always);
    let diary = scene.places[0].diary.borrow();
    let last = diary.last().map(|(_, event)| event.clone());
    let Some(MemberEvent::StoreTrouble { reason }) = last else {
        panic!("trouble with the store, not {last:?}");
    };
    assert!(reason.contains("is past"), "{reason}");
}

/// Needs epochs to be durable: the epoch shows the node that the store went back.
#[test]
pub fn a_node_that_starts_writes_nothing_into_a_store_that_went_back() {
    let scene = Scene::settled(THREE, 26);
    let known = scene.stored().epoch;
    scene.kill(0);
    let mut earlier = scene.stored();
    earlier.epoch.0 -= 2;
    earlier.groups.iter_mut().for_each(|group| group.term.0 = 1);
    replace(&scene, &earlier);
    scene.start(0);
    scene.run_for(50 * MS);
    let found = earlier.epoch;
    let expected = MemberError::Stale(Stale::Epoch { found, known });
    assert_eq!(*scene.places[0].end.borrow(), Some(expected));
    assert_eq!(scene.stored(), earlier);
}

/// Replaces the configuration of the store by another configuration of its epoch, as the restoration of a store may do.
fn repeat_epoch(scene: &Scene) -> (Configuration, Stale) {
    let before = scene.stored();
    let mut other = before.clone();
    other.attempt.number = Uuid::from_u128(0xdead);
    replace(scene, &other);
    let stale = Stale::OtherConfiguration {
        epoch: other.epoch,
        found: other.attempt.number,
        known: before.attempt.number,
    };
    (other, stale)
}

#[test]
fn another_configuration_of_an_epoch_is_not_followed_and_leases_go_on() {
    let scene = Scene::settled(THREE, 28);
    let (_, stale) = repeat_epoch(&scene);
    let mut led_always = true;
    scene.run_until(100 * MS, || {
        led_always &= scene.all_led();
        false
    });
    assert!(led_always);
    for place in &scene.places {
        let diary = place.diary.borrow();
        let last = diary.last().map(|(_, event)| event.clone());
        let Some(MemberEvent::StoreTrouble { reason }) = last else {
            panic!("trouble with the store, not {last:?}");
        };
        assert!(reason.contains(&stale.to_string()), "{reason}");
    }
}

/// Needs the attempt to be kept beside the epoch.
#[test]
pub fn a_node_that_starts_writes_nothing_into_a_store_that_repeats_its_epoch() {
    let scene = Scene::settled(THREE, 29);
    (0..3).for_each(|index| scene.kill(index));
    let (other, stale) = repeat_epoch(&scene);
    scene.start(0);
    scene.run_for(50 * MS);
    let expected = MemberError::Stale(stale);
    assert_eq!(*scene.places[0].end.borrow(), Some(expected));
    assert_eq!(scene.stored(), other);
}

#[test]
fn a_node_ends_when_another_pool_has_its_name_in_the_same_incarnation() {
    let scene = Scene::settled(THREE, 27);
    let mut next = scene.stored();
    next.epoch.0 += 1;
    next.nodes.get_mut(&name(1)).unwrap().pool = Uuid::from_u128(0xbeef);
    replace(&scene, &next);
    scene.run_for(50 * MS);
    let expected = MemberError::Forgotten { name: name(1) };
    assert_eq!(*scene.places[1].end.borrow(), Some(expected));
}

#[test]
fn a_pool_that_is_started_twice_ends_the_first_member() {
    let scene = Scene::settled(THREE, 24);
    let incarnation = scene.stored().nodes[&name(2)].incarnation;
    scene.start_beside(2, "sim:node-c-again");
    scene.run_for(100 * MS);
    let ended = scene.places[2].end.borrow().clone();
    let expected = MemberError::Superseded {
        name: name(2),
        own: incarnation,
        known: incarnation + 1,
    };
    assert_eq!(ended, Some(expected));
}

#[test]
fn a_node_that_the_store_does_not_answer_is_told_that_it_cannot_be_registered() {
    let scene = Scene::new(THREE, 25);
    scene.service.fail_over_for(60_000 * MS);
    scene.start(0);
    scene.run_for(10_000 * MS);
    let end = scene.places[0].end.borrow().clone();
    let Some(MemberError::NotRegistered { error, .. }) = end else {
        panic!("not registered, not {end:?}");
    };
    let refused = |error: &StoreError| matches!(error, StoreError::Refused { .. });
    assert!(
        matches!(&error, ChangeError::Store { error, is_unknown: false, .. } if refused(error)),
        "{error}"
    );
}
