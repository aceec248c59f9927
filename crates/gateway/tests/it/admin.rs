//! The admin port.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use serde_json::Value;
use stonecast_gateway::{Password, spawn};

use crate::idle::allow_files;
use crate::support::exposition::{self, Format};
use crate::support::{World, not_run, options};

/// Status and body of the answer to a request.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let (status, _, body) = ask_all(address, request);
    (status, body)
}

/// Status, head and body of the answer to a request.
fn ask_all(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        head.to_owned(),
        body.to_owned(),
    )
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    )
}

fn world_with_admin() -> (World, SocketAddr) {
    let mut options = options();
    options.admin = Some("127.0.0.1:0".parse().unwrap());
    let world = World::with(options);
    let admin = world.gateway().admin_address().unwrap();
    (world, admin)
}

/// The value of a line of `/metrics`.
fn metric(metrics: &str, name: &str) -> f64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {metrics}"))
        .parse()
        .unwrap()
}

#[test]
fn metrics_count_the_operations_of_each_path() {
    let (world, admin) = world_with_admin();
    let mut client = world.client();
    client.pipeline([
        "SET a 1", "SET b 2", "GET a", "GET b", "GET c", "DEL a", "NONSENSE",
    ]);
    world.with_store_client(async |store| {
        store.put(b"c", b"3").await.unwrap();
        for _ in 0..130 {
            store.get(b"c", &mut Vec::new()).await.unwrap();
        }
    });
    // The gateway reports to the store at intervals.
    let counted = "stonecast_operations_total{path=\"gateway\",operation=\"read\"} 3\n";
    let deadline = Instant::now() + Duration::from_secs(60);
    while !get(admin, "/metrics").1.contains(counted) {
        assert!(Instant::now() < deadline, "{}", get(admin, "/metrics").1);
    }
    let (status, metrics) = get(admin, "/metrics");
    assert_eq!(status, 200);
    exposition::read(&metrics, Format::Classic);
    for (name, value) in [
        ("stonecast_ready", 1.0),
        ("stonecast_gateway_connections", 1.0),
        ("stonecast_gateway_commands_total{command=\"get\"}", 3.0),
        ("stonecast_gateway_commands_total{command=\"set\"}", 2.0),
        ("stonecast_gateway_error_replies_total", 1.0),
        (
            "stonecast_operations_total{path=\"gateway\",operation=\"read\"}",
            3.0,
        ),
        (
            "stonecast_operations_total{path=\"gateway\",operation=\"put\"}",
            2.0,
        ),
        (
            "stonecast_operations_total{path=\"gateway\",operation=\"delete\"}",
            1.0,
        ),
        (
            "stonecast_operations_total{path=\"one-sided\",operation=\"put\"}",
            1.0,
        ),
        (
            "stonecast_operations_total{path=\"one-sided\",operation=\"read\"}",
            130.0,
        ),
        (
            "stonecast_operation_bytes_total{path=\"one-sided\",operation=\"write\"}",
            64.0,
        ),
        (
            "stonecast_operation_bytes_total{path=\"one-sided\",operation=\"read\"}",
            130.0 * 128.0,
        ),
        (
            "stonecast_operation_bytes_total{path=\"gateway\",operation=\"write\"}",
            3.0 * 64.0,
        ),
        (
            "stonecast_latency_seconds_count{path=\"one-sided\",operation=\"read\"}",
            2.0,
        ),
        ("stonecast_clients{path=\"one-sided\"}", 0.0),
        ("stonecast_clients{path=\"gateway\"}", 2.0),
        ("stonecast_store_syncs_total", 0.0),
        ("stonecast_store_keys", 2.0),
        (
            "stonecast_gateway_latency_seconds_count{path=\"gateway\",kind=\"read\"}",
            3.0,
        ),
        (
            "stonecast_gateway_latency_seconds_bucket{le=\"+Inf\",path=\"gateway\",kind=\"write\"}",
            4.0,
        ),
    ] {
        assert_eq!(metric(&metrics, name), value, "{name}");
    }
    for name in [
        "stonecast_round_trips_total{path=\"one-sided\"}",
        "stonecast_round_trips_total{path=\"gateway\"}",
    ] {
        assert!(metric(&metrics, name) >= 5.0, "{name}");
    }
    assert!(metric(&metrics, "stonecast_store_leases") >= 1.0);
    assert!(metric(&metrics, "stonecast_store_persists_total") >= 1.0);
    assert!(metric(&metrics, "stonecast_store_capacity_bytes") >= 1e6);
    let page = include_str!("../../../../docs/gateway.md");
    for name in metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
    {
        let name = name.trim_end_matches("_total");
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is in docs/gateway.md"
        );
    }
}

