//! node-redis and ioredis.

use std::process::Command;

use super::{copy, install, succeed};
use crate::support::World;

#[test]
#[ignore = "installs node-redis and ioredis from npm; see conformance"]
fn node_redis_and_ioredis_work() {
    let test = "conformance: node-redis and ioredis";
    let directory = tempfile::tempdir().unwrap();
    copy("node", directory.path());
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(directory.path());
    if !install(test, &mut npm) {
        return;
    }
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    for program in ["node_redis.mjs", "ioredis.mjs"] {
        let printed = succeed(Command::new("node").arg(program).arg(&port).current_dir(directory.path()));
        assert!(printed.ends_with("done\n"), "{printed}");
    }
}
