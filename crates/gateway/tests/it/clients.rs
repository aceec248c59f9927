//! The connections of all threads, as one of them sees and ends them.

use crate::support::{Client, Reply, World};

/// The value of a field in a line of `CLIENT LIST` or `CLIENT INFO`.
fn field(line: &str, name: &str) -> String {
    let mut fields = line.split_whitespace();
    let found = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    found
        .unwrap_or_else(|| panic!("{name} in {line:?}"))
        .to_owned()
}

fn lines(client: &mut Client, command: &str) -> Vec<String> {
    let reply = client.words(command);
    reply.text().lines().map(str::to_owned).collect()
}

#[test]
fn connections_of_all_threads_are_listed_with_what_they_said() {
    let world = World::start();
    let mut first = world.client();
    let mut others: Vec<Client> = (0..8).map(|_| world.client()).collect();
    for (n, client) in others.iter_mut().enumerate() {
        client.words(&format!("CLIENT SETNAME other-{n}"));
    }
    first.words("HELLO 3 SETNAME first");
    first.words("HELLO 2");
    first.words("CLIENT SETINFO LIB-NAME mine");
    let listed = lines(&mut first, "CLIENT LIST");
    assert_eq!(listed.len(), 9);
    let own = lines(&mut first, "CLIENT INFO").remove(0);
    assert!(listed.contains(&own), "{listed:?}");
    assert_eq!(
        (field(&own, "name"), field(&own, "lib-name")),
        ("first".into(), "mine".into())
    );
    assert_eq!(field(&own, "resp"), "2");
    let id = field(&listed[3], "id");
    assert_eq!(
        lines(&mut first, &format!("CLIENT LIST ID {id} 99999")),
        [listed[3].clone()]
    );
    assert_eq!(lines(&mut first, "CLIENT LIST TYPE normal").len(), 9);
    assert_eq!(first.words("CLIENT LIST TYPE pubsub"), Reply::bulk(""));
    drop(others);
    while lines(&mut first, "CLIENT LIST").len() > 1 {
        std::thread::yield_now();
    }
    for (command, refusal) in [
        ("CLIENT LIST TYPE odd", "ERR Unknown client type 'odd'"),
        ("CLIENT LIST ID x", "ERR Invalid client ID"),
        ("CLIENT LIST more", "ERR syntax error"),
        (
            "CLIENT KILL",
            "ERR wrong number of arguments for 'client|kill' command",
        ),
        ("CLIENT KILL 1.2.3.4:5", "ERR No such client"),
        ("CLIENT KILL ID 0", "ERR client-id should be greater than 0"),
        ("CLIENT KILL USER ada", "ERR No such user 'ada'"),
        ("CLIENT KILL ID 1 SKIPME", "ERR syntax error"),
    ] {
        assert_eq!(first.words(command).error(), refusal, "{command}");
    }
}

#[test]
fn a_connection_that_is_killed_ends_whatever_thread_serves_it() {
    let world = World::start();
    let mut first = world.client();
    let mut others: Vec<Client> = (0..6).map(|_| world.client()).collect();
    let infos: Vec<String> = others
        .iter_mut()
        .map(|client| lines(client, "CLIENT INFO").remove(0))
        .collect();
    let address = field(&infos[0], "addr");
    assert_eq!(
        first.words(&format!("CLIENT KILL {address}")),
        Reply::simple("OK")
    );
    assert!(others[0].has_ended());
    let id = field(&infos[1], "id");
    assert_eq!(
        first.words(&format!("CLIENT KILL ID {id} TYPE master")),
        Reply::Integer(0)
    );
    assert_eq!(first.words("CLIENT KILL MAXAGE 1000"), Reply::Integer(0));
    assert_eq!(others[1].words("PING"), Reply::simple("PONG"));
    assert_eq!(
        first.words(&format!("CLIENT KILL ID {id}")),
        Reply::Integer(1)
    );
    assert!(others[1].has_ended());
    while lines(&mut first, "CLIENT LIST").len() > 5 {
        std::thread::yield_now();
    }
    // The command's own connection stays open unless the filter matches it; then it closes after the reply.
    assert_eq!(first.words("CLIENT KILL TYPE normal"), Reply::Integer(4));
    assert!(others[2..].iter_mut().all(Client::has_ended));
    assert_eq!(first.words("SET a 1"), Reply::simple("OK"));
    let own = field(&lines(&mut first, "CLIENT INFO")[0], "id");
    assert_eq!(
        first.words(&format!("CLIENT KILL ID {own} SKIPME no")),
        Reply::Integer(1)
    );
    assert!(first.has_ended());
    assert_eq!(world.client().words("GET a"), Reply::bulk("1"));
}

