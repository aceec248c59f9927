//! The client go-redis.

use std::process::Command;

use super::{installed, need, succeed};
use crate::support::World;

#[test]
#[ignore = "installs go-redis through the Go module proxy; see conformance"]
fn go_redis_works() {
    let test = "conformance: go-redis";
    let build = |folder: &std::path::Path| {
        let mut go = Command::new("go");
        // Go makes the files of packages read-only by default, but the folder must be removable. Go must not ask git
        // for the state of the checkout, which the program does not need.
        let options = ["-modcacherw", "-buildvcs=false", "-o", "check"];
        go.arg("build").args(options).arg(".");
        go.env("GOPATH", folder.join("packages"))
            .env("GOCACHE", folder.join("cache"));
        vec![go]
    };
    if !need(test, &["go"]) {
        return;
    }
    let Some(folder) = installed(test, "go", build) else {
        return;
    };
    let world = World::start();
    let printed = succeed(
        Command::new(folder.join("check")).arg(world.gateway().resp_address().unwrap().to_string()),
    );
    assert!(printed.ends_with("done\n"), "{printed}");
}
