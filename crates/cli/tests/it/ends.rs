//! The end of a server, requested by a signal or by the end of its terminal, and the messages about the end.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Place, Server, command, stonecast};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "64MiB"];

/// Starts a server on `data` whose terminal ends with the returned file.
fn at_a_terminal(data: &Path) -> (Server, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("terminals are left");
    grantpt(&terminal).expect("the terminal is ours");
    unlockpt(&terminal).expect("the terminal is ours");
    let name = ptsname(&terminal, Vec::new()).expect("a terminal has a name");
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "exec setsid --ctty \"$@\" < \"$0\""])
        .arg(name.to_str().expect("a name in UTF-8"))
        .arg(command().get_program())
        .arg("serve")
        .arg("--data")
        .arg(data)
        .args(OPTIONS);
    (Server::of(shell, data), terminal)
}

fn assert_closed(pool: &Path) {
    let report = stonecast(["inspect", &pool.display().to_string(), "--json"]).json();
    assert_eq!(report["clean"], true, "{report}");
}

#[test]
fn a_server_says_that_it_shuts_down_and_that_it_ended_in_good_order() {
    for (signal, words) in [
        (
            Signal::INT,
            "shutting down; press Ctrl-C again to stop at once",
        ),
        (
            Signal::TERM,
            "shutting down on SIGTERM; a second one stops at once",
        ),
    ] {
        let place = Place::in_volatile_memory();
        let mut server = Server::start(&place.pool(), OPTIONS);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        let heard = server.heard_to_the_end();
        assert!(heard.contains(words), "{heard}");
        assert!(
            heard.trim_end().ends_with(&format!(
                "ended in order: {} is closed",
                place.pool().display()
            )),
            "{heard}"
        );
        assert_closed(&place.pool());
    }
}

/// Needs SIGHUP among the signals that request the end. Also needs a second SIGHUP not to stop the server at once:
/// shells send another one.
#[test]
fn a_server_whose_terminal_goes_ends_in_good_order() {
    let place = Place::in_volatile_memory();
    let (mut server, terminal) = at_a_terminal(&place.pool());
    server.client(&["put", "k", "v"]).text();
    drop(terminal);
    server.signal(Signal::HUP);
    assert_eq!(server.wait().code(), Some(0));
    let heard = server.heard_to_the_end();
    assert!(heard.contains("the terminal is gone"), "{heard}");
    assert_closed(&place.pool());
}

/// Needs the end of the terminal not to count as a first signal: a session manager sends SIGTERM right after SIGHUP.
#[test]
fn sigterm_after_the_end_of_the_terminal_asks_the_server_to_end_and_does_not_stop_it_at_once() {
    let place = Place::in_volatile_memory();
    let (mut server, _terminal) = at_a_terminal(&place.pool());
    // Both signals are pending when the server continues.
    server.signal(Signal::STOP);
    server.signal(Signal::HUP);
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    assert_eq!(server.wait().code(), Some(0));
    assert_closed(&place.pool());
}

/// Needs the system's default action for the signal: an exit status would look like a status of the program.
#[test]
fn a_second_signal_ends_a_server_as_if_there_were_no_handler() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(&place.pool(), OPTIONS);
    // Both signals are pending when the server continues: the first leaves it no time to end in order.
    server.signal(Signal::STOP);
    server.signal(Signal::INT);
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    let status = server.wait();
    assert!(
        matches!(status.signal(), Some(signal) if [2, 15].contains(&signal)),
        "{status}: {}",
        server.heard()
    );
}

/// Needs the check of ignored signals: `nohup` starts programs that must outlive their terminal.
#[test]
fn a_server_that_was_started_to_outlive_its_terminal_ignores_the_end_of_the_terminal() {
    let place = Place::in_volatile_memory();
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(command().get_program())
        .arg("serve")
        .arg("--data")
        .arg(place.pool())
        .args(OPTIONS);
    let mut server = Server::of(shell, &place.pool());
    server.signal(Signal::HUP);
    server.client(&["put", "k", "v"]).text();
    server.stop();
}
