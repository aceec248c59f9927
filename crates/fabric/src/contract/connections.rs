//! How connections begin and end.

use std::rc::Rc;

use super::{Scene, Setup};
use crate::{ConnectionEvent, DisconnectCause};

pub(super) async fn private_data_reaches_the_other_side_both_ways(scene: Rc<Scene>) {
    let largest = scene.node(0).device().capabilities().private_data_size_max;
    assert!(largest >= 32, "a protocol needs room to say which it is: {largest} bytes");
    let (asked, answered) = (pattern(largest, 3), pattern(largest, 5));
    let address = scene.address(1).to_owned();
    let client = scene.end(0, Setup::default(), None, None, None);
    client.device().connect(client.qp, &address, &asked).expect("connecting starts");
    let event = scene.event(1, "a connection request", |event| matches!(event, ConnectionEvent::Request { .. })).await;
    let ConnectionEvent::Request { request, private_data, peer } = event else { unreachable!("just matched") };
    assert_eq!(private_data, asked);
    assert!(!peer.name.is_empty(), "a peer has a name for messages");
    let server = scene.end(1, Setup::default(), None, None, None);
    server.device().accept(request, server.qp, &answered).expect("the request can be accepted");
    assert_eq!(scene.established(0, client.qp).await, answered);
    assert_eq!(scene.established(1, server.qp).await, b"", "the accepting side knows what it said");
}

pub(super) async fn a_rejection_carries_its_reason_and_the_queue_pair_can_try_again(scene: Rc<Scene>) {
    let address = scene.address(1).to_owned();
    let client = scene.end(0, Setup::default(), None, None, None);
    client.device().connect(client.qp, &address, b"please").expect("connecting starts");
    let request = scene.request(1).await;
    scene.node(1).device().reject(request, "the house is full").expect("the request can be rejected");
    let event = scene.event(0, "a rejection", |event| matches!(event, ConnectionEvent::Rejected { .. })).await;
    let ConnectionEvent::Rejected { qp, reason } = event else { unreachable!("just matched") };
    assert_eq!(qp, client.qp);
    assert!(reason.contains("the house is full"), "the reason arrives: {reason}");

    client.device().connect(client.qp, &address, b"again").expect("connecting starts again");
    let request = scene.request(1).await;
    let server = scene.end(1, Setup::default(), None, None, None);
    server.device().accept(request, server.qp, b"").expect("the request can be accepted");
    scene.established(0, client.qp).await;
}

pub(super) async fn connecting_to_nobody_is_rejected(scene: Rc<Scene>) {
    let address = scene.address_of_nobody(1);
    let client = scene.end(0, Setup::default(), None, None, None);
    client.device().connect(client.qp, &address, b"").expect("connecting starts");
    let wanted = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Rejected { qp, .. } if *qp == client.qp);
    scene.event(0, "a rejection", wanted).await;
}

pub(super) async fn a_disconnect_is_told_to_both_sides_once(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.client.device().disconnect(pair.client.qp).expect("the connection can be ended");
    assert_eq!(scene.disconnected(0, pair.client.qp).await, DisconnectCause::Requested);
    assert_eq!(scene.disconnected(1, pair.server.qp).await, DisconnectCause::Requested);
    scene.quiet().await;
    assert_eq!(scene.unasked_events(0), []);
    assert_eq!(scene.unasked_events(1), []);
}

fn pattern(size: usize, step: usize) -> Vec<u8> {
    (0..size).map(|index| (index * step) as u8).collect()
}
