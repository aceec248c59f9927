//! The same commands to the gateway and to redis-server: the same replies, byte for byte.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};

use crate::support::{Client, Reply, World, not_run};

/// redis-server without persistence on a free port. Killed when dropped.
struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Redis {
    /// `None` if redis-server is not installed.
    fn start() -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let child = Command::new("redis-server")
            .args([
                "--port",
                &address.port().to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
                "--bind",
                "127.0.0.1",
            ])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "redis-server starts");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Self { child, address })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(random: &mut Random) -> String {
    format!("k{}", random.random_range(0..5))
}

fn value(random: &mut Random) -> String {
    const VALUES: [&str; 12] = [
        "",
        "1",
        "-1",
        "007",
        "9223372036854775807",
        "-9223372036854775808",
        "abc",
        "3.5",
        " 1",
        "hello",
        "0",
        "-0",
    ];
    VALUES[random.random_range(0..VALUES.len())].to_owned()
}

fn number(random: &mut Random) -> String {
    match random.random_range(0..10) {
        0 => value(random),
        1 => i64::MIN.to_string(),
        _ => random.random_range(-20..20).to_string(),
    }
}

/// A number with decimal places, right or wrong, of any size.
fn float(random: &mut Random) -> String {
    const ODD: [&str; 18] = [
        "inf",
        "-infinity",
        "nan",
        "1e",
        ".",
        "-.5",
        "5.",
        "+3",
        "1e4932",
        "-1e4932",
        "1e-4950",
        "1e-4960",
        "1e99999999999999999999",
        "0e99999",
        "-0",
        "-1e-18",
        " 1",
        "1 ",
    ];
    match random.random_range(0..8) {
        0 => value(random),
        1 | 2 => ODD[random.random_range(0..ODD.len())].to_owned(),
        3 => format!(
            "{}e{}",
            random.random_range(-9999..9999),
            random.random_range(-40..40)
        ),
        4 => format!(
            "{:.*}",
            random.random_range(0..22),
            random.random_range(-1000.0..1000.0)
        ),
        5 => format!("{}.{}", random.random::<u64>(), random.random::<u64>()),
        6 => format!("0.{}", random.random::<u128>()),
        _ => format!("{}", random.random_range(-100..100) as f64 / 8.0),
    }
}

/// Needs sums that are rounded once, from the exact one, to 64 bits.
#[test]
fn sums_of_numbers_with_decimal_places_have_the_digits_of_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::sums_of_numbers_with_decimal_places_have_the_digits_of_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    let (mut ours, mut theirs) = (world.client(), Client::connect(redis.address));
    let mut random = random_from_seed(23);
    for round in 0..300 {
        let mut lines = vec![format!(
            "SET {} {}",
            key(&mut random),
            float(&mut random).trim()
        )];
        for _ in 0..40 {
            let (key, number) = (key(&mut random), float(&mut random));
            lines.push(format!("INCRBYFLOAT {key} {}", number.trim()));
            lines.push(format!("GET {key}"));
        }
        if round % 3 == 0 {
            lines.push("FLUSHDB".to_owned());
        }
        let replies = |client: &mut Client| client.pipeline(lines.iter().map(String::as_str));
        let (ours, theirs) = (replies(&mut ours), replies(&mut theirs));
        for ((line, ours), theirs) in lines.iter().zip(ours).zip(theirs) {
            assert_eq!(ours, theirs, "round {round}: {line}");
        }
    }
}

