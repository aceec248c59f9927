//! The promtool of the distribution: the parser and the rules of Prometheus itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::need;
use crate::support::{World, options};

/// Needs the classic format: promtool reads no other format.
#[test]
#[ignore = "needs promtool; see conformance"]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !need("conformance: promtool", &["promtool"]) {
        return;
    }
    let mut options = options();
    options.admin = Some("127.0.0.1:0".parse().unwrap());
    let world = World::with(options);
    world.client().pipeline(["SET a 1", "GET a", "GET b"]);
    let mut stream = TcpStream::connect(world.gateway().admin_address().unwrap()).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nAccept: */*\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, metrics) = answer.split_once("\r\n\r\n").unwrap();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let output = promtool.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && words.is_empty(), "{words}");
}
