//! The refusal of `MULTI`, and of every command up to the end of the transaction.

use stonecast_gateway::Password;

use crate::support::{Reply, World, options, request};

const REFUSED: &str =
    "ERR not done: MULTI was refused, and so is every command up to EXEC or DISCARD";
const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// Needs the connection to remember the refusal: otherwise the two commands run.
#[test]
fn no_command_of_a_pipelined_transaction_is_done() {
    let world = World::start();
    let mut client = world.client();
    client.words("SET a before");
    let replies = client.pipeline([
        "MULTI", "SET a 1", "INCR b", "GET a", "EXEC", "GET a", "GET b",
    ]);
    assert!(
        replies[0]
            .error()
            .starts_with("ERR MULTI is not supported by this store")
    );
    for refused in &replies[1..4] {
        assert_eq!(refused.error(), REFUSED);
    }
    assert_eq!(replies[4].error(), ABORTED);
    assert_eq!(replies[5..], [Reply::bulk("before"), Reply::NoBulk]);
}

/// Needs the refusal to outlive the batch.
#[test]
fn no_command_of_a_transaction_that_comes_command_by_command_is_done() {
    let mut options = options();
    options.limits.pipeline_depth = 1;
    let world = World::with(options);
    let mut client = world.client();
    client.words("MULTI").error();
    for command in [
        "SET a 1",
        "DEL a",
        "PING",
        "SELECT 0",
        "HELLO 3",
        "AUTH x",
        "CLIENT ID",
        "FLUSHDB",
    ] {
        assert_eq!(client.words(command).error(), REFUSED, "{command}");
    }
    assert_eq!(
        client.words("MULTI").error(),
        "ERR MULTI calls can not be nested"
    );
    assert_eq!(
        client.words("WATCH a").error(),
        "ERR WATCH is not supported by this store"
    );
    assert!(
        client
            .words("nonsense")
            .error()
            .starts_with("ERR unknown command")
    );
    assert_eq!(client.words("EXEC").error(), ABORTED);
    assert_eq!(client.words("EXISTS a"), Reply::Integer(0));
    assert_eq!(client.words("EXEC").error(), "ERR EXEC without MULTI");
    assert_eq!(client.words("DISCARD").error(), "ERR DISCARD without MULTI");
}

#[test]
fn discard_reset_and_quit_end_a_refused_transaction() {
    let world = World::start();
    for (end, answer) in [("DISCARD", "OK"), ("RESET", "RESET")] {
        let mut client = world.client();
        let replies = client.pipeline(["MULTI", "SET a 1", end, "SET b 1", "DEL b"]);
        assert_eq!(replies[1].error(), REFUSED);
        assert_eq!(
            replies[2..],
            [
                Reply::simple(answer),
                Reply::simple("OK"),
                Reply::Integer(1)
            ]
        );
    }
    let mut client = world.client();
    client.send("MULTI\r\nSET a 1\r\nQUIT\r\nSET a 1\r\n");
    client.reply().error();
    assert_eq!(client.reply().error(), REFUSED);
    assert_eq!(client.reply(), Reply::simple("OK"));
    assert!(client.has_ended());
    assert_eq!(world.client().words("EXISTS a"), Reply::Integer(0));
}

/// As in Redis, a transaction belongs to one connection and begins only after the password.
#[test]
fn a_transaction_belongs_to_one_connection() {
    let mut options = options();
    options.password = Some(Password::new("open sesame"));
    let world = World::with(options);
    let mut client = world.client();
    assert!(client.words("MULTI").error().starts_with("NOAUTH"));
    assert_eq!(client.call(["AUTH", "open sesame"]), Reply::simple("OK"));
    assert_eq!(client.words("SET a 1"), Reply::simple("OK"));
    client.words("MULTI").error();
    let mut other = world.client();
    other.send([request(["AUTH", "open sesame"]), request(["GET", "a"])].concat());
    assert_eq!(other.reply(), Reply::simple("OK"));
    assert_eq!(other.reply(), Reply::bulk("1"));
    assert_eq!(client.words("GET a").error(), REFUSED);
    assert_eq!(client.words("RESET"), Reply::simple("RESET"));
    assert!(client.words("EXEC").error().starts_with("NOAUTH"));
}
