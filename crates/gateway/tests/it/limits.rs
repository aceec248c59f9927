//! Limits on clients, and the treatment of clients beyond the limits.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use stonecast_media::Durability;

use crate::support::{Client, Process, Reply, World, options, request};

/// A number of `INFO`.
fn info(client: &mut Client, name: &str) -> u64 {
    let report = client.words("INFO");
    let prefix = format!("{name}:");
    let line = report
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("{name}"));
    line.parse().unwrap()
}

/// Waits until `condition` is true, which takes far less than the time limit.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Needs the count of connections.
#[test]
fn connections_beyond_the_limit_are_told_and_ended() {
    let mut options = options();
    options.limits.connections = 3;
    let world = World::with(options);
    let mut clients: Vec<Client> = (0..3).map(|_| world.client()).collect();
    clients
        .iter_mut()
        .for_each(|client| assert_eq!(client.words("PING"), Reply::simple("PONG")));
    let mut refused = world.client();
    assert_eq!(refused.reply().error(), "ERR max number of clients reached");
    assert!(refused.has_ended());
    drop(clients.pop());
    wait_until("a seat becomes free", || {
        let mut client = world.client();
        client.send("PING\r\n");
        matches!(client.try_reply(), Ok(Some(Reply::Simple(_))))
    });
    assert_eq!(clients[0].words("PING"), Reply::simple("PONG"));
}

/// Needs the deadline of replies, and the bound on replies that wait: the client requests 400 MiB of them.
#[test]
fn a_client_that_takes_no_replies_is_cut_off_and_not_buffered_without_end() {
    let mut options = options();
    options.limits.output_size = 1 << 20;
    options.limits.output_timeout = Duration::from_millis(500);
    let world = World::with(options);
    let mut observer = world.client();
    observer.call([b"SET", &b"big"[..], &vec![b'x'; 1 << 20]]);
    let mut slow = world.client();
    slow.send("GET big\r\n".repeat(400));
    let mut most = 0;
    wait_until("the slow reader is cut off", || {
        most = most.max(info(&mut observer, "mem_clients_normal"));
        info(&mut observer, "connected_clients") == 1
    });
    // The output holds one value above the limit, and the room for the next value.
    assert!(most < 8 << 20, "{most} bytes were held");
    wait_until("its memory is free", || {
        info(&mut observer, "mem_clients_normal") < 1 << 20
    });
}

/// Needs the time limit to begin anew with each reply that is taken: a slow client is not stuck.
#[test]
fn a_client_that_takes_its_replies_slowly_but_steadily_is_not_cut_off() {
    let mut options = options();
    options.limits.output_size = 64 << 10;
    options.limits.output_timeout = Duration::from_millis(600);
    let world = World::with(options);
    let mut slow = world.client();
    slow.call([b"SET", &b"big"[..], &vec![b'x'; 1 << 20]]);
    // The replies are more than the buffers of both sockets hold, so that some of them always wait in the gateway.
    slow.send("GET big\r\n".repeat(24));
    let start = Instant::now();
    let mut taken = 0;
    let mut piece = vec![0; 1 << 20];
    while taken < 24 * (1 << 20) {
        match std::io::Read::read(&mut slow.socket, &mut piece) {
            Ok(size @ 1..) => taken += size,
            other => panic!("cut off after {taken} bytes: {other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        start.elapsed() > Duration::from_millis(600),
        "it took longer than nothing may be taken for"
    );
}

/// Needs the age of the replies that wait: a client that always takes something would keep 32 MiB forever.
#[test]
fn a_client_that_takes_a_few_bytes_now_and_then_is_cut_off_when_its_replies_are_old() {
    let mut options = options();
    options.limits.output_timeout = Duration::from_millis(600);
    let world = World::with(options);
    let mut observer = world.client();
    observer.call([b"SET", &b"big"[..], &vec![b'x'; 1 << 20]]);
    let mut slow = world.client();
    slow.send("GET big\r\n".repeat(400));
    let mut taken = 0;
    let mut piece = vec![0; 384 << 10];
    let start = Instant::now();
    // The sockets' own buffers come before the end.
    while let Ok(size @ 1..) = std::io::Read::read(&mut slow.socket, &mut piece) {
        taken += size;
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{taken} bytes were taken"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    wait_until("its memory is free", || {
        info(&mut observer, "mem_clients_normal") < 1 << 20
    });
}

/// Needs reservations for the actual length of values: there is no room for the longest values beside those of other
/// clients.
#[test]
fn many_short_values_that_are_replaced_need_little_room() {
    let mut options = options();
    options.limits.memory_size = 16 << 20;
    let world = World::with(options);
    let mut client = world.client();
    client.call([b"SET", &b"big"[..], &vec![b'x'; 1 << 20]]);
    let mut silent = world.client();
    silent.send("GET big\r\n".repeat(40));
    wait_until("replies wait", || {
        info(&mut client, "mem_clients_normal") > 1 << 20
    });
    let start = Instant::now();
    for round in 0..3 {
        let commands: Vec<String> = (0..16)
            .map(|key| format!("GETSET short:{key} {round}"))
            .collect();
        let replies = client.pipeline(commands.iter().map(String::as_str));
        let before = match round {
            0 => Reply::NoBulk,
            _ => Reply::bulk((round - 1).to_string()),
        };
        assert_eq!(replies, vec![before; 16]);
    }
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "they waited for room that they do not need"
    );
}

