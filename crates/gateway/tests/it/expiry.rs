//! Keys that expire, as programs use them: a session cache and a rate limiter; and each command, as Redis documents it.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Reply, World};

const OK: &str = "OK";

fn number(client: &mut Client, line: &str) -> i64 {
    match client.words(line) {
        Reply::Integer(number) => number,
        other => panic!("{line}: {other:?}"),
    }
}

fn assert_within(number: i64, range: std::ops::RangeInclusive<i64>, what: &str) {
    assert!(range.contains(&number), "{what}: {number}");
}

#[test]
fn a_moment_before_the_time_that_the_server_says_has_come_and_a_later_one_has_not() {
    let world = World::start();
    let client = &mut world.client();
    let Reply::Array(parts) = client.words("TIME") else {
        panic!("TIME is no array")
    };
    let [seconds, microseconds] =
        [&parts[0], &parts[1]].map(|part| part.text().parse::<i64>().unwrap());
    assert_within(microseconds, 0..=999_999, "microseconds");
    let wall = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    assert_within(seconds, wall - 60..=wall + 60, "seconds");
    client.words(&format!("SET before v EXAT {}", seconds - 1));
    client.words(&format!("SET after v EXAT {}", seconds + 60));
    assert_eq!(client.words("EXISTS before after"), Reply::Integer(1));
}

#[test]
fn a_key_keeps_loses_and_changes_its_moment_as_redis_says() {
    let world = World::start();
    let client = &mut world.client();
    for (line, left) in [
        ("SET k v EX 100", 99_000..=100_000),
        ("SET k v PX 100000", 99_000..=100_000),
        ("SETEX k 100 v", 99_000..=100_000),
        ("PSETEX k 100000 v", 99_000..=100_000),
        ("SET k w KEEPTTL", 98_000..=100_000),
        ("SET k v", -1..=-1),
        ("SET k v EX 100 NX", -1..=-1),
        ("SET k v XX EX 100 GET", 99_000..=100_000),
        ("GETSET k v", -1..=-1),
        ("SET k v EX 100", 99_000..=100_000),
        ("MSET k v", -1..=-1),
    ] {
        client.words(line);
        assert_within(number(client, "PTTL k"), left, line);
    }
    client.words("SET n 1 EX 100");
    for line in ["INCR n", "DECRBY n 1", "APPEND n 1", "GET n", "STRLEN n"] {
        client.words(line);
        assert_within(number(client, "TTL n"), 98..=100, line);
    }
    assert_eq!(client.words("GET n"), Reply::bulk("11"));
    assert_eq!(client.words("SETNX n 1"), Reply::Integer(0));
    assert_within(number(client, "TTL n"), 98..=100, "SETNX");
    assert_eq!(client.words("PERSIST n"), Reply::Integer(1));
    assert_eq!(client.words("PERSIST n"), Reply::Integer(0));
    assert_eq!(client.words("PERSIST nothing"), Reply::Integer(0));
    for line in ["TTL n", "PTTL n", "EXPIRETIME n", "PEXPIRETIME n"] {
        assert_eq!(client.words(line), Reply::Integer(-1), "{line}");
    }
    for line in ["TTL x", "PTTL x", "EXPIRETIME x", "PEXPIRETIME x"] {
        assert_eq!(client.words(line), Reply::Integer(-2), "{line}");
    }
    assert_eq!(client.words("DEL k n"), Reply::Integer(2));
}

