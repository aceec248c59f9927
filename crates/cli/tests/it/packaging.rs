//! The files of a package beside the binary: unit, configuration, manual, completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Place, Server, command, not_run, stonecast};

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Runs a program of the system; `None` if it is not installed. Returns whether it succeeded, and its stdout and stderr
/// as one text.
fn system(program: &str, arguments: &[&str], input: Option<&Path>) -> Option<(bool, String)> {
    let input = input.map_or_else(Stdio::null, |path| {
        fs::File::open(path).expect("the file is there").into()
    });
    let output = Command::new(program)
        .args(arguments)
        .stdin(input)
        .output()
        .ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

#[test]
fn a_server_starts_with_the_example_configuration() {
    let place = Place::in_volatile_memory();
    let mut serve = command();
    serve
        .arg("serve")
        .arg("--config")
        .arg(packaging().join("stonecast.toml"));
    // These flags replace settings that name a place of the system, or that are larger than a test needs.
    serve
        .arg("--data")
        .arg(place.pool())
        .arg("--listen")
        .arg(format!("shm:{}", place.pool().join("socket").display()));
    serve.args([
        "--durability",
        "process",
        "--capacity",
        "64MiB",
        "--resp",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    let mut server = Server::of(serve, &place.pool());
    assert!(
        server.heard().contains("redis://127.0.0.1:")
            && server.heard().contains("http://127.0.0.1:"),
        "{}",
        server.heard()
    );
    server.stop();
}

#[test]
fn the_unit_is_understood_by_systemd() {
    let place = Place::on_disk();
    let unit = place.path().join("stonecast.service");
    let text = fs::read_to_string(packaging().join("systemd/stonecast.service"))
        .expect("the unit is there");
    assert!(
        text.contains(
            "ExecStart=/usr/bin/stonecast serve --config /etc/stonecast/stonecast.toml\n"
        )
    );
    // The check also looks for the program; the user is created at installation.
    let text = text
        .replace("/usr/bin/stonecast", env!("CARGO_BIN_EXE_stonecast"))
        .replace("stonecast\nGroup=stonecast", "root\nGroup=root");
    fs::write(&unit, text).expect("room for a file");
    match system(
        "systemd-analyze",
        &[
            "verify",
            "--man=no",
            unit.to_str().expect("a name in UTF-8"),
        ],
        None,
    ) {
        None => not_run(
            "packaging: systemd-analyze verify",
            "systemd-analyze is not installed",
        ),
        Some((success, said)) => {
            // The check covers units of the machine, too, which do not concern this test.
            let ours: Vec<&str> = said
                .lines()
                .filter(|line| line.contains("stonecast"))
                .collect();
            assert!(ours.is_empty() && (success || said.is_empty()), "{said}");
        }
    }
}

#[test]
fn the_manual_has_a_page_for_each_command_and_is_set_without_a_warning() {
    let place = Place::on_disk();
    let folder = place.path().join("man1");
    stonecast(["man", folder.to_str().expect("a name in UTF-8")]).text();
    let mut pages: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("it was made")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    pages.sort();
    for name in [
        "stonecast.1",
        "stonecast-serve.1",
        "stonecast-stat.1",
        "stonecast-bench-ycsb.1",
        "stonecast-cluster-create.1",
        "stonecast-cluster-move.1",
        "stonecast-cluster-status.1",
    ] {
        assert!(pages.contains(&folder.join(name)), "{name} in {pages:?}");
    }
    let serve = fs::read_to_string(folder.join("stonecast-serve.1")).expect("the page is there");
    assert!(
        serve.contains("STONECAST_RESP") && serve.contains("Redis"),
        "flags and examples are in the page of serve"
    );
    assert!(stonecast(["man"]).text().contains(".TH stonecast 1"));
    for page in &pages {
        match system("groff", &["-man", "-Tutf8", "-ww", "-z"], Some(page)) {
            None => return not_run("packaging: the manual is set", "groff is not installed"),
            Some((success, said)) => {
                assert!(success && said.is_empty(), "{}: {said}", page.display())
            }
        }
    }
}

#[test]
fn completions_are_for_each_shell_and_know_the_flags() {
    let place = Place::on_disk();
    for (shell, check) in [
        ("bash", Some("-n")),
        ("zsh", Some("-n")),
        ("fish", Some("--no-execute")),
        ("elvish", None),
        ("powershell", None),
    ] {
        let script = stonecast(["completions", shell]);
        for flag in ["password-file", "config-store"] {
            assert!(script.text().contains(flag), "{flag} in {shell}");
        }
        let path = place.path().join(shell);
        fs::write(&path, script.text()).expect("room for a file");
        let Some(check) = check else { continue };
        match system(
            shell,
            &[check, path.to_str().expect("a name in UTF-8")],
            None,
        ) {
            None => not_run(
                &format!("packaging: {shell} reads its completions"),
                &format!("{shell} is not installed"),
            ),
            Some((success, said)) => assert!(success && said.is_empty(), "{shell}: {said}"),
        }
    }
}