/// A random command, right or wrong.
fn draw(random: &mut Random) -> Vec<String> {
    let command = random.random_range(0..28);
    let mut words: Vec<String> = match command {
        0 => vec!["GET".into(), key(random)],
        1 => {
            let mut words = vec!["SET".into(), key(random), value(random)];
            const OPTIONS: [&str; 5] = ["NX", "xx", "GET", "get", "bogus"];
            (0..random.random_range(0..3))
                .for_each(|_| words.push(OPTIONS[random.random_range(0..OPTIONS.len())].into()));
            words
        }
        2 => vec!["SETNX".into(), key(random), value(random)],
        3 => vec!["GETSET".into(), key(random), value(random)],
        4 => vec!["getdel".into(), key(random)],
        5 => vec!["APPEND".into(), key(random), value(random)],
        6 => vec!["STRLEN".into(), key(random)],
        7 => vec![
            "GETRANGE".into(),
            key(random),
            number(random),
            number(random),
        ],
        8 => vec!["INCR".into(), key(random)],
        9 => vec!["DECR".into(), key(random)],
        10 => vec!["INCRBY".into(), key(random), number(random)],
        11 => vec!["DECRBY".into(), key(random), number(random)],
        12 => vec!["DEL".into(), key(random), key(random)],
        13 => vec!["UNLINK".into(), key(random)],
        14 => vec!["EXISTS".into(), key(random), key(random)],
        15 => vec!["TYPE".into(), key(random)],
        16 => vec!["MGET".into(), key(random), key(random), key(random)],
        17 => vec![
            "MSET".into(),
            key(random),
            value(random),
            key(random),
            value(random),
        ],
        18 => vec!["DBSIZE".into()],
        19 => vec!["PING".into()],
        20 => vec!["ECHO".into(), value(random)],
        21 => vec!["SELECT".into(), "0".into()],
        22 => vec!["nonsense".into(), value(random)],
        23 => vec!["TOUCH".into(), key(random), key(random)],
        24 => {
            // A place far behind the limit of both servers is another error in each.
            let place = match random.random_range(0..8) {
                0 => ["-1", "abc", "", "-9223372036854775808"][random.random_range(0..4)].into(),
                _ => random.random_range(0..12).to_string(),
            };
            vec!["SETRANGE".into(), key(random), place, value(random)]
        }
        25 | 26 => vec!["INCRBYFLOAT".into(), key(random), float(random)],
        _ => vec!["FLUSHDB".into()],
    };
    // Some commands have an argument too many or too few.
    match random.random_range(0..30) {
        0 => words.push("more".into()),
        1 if words.len() > 1 => drop(words.pop()),
        _ => {}
    }
    words
}

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::replies_are_those_of_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    for seed in 0..20 {
        let mut random = random_from_seed(seed);
        let (mut ours, mut theirs) = (world.client(), Client::connect(redis.address));
        for client in [&mut ours, &mut theirs] {
            client.words("FLUSHDB");
            if seed % 2 == 1 {
                client.words("HELLO 3");
            }
        }
        for _ in 0..60 {
            let pipeline: Vec<Vec<String>> = (0..random.random_range(1..12))
                .map(|_| draw(&mut random))
                .collect();
            let replies = |client: &mut Client| -> Vec<Reply> {
                let bytes: Vec<u8> = pipeline.iter().flat_map(crate::support::request).collect();
                client.send(bytes);
                pipeline.iter().map(|_| client.reply()).collect()
            };
            let (ours, theirs) = (replies(&mut ours), replies(&mut theirs));
            for ((command, ours), theirs) in pipeline.iter().zip(ours).zip(theirs) {
                assert_eq!(ours, theirs, "seed {seed}: {command:?}");
            }
        }
    }
}