/// Needs the negotiation, and other names of counters' families in the classic format.
#[test]
fn metrics_come_in_the_requested_format_with_the_same_samples_in_both() {
    let (world, admin) = world_with_admin();
    world.client().pipeline(["SET a 1", "GET a", "GET b"]);
    let metrics = |accept: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n");
        let (status, head, body) = ask_all(admin, &request);
        assert_eq!(status, 200);
        assert!(head.contains("\r\nvary: Accept"), "{head}");
        (head, body)
    };
    let (head, classic) = metrics("");
    assert!(
        head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    let (head, open) = metrics(
        "Accept: text/plain;q=0.5\r\nAccept: application/openmetrics-text;version=1.0.0\r\n",
    );
    assert!(
        head.contains(
            "\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8"
        ),
        "{head}"
    );
    let classic = exposition::read(&classic, Format::Classic);
    let open = exposition::read(&open, Format::OpenMetrics);
    assert!(classic.keys().eq(open.keys()));
    for name in [
        "stonecast_gateway_lookups_total{result=\"hit\"}",
        "stonecast_gateway_lookups_total{result=\"miss\"}",
    ] {
        assert_eq!((classic[name], open[name]), (1.0, 1.0), "{name}");
    }
}

#[test]
fn the_admin_port_tells_health_readiness_and_status() {
    let (mut world, admin) = world_with_admin();
    world.client().words("SET a 1");
    assert_eq!(get(admin, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(get(admin, "/readyz"), (200, "ready\n".to_owned()));
    let (status, body) = get(admin, "/status");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &body["ready"], &body["alive"]),
        (200, &Value::Bool(true), &Value::Bool(true))
    );
    assert_eq!(body["store"]["keys"], 1);
    assert_eq!(body["store"]["durability"], "process");
    assert_eq!(body["gateway"]["commands"]["set"], 1);
    assert_eq!(
        (
            &body["paths"]["gateway"]["puts"],
            &body["paths"]["one-sided"]["puts"]
        ),
        (&Value::from(1), &Value::from(0))
    );
    assert_eq!(body["paths"]["gateway"]["bytes_per_write"], 64.0);
    assert_eq!(get(admin, "/").0, 404);
    assert_eq!(
        ask(
            admin,
            "POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        )
        .0,
        405
    );
    world.stop_store();
    // The gateway ends once it notices the end of the store; until then the gateway is not ready.
    let mut answers = std::iter::from_fn(|| TcpStream::connect(admin).ok())
        .take(1000)
        .map(|_| get_quietly(admin));
    assert!(
        answers.all(|answer| answer.is_none_or(|status| status == 503)),
        "not ready without a store"
    );
}

/// The status of `/readyz`; `None` if the port has been closed meanwhile.
fn get_quietly(address: SocketAddr) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// Needs the check of the password at a port that other machines can reach.
#[test]
fn an_admin_port_that_other_machines_reach_requires_the_password() {
    let mut options = options();
    options.admin = Some("0.0.0.0:0".parse().unwrap());
    options.password = Some(Password::new("open sesame"));
    let world = World::with(options);
    let admin = SocketAddr::new(
        "127.0.0.1".parse().unwrap(),
        world.gateway().admin_address().unwrap().port(),
    );
    let with = |credentials: &str| {
        ask(admin, &format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\r\n")).0
    };
    assert_eq!(get(admin, "/metrics").0, 401);
    assert_eq!(get(admin, "/status").0, 401);
    assert_eq!(with("OnNlc2FtZQ=="), 401);
    assert_eq!(with("not base64"), 401);
    assert_eq!(with("YWRtaW46b3BlbiBzZXNhbWU="), 200);
    assert_eq!(get(admin, "/healthz").0, 200, "health is for everybody");
}

/// Needs the turn before a password is compared. A slow machine may take longer.
#[test]
fn wrong_passwords_at_the_admin_port_are_compared_slowly() {
    let mut options = options();
    options.admin = Some("0.0.0.0:0".parse().unwrap());
    options.password = Some(Password::new("open sesame"));
    let world = World::with(options);
    let port = world.gateway().admin_address().unwrap().port();
    let admin = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    let start = Instant::now();
    let guesses: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(admin).unwrap();
            // any:guess
            stream
                .write_all(
                    b"GET /status HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW55Omd1ZXNz\r\n\r\n",
                )
                .unwrap();
            stream
        })
        .collect();
    for mut stream in guesses {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
    assert!(
        start.elapsed() >= Duration::from_millis(990),
        "a hundred at once, then a hundred a second"
    );
    let right =
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW55Om9wZW4gc2VzYW1l\r\n\r\n";
    let (status, metrics) = ask(admin, right);
    assert_eq!(status, 200);
    assert_eq!(
        metric(&metrics, "stonecast_gateway_wrong_passwords_total"),
        200.0
    );
    assert!(metric(&metrics, "stonecast_gateway_passwords_delayed_total") >= 50.0);
}

/// Needs the oldest connection to make way: a refusal of the newest would refuse the watchdog, which would end a
/// healthy server.
#[test]
fn the_admin_port_tells_health_whatever_other_connections_do() {
    if !allow_files(4000) {
        return not_run(
            "admin::the_admin_port_tells_health_whatever_other_connections_do",
            "too few open files allowed",
        );
    }
    let (_world, admin) = world_with_admin();
    let mut others = Vec::new();
    for round in 0..10 {
        for request in [
            "",
            "GET /healthz HTT",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ] {
            for _ in 0..25 {
                let mut stream = TcpStream::connect(admin).unwrap();
                // The connection may have been cut already.
                let _ = stream.write_all(request.as_bytes());
                others.push(stream);
            }
        }
        assert_eq!(
            get(admin, "/healthz"),
            (200, "alive\n".to_owned()),
            "round {round}"
        );
    }
    assert_eq!(get(admin, "/readyz").0, 200);
    exposition::read(&get(admin, "/metrics").1, Format::Classic);
    others[0]
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    assert_eq!(
        others[0].read(&mut [0]).unwrap_or(0),
        0,
        "the oldest has made way"
    );
}

/// Needs the deadline of a head: 256 connections are too few for one of them to make way.
#[test]
fn a_connection_without_a_request_is_cut_off() {
    let (_world, admin) = world_with_admin();
    for head in ["", "GET /healthz HTTP/1.1\r\n"] {
        let mut silent = TcpStream::connect(admin).unwrap();
        silent.write_all(head.as_bytes()).unwrap();
        silent
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut answer = String::new();
        silent.read_to_string(&mut answer).unwrap();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408 "),
            "{answer}"
        );
    }
}

