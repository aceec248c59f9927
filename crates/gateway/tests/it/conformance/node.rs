//! The clients node-redis and ioredis.

use std::process::Command;

use super::{installed, need, succeed};
use crate::support::World;

#[test]
#[ignore = "installs node-redis and ioredis from npm; see conformance"]
fn node_redis_and_ioredis_work() {
    let test = "conformance: node-redis and ioredis";
    let steps = |_: &std::path::Path| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--silent"]);
        vec![npm]
    };
    if !need(test, &["node", "npm"]) {
        return;
    }
    let Some(folder) = installed(test, "node", steps) else {
        return;
    };
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    for program in ["node_redis.mjs", "ioredis.mjs"] {
        let printed = succeed(
            Command::new("node")
                .arg(program)
                .arg(&port)
                .current_dir(&folder),
        );
        assert!(printed.ends_with("done\n"), "{printed}");
    }
}
