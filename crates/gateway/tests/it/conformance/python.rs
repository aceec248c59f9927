//! The client redis-py, synchronous and asynchronous, in both protocols, and its own tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{installed, need, succeed};
use crate::support::World;

/// The version whose tests are run, as the files of the folder `redis-py` pin it.
const VERSION: &str = "8.1.0";

/// Folders with tests of the blocking and of the asynchronous client, and how many of them pass in each protocol, at
/// least. Most of the latter run twice, with one connection and with a pool of connections.
const SUITES: [(&str, usize); 2] = [("tests", 217), ("tests/test_asyncio", 319)];
/// The files with tests of commands, pipelines and encodings. The others are of the client alone, or of other servers.
const TESTS: [&str; 3] = ["test_commands.py", "test_pipeline.py", "test_encoding.py"];

#[test]
#[ignore = "installs redis-py from PyPI; see conformance"]
fn redis_py_works() {
    let test = "conformance: redis-py";
    let Some(folder) = environment(test, "python", |_| Vec::new()) else {
        return;
    };
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    for protocol in ["2", "3"] {
        let mut python = python_of(&folder);
        let printed = succeed(python.arg(folder.join("check.py")).args([&port, protocol]));
        assert!(printed.ends_with("done\n"), "{printed}");
    }
}

#[test]
#[ignore = "installs redis-py from PyPI; see conformance"]
fn the_examples_for_redis_clients_keep_their_promises() {
    let test = "conformance: examples for Redis clients";
    let Some(folder) = environment(test, "python", |_| Vec::new()) else {
        return;
    };
    let world = World::start();
    let port = world.gateway().resp_address().unwrap().port().to_string();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/redis");
    let mut python = python_of(&folder);
    let printed = succeed(
        python
            .arg(folder.join("examples.py"))
            .arg(examples)
            .arg(port),
    );
    assert!(printed.ends_with("done\n"), "{printed}");
}

/// From its source distribution. `exclusions.py` has the tests of commands that the store does not have, with the
/// reasons.
#[test]
#[ignore = "installs redis-py from PyPI; see conformance"]
fn redis_py_passes_its_own_tests() {
    let test = "conformance: tests of redis-py";
    let unpacked = |folder: &Path| {
        let mut source = python_of(folder);
        source.args(
            "-m pip download --quiet --no-deps --no-binary redis --require-hashes".split(' '),
        );
        source.args(["--requirement", "source.txt"]);
        let mut unpack = Command::new("tar");
        unpack
            .args(["--extract", "--file"])
            .arg(format!("redis-{VERSION}.tar.gz"));
        vec![source, unpack]
    };
    let Some(folder) = environment(test, "redis-py", unpacked) else {
        return;
    };
    let world = World::start();
    let address = world.gateway().resp_address().unwrap();
    let protocols = ["2", "3"].into_iter();
    for (protocol, (suite, passed_min)) in protocols.flat_map(|it| SUITES.map(|suite| (it, suite)))
    {
        let mut python = python_of(&folder);
        python
            .current_dir(folder.join(format!("redis-{VERSION}")))
            .env("PYTHONPATH", &folder)
            .args("-m pytest -q -p exclusions -p no:cacheprovider -W ignore --tb line".split(' '))
            .args([
                "--redis-url",
                &format!("redis://{address}/0"),
                "--protocol",
                protocol,
            ])
            .args(TESTS.map(|file| format!("{suite}/{file}")));
        let printed = succeed(&mut python);
        let summary = printed.lines().next_back().unwrap_or("");
        println!("{suite}, protocol {protocol}: {summary}");
        assert!(passed(summary) >= passed_min, "{suite}: {summary}");
    }
}

/// The number of tests that have passed, by the last line of pytest.
fn passed(summary: &str) -> usize {
    let parts = summary.split(", ").map(|part| part.split_once(' '));
    let passed = parts.flatten().find(|(_, what)| what.starts_with("passed"));
    passed
        .and_then(|(count, _)| count.parse().ok())
        .unwrap_or(0)
}

#[test]
fn the_last_line_of_pytest_says_how_many_tests_have_passed() {
    let line = "217 passed, 381 skipped, 5 deselected in 31.42s";
    assert_eq!(passed(line), 217);
    assert_eq!(passed("1 failed, 20 passed in 1s"), 20);
    assert_eq!(passed("381 skipped in 1s"), 0);
}

/// The folder of a client's program, with an environment of Python that has its requirements. The `further` steps
/// follow.
fn environment(test: &str, name: &str, further: impl Fn(&Path) -> Vec<Command>) -> Option<PathBuf> {
    let steps = |folder: &Path| {
        let mut environment = Command::new("python3");
        environment.args(["-m", "venv", "environment"]);
        let mut pip = python_of(folder);
        pip.args(
            "-m pip install --quiet --require-hashes --requirement requirements.txt".split(' '),
        );
        let mut steps = vec![environment, pip];
        steps.extend(further(folder));
        steps
    };
    match need(test, &["python3"]) {
        true => installed(test, name, steps),
        false => None,
    }
}

fn python_of(folder: &Path) -> Command {
    Command::new(folder.join("environment/bin/python"))
}