/// Needs the units with long values to be done again, in their place.
#[test]
fn long_values_that_are_replaced_come_back_in_their_order() {
    let mut options = options();
    options.limits.memory_size = 8 << 20;
    let world = World::with(options);
    let mut client = world.client();
    let value = |key: u8, round: u8| {
        let size = if key.is_multiple_of(3) { 700_000 } else { 10 };
        vec![b'a' + key + round; size]
    };
    for round in 0..3_u8 {
        let commands: Vec<u8> = (0..16_u8)
            .flat_map(|key| request([b"GETSET", &[b'k', key][..], &value(key, round)]))
            .collect();
        std::thread::scope(|scope| {
            let mut socket = client.socket.try_clone().unwrap();
            scope.spawn(move || std::io::Write::write_all(&mut socket, &commands).unwrap());
            for key in 0..16 {
                let expected = match round {
                    0 => Reply::NoBulk,
                    _ => Reply::Bulk(value(key, round - 1)),
                };
                assert!(client.reply() == expected, "key {key}, round {round}");
            }
        });
    }
    let unit = client.pipeline([
        "SET k 1",
        "GETSET k 2",
        "APPEND k 3",
        "GET k",
        "GETDEL k",
        "EXISTS k",
    ]);
    let expected = [
        Reply::simple("OK"),
        Reply::bulk("1"),
        Reply::Integer(2),
        Reply::bulk("23"),
        Reply::bulk("23"),
        Reply::Integer(0),
    ];
    assert_eq!(unit, expected);
}

/// Needs the bound over all connections for replies as well: each connection alone is within its own bound.
#[test]
fn replies_that_many_do_not_take_share_a_bound() {
    let mut options = options();
    options.limits.memory_size = 32 << 20;
    let world = World::with(options);
    let mut observer = world.client();
    observer.call([b"SET", &b"big"[..], &vec![b'x'; 100 << 10]]);
    let mut slow: Vec<Client> = (0..20).map(|_| world.client()).collect();
    slow.iter_mut()
        .for_each(|client| client.send("GET big\r\n".repeat(300)));
    let mut most = 0;
    for _ in 0..50 {
        most = most.max(info(&mut observer, "mem_clients_normal"));
        std::thread::sleep(Duration::from_millis(10));
    }
    // Half of the memory is for replies: without the bound, 30 MB each.
    assert!(most > 4 << 20 && most <= 32 << 20, "{most} bytes were held");
    // The clients read all at once: otherwise the last client would have waited for as long as a request may wait for
    // memory.
    std::thread::scope(|scope| {
        for client in &mut slow {
            scope.spawn(|| {
                (0..300).for_each(|_| assert_eq!(client.reply().bytes().len(), 100 << 10));
            });
        }
    });
}

