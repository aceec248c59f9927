//! The clock of a provider in a time namespace in which the host seems to have been suspended for a million seconds:
//! `CLOCK_BOOTTIME` is ahead by that time, and `CLOCK_MONOTONIC` is not.

use std::process::Command;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Park;

/// Set if the test binary runs in the namespace.
const INSIDE: &str = "STONECAST_TEST_TIME_NAMESPACE";
const SUSPENDED_S: Nanoseconds = 1_000_000;

/// Shows that `park` reports the time since the boot of the host. `test` is the path of the calling test, which runs
/// again in the namespace. If the host offers no time namespace, `not_run` gets the reason.
pub fn the_clock_goes_on_while_the_host_is_suspended(
    test: &str,
    park: &dyn Park,
    not_run: impl Fn(&str, &str),
) {
    let now_s = || park.now() / 1_000_000_000;
    if std::env::var_os(INSIDE).is_some() {
        return println!("seconds: {}", now_s());
    }
    let in_namespace = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--time", &format!("--boottime={SUSPENDED_S}"), program]);
        command
    };
    match in_namespace("true").output() {
        Err(error) => return not_run(test, &format!("unshare does not start: {error}")),
        Ok(tried) if !tried.status.success() => {
            let reason = String::from_utf8_lossy(&tried.stderr);
            return not_run(test, &format!("no time namespace: {}", reason.trim()));
        }
        Ok(_) => {}
    }
    let before_s = now_s();
    let binary = std::env::current_exe().expect("the test binary has a path");
    let output = in_namespace(&binary.to_string_lossy())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .expect("the test binary runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text.split("seconds: ").nth(1).expect("it tells its time");
    let told_s: Nanoseconds = told.lines().next().unwrap().parse().unwrap();
    let expected_s = before_s + SUSPENDED_S..=now_s() + SUSPENDED_S;
    assert!(
        expected_s.contains(&told_s),
        "{told_s} s, which is none of {expected_s:?}"
    );
}
