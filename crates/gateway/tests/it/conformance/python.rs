//! redis-py, in both protocols, and its asynchronous half.

use std::process::Command;

use super::{install, programs, succeed};
use crate::support::World;

const PACKAGE: &str = "redis==8.1.0";

#[test]
#[ignore = "installs redis-py from PyPI; see conformance"]
fn redis_py_works() {
    let test = "conformance: redis-py";
    let directory = tempfile::tempdir().unwrap();
    let environment = directory.path().join("environment");
    let python = environment.join("bin/python");
    if !install(test, Command::new("python3").args(["-m", "venv"]).arg(&environment))
        || !install(test, Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))
    {
        return;
    }
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    for protocol in ["2", "3"] {
        let program = programs().join("python/check.py");
        let printed = succeed(Command::new(&python).arg(program).args([&port, protocol]));
        assert!(printed.ends_with("done\n"), "{printed}");
    }
}
