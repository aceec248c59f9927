//! An etcd that answers late, wrongly, or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stonecast_cluster::{ConfigStore, Revision, StoreError, Swap};
use stonecast_config_store::{Bounds, OpenError};
use stonecast_fabric::{Selected, select};

use crate::support::{Fake, Reply, finish, runtime};

const RANGE: &str = "/v3/kv/range";
const TXN: &str = "/v3/kv/txn";
const WATCH: &str = "/v3/watch";

const SHORT: Bounds = Bounds {
    connect: Duration::from_millis(300),
    answer: Duration::from_millis(300),
    listen: Duration::from_millis(500),
};

fn open(endpoints: &[&str]) -> Rc<dyn ConfigStore> {
    let address = format!("etcd://{}/k", endpoints.join(","));
    stonecast_config_store::open_within(&address.parse().unwrap(), SHORT).unwrap()
}

fn header(cluster: u64, revision: u64) -> String {
    format!(
        r#""header":{{"cluster_id":"{cluster}","member_id":"1","revision":"{revision}","raft_term":"2"}}"#
    )
}

/// The answer to a read: `value` at revision 5 of the key.
fn range(cluster: u64, revision: u64) -> Reply {
    let head = header(cluster, revision);
    let kvs = r#""kvs":[{"key":"aw==","mod_revision":"5","value":"djU="}]"#;
    Reply::Say(200, format!("{{{head},{kvs},\"count\":\"1\"}}"))
}

fn done(cluster: u64, revision: u64) -> Reply {
    Reply::Say(
        200,
        format!("{{{},\"succeeded\":true}}", header(cluster, revision)),
    )
}

fn say(text: &str) -> Reply {
    Reply::Say(200, text.to_owned())
}

fn head(status_and_fields: &str) -> Reply {
    Reply::Head(format!("HTTP/1.1 {status_and_fields}\r\n\r\n"))
}