#[test]
fn keys_of_commands_and_types_of_scans_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::keys_of_commands_and_types_of_scans_are_those_of_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    let (mut ours, mut theirs) = (world.client(), Client::connect(redis.address));
    for command in [
        "COMMAND GETKEYS GET a",
        "COMMAND GETKEYS mget a b c",
        "COMMAND GETKEYS MSET a 1 b 2",
        "COMMAND GETKEYS MSET a 1 b",
        "COMMAND GETKEYS SET a b EX 10",
        "COMMAND GETKEYS SETRANGE a 1 b",
        "COMMAND GETKEYS DEL a",
        "COMMAND GETKEYS WATCH a b",
        "COMMAND GETKEYS PING",
        "COMMAND GETKEYS PING a b c",
        "COMMAND GETKEYS GET a b",
        "COMMAND GETKEYS nonsense a",
        "COMMAND GETKEYS",
        // Redis shares the objects of small numbers.
        "SET a one",
        "SCAN 0 TYPE string",
        "SCAN 0 TYPE STRING",
        "SCAN 0 TYPE hash",
        "SCAN 0 TYPE",
        "SCAN 0 MATCH b* TYPE string",
        "TOUCH a b a",
        "TOUCH",
        "OBJECT REFCOUNT a",
        "OBJECT ENCODING absent",
        "OBJECT REFCOUNT absent",
        "OBJECT FREQ absent",
        "OBJECT FREQ a",
        "OBJECT ENCODING",
        "MEMORY USAGE absent",
        "MEMORY USAGE absent SAMPLES 5",
        "MEMORY USAGE a SAMPLES",
        "MEMORY USAGE",
        "COMMAND GETKEYS OBJECT ENCODING a",
        "COMMAND GETKEYS MEMORY USAGE a",
        "COMMAND GETKEYS INCRBYFLOAT a 1",
        "FUNCTION FLUSH",
        "FUNCTION FLUSH ASYNC",
    ] {
        assert_eq!(ours.words(command), theirs.words(command), "{command}");
    }
}

/// Moments are named, so that no reply depends on the clock.
#[test]
fn moments_of_keys_are_set_kept_and_shown_as_in_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::moments_of_keys_are_set_kept_and_shown_as_in_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    let (mut ours, mut theirs) = (world.client(), Client::connect(redis.address));
    for command in [
        "SET k v EXAT 4000000000",
        "EXPIRETIME k",
        "PEXPIRETIME k",
        "SET k w KEEPTTL GET",
        "EXPIRETIME k",
        "SET k v PXAT 4000000000123",
        "PEXPIRETIME k",
        "EXPIRETIME k",
        "GETEX k",
        "PEXPIRETIME k",
        "GETEX k EXAT 4000000001",
        "EXPIRETIME k",
        "GETEX k PXAT 4000000000999",
        "EXPIRETIME k",
        "PEXPIRETIME k",
        "GETEX k PERSIST",
        "EXPIRETIME k",
        "PEXPIRETIME k",
        "EXPIREAT k 4000000000 XX",
        "EXPIREAT k 4000000000 NX",
        "EXPIREAT k 4000000000 NX",
        "EXPIREAT k 4000000000 GT",
        "EXPIREAT k 4000000000 LT",
        "EXPIREAT k 4000000005 gt",
        "PEXPIREAT k 4000000000500 LT",
        "PEXPIRETIME k",
        "EXPIRETIME k",
        "APPEND k x",
        "PEXPIRETIME k",
        "GETSET k y",
        "EXPIRETIME k",
        "EXPIREAT k 4000000000",
        "COPY k c",
        "EXPIRETIME c",
        "RENAME c d",
        "EXPIRETIME d",
        "MSET d 1",
        "EXPIRETIME d",
        "SET n 1 EXAT 4000000000",
        "INCR n",
        "INCRBYFLOAT n 1.5",
        "SETRANGE n 0 9",
        "EXPIRETIME n",
        "PERSIST n",
        "PERSIST n",
        "PERSIST absent",
        "EXPIRETIME n",
        "EXPIRETIME absent",
        "PEXPIRETIME absent",
        "TTL absent",
        "PTTL absent",
        "TTL n",
        "PTTL n",
        "EXPIREAT absent 4000000000",
        "EXPIREAT n 1",
        "EXISTS n",
        "SET n 1",
        "PEXPIREAT n 0",
        "EXISTS n",
        "SET n 1",
        "EXPIRE n -1",
        "EXISTS n",
        "SET n 1",
        "EXPIREAT n -9223372036854775808",
        "EXISTS n",
        "SET n 1",
        "EXPIREAT n 9223372036854775807",
        "EXPIRE n 9223372036854775807",
        "PEXPIRE n 9223372036854775807",
        "SET n 1 EXAT 9223372036854775807",
        "SET n 1 PXAT 0",
        "SET n 1 EXAT 0",
        "SET n 1 EXAT -1",
        "SET n 1 EX 0",
        "SET n 1 EX x",
        "SET n 1 EX 1.5",
        "SET n 1 EX",
        "SET n 1 EX 10 PX 10",
        "SET n 1 EX 10 KEEPTTL",
        "SET n 1 EXAT 1",
        "EXISTS n",
        "SET n 1 PXAT 1",
        "EXISTS n",
        "SETEX n 0 v",
        "SETEX n -1 v",
        "SETEX n x v",
        "PSETEX n 0 v",
        "SETEX n 10",
        "SET n 1",
        "GETEX n EX 0",
        "GETEX n EX x",
        "GETEX n EX 10 PERSIST",
        "GETEX n KEEPTTL",
        "GETEX n EXAT -1",
        "EXPIRETIME n",
        "SET n 1",
        "GETEX n EXAT 1",
        "EXISTS n",
        "GETEX absent EXAT 4000000000",
        "SET n 1",
        "EXPIRE n 10 NX XX",
        "EXPIRE n 10 NX GT",
        "EXPIRE n 10 GT LT",
        "EXPIRE n 10 YY",
        "EXPIRE n",
        "EXPIRE n x",
        "EXPIREAT n 1.5",
        "EXPIRETIME",
        "EXPIRETIME a b",
        "TTL",
        "PERSIST",
        "WAIT -1 0",
        "WAIT 0 0",
        "WAIT x 0",
        "WAIT 0 -1",
        "WAIT 0 x",
        "CLIENT LIST ID 0",
        "CLIENT LIST ID -1",
        "CLIENT LIST ID x",
        "CLIENT LIST ID 0 x",
        "COMMAND GETKEYS EXPIREAT a 1",
        "COMMAND GETKEYS EXPIRETIME a",
        "COMMAND GETKEYS GETEX a EX 1",
    ] {
        assert_eq!(ours.words(command), theirs.words(command), "{command}");
    }
}

