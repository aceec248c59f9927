//! go-redis.

use std::process::Command;

use super::{copy, install, succeed};
use crate::support::World;

#[test]
#[ignore = "installs go-redis through the Go module proxy; see conformance"]
fn go_redis_works() {
    let test = "conformance: go-redis";
    let directory = tempfile::tempdir().unwrap();
    copy("go", directory.path());
    let mut build = Command::new("go");
    build.args(["build", "-o", "check", "."]).current_dir(directory.path());
    build
        .env("GOFLAGS", "-mod=mod")
        .env("GOPATH", directory.path().join("packages"))
        .env("GOCACHE", directory.path().join("cache"));
    // Files of packages are read-only, and the folder must go.
    build.arg("-modcacherw");
    if !install(test, &mut build) {
        return;
    }
    let world = World::start();
    let printed = succeed(Command::new(directory.path().join("check")).arg(world.gateway().resp_address().unwrap().to_string()));
    assert!(printed.ends_with("done\n"), "{printed}");
}