/// Needs the notes of all threads in one list, and passwords left out.
#[test]
fn commands_that_take_long_are_noted_and_passwords_are_not() {
    let world = World::start();
    let mut client = world.client();
    client.words("CLIENT SETNAME slow");
    assert_eq!(client.words("SLOWLOG RESET"), Reply::simple("OK"));
    // Some of these take 10 ms and more on any machine: each stores tens of MiB.
    let value = "v".repeat(1 << 20);
    let pairs: Vec<String> = (0..12).map(|n| format!("key-{n} {value}")).collect();
    let line = format!("MSET {}", pairs.join(" "));
    while client.words("SLOWLOG LEN") == Reply::Integer(0) {
        assert_eq!(client.words(&line), Reply::simple("OK"));
    }
    let reply = client.words("SLOWLOG GET -1");
    let entry = reply.list()[0].list();
    assert!(entry[2].integer() >= 10_000, "{:?}", entry[2]);
    let arguments = entry[3].list();
    assert_eq!(
        (arguments[0].text(), arguments[1].text()),
        ("MSET", "key-0")
    );
    assert!(arguments[2].text().ends_with("... (1048448 more bytes)"));
    assert_eq!(entry[5].text(), "slow");
    assert_eq!(client.words("SLOWLOG GET 0"), Reply::Array(Vec::new()));
    let set = "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2";
    assert_eq!(client.words(set), Reply::simple("OK"));
    (0..3).for_each(|_| assert_eq!(client.words("PING"), Reply::simple("PONG")));
    let kept = client.words("SLOWLOG GET -1");
    let names = kept
        .list()
        .iter()
        .map(|entry| entry.list()[3].list()[0].text());
    assert_eq!(names.collect::<Vec<_>>(), ["PING", "PING"]);
    let none = "CONFIG SET slowlog-log-slower-than -1 save x";
    let refused = "ERR CONFIG SET option save is not supported by this store";
    assert_eq!(client.words(none).error(), refused);
    let bounds = client.words("CONFIG GET slowlog-*");
    let bounds = bounds.list().iter().map(Reply::text);
    assert_eq!(
        bounds.collect::<Vec<_>>(),
        ["slowlog-log-slower-than", "0", "slowlog-max-len", "2"],
        "nothing was set"
    );
    for (command, refusal) in [
        (
            "CONFIG SET slowlog-max-len 1025",
            "ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument must be between 0 and \
             1024 inclusive",
        ),
        (
            "CONFIG SET slowlog-log-slower-than x",
            "ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument couldn't be \
             parsed into an integer",
        ),
        (
            "CONFIG SET slowlog-max-len",
            "ERR wrong number of arguments for 'config|set' command",
        ),
        (
            "SLOWLOG GET -2",
            "ERR count should be greater than or equal to -1",
        ),
        (
            "SLOWLOG GET x",
            "ERR value is not an integer or out of range",
        ),
        (
            "SLOWLOG LEN 1",
            "ERR wrong number of arguments for 'slowlog|len' command",
        ),
        (
            "SLOWLOG DOCTOR",
            "ERR SLOWLOG DOCTOR is not supported by this store",
        ),
    ] {
        assert_eq!(client.words(command).error(), refusal, "{command}");
    }
}
