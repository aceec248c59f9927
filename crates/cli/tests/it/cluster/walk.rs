//! The walk-through of `docs/cluster.md`, run by a shell.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, command, run};

const PAGE: &str = include_str!("../../../../../docs/cluster.md");

/// Kills the nodes that the script has left.
struct Nodes<'p>(&'p Place);

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for node in ["a", "b", "c", "d", "e"] {
            let pid = fs::read_to_string(self.0.path().join(format!("{node}.pid")));
            let pid = pid.ok().and_then(|pid| pid.trim().parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                // The node may have ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

#[test]
fn the_walk_through_of_the_page_leads_from_nothing_to_a_replaced_node() {
    let (_, rest) = PAGE
        .split_once("```sh walk-through\n")
        .expect("the page has it");
    let (script, _) = rest.split_once("```").expect("a block ends");
    let place = Place::on_disk();
    let nodes = Nodes(&place);
    let programs = place.path().join("programs");
    fs::create_dir(&programs).expect("room for a folder");
    let stonecast = command();
    symlink(stonecast.get_program(), programs.join("stonecast")).expect("room for a link");
    let path = format!(
        "{}:{}",
        programs.display(),
        std::env::var("PATH").expect("a path")
    );
    let mut shell = Command::new("timeout");
    shell
        .args(["200", "sh", "-euc", script])
        .env("PATH", path)
        .current_dir(place.path())
        .stdin(Stdio::null());
    let output = run(shell, b"");
    // The screen is wrapped.
    let text = output
        .text()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(text.matches("hello").count(), 1, "{text}");
    assert!(text.ends_with("again"), "{text}");
    assert!(
        text.contains("because of b, c: the other nodes promise"),
        "{text}"
    );
    for words in [
        "shard 0 moves to e",
        "c drains",
        "c is removed",
        "leads 1 shards",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    drop(nodes);
}