/// Needs the moment to be kept by SETRANGE.
#[test]
fn a_value_that_is_overwritten_in_part_keeps_its_moment() {
    let world = World::start();
    let mut client = world.client();
    client.words("SET a hello EX 1000");
    assert_eq!(client.words("SETRANGE a 1 ipp"), Reply::Integer(5));
    assert_eq!(client.words("GET a"), Reply::bulk("hippo"));
    let Reply::Integer(left) = client.words("TTL a") else {
        panic!("a number")
    };
    assert!((990..=1000).contains(&left), "{left}");
    let refused = client.words("SETRANGE a 536870911 x");
    assert!(
        refused.error().starts_with("ERR value of 536870912 bytes"),
        "{refused:?}"
    );
    assert_eq!(client.words("GET a"), Reply::bulk("hippo"));
}

/// Needs the end of a batch at QUIT.
#[test]
fn a_pipeline_ends_at_quit_as_that_of_redis_does() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::a_pipeline_ends_at_quit_as_that_of_redis_does",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    for address in [world.gateway().resp_address().unwrap(), redis.address] {
        for quit in ["QUIT", "quit now"] {
            let mut client = Client::connect(address);
            client.words("SET a 1");
            client.send(format!(
                "SET a 2\r\n{quit}\r\nSET a 3\r\nSET b 1\r\nnonsense\r\n"
            ));
            assert_eq!(client.reply(), Reply::simple("OK"));
            assert_eq!(client.reply(), Reply::simple("OK"));
            assert!(client.has_ended());
            let replies = Client::connect(address).pipeline(["GET a", "EXISTS b"]);
            assert_eq!(
                replies,
                [Reply::bulk("2"), Reply::Integer(0)],
                "{address}: {quit}"
            );
        }
    }
}

