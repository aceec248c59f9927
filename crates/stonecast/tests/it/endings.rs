//! The end of clients and servers: the state that clients leave, and the answers that clients get.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::{Duration, Instant};

use stonecast::{Connector, Effect, Error, ErrorKind, Token, Write, Written, blocking};

use crate::support::{Place, block_on};

/// A time limit that only a hang exceeds.
const FOR_EVER: Duration = Duration::from_secs(20);

fn unknown(token: &Token) -> Effect {
    Effect::Unknown {
        token: Some(token.clone()),
    }
}

/// Needs the refusal of a retry to keep the token: the first attempt may have been done.
#[test]
fn a_retry_that_a_closed_client_refuses_keeps_its_token() {
    let place = Place::new();
    let token = place.sent_without_answer();
    let client = block_on(stonecast::connect(&place.url())).unwrap();
    let clone = client.clone();
    client.close();
    let put = block_on(clone.put_with("a", "one", Write::retry(token.clone()))).unwrap_err();
    let delete = block_on(clone.delete_with("a", Write::retry(token.clone()))).unwrap_err();
    for error in [put, delete] {
        assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
        assert_eq!(error.effect(), unknown(&token));
    }
    let first = block_on(clone.put_with("a", "one", Write::retryable())).unwrap_err();
    assert_eq!(first.effect(), Effect::None, "it was never sent");
}

/// Needs the loop to check the connection: every attempt over one that has ended is answered at once, with the token.
#[test]
fn a_retry_loop_ends_with_the_server_and_its_token_serves_over_the_next_connection() {
    let mut place = Place::new();
    let token = place.sent_without_answer();
    let client = blocking::connect(&place.url()).unwrap();
    place.end();
    let error = retry_until_known(&client, token.clone()).unwrap_err();
    assert!(error.is_disconnected(), "{error}");
    let Effect::Unknown { token: Some(token) } = error.effect() else {
        panic!("{error:?}");
    };
    place.start();
    let client = blocking::connect(&place.url()).unwrap();
    let first = retry_until_known(&client, token.clone()).unwrap();
    assert!(matches!(first, Written::Done(_)));
    assert_eq!(retry_until_known(&client, token).unwrap(), first);
}

/// The loop that [`Write`] shows.
fn retry_until_known(client: &blocking::Client, mut token: Token) -> Result<Written, Error> {
    for _ in 0..100 {
        match client.put_with("a", "one", Write::retry(token)) {
            Ok(written) => return Ok(written),
            Err(error) => match error.effect() {
                Effect::Unknown { token: Some(same) } if !error.is_disconnected() => token = same,
                _ => return Err(error),
            },
        }
    }
    panic!("the loop does not end");
}

/// Needs a guard that exists before the driver's thread: otherwise the connection stays forever.
#[test]
fn a_connect_that_is_dropped_when_it_is_done_leaves_no_connection() {
    struct Woken(mpsc::Sender<()>);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    let place = Place::new();
    let (wake, woken) = mpsc::channel();
    let waker = Arc::new(Woken(wake)).into();
    let url = place.url();
    let mut connect = Box::pin(stonecast::connect(&url));
    let first = connect.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(first.is_pending(), "a thread is not that fast");
    // The driver is connected, and waits for work.
    woken.recv_timeout(FOR_EVER).unwrap();
    drop(connect);
    let client = blocking::connect(&url).unwrap();
    let since = Instant::now();
    while client.stat().unwrap().clients > 1 {
        assert!(since.elapsed() < FOR_EVER, "the driver is still there");
        thread::yield_now();
    }
}

/// Needs the time limit of a close.
#[test]
fn a_close_does_not_wait_for_a_server_that_is_silent() {
    let mut place = Place::new();
    place.end();
    let server = place.builder().open().unwrap();
    let url = place.url();
    let is_connected = Arc::new(AtomicBool::new(false));
    let (theirs, is_silent) = (is_connected.clone(), Arc::new(AtomicBool::new(false)));
    let silent = is_silent.clone();
    let (report, closed) = mpsc::channel();
    let client = thread::spawn(move || {
        let limit = Duration::from_millis(50);
        let connector = Connector::new(&url).unwrap();
        let client = connector
            .operation_timeout(Some(limit))
            .connect_local()
            .unwrap();
        // A client that has written holds a lease, which a close gives back.
        client.run(async |client| while client.put(b"a", b"1").await.is_err() {});
        theirs.store(true, Ordering::SeqCst);
        client.run(async |_| {
            poll_fn(|context| {
                context.waker().wake_by_ref();
                match silent.load(Ordering::SeqCst) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        });
        client.close();
        report.send(()).unwrap();
    });
    server.run(&|| is_connected.load(Ordering::SeqCst)).unwrap();
    is_silent.store(true, Ordering::SeqCst);
    closed.recv_timeout(FOR_EVER).expect("the close ends");
    client.join().unwrap();
}
