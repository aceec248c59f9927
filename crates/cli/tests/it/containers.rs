//! Servers and clients in PID namespaces of their own, as in containers: no process sees the number of another one.

use std::process::{Command, Stdio};

use crate::support::{Place, Server, command, not_run, run};

/// The command `inner`, in a PID namespace of its own that ends with the command. `None`: this machine gives none.
pub fn in_a_namespace(inner: &Command) -> Option<Command> {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child"]);
        unshare
    };
    let tried = unshare()
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let mut command = unshare();
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    tried.then_some(command)
}

/// Needs credentials without a process: the kernel says 0 of a process in another namespace.
#[test]
fn a_client_in_one_container_reaches_the_server_in_another_one() {
    let place = Place::in_volatile_memory();
    let data = place.path().join("pool");
    let socket = format!("shm:{}", place.path().join("socket").display());
    let mut serve = command();
    serve.args(["serve", "--durability", "process", "--capacity", "64MiB"]);
    serve.arg("--data").arg(&data).args(["--listen", &socket]);
    let Some(serve) = in_a_namespace(&serve) else {
        return not_run("containers", "unshare makes no PID namespace");
    };
    let mut server = Server::spawn(serve, &data);
    assert!(server.wait_until_ready(), "{}", server.heard());
    let client = |words: &[&str]| {
        let mut client = command();
        client.args(words).args(["--connect", &socket]);
        run(in_a_namespace(&client).expect("as before"), b"")
    };
    client(&["put", "greeting", "hello"]).text();
    assert_eq!(client(&["get", "greeting"]).text(), "hello");
}
