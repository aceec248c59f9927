//! Every example runs to its end, against a server where it needs one.

use std::process::{Command, Output};

use stonecast::{Durability, Server};

fn run(program: &str, arguments: &[String]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program).args(arguments).output().unwrap();
    assert!(
        status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&stderr)
    );
    String::from_utf8(stdout).unwrap()
}

#[test]
fn examples_that_need_a_server_find_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .serve()
        .unwrap();
    let url = [server.address().to_string()];
    let put = run(env!("CARGO_BIN_EXE_put_and_get"), &url);
    assert!(put.contains("greeting is at version 1"), "{put}");
    let watched = run(env!("CARGO_BIN_EXE_watch_metrics"), &url);
    assert_eq!(watched.lines().count(), 3, "{watched}");
    server.shutdown().unwrap();
}

#[test]
fn examples_that_bring_their_own_server_end_well() {
    let embedded = run(env!("CARGO_BIN_EXE_embed_server"), &[]);
    assert!(embedded.contains("1 keys at shm:"), "{embedded}");
    let retried = run(env!("CARGO_BIN_EXE_retry"), &[]);
    assert!(
        retried.contains("the write took effect once, as Done(1)"),
        "{retried}"
    );
    let many = run(env!("CARGO_BIN_EXE_many_gets"), &[]);
    assert_eq!(many.lines().count(), 3, "{many}");
    let cached = run(env!("CARGO_BIN_EXE_session_cache"), &[]);
    assert!(cached.ends_with("the session has ended\n"), "{cached}");
}