/// A random pipeline with transactions, right and wrong.
fn draw_with_transactions(random: &mut Random) -> Vec<&'static str> {
    const COMMANDS: [&str; 33] = [
        "MULTI",
        "MULTI",
        "MULTI",
        "MULTI x",
        "nonsense",
        "EXEC",
        "EXEC",
        "EXEC",
        "EXEC",
        "EXEC now",
        "DISCARD",
        "DISCARD now",
        "RESET",
        "SET a 1",
        "INCR a",
        "DEL a b",
        "MSET a 5 b 6",
        "GET a",
        "WATCH a",
        "WATCH a b",
        "UNWATCH",
        "MGET a b c",
        "APPEND b x",
        "MSETNX b 1 c 2",
        "GETDEL c",
        "EXISTS a a b",
        "SET c 1 NX",
        "RENAME a b",
        "RENAME b b",
        "RENAMENX b a",
        "RENAMENX c c",
        "COPY a c",
        "COPY c b REPLACE",
    ];
    (0..random.random_range(1..30))
        .map(|_| COMMANDS[random.random_range(0..COMMANDS.len())])
        .collect()
}

/// Needs every command between MULTI and EXEC to be queued, and done as a whole.
#[test]
fn transactions_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::transactions_are_those_of_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    for seed in 0..150 {
        let mut random = random_from_seed(seed);
        let pipeline = draw_with_transactions(&mut random);
        let replies = |address: SocketAddr| {
            let mut client = Client::connect(address);
            client.words("FLUSHDB");
            if seed % 2 == 1 {
                client.words("HELLO 3");
            }
            let replies = client.pipeline(pipeline.iter().copied());
            (replies, Client::connect(address).words("MGET a b c"))
        };
        let ours = replies(world.gateway().resp_address().unwrap());
        let theirs = replies(redis.address);
        for ((command, ours), theirs) in pipeline.iter().zip(&ours.0).zip(&theirs.0) {
            assert_eq!(ours, theirs, "seed {seed}: {command}, of {pipeline:?}");
        }
        assert_eq!(ours.1, theirs.1, "seed {seed}: {pipeline:?}");
    }
}

/// Of each kind of use of a key, with one key and with two.
const USES_OF_KEYS: [&str; 40] = [
    "GET k1",
    "SET k1 5",
    "SET k1 5 GET",
    "SET k1 5 NX",
    "APPEND k1 5",
    "DEL k1 k2",
    "UNLINK k1",
    "EXISTS k1 k2",
    "TOUCH k1",
    "TYPE k1",
    "STRLEN k1",
    "TTL k1",
    "PTTL k1",
    "EXPIRETIME k1",
    "PEXPIRETIME k1",
    "EXPIRE k1 1000",
    "PEXPIRE k1 1000",
    "EXPIREAT k1 9999999999",
    "PEXPIREAT k1 9999999999999",
    "PERSIST k1",
    "INCR k1",
    "DECR k1",
    "INCRBY k1 2",
    "DECRBY k1 2",
    "INCRBYFLOAT k1 2",
    "GETSET k1 5",
    "GETDEL k1",
    "GETEX k1",
    "GETRANGE k1 0 1",
    "SETRANGE k1 0 5",
    "SETNX k1 5",
    "SETEX k1 1000 5",
    "MGET k1 k2",
    "MSET k1 5 k2 5",
    "MSETNX k1 5 k2 5",
    "COPY k1 k2 REPLACE",
    "RENAME k1 k2",
    "OBJECT ENCODING k1",
    "MEMORY USAGE k1",
    "WATCH k1",
];