#[test]
fn expire_has_conditions_on_the_moment() {
    let world = World::start();
    let client = &mut world.client();
    client.words("SET k v");
    for (line, reply) in [
        ("EXPIRE k 100 XX", 0),
        ("EXPIRE k 100 GT", 0),
        ("EXPIRE k 100 LT", 1),
        ("EXPIRE k 200 NX", 0),
        ("EXPIRE k 50 GT", 0),
        ("EXPIRE k 200 XX GT", 1),
        ("PEXPIRE k 100000 LT", 1),
        ("PEXPIREAT k 4000000000000", 1),
        ("EXPIREAT k 4000000001 GT", 1),
        ("EXPIRE nothing 100", 0),
    ] {
        assert_eq!(client.words(line), Reply::Integer(reply), "{line}");
    }
    assert_eq!(client.words("EXPIRETIME k"), Reply::Integer(4_000_000_001));
    let words = |client: &mut Client, line: &str| client.words(line).error().to_owned();
    for (line, error) in [
        (
            "EXPIRE k 1 NX XX",
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        (
            "EXPIRE k 1 GT LT",
            "ERR GT and LT options at the same time are not compatible",
        ),
        ("EXPIRE k 1 YY", "ERR Unsupported option YY"),
        ("EXPIRE k x", "ERR value is not an integer or out of range"),
        (
            "EXPIRE k 9223372036854775807",
            "ERR invalid expire time in 'expire' command",
        ),
        ("SET k v EX 0", "ERR invalid expire time in 'set' command"),
        ("SET k v PX -1", "ERR invalid expire time in 'set' command"),
        ("SETEX k 0 v", "ERR invalid expire time in 'setex' command"),
        (
            "PSETEX k 0 v",
            "ERR invalid expire time in 'psetex' command",
        ),
        ("GETEX k EX 0", "ERR invalid expire time in 'getex' command"),
        ("SET k v EX 1 PX 1", "ERR syntax error"),
        ("SET k v EX 1 KEEPTTL", "ERR syntax error"),
        ("SET k v EX", "ERR syntax error"),
        ("GETEX k EX 1 PERSIST", "ERR syntax error"),
        ("GETEX k NX", "ERR syntax error"),
    ] {
        assert_eq!(words(client, line), error, "{line}");
    }
    assert_eq!(
        client.words("EXPIRETIME k"),
        Reply::Integer(4_000_000_001),
        "unchanged"
    );
}

#[test]
fn a_moment_that_has_passed_deletes_the_key_at_once() {
    let world = World::start();
    let client = &mut world.client();
    for line in [
        "EXPIRE k -1",
        "PEXPIRE k 0",
        "EXPIREAT k 1",
        "PEXPIREAT k 1000",
    ] {
        client.words("SET k v");
        assert_eq!(client.words(line), Reply::Integer(1), "{line}");
        assert_eq!(client.words("EXISTS k"), Reply::Integer(0), "{line}");
    }
    client.words("SET k v");
    assert_eq!(client.words("SET k w PXAT 1000"), Reply::simple(OK));
    assert_eq!(client.words("GET k"), Reply::NoBulk);
    client.words("SET k v");
    assert_eq!(client.words("GETEX k EXAT 1"), Reply::bulk("v"));
    assert_eq!(client.words("DBSIZE"), Reply::Integer(0));
}

#[test]
fn commands_of_one_pipeline_see_the_moments_of_those_before() {
    let world = World::start();
    let client = &mut world.client();
    let replies = client.pipeline([
        "SET k 1 EX 100",
        "TTL k",
        "INCR k",
        "TTL k",
        "PERSIST k",
        "TTL k",
        "EXPIRE k 50",
        "TTL k",
        "SET k 2",
        "TTL k",
    ]);
    let left: Vec<_> = [1, 3, 5, 7, 9].map(|index| replies[index].clone()).into();
    let numbers = [100, 100, -1, 50, -1].map(Reply::Integer);
    assert_eq!(left, numbers);
}

/// A session lasts as long as it is used.
#[test]
fn a_session_cache_forgets_sessions_that_nobody_uses() {
    const IDLE: &str = "300";
    let world = World::start();
    let (mut login, mut pages) = (world.client(), world.client());
    let set = ["SET", "session:1", "ada", "PX", IDLE];
    assert_eq!(login.call(set), Reply::simple(OK));
    let set = ["SET", "session:2", "grace", "PX", IDLE];
    assert_eq!(login.call(set), Reply::simple(OK));
    let used_until = Instant::now() + Duration::from_millis(900);
    while Instant::now() < used_until {
        let session = pages.call(["GETEX", "session:1", "PX", IDLE]);
        assert_eq!(session, Reply::bulk("ada"));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(pages.words("GET session:2"), Reply::NoBulk);
    assert_eq!(
        pages.words("KEYS *"),
        Reply::Array(vec![Reply::bulk("session:1")])
    );
    thread::sleep(Duration::from_millis(400));
    assert_eq!(
        pages.words("MGET session:1 session:2"),
        Reply::Array(vec![Reply::NoBulk; 2])
    );
}

/// `INCR`, and `EXPIRE` on the first request of a window.
#[test]
fn a_rate_limiter_lets_so_many_requests_through_in_each_window() {
    const LIMIT: i64 = 5;
    const WINDOW_MS: u64 = 250;
    let world = World::start();
    let mut client = world.client();
    let mut admitted = || {
        let count = number(&mut client, "INCR limit:ada");
        if count == 1 {
            let window = WINDOW_MS.to_string();
            let expire = client.call(["PEXPIRE", "limit:ada", &window, "NX"]);
            assert_eq!(expire, Reply::Integer(1));
        }
        count <= LIMIT
    };
    for _ in 0..3 {
        let begun = Instant::now();
        let let_through = (0..20).filter(|_| admitted()).count() as i64;
        // A machine that stands still may see a second window.
        assert!(let_through == LIMIT || begun.elapsed().as_millis() as u64 > WINDOW_MS - 50);
        thread::sleep(Duration::from_millis(WINDOW_MS + 20));
    }
}

/// A moment that comes is a change of the watched key, as in Redis.
#[test]
fn a_watched_key_that_expires_before_exec_keeps_the_transaction_from_being_done() {
    let world = World::start();
    let client = &mut world.client();
    for commands in [&["MULTI", "SET other 1", "EXEC"][..], &["MULTI", "EXEC"]] {
        watch_living(client, "key");
        until_absent(client, "key");
        let replies = client.pipeline(commands.iter().copied());
        assert_eq!(replies.last(), Some(&Reply::NoArray), "{commands:?}");
        assert_eq!(client.words("EXISTS other"), Reply::Integer(0));
    }
    // A key that has expired when it is watched is an absent one.
    client.words("WATCH key");
    let replies = client.pipeline(["MULTI", "SET other 1", "EXEC"]);
    assert_eq!(replies[2].list(), [Reply::simple(OK)]);
    client.words("WATCH key");
    client.words("SET key w");
    let replies = client.pipeline(["MULTI", "DEL other", "EXEC"]);
    assert_eq!(replies[2], Reply::NoArray);
}

#[test]
fn msetnx_takes_an_expired_key_for_an_absent_one() {
    let world = World::start();
    let client = &mut world.client();
    client.words("SET gone v PX 50");
    client.words("SET lives v EX 100");
    until_absent(client, "gone");
    assert_eq!(client.words("MSETNX gone 1 lives 2"), Reply::Integer(0));
    assert_eq!(client.words("EXISTS gone"), Reply::Integer(0));
    assert_eq!(client.words("MSETNX gone 1 new 2"), Reply::Integer(1));
    assert_eq!(
        client.words("MGET gone new lives").list(),
        ["1", "2", "v"].map(Reply::bulk)
    );
    assert_eq!(client.words("TTL gone"), Reply::Integer(-1));
}

/// Watches a key that expires soon, and has not expired when it is watched, however busy the machine is.
fn watch_living(client: &mut Client, key: &str) {
    for life_ms in (6..).map(|power| 1 << power) {
        client.words(&format!("SET {key} v PX {life_ms}"));
        assert_eq!(client.words(&format!("WATCH {key}")), Reply::simple(OK));
        if client.words(&format!("EXISTS {key}")) == Reply::Integer(1) {
            return;
        }
        client.words("UNWATCH");
    }
}

fn until_absent(client: &mut Client, key: &str) {
    /// A reader takes a key for absent some milliseconds before the server does at most.
    const EARLY: Duration = Duration::from_millis(200);
    let exists = format!("EXISTS {key}");
    while client.words(&exists) == Reply::Integer(1) {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(EARLY);
}
