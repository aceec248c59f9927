//! `stat --admin`: with a password, over TLS, and with an exit status for each failure.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{Place, Server, command, run};

/// Writes a file that others cannot read.
pub fn secret(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("room for a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    path
}

/// Writes the files of an authority, and of a server with the authority's certificate.
pub fn certificates(folder: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    secret(folder, "authority.pem", &authority.pem());
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    secret(folder, "server.pem", &certificate.pem());
    secret(folder, "server.key", &key.serialize_pem());
}

pub fn admin_port(server: &mut Server) -> String {
    let heard = server.heard();
    let (_, after) = heard.split_once("http://").expect("an admin port");
    let (_, port) = after
        .split([',', '\n'])
        .next()
        .and_then(|address| address.rsplit_once(':'))
        .expect("a port");
    port.to_owned()
}

#[test]
fn the_gateway_answers_over_tls_with_the_password_and_a_failure_has_a_status() {
    let place = Place::in_volatile_memory();
    let folder = place.path();
    certificates(folder);
    let password = secret(folder, "password", "open sesame\n");
    let wrong = secret(folder, "wrong", "open barley\n");
    let mut serve = command();
    serve
        .args(["serve", "--durability", "process", "--capacity", "64MiB"])
        .args(["--admin", "0.0.0.0:0", "--data"])
        .arg(place.pool())
        .arg("--password-file")
        .arg(&password)
        .arg("--tls-certificate")
        .arg(folder.join("server.pem"))
        .arg("--tls-key")
        .arg(folder.join("server.key"));
    let mut server = Server::of(serve, &place.pool());
    let port = admin_port(&mut server);
    let ask = |host: &str, password: Option<&Path>, authority: bool| {
        let mut stat = command();
        stat.args(["stat", "--json", "--connect", &server.address()])
            .arg(format!("--admin={host}:{port}"));
        password.map(|file| stat.arg("--password-file").arg(file));
        if authority {
            stat.arg("--tls-authority")
                .arg(folder.join("authority.pem"));
        }
        run(stat, b"")
    };
    let told = ask("localhost", Some(&password), true).json();
    assert!(told["admin"]["connections"].is_u64(), "{told}");
    let failure = ask("localhost", Some(&wrong), true).json_failure(1, "failed");
    assert!(
        failure["message"]
            .as_str()
            .unwrap()
            .contains("refuses the password")
    );
    let failure = ask("localhost", None, true).json_failure(1, "failed");
    assert!(
        failure["message"]
            .as_str()
            .unwrap()
            .contains("--password-file")
    );
    ask("127.0.0.1", Some(&password), true).json_failure(1, "failed");
    let failure = ask("localhost", Some(&password), false);
    assert!(matches!(failure.code, Some(1 | 4)), "{}", failure.stderr);
    server.signal(rustix::process::Signal::TERM);
}

#[test]
fn an_admin_port_that_does_not_answer_is_unreachable() {
    let place = Place::in_volatile_memory();
    let server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let output = server.client(&["stat", "--admin", &address]);
    assert_eq!(output.code, Some(4), "{}", output.stderr);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("durability"),
        "what the server says is shown all the same"
    );
}

/// Needs the check of the key file's permissions.
#[test]
fn a_private_key_that_others_can_read_is_refused() {
    let place = Place::in_volatile_memory();
    certificates(place.path());
    let key = place.path().join("server.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let mut serve = command();
    serve
        .args(["serve", "--admin", "127.0.0.1:0", "--data"])
        .arg(place.pool())
        .arg("--tls-certificate")
        .arg(place.path().join("server.pem"))
        .arg("--tls-key")
        .arg(&key);
    let output = run(serve, b"");
    assert!(output.refusal(2).contains("every user may read the file"));
    assert!(!place.pool().exists(), "nothing is created");
}