/// Needs a separate thread that asks the store.
#[test]
fn the_admin_port_tells_health_while_the_store_does_not_answer() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    // This store accepts no connection.
    let _store = UnixListener::bind(&socket).unwrap();
    let mut options = options();
    options.resp = None;
    options.admin = Some("127.0.0.1:0".parse().unwrap());
    options.store = Some(format!("shm:{}", socket.display()));
    let gateway = spawn(options).unwrap();
    let admin = gateway.admin_address().unwrap();
    let answered_before = (0..5).any(|_| {
        let mut waiting = TcpStream::connect(admin).unwrap();
        waiting
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        assert_eq!(get(admin, "/healthz").0, 200);
        waiting.set_nonblocking(true).unwrap();
        let is_before = waiting
            .read(&mut [0])
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        waiting.set_nonblocking(false).unwrap();
        let mut answer = String::new();
        waiting.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 503 "), "{answer}");
        is_before
    });
    assert!(answered_before, "health waits for no store");
    gateway.stop().unwrap();
}

#[test]
fn requests_of_every_kind_get_one_answer_or_none() {
    let (_world, admin) = world_with_admin();
    let many = "X: y\r\n".repeat(500);
    let long = format!("X: {}\r\n", "y".repeat(20_000));
    for (request, wanted) in [
        ("GET /healthz HTTP/1.0\r\n\r\n".to_owned(), "200"),
        (
            "GET /healthz?verbose HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "GET http://a/healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "OPTIONS /metrics HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "405",
        ),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "404"),
        (
            "DELETE /status HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "405",
        ),
        (
            "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n".to_owned(),
            "405",
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz".to_owned(),
            "200",
        ),
        (
            "GET /../healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "404",
        ),
        (format!("GET /healthz HTTP/1.1\r\n{many}\r\n"), "431"),
        (format!("GET /healthz HTTP/1.1\r\n{long}\r\n"), "431"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        ("*1\r\n$4\r\nPING\r\n".to_owned(), "400"),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3), "200"),
    ] {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        // A connection may end before a refused request was sent as a whole.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let shown = &request[..request.len().min(60)];
        assert!(
            answer.split(' ').nth(1) == Some(wanted),
            "{shown:?}: {answer:?}"
        );
        assert_eq!(
            answer.matches("HTTP/1.").count(),
            1,
            "{shown:?}: {answer:?}"
        );
    }
    assert_eq!(get(admin, "/healthz").0, 200);
}
