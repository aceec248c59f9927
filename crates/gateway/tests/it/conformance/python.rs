//! The client redis-py, synchronous and asynchronous, in both protocols.

use std::process::Command;

use super::{installed, need, succeed};
use crate::support::World;

#[test]
#[ignore = "installs redis-py from PyPI; see conformance"]
fn redis_py_works() {
    let test = "conformance: redis-py";
    let steps = |folder: &std::path::Path| {
        let mut environment = Command::new("python3");
        environment.args(["-m", "venv", "environment"]);
        let mut pip = Command::new(folder.join("environment/bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--requirement",
            "requirements.txt",
        ]);
        vec![environment, pip]
    };
    if !need(test, &["python3"]) {
        return;
    }
    let Some(folder) = installed(test, "python", steps) else {
        return;
    };
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    for protocol in ["2", "3"] {
        let mut python = Command::new(folder.join("environment/bin/python"));
        let printed = succeed(python.arg(folder.join("check.py")).args([&port, protocol]));
        assert!(printed.ends_with("done\n"), "{printed}");
    }
}