fn refusal(code: u64, status: u16) -> Reply {
    Reply::Say(
        status,
        format!(r#"{{"error":"because","message":"because","code":{code}}}"#),
    )
}

/// An etcd of cluster 7 at revision 9 that answers transactions with `txn`.
fn etcd_with(txn: impl Fn() -> Reply + Send + 'static) -> Fake {
    Fake::start(move |path, _| match path {
        RANGE => range(7, 9),
        TXN => txn(),
        _ => Reply::Silence,
    })
}

/// An address without a listener.
fn unused_endpoint() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn swap(store: &Rc<dyn ConfigStore>) -> Result<Swap, StoreError> {
    finish(store.compare_and_set(Some(Revision(5)), b"value"))
}

#[test]
fn an_answer_that_no_etcd_gives_is_an_error_that_names_the_endpoint() {
    type WrongAnswer = (fn() -> Reply, &'static str);
    let wrong: [WrongAnswer; 12] = [
        (|| say("garbage"), "is not an etcd"),
        (
            || say(r#"{"header":{"cluster_id":[],"revision":"9"}}"#),
            "is not an etcd",
        ),
        (|| say("{}"), "missing field `header`"),
        (
            || Reply::Say(404, "Not Found".to_owned()),
            "HTTP status 404",
        ),
        (|| refusal(7, 403), "because (HTTP status 403, code 7)"),
        (
            || say(r#"{"header":{"cluster_id":"7","revision":"18446744073709551615"}}"#),
            "is not a revision",
        ),
        (|| say(&" ".repeat(5 << 20)), "is larger than"),
        // Redirects are not followed.
        (
            || head("302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0"),
            "HTTP status 302",
        ),
        // The rest of the answer never arrives.
        (
            || head("200 OK\r\ncontent-length: 100"),
            "did not answer: timeout",
        ),
        (|| Reply::Noise, "is not an etcd"),
        (|| Reply::HangUp, "did not answer"),
        (|| Reply::Silence, "did not answer: timeout"),
    ];
    for (reply, complaint) in wrong {
        let fake = Fake::start(move |_, _| reply());
        let start = Instant::now();
        let refused = finish(open(&[&fake.endpoint]).read()).unwrap_err();
        assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(
            text.contains(complaint) && text.contains(&fake.endpoint),
            "{complaint}: {text}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the wait was bounded"
        );
    }
}

/// Needs the next member to be asked after an answer that no etcd gives.
#[test]
fn a_server_that_is_not_an_etcd_keeps_no_one_from_the_members() {
    let replies: [fn() -> Reply; 5] = [
        || say("garbage"),
        || say("{}"),
        || Reply::Say(404, "Not Found".to_owned()),
        || head("302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0"),
        || Reply::Noise,
    ];
    for (index, reply) in replies.into_iter().enumerate() {
        let (other, good) = (Fake::start(move |_, _| reply()), etcd_with(|| done(7, 10)));
        let store = open(&[&other.endpoint, &good.endpoint]);
        let read = finish(store.read()).unwrap();
        assert_eq!(read.unwrap().revision, Revision(5), "{index}");
        let store = open(&[&other.endpoint, &good.endpoint]);
        assert_eq!(swap(&store), Ok(Swap::Done(Revision(10))), "{index}");
        assert_eq!(other.count(TXN), 0, "{index}");
    }
}

/// Rights are the same in all members: the others would refuse, too, and the user has to act.
#[test]
fn a_refusal_in_the_words_of_etcd_is_not_repeated_elsewhere() {
    let (first, second) = (
        Fake::start(|_, _| refusal(7, 403)),
        etcd_with(|| done(7, 10)),
    );
    let refused = finish(open(&[&first.endpoint, &second.endpoint]).read()).unwrap_err();
    assert!(refused.to_string().contains("code 7"), "{refused}");
    assert_eq!(second.count(RANGE), 0);
}

#[test]
fn the_words_of_an_etcd_in_a_message_are_few_and_printable() {
    let replies: [fn(&str) -> Reply; 3] = [
        |words| Reply::Say(400, format!(r#"{{"code":3,"message":"{words}"}}"#)),
        |words| Reply::Say(400, words.to_owned()),
        |words| say(&format!(r#"{{"header":"{words}"}}"#)),
    ];
    for reply in replies {
        let words = r"\u001b[2J".to_owned() + &"x".repeat(100_000);
        let fake = Fake::start(move |_, _| reply(&words));
        let refused = finish(open(&[&fake.endpoint]).read()).unwrap_err();
        let text = refused.to_string();
        assert!(text.len() < 600, "{} bytes", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn a_transaction_that_may_have_been_done_has_an_unknown_outcome_and_is_sent_once() {
    let replies: [fn() -> Reply; 10] = [
        || Reply::Silence,
        || Reply::HangUp,
        || Reply::Noise,
        || Reply::Say(200, "garbage".to_owned()),
        || Reply::Say(502, "<html>".to_owned()),
        || refusal(14, 503),
        || refusal(4, 504),
        // Space ran out in this transaction: etcd has executed it.
        || refusal(8, 429),
        // The first of these was executed by another cluster, and the second goes back.
        || done(8, 10),
        || done(7, 4),
    ];
    for (index, reply) in replies.into_iter().enumerate() {
        let (first, second) = (etcd_with(reply), etcd_with(|| done(7, 10)));
        let store = open(&[&first.endpoint, &second.endpoint]);
        let unknown = swap(&store).unwrap_err();
        assert!(
            matches!(unknown, StoreError::Unknown { .. }),
            "{index}: {unknown:?}"
        );
        assert!(
            unknown.to_string().contains(&first.endpoint),
            "{index}: {unknown}"
        );
        assert_eq!((first.count(TXN), second.count(TXN)), (1, 0), "{index}");
    }
}

#[test]
fn a_transaction_that_was_refused_before_it_began_was_not_done() {
    for (code, status) in [(3, 400), (7, 403), (9, 412), (12, 501), (16, 401)] {
        let fake = etcd_with(move || refusal(code, status));
        let refused = swap(&open(&[&fake.endpoint])).unwrap_err();
        assert!(
            matches!(refused, StoreError::Refused { .. }),
            "{code}: {refused:?}"
        );
    }
}

#[test]
fn a_missing_or_silent_endpoint_is_skipped() {
    let (gone, silent, good) = (
        unused_endpoint(),
        Fake::start(|_, _| Reply::Silence),
        etcd_with(|| done(7, 10)),
    );
    let store = open(&[&gone, &silent.endpoint, &good.endpoint]);
    assert_eq!(finish(store.read()).unwrap().unwrap().revision, Revision(5));
    assert_eq!(swap(&store), Ok(Swap::Done(Revision(10))));
    // The first call may be a transaction: it is sent to a member that answered a read.
    let store = open(&[&gone, &silent.endpoint, &good.endpoint]);
    assert_eq!(swap(&store), Ok(Swap::Done(Revision(10))));
    assert_eq!(silent.count(TXN), 0);
    let refused = swap(&open(&[&gone, &silent.endpoint])).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Refused { reason, .. }
        if reason.contains(&gone) && reason.contains(&silent.endpoint)),
        "{refused:?}"
    );
}

#[test]
fn an_endpoint_of_another_cluster_is_an_error_and_is_sent_no_transaction() {
    let is_up = Arc::new(AtomicBool::new(true));
    let up = is_up.clone();
    let ours = Fake::start(move |_, _| match up.load(Ordering::Relaxed) {
        true => range(7, 9),
        false => Reply::HangUp,
    });
    let other = Fake::start(|path, _| match path {
        RANGE => range(8, 9),
        _ => done(8, 10),
    });
    let store = open(&[&ours.endpoint, &other.endpoint]);
    finish(store.read()).unwrap();
    is_up.store(false, Ordering::Relaxed);
    let refused = finish(store.read()).unwrap_err().to_string();
    assert!(
        refused.contains("belongs to cluster 8") && refused.contains("cluster 7"),
        "{refused}"
    );
    let refused = swap(&store).unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(other.count(TXN), 0);
}

#[test]
fn an_etcd_whose_revision_goes_back_is_an_error() {
    let revision = Arc::new(AtomicUsize::new(9));
    let at = revision.clone();
    let fake = Fake::start(move |_, _| range(7, at.load(Ordering::Relaxed) as u64));
    let store = open(&[&fake.endpoint]);
    finish(store.read()).unwrap();
    revision.store(6, Ordering::Relaxed);
    // A first value would fit into an etcd that lost the others.
    let swap = finish(store.compare_and_set(None, b"value"));
    assert!(matches!(swap, Err(StoreError::Refused { .. })), "{swap:?}");
    assert_eq!(fake.count(TXN), 0);
    for refused in [
        finish(store.read()).map(drop),
        finish(store.changed(None)).map(drop),
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("is at revision 6, and was at 9"), "{text}");
    }
}

/// Watches `fake` for a second, in which no change arrives.
fn watch_in_vain(store: &Rc<dyn ConfigStore>) {
    let (executor, runtime) = runtime();
    let watched = executor.block_on(select(
        store.changed(Some(Revision(5))),
        runtime.sleep(1_500_000_000),
    ));
    assert!(matches!(watched, Selected::Second(())), "{watched:?}");
}

#[test]
fn a_watch_that_ends_for_any_reason_continues_after_pauses() {
    let canceled = r#"{"result":{"canceled":true,"compact_revision":"30"}}"#;
    let replies: [fn(&str) -> Reply; 5] = [
        |canceled| Reply::Stream(vec![canceled.to_owned()]),
        |_| Reply::HangUp,
        |_| Reply::Say(200, String::new()),
        |_| Reply::Stream(vec!["garbage".to_owned()]),
        |_| refusal(14, 503),
    ];
    for (index, reply) in replies.into_iter().enumerate() {
        let fake = Fake::start(move |path, _| match path {
            WATCH => reply(canceled),
            _ => range(7, 9),
        });
        watch_in_vain(&open(&[&fake.endpoint]));
        let watches = fake.count(WATCH);
        assert!((2..=5).contains(&watches), "{index}: {watches} watches");
        assert!(
            fake.count(RANGE) <= 20,
            "{index}: {} reads",
            fake.count(RANGE)
        );
    }
}

#[test]
fn a_watch_of_an_unreachable_etcd_continues_when_the_etcd_is_back() {
    let state = Arc::new(AtomicUsize::new(0));
    let of_fake = state.clone();
    let fake = Fake::start(
        move |path, _| match (of_fake.load(Ordering::Relaxed), path) {
            (0, WATCH) => Reply::Stream(vec![r#"{"result":{"created":true}}"#.to_owned()]),
            (0, _) => range(7, 9),
            (1, _) => Reply::HangUp,
            _ => {
                let kvs = r#""kvs":[{"key":"aw==","mod_revision":"11","value":"djEx"}]"#;
                Reply::Say(200, format!("{{{},{kvs}}}", header(7, 11)))
            }
        },
    );
    let store = open(&[&fake.endpoint]);
    let (executor, runtime) = runtime();
    let outage = async {
        for next in [1, 2] {
            runtime.sleep(700_000_000).await;
            state.store(next, Ordering::Relaxed);
        }
        std::future::pending::<()>().await
    };
    let watched = executor.block_on(select(store.changed(Some(Revision(5))), outage));
    let Selected::First(watched) = watched else {
        panic!("the outage never ends");
    };
    let stored = watched.unwrap();
    assert_eq!(
        (stored.revision, &*stored.bytes),
        (Revision(11), &b"v11"[..])
    );
    assert!(fake.count(RANGE) <= 40, "{} reads", fake.count(RANGE));
}

#[test]
fn a_deleted_key_does_not_make_a_watch_busy() {
    let reads = Arc::new(AtomicUsize::new(0));
    let of_fake = reads.clone();
    let fake = Fake::start(move |path, _| match path {
        // Present for the first reads of both threads, and then deleted.
        RANGE if of_fake.fetch_add(1, Ordering::Relaxed) < 2 => range(7, 9),
        RANGE => Reply::Say(200, format!("{{{}}}", header(7, 10))),
        _ => Reply::Stream(vec![
            r#"{"result":{"events":[{"type":"DELETE"}]}}"#.to_owned(),
        ]),
    });
    watch_in_vain(&open(&[&fake.endpoint]));
    assert!(fake.count(RANGE) <= 30, "{} reads", fake.count(RANGE));
}

#[test]
fn an_expired_token_is_replaced_and_no_error_shows_the_password() {
    let logins = Arc::new(AtomicUsize::new(0));
    let of_fake = logins.clone();
    let fake = Fake::start(move |path, body| match path {
        "/v3/auth/authenticate" => {
            assert!(body.contains("secret"));
            match of_fake.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => Reply::Say(200, r#"{"token":"t"}"#.to_owned()),
                _ => refusal(3, 400),
            }
        }
        _ if of_fake.load(Ordering::Relaxed) == 2 => range(7, 9),
        _ => refusal(16, 401),
    });
    let address = format!("etcd://ops:secret@{}/k", fake.endpoint);
    let store = stonecast_config_store::open_within(&address.parse().unwrap(), SHORT).unwrap();
    assert!(!store.name().contains("secret"));
    assert_eq!(finish(store.read()).unwrap().unwrap().bytes, b"v5");
    logins.store(3, Ordering::Relaxed);
    let refused = finish(store.read()).unwrap_err().to_string();
    assert!(
        refused.contains("code 16") && !refused.contains("secret"),
        "{refused}"
    );
}

/// Needs the file to be read again for each login.
#[test]
fn a_password_in_a_file_may_be_changed_while_the_store_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let write = |password: &str| {
        fs::write(&path, password).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let password = Arc::new(Mutex::new("first"));
    let of_fake = password.clone();
    let mut token = "";
    let fake = Fake::start(move |path, body| {
        let password = *of_fake.lock().unwrap();
        match path {
            "/v3/auth/authenticate" if body.contains(&format!("\"{password}\"")) => {
                token = password;
                Reply::Say(200, format!(r#"{{"token":"{password}"}}"#))
            }
            "/v3/auth/authenticate" => refusal(3, 400),
            _ if token == password => range(7, 9),
            _ => refusal(16, 401),
        }
    });
    write("first\n");
    let address = format!(
        "etcd://ops@{}/k?password_file={}",
        fake.endpoint,
        path.display()
    );
    let store = stonecast_config_store::open_within(&address.parse().unwrap(), SHORT).unwrap();
    assert_eq!(finish(store.read()).unwrap().unwrap().bytes, b"v5");
    *password.lock().unwrap() = "second";
    assert!(
        finish(store.read()).is_err(),
        "the file has the earlier password"
    );
    // Another program is writing the file: an unusable file changes nothing and causes no other error.
    write("");
    let refused = finish(store.read()).unwrap_err().to_string();
    assert!(
        refused.contains("refuses") && !refused.contains("first"),
        "{refused}"
    );
    write("second");
    assert_eq!(finish(store.read()).unwrap().unwrap().bytes, b"v5");
    fs::remove_file(&path).unwrap();
    let opened = stonecast_config_store::open(&address);
    let Err(OpenError::File { source, .. }) = opened else {
        panic!("the file is missing when the store is opened");
    };
    assert_eq!(source.path, path);
}