/// Needs the bound on names: a description is a hundred times as long as a name.
#[test]
fn many_commands_are_not_described_at_once() {
    let world = World::start();
    let mut client = world.client();
    for subcommand in ["INFO", "DOCS"] {
        let names = |count| {
            ["COMMAND", subcommand]
                .into_iter()
                .chain(std::iter::repeat_n("get", count))
        };
        let refused = client.call(names(513));
        assert!(refused.error().contains("at most 512"), "{refused:?}");
        assert!(!matches!(client.call(names(512)), Reply::Error(_)));
    }
}

/// Needs room for the replies of SCAN: each client would hold an uncounted megabyte for each of its commands.
#[test]
fn pages_of_long_keys_that_no_client_takes_share_the_bound() {
    let mut options = options();
    options.limits.memory_size = 8 << 20;
    let world = World::with(options);
    let mut observer = world.client();
    let keys: Vec<String> = (0..1500).map(|number| format!("{number:01024}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    observer.call(["MSET"].into_iter().chain(pairs));
    let mut silent: Vec<Client> = (0..16).map(|_| world.client()).collect();
    silent
        .iter_mut()
        .for_each(|client| client.send("SCAN 0 COUNT 5000\r\n".repeat(30)));
    let mut most = 0;
    for _ in 0..50 {
        most = most.max(info(&mut observer, "mem_clients_normal"));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(most <= 8 << 20, "{most} bytes were held");
}

/// Needs the time limit of a request to begin with the request: a client that always has a request under way is not
/// slow.
#[test]
fn a_client_that_never_stops_sending_is_not_cut_off() {
    let mut options = options();
    options.limits.request_timeout = Duration::from_millis(300);
    let world = World::with(options);
    let mut busy = world.client();
    let start = Instant::now();
    let mut rest = b"*1\r\n".to_vec();
    busy.send(&rest);
    while start.elapsed() < Duration::from_secs(1) {
        // The end of one request and the beginning of the next, so that a request is always incomplete.
        rest = b"$4\r\nPING\r\n*1\r\n".to_vec();
        busy.send(&rest);
        assert_eq!(busy.reply(), Reply::simple("PONG"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Needs the gateway to keep reading while few replies wait: otherwise both sides would wait for each other.
#[test]
fn a_client_that_reads_only_after_it_has_sent_everything_is_served() {
    let world = World::start();
    let mut client = world.client();
    client.call([b"SET", &b"k"[..], &[b'x'; 1000]]);
    client.send("GET k\r\n".repeat(15_000));
    for _ in 0..15_000 {
        assert_eq!(client.reply().bytes().len(), 1000);
    }
}

/// Needs the deadline of requests.
#[test]
fn a_connection_with_half_a_request_is_cut_off_and_an_idle_connection_is_not() {
    let mut options = options();
    options.limits.request_timeout = Duration::from_millis(300);
    let world = World::with(options);
    let mut idle = world.client();
    let mut silent = world.client();
    let mut dripping = world.client();
    silent.send("*2\r\n$3\r\nGE");
    assert!(silent.has_ended());
    // A byte now and then does not extend the deadline.
    let start = Instant::now();
    let mut bytes = b"*2\r\n$1000000\r\n"
        .iter()
        .copied()
        .chain(std::iter::repeat(b'x'));
    while std::io::Write::write_all(&mut dripping.socket, &[bytes.next().unwrap()]).is_ok() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "a dripping client is cut off"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(idle.words("PING"), Reply::simple("PONG"));
}

#[test]
fn announced_bytes_cost_nothing_and_a_request_beyond_the_limits_ends_the_connection() {
    let world = World::start();
    let mut observer = world.client();
    for (request, error) in [
        (
            &b"*2\r\n$3\r\nGET\r\n$1073741824\r\n"[..],
            "ERR Protocol error: invalid bulk length",
        ),
        (
            b"*2\r\n$3\r\nGET\r\n$9223372036854775807\r\n",
            "ERR Protocol error: invalid bulk length",
        ),
        (
            b"*9223372036854775807\r\n",
            "ERR Protocol error: invalid multibulk length",
        ),
        (
            b"*1048577\r\n",
            "ERR Protocol error: invalid multibulk length",
        ),
        (
            &b"*1\r\n".repeat(200_000),
            "ERR Protocol error: expected '$', got '*'",
        ),
        (
            &b"a".repeat(70_000),
            "ERR Protocol error: too big inline request",
        ),
    ] {
        let mut client = world.client();
        client.send(request);
        assert_eq!(client.reply().error(), error);
        assert!(client.has_ended());
    }
    let before = info(&mut observer, "mem_clients_normal");
    let promising: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = world.client();
            client.send("*2\r\n$3\r\nGET\r\n$16000000\r\nonly this");
            client
        })
        .collect();
    wait_until("all have arrived", || {
        info(&mut observer, "connected_clients") >= 21
    });
    let used = info(&mut observer, "mem_clients_normal").saturating_sub(before);
    assert!(
        used < 20 * (128 << 10),
        "{used} bytes are held for promises of 320 MB"
    );
    drop(promising);
}

/// Needs the bound over all connections: each connection alone is within its limits.
#[test]
fn large_requests_of_many_share_a_bound() {
    let mut options = options();
    options.limits.memory_size = 4 << 20;
    let world = World::with(options);
    let mut observer = world.client();
    let mut large: Vec<Client> = (0..8).map(|_| world.client()).collect();
    for client in &mut large {
        // A client that is refused before the end of its request may find the connection ended.
        let _ = std::io::Write::write_all(
            &mut client.socket,
            &[b"*2\r\n$3\r\nGET\r\n$8000000\r\n", &vec![b'x'; 1 << 20][..]].concat(),
        );
    }
    wait_until("some are refused", || {
        info(&mut observer, "connected_clients") <= 6
    });
    assert!(info(&mut observer, "mem_clients_normal") < 12 << 20);
    drop(large);
    let mut client = world.client();
    assert_eq!(
        client.call([b"SET", &b"k"[..], &vec![b'x'; 1 << 20]]),
        Reply::simple("OK")
    );
}

#[test]
fn commands_on_very_many_keys_are_answered_in_parts() {
    let world = World::start();
    let mut client = world.client();
    let keys: Vec<String> = (0..50_000).map(|number| format!("key:{number}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    assert_eq!(
        client.call(["MSET"].into_iter().chain(pairs)),
        Reply::simple("OK")
    );
    let all = |command| {
        std::iter::once(command)
            .chain(keys.iter().map(String::as_str))
            .chain(["nothing"])
    };
    let values = client.call(all("MGET"));
    assert_eq!(values.list().len(), 50_001);
    assert!(
        values.list()[..50_000]
            .iter()
            .all(|value| *value == Reply::bulk("v"))
    );
    assert_eq!(client.call(all("EXISTS")), Reply::Integer(50_000));
    assert_eq!(client.call(all("DEL")), Reply::Integer(50_000));
    assert_eq!(client.call(all("EXISTS")), Reply::Integer(0));
}

/// Needs the message, and the pause of the listener's registration: a connection that waits keeps the listener ready.
#[test]
fn a_gateway_without_file_descriptors_reports_that_once_sleeps_and_continues_with_free_descriptors()
{
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let mut first = Client::connect(process.address);
    assert_eq!(first.words("PING"), Reply::simple("PONG"));
    process.limit_files(4);
    let mut served: Vec<Client> = (0..4).map(|_| Client::connect(process.address)).collect();
    for client in &mut served {
        assert_eq!(client.words("PING"), Reply::simple("PONG"));
    }
    let mut waiting = Client::connect(process.address);
    waiting.send("PING\r\n");
    wait_until("the gateway reports it", || !process.errors().is_empty());
    let before = process.processor_seconds();
    std::thread::sleep(Duration::from_secs(1));
    let used = process.processor_seconds() - before;
    assert!(used < 0.2, "{used} seconds of processor time in a second");
    let errors = process.errors();
    assert!(
        errors.lines().count() == 1 && errors.contains("the limit of open files is reached"),
        "{errors}"
    );
    assert_eq!(first.words("PING"), Reply::simple("PONG"));
    drop(served);
    assert_eq!(waiting.reply(), Reply::simple("PONG"));
}

/// Needs the lack of memory to end only one connection, and not the gateway.
#[test]
fn a_connection_whose_replies_find_no_memory_ends_and_the_others_continue() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let mut observer = Client::connect(process.address);
    let echo = request([&b"ECHO"[..], &[b'x'; 4000]]);
    let before = observer.call([&b"ECHO"[..], &[b'x'; 4000]]);
    assert_eq!(before, Reply::bulk([b'x'; 4000]));
    let mut greedy = Client::connect(process.address);
    assert_eq!(greedy.words("PING"), Reply::simple("PONG"));
    process.limit_memory(Some(6 << 20));
    greedy
        .socket
        .set_write_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let stream = echo.repeat(16_000);
    let mut sent = 0;
    // The client reads nothing, and sends until it is cut off.
    wait_until("the greedy client is cut off", || {
        let piece = &stream[sent..(sent + (256 << 10)).min(stream.len())];
        match std::io::Write::write(&mut greedy.socket, piece) {
            Ok(size) => sent += size,
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
        false
    });
    assert_eq!(observer.words("PING"), Reply::simple("PONG"));
    let errors = process.errors();
    assert!(
        errors.lines().count() == 1 && errors.contains("a connection ends: the system gives no"),
        "{errors}"
    );
    process.limit_memory(None);
    let mut fresh = Client::connect(process.address);
    let set = fresh.call([b"SET", &b"k"[..], &vec![b'x'; 1 << 20]]);
    assert_eq!(set, Reply::simple("OK"));
}

/// No part of the request of a tricked browser is done.
#[test]
fn requests_of_browsers_are_not_done() {
    let world = World::start();
    let mut browser = world.client();
    browser.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k evil\r\n");
    assert!(browser.has_ended());
    for request in [
        "POST /\r\nSET k evil\r\n",
        "PING\r\nhost: localhost\r\nSET k evil\r\n",
    ] {
        let mut browser = world.client();
        browser.send(request);
        while let Ok(Some(reply)) = browser.try_reply() {
            assert_eq!(reply, Reply::simple("PONG"), "{request}");
        }
    }
    assert_eq!(world.client().words("GET k"), Reply::NoBulk);
}

#[test]
fn a_gateway_that_is_stopped_answers_the_commands_that_it_has_read_and_ends_its_connections() {
    let mut world = World::start();
    let mut clients: Vec<Client> = (0..20).map(|_| world.client()).collect();
    for client in &mut clients {
        client.send(request(["SET", "k", "v"]));
        assert_eq!(client.reply(), Reply::simple("OK"));
    }
    world.stop_gateway().unwrap();
    clients
        .iter_mut()
        .for_each(|client| assert!(client.has_ended()));
}

#[test]
fn a_gateway_whose_store_is_gone_ends_with_the_reason() {
    let mut world = World::start();
    let mut client = world.client();
    assert_eq!(client.words("SET k v"), Reply::simple("OK"));
    world.stop_store();
    let refused = client.words("SET k w");
    assert!(
        refused.error().contains("connection to the server ended"),
        "{refused:?}"
    );
    assert!(client.has_ended());
    wait_until("the gateway ends", || world.gateway().is_finished());
    let error = world.stop_gateway().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the connection to the server ended"),
        "{error}"
    );
}
