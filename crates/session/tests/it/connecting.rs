//! The beginning of connections, and the remains of failed attempts.

use stonecast_fabric::{ConnectionEvent, DeviceError};
use stonecast_session::{ConnectError, Endpoint, Greeting, PlatformCode, Protocol, Side, accept};

use crate::world::{Node, QUEUES, on_every_provider};

const PROTOCOL: Protocol = Protocol {
    magic: *b"locker01",
    name: "the locker",
    version: 7,
};

fn greeting(version: u32, platform: u32) -> Greeting {
    Greeting::of(Protocol {
        version,
        ..PROTOCOL
    })
    .on(PlatformCode {
        code: platform,
        words: |code| format!("platform {code}"),
    })
}

/// Accepts and greets each peer that speaks version 7 on platform 3.
async fn doorkeeper(server: Node) -> Result<(), DeviceError> {
    loop {
        let (request, said) = server.request().await;
        match greeting(7, 3).hear(Side::Client, &said) {
            Ok(name) => {
                let welcome = greeting(7, 3).say(&[b"hello ", name].concat());
                accept(&server.port, request, |making| {
                    making.queue_pair(QUEUES)?;
                    Ok((welcome, ()))
                })?;
            }
            Err(mismatch) => server
                .port
                .device()
                .reject(request, &mismatch.to_string())?,
        }
    }
}

async fn refusal(client: &Node, address: &str, hello: &[u8]) -> String {
    let endpoint = Endpoint::new(&client.port, QUEUES).expect("a queue pair");
    match endpoint.connect(address, hello).await {
        Err(ConnectError::Refused { reason }) => reason,
        other => panic!("a refusal, not {other:?}"),
    }
}

#[test]
fn a_peer_of_another_version_or_platform_is_refused_with_a_message_that_names_both() {
    on_every_provider(|[server, client, _]| async move {
        server.listen();
        let address = server.address.clone();
        server.spawn(doorkeeper(server.clone()));
        let version = refusal(&client, &address, &greeting(6, 3).say(b"")).await;
        assert!(
            version.contains("client speaks protocol version 6")
                && version.contains("server version 7"),
            "{version}"
        );
        let platform = refusal(&client, &address, &greeting(7, 4).say(b"")).await;
        assert!(
            platform.contains("client's platform is platform 4")
                && platform.contains("server's is platform 3"),
            "{platform}"
        );
        let stranger = refusal(&client, &address, b"GET / HTTP/1.1\r\n").await;
        assert!(
            stranger.contains("not a client of the locker"),
            "{stranger}"
        );
        let endpoint = Endpoint::new(&client.port, QUEUES).expect("a queue pair");
        let said = endpoint
            .connect(&address, &greeting(7, 3).say(b"Ada"))
            .await;
        let said = said.expect("accepted");
        assert_eq!(
            greeting(7, 3).hear(Side::Server, &said),
            Ok(&b"hello Ada"[..])
        );
    });
}

/// Needs the refusal in `accept`: without it the client waits forever.
#[test]
fn a_client_without_memory_at_the_server_learns_the_reason_and_the_next_client_is_accepted() {
    on_every_provider(|[server, client, _]| async move {
        server.listen();
        let address = server.address.clone();
        let task = server.clone();
        server.spawn(async move {
            let (request, _) = task.request().await;
            let failed = accept(&task.port, request, |making| {
                making.allocate(64)?;
                making.queue_pair(QUEUES)?;
                Err::<(Vec<u8>, ()), _>(DeviceError::Limit {
                    what: "lockers",
                    limit: 2,
                })
            });
            assert!(
                matches!(failed, Err(DeviceError::Limit { .. })),
                "{failed:?}"
            );
            let (request, _) = task.request().await;
            accept(&task.port, request, |making| {
                making.queue_pair(QUEUES)?;
                Ok((b"come in".to_vec(), ()))
            })?;
            Ok(())
        });
        let reason = refusal(&client, &address, b"").await;
        assert!(reason.contains("too many lockers: at most 2"), "{reason}");
        let endpoint = Endpoint::new(&client.port, QUEUES).expect("a queue pair");
        let said = endpoint.connect(&address, b"").await.expect("accepted");
        assert_eq!(said, b"come in");
    });
}

/// Needs the inbox of each endpoint, and the end in its drop.
#[test]
fn a_deadline_ends_an_unanswered_attempt_and_another_attempt_on_the_same_port_continues() {
    on_every_provider(|[silent, client, server]| async move {
        silent.listen();
        server.listen();
        let address = server.address.clone();
        server.spawn(doorkeeper(server.clone()));
        let given_up = Endpoint::new(&client.port, QUEUES).expect("a queue pair");
        let attempt = given_up.connect(&silent.address, b"");
        let late = client.runtime.within(2_000_000, attempt).await;
        assert!(late.is_err(), "no server answers: {late:?}");
        let kept = Endpoint::new(&client.port, QUEUES).expect("a queue pair");
        kept.connect(&address, &greeting(7, 3).say(b""))
            .await
            .expect("accepted");
        drop(given_up);
        let (request, _) = silent.request().await;
        // The fabric may report the client's end now or later: its queue pair is never connected.
        let accepted = accept(&silent.port, request, |making| {
            making.queue_pair(QUEUES)?;
            Ok((Vec::new(), ()))
        });
        if accepted.is_ok() {
            loop {
                silent.port.activity().await;
                if let Some(ConnectionEvent::Disconnected { .. }) = silent.port.take_event() {
                    break;
                }
            }
        }
        assert!(
            !kept.inbox().has_activity(),
            "the other connection is unharmed"
        );
    });
}