/// Fails if the use of a key by a command is not the one in Redis's table.
#[test]
fn users_may_do_with_keys_what_they_may_in_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::users_may_do_with_keys_what_they_may_in_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    let (mut ours, mut theirs) = (world.client(), Client::connect(redis.address));
    let patterns = [
        "~k*",
        "%R~k*",
        "%W~k*",
        "%RW~k*",
        "~k1",
        "%R~k1 %W~k2",
        "%W~k1 %R~k2",
        "%R~k1 %W~k1",
        "~o*",
    ];
    for patterns in patterns {
        let mut users = [&mut ours, &mut theirs].map(|admin| {
            let set = format!("ACL SETUSER a reset on >p +@all {patterns}");
            assert_eq!(admin.words(&set), Reply::simple("OK"));
            let address = admin.socket.peer_addr().expect("it is connected");
            let mut user = Client::connect(address);
            assert_eq!(user.words("AUTH a p"), Reply::simple("OK"));
            user
        });
        for command in USES_OF_KEYS {
            for admin in [&mut ours, &mut theirs] {
                admin.words("MSET k1 5 k2 5");
            }
            let [our, their] = users.each_mut().map(|user| match user.words(command) {
                Reply::Error(words) => words.starts_with("NOPERM"),
                _ => false,
            });
            assert_eq!(
                our, their,
                "{command} with {patterns}: denied by us, and by Redis"
            );
        }
    }
}

#[test]
fn users_are_set_and_shown_and_commands_classed_as_in_redis() {
    let Some(redis) = Redis::start() else {
        return not_run(
            "differential::users_are_set_and_shown_and_commands_classed_as_in_redis",
            "redis-server is not installed",
        );
    };
    let world = World::start();
    let (mut ours, mut theirs) = (world.client(), Client::connect(redis.address));
    for command in [
        "ACL WHOAMI",
        "ACL LIST",
        "ACL CAT",
        "ACL GETUSER default",
        "ACL GETUSER nobody",
        "ACL SETUSER a",
        "ACL GETUSER a",
        "ACL LIST",
        "ACL SETUSER a on >p #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 ~k* %R~r* %RW~b* +get",
        "ACL GETUSER a",
        "ACL SETUSER a nocommands +client|id nopass allkeys",
        "ACL GETUSER a",
        "ACL LIST",
        "ACL SETUSER a resetpass resetkeys ~only !7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
        "ACL SETUSER a +foo",
        "ACL SETUSER a +@foo",
        "ACL SETUSER a zz",
        "ACL SETUSER a allkeys ~x",
        "ACL SETUSER a <nope",
        "ACL SETUSER a #zz",
        "ACL SETUSER a resetkeys %~k",
        "ACL SETUSER a resetkeys %X~k",
        "ACL GETUSER a",
        "ACL DRYRUN nobody get k",
        "ACL CAT nope",
        "ACL GENPASS 0",
        "ACL GENPASS 5000",
        "ACL GENPASS a",
        "ACL DELUSER",
        "ACL SETUSER",
        "ACL GETUSER",
        "ACL WHOAMI x",
        "ACL DELUSER default",
        "ACL DELUSER a nobody",
        "ACL USERS",
        "AUTH nobody p",
        "AUTH p",
        "AUTH default p",
    ] {
        assert_eq!(ours.words(command), theirs.words(command), "{command}");
    }
    let categories = |client: &mut Client, name: &str| -> Option<Vec<Reply>> {
        let found = client.words(&format!("COMMAND INFO {name}"));
        let Reply::Array(facts) = &found.list()[0] else {
            return None;
        };
        Some(facts[6].list().to_vec())
    };
    let names = ours.words("COMMAND LIST");
    for name in names.list().iter().map(Reply::text) {
        // The gateway says that some commands are fast that Redis calls slow, and the other way round.
        let others = |list: Vec<Reply>| -> Vec<Reply> {
            let is_pace =
                |it: &Reply| [Reply::simple("@fast"), Reply::simple("@slow")].contains(it);
            list.into_iter().filter(|it| !is_pace(it)).collect()
        };
        let (our, their) = (categories(&mut ours, name), categories(&mut theirs, name));
        let Some(their) = their.map(others) else {
            continue;
        };
        let our = others(our.expect("it is listed"));
        // Redis 7.0 does not say that WAIT blocks.
        if name != "wait" {
            assert_eq!(our, their, "{name}");
        }
    }
}
