//! Connections to an etcd: which of them are used again, and how long a request may take.

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use stonecast_cluster::{ConfigStore, Revision, StoreError, Swap};
use stonecast_config_store::Bounds;

use crate::support::{Certificates, Fake, Reply, finish};

const TXN: &str = "/v3/kv/txn";
const BOUNDS: Bounds = Bounds {
    connect: Duration::from_millis(400),
    answer: Duration::from_millis(400),
    listen: Duration::from_millis(400),
};
const EMPTY: &str = r#"{"header":{"cluster_id":"7","revision":"9"}}"#;
const DONE: &str = r#"{"header":{"cluster_id":"7","revision":"10"},"succeeded":true}"#;
/// The answer to a transaction that changed nothing has the same shape.
const CONFLICT: &str = EMPTY;

fn open(address: &str) -> Rc<dyn ConfigStore> {
    stonecast_config_store::open_within(&address.parse().unwrap(), BOUNDS).unwrap()
}

fn open_plain(fake: &Fake) -> Rc<dyn ConfigStore> {
    open(&format!("etcd://{}/k", fake.endpoint))
}

/// The answer with this body, as bytes.
fn whole(body: &str) -> String {
    let size = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n{body}")
}

fn swap(store: &Rc<dyn ConfigStore>) -> Result<Swap, StoreError> {
    finish(store.compare_and_set(Some(Revision(5)), b"value"))
}

#[test]
fn requests_of_one_store_go_over_one_kept_connection() {
    let certificates = Certificates::make();
    let options = certificates.options("ca", Some("client"));
    let answer = |path: &str, _: &str| match path {
        TXN => Reply::Raw(whole(DONE)),
        // Chunks, too, say where an answer ends.
        _ => Reply::Raw(format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{EMPTY}\r\n0\r\n\r\n",
            EMPTY.len()
        )),
    };
    let plain = Fake::start(answer);
    let encrypted = Fake::start_encrypted(certificates.server("server"), answer);
    let encrypted_address = format!("etcds://{}/k{options}", encrypted.endpoint);
    for (fake, store) in [
        (&plain, open_plain(&plain)),
        (&encrypted, open(&encrypted_address)),
    ] {
        for _ in 0..5 {
            assert_eq!(finish(store.read()), Ok(None));
        }
        assert_eq!(swap(&store), Ok(Swap::Done(Revision(10))));
        assert_eq!(fake.connections.load(Ordering::Relaxed), 1);
    }
}

/// Needs a kept connection to be looked at before it is used. A transaction over a dead one would have an unknown
/// outcome.
#[test]
fn a_connection_that_the_server_has_ended_is_not_used_again() {
    let fake = Fake::start(|path, _| match path {
        TXN => Reply::Last(CONFLICT.to_owned()),
        _ => Reply::Last(EMPTY.to_owned()),
    });
    let store = open_plain(&fake);
    for _ in 0..5 {
        assert_eq!(finish(store.read()), Ok(None));
        // The end of the connection arrives.
        thread::sleep(Duration::from_millis(20));
        assert_eq!(swap(&store), Ok(Swap::Conflict));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Needs bytes behind an answer to end its connection, in whichever buffer they wait.
#[test]
fn an_answer_that_nothing_asked_for_is_not_taken_for_the_next_one() {
    let certificates = Certificates::make();
    let options = certificates.options("ca", Some("client"));
    for space in [0, 100_000] {
        let answer = move |path: &str, _: &str| match path {
            TXN => Reply::Raw(whole(CONFLICT)),
            _ => Reply::Raw(whole(&(EMPTY.to_owned() + &" ".repeat(space))) + &whole(DONE)),
        };
        let plain = Fake::start(answer);
        let encrypted = Fake::start_encrypted(certificates.server("server"), answer);
        let encrypted_address = format!("etcds://{}/k{options}", encrypted.endpoint);
        for store in [open_plain(&plain), open(&encrypted_address)] {
            assert_eq!(finish(store.read()), Ok(None));
            thread::sleep(Duration::from_millis(20));
            assert_eq!(swap(&store), Ok(Swap::Conflict));
        }
    }
}

/// Needs the bound of a request to be a moment, and not a time for each byte.
#[test]
fn an_answer_that_comes_a_byte_at_a_time_is_given_up() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (start, rest) in [
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", " "),
        (chunked, "1\r\n \r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let fake = Fake::start(move |_, _| Reply::Drip(start, rest));
        let refused = finish(open_plain(&fake).read()).unwrap_err().to_string();
        assert!(refused.contains("did not answer: timeout"), "{refused}");
    }
}

/// Needs the bound of a connection to hold for the handshake.
#[test]
fn a_handshake_that_comes_a_byte_at_a_time_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = listener.accept().unwrap();
        // The start of a long record of a handshake.
        for byte in [0x16, 3, 3, 0x3f, 0xff].into_iter().chain([0; 16_000]) {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let certificates = Certificates::make();
    let options = certificates.options("ca", None);
    let store = open(&format!("etcds://{endpoint}/k{options}"));
    let refused = finish(store.read()).unwrap_err().to_string();
    assert!(refused.contains("is not reached: timeout"), "{refused}");
    server.join().unwrap();
}

#[test]
fn a_host_may_have_a_name() {
    let fake = Fake::start(|_, _| Reply::Raw(whole(EMPTY)));
    let (_, port) = fake.endpoint.split_once(':').unwrap();
    // The name has two addresses on most hosts, and the server listens on one of them.
    let store = open(&format!("etcd://localhost:{port}/k"));
    assert_eq!(finish(store.read()), Ok(None));
    let store = open(&format!("etcd://nowhere.invalid:{port}/k"));
    let refused = finish(store.read()).unwrap_err().to_string();
    assert!(refused.contains("is not reached"), "{refused}");
}
