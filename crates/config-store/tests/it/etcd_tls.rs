//! Connections over TLS: the trusted parties, and the messages to the others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::rc::Rc;
use std::time::Duration;

use stonecast_cluster::{ConfigStore, StoreError, Swap};
use stonecast_config_store::{Bounds, OpenError};
use stonecast_fabric::{Selected, select};

use crate::support::{Certificates, Cluster, Fake, Reply, finish, missing, not_run, runtime};

const BOUNDS: Bounds = Bounds {
    connect: Duration::from_secs(1),
    answer: Duration::from_secs(3),
    listen: Duration::from_secs(1),
};

fn open(address: &str) -> Rc<dyn ConfigStore> {
    stonecast_config_store::open_within(&address.parse().unwrap(), BOUNDS).unwrap()
}

/// The reason with which a store refuses reads, changes and watches.
fn refusal(store: &Rc<dyn ConfigStore>) -> String {
    let swap = finish(store.compare_and_set(None, b"x"));
    assert!(matches!(swap, Err(StoreError::Refused { .. })), "{swap:?}");
    match finish(store.read()) {
        Err(StoreError::Refused { reason, .. }) => reason,
        read => panic!("the read is refused: {read:?}"),
    }
}

/// An etcd without values.
fn empty_etcd(_: &str, _: &str) -> Reply {
    let answer = r#"{"header":{"cluster_id":"7","revision":"1"}}"#;
    Reply::Say(200, answer.to_owned())
}

#[test]
fn an_etcd_that_knows_its_clients_is_used_with_certificate_and_password() {
    let story = "etcd_tls::an_etcd_that_knows_its_clients_is_used_with_certificate_and_password";
    if let Some(reason) = missing() {
        return not_run(story, reason);
    }
    let certificates = Certificates::make();
    let cluster = Cluster::start_encrypted(&certificates);
    cluster.members[0].enable_users();
    let endpoint = &cluster.members[0].endpoint;
    let address = |credentials: &str, ca: &str, identity: Option<&str>| {
        let options = certificates.options(ca, identity);
        format!("etcds://{credentials}{endpoint}/k{options}")
    };
    let store = open(&address("root:secret@", "ca", Some("client")));
    let swap = finish(store.compare_and_set(None, b"1"));
    assert!(matches!(swap, Ok(Swap::Done(_))), "{swap:?}");
    assert_eq!(finish(store.changed(None)).unwrap().bytes, b"1");
    assert_eq!(finish(store.read()).unwrap().unwrap().bytes, b"1");
    for (address, complaint) in [
        (address("", "ca", Some("client")), "refuses"),
        (address("root:guess@", "ca", Some("client")), "refuses"),
        // The gateway serves all users, so a common name in the certificate has no meaning.
        (
            address("root:secret@", "ca", Some("named")),
            "CommonName of client sending a request against gateway will be ignored",
        ),
        (address("root:secret@", "ca", None), "name cert and key"),
        (
            address("root:secret@", "other-ca", Some("client")),
            "no authority in",
        ),
        (
            address("root:secret@", "ca", Some("stranger")),
            "refuses the certificate",
        ),
        (format!("etcd://root:secret@{endpoint}/k"), "use etcds://"),
    ] {
        let reason = refusal(&open(&address));
        assert!(
            reason.contains(complaint) && reason.contains(endpoint),
            "{complaint}: {reason}"
        );
        assert!(!reason.contains("secret"), "{reason}");
    }
}

#[test]
fn an_untrusted_connection_is_refused_with_cause_and_remedy() {
    let certificates = Certificates::make();
    for (server, client, complaint) in [
        ("server", Some("client"), ""),
        ("expired", Some("client"), "of etcd has expired: renew"),
        ("elsewhere", Some("client"), "is for other hosts"),
        ("stranger", Some("client"), "no authority in"),
        ("server", None, "name cert and key"),
        ("server", Some("stranger"), "refuses the certificate"),
        ("server", Some("expired"), "refuses the certificate"),
    ] {
        let fake = Fake::start_encrypted(certificates.server(server), empty_etcd);
        let options = certificates.options("ca", client);
        let store = open(&format!("etcds://{}/k{options}", fake.endpoint));
        if complaint.is_empty() {
            assert_eq!(finish(store.read()), Ok(None));
            continue;
        }
        let reason = refusal(&store);
        assert!(reason.contains(complaint), "{complaint}: {reason}");
        assert_eq!(fake.count("/v3/kv/txn"), 0, "{complaint}");
    }
}

#[test]
fn a_server_without_tls_is_reported_as_such() {
    let certificates = Certificates::make();
    let options = certificates.options("ca", None);
    let plain = Fake::start(|_, _| Reply::Silence);
    // A server without TLS waits for the end of a line, answers with an error, or hangs up.
    let noisy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = noisy.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for answer in ["HTTP/1.0 400 Bad Request\r\n\r\n"; 4] {
            let (mut stream, _) = noisy.accept().unwrap();
            stream.read_exact(&mut [0; 8]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // The end may be of any kind.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let reason = refusal(&open(&format!("etcds://{endpoint}/k{options}")));
    assert!(
        reason.contains("does not speak TLS: use etcd://"),
        "{reason}"
    );
    answers.join().unwrap();
    let reason = refusal(&open(&format!("etcds://{}/k{options}", plain.endpoint)));
    assert!(reason.contains(&plain.endpoint), "{reason}");
    // The reverse: a client without TLS and a server with TLS.
    let encrypted = Fake::start_encrypted(certificates.server("server"), empty_etcd);
    let reason = refusal(&open(&format!("etcd://{}/k", encrypted.endpoint)));
    assert!(reason.contains(&encrypted.endpoint), "{reason}");
}

#[test]
fn an_etcd_without_tls_is_reported_as_such() {
    let story = "etcd_tls::an_etcd_without_tls_is_reported_as_such";
    if let Some(reason) = missing() {
        return not_run(story, reason);
    }
    let cluster = Cluster::start(1);
    let certificates = Certificates::make();
    let options = certificates.options("ca", None);
    let reason = refusal(&open(
        &(cluster.address("k").replace("etcd", "etcds") + &options),
    ));
    assert!(reason.contains("use etcd://"), "{reason}");
}

#[test]
fn a_member_with_an_expired_certificate_keeps_no_one_from_the_others() {
    let certificates = Certificates::make();
    let [expired, good] = ["expired", "server"]
        .map(|name| Fake::start_encrypted(certificates.server(name), empty_etcd));
    let options = certificates.options("ca", Some("client"));
    let endpoints = format!("{},{}", expired.endpoint, good.endpoint);
    let store = open(&format!("etcds://{endpoints}/k{options}"));
    assert_eq!(finish(store.read()), Ok(None));
}

#[test]
fn renewed_certificates_are_taken_while_the_store_is_open() {
    let certificates = Certificates::make();
    let fake = Fake::start_encrypted(certificates.server("server"), empty_etcd);
    let (ca, client) = (certificates.path("ca.pem"), certificates.path("client.pem"));
    let keep = [fs::read(&ca).unwrap(), fs::read(&client).unwrap()];
    fs::copy(certificates.path("other-ca.pem"), &ca).unwrap();
    let options = certificates.options("ca", Some("client"));
    let store = open(&format!("etcds://{}/k{options}", fake.endpoint));
    assert!(refusal(&store).contains("no authority in"));
    // Another program is writing the files: an unusable file changes nothing and causes no other error.
    fs::write(&client, "").unwrap();
    assert!(refusal(&store).contains("no authority in"));
    fs::write(&client, &keep[1]).unwrap();
    fs::write(&ca, &keep[0]).unwrap();
    assert_eq!(finish(store.read()), Ok(None));
}

/// Needs the files to be read again for a watch: reads go over the connection from before, and meet no error.
#[test]
fn a_watch_takes_renewed_certificates_while_reads_use_an_older_connection() {
    let certificates = Certificates::make();
    let mut has_changed = false;
    let fake = Fake::start_encrypted(certificates.server("server"), move |path, _| {
        has_changed |= path == "/v3/watch";
        let kvs = r#""kvs":[{"key":"aw==","mod_revision":"2","value":"djI="}]"#;
        match (path, has_changed) {
            ("/v3/watch", _) => Reply::Stream(vec![r#"{"result":{"events":[{}]}}"#.to_owned()]),
            (_, false) => empty_etcd("", ""),
            (_, true) => Reply::Say(
                200,
                format!(r#"{{"header":{{"cluster_id":"7","revision":"2"}},{kvs}}}"#),
            ),
        }
    });
    let options = certificates.options("ca", Some("client"));
    let store = open(&format!("etcds://{}/k{options}", fake.endpoint));
    assert_eq!(finish(store.read()), Ok(None));
    fake.renew(certificates.server("stranger"));
    fs::copy(
        certificates.path("other-ca.pem"),
        certificates.path("ca.pem"),
    )
    .unwrap();
    let (executor, runtime) = runtime();
    let watched = executor.block_on(select(store.changed(None), runtime.sleep(10_000_000_000)));
    let Selected::First(watched) = watched else {
        panic!("the watch has {} requests", fake.count("/v3/watch"));
    };
    assert_eq!(watched.unwrap().bytes, b"v2");
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_when_the_store_is_opened() {
    let certificates = Certificates::make();
    fs::write(certificates.path("empty.pem"), "").unwrap();
    fs::write(
        certificates.path("damaged.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let everybody = fs::Permissions::from_mode(0o644);
    fs::copy(
        certificates.path("client.key"),
        certificates.path("open.key"),
    )
    .unwrap();
    fs::set_permissions(certificates.path("open.key"), everybody).unwrap();
    for (cacert, cert, key, culprit, complaint) in [
        (
            "none.pem",
            "client.pem",
            "client.key",
            "none.pem",
            "No such file",
        ),
        (
            "empty.pem",
            "client.pem",
            "client.key",
            "empty.pem",
            "no certificate",
        ),
        (
            "client.key",
            "client.pem",
            "client.key",
            "client.key",
            "no certificate",
        ),
        (
            "damaged.pem",
            "client.pem",
            "client.key",
            "damaged.pem",
            "invalid",
        ),
        (
            "ca.pem",
            "none.pem",
            "client.key",
            "none.pem",
            "No such file",
        ),
        (
            "ca.pem",
            "client.pem",
            "none.key",
            "none.key",
            "No such file",
        ),
        (
            "ca.pem",
            "client.pem",
            "client.pem",
            "client.pem",
            "every user may read",
        ),
        (
            "ca.pem",
            "client.pem",
            "open.key",
            "open.key",
            "every user may read",
        ),
        (
            "ca.pem",
            "client.pem",
            "server.key",
            "client.pem",
            "server.key",
        ),
    ] {
        let path = |name| certificates.path(name).display().to_string();
        let files = format!(
            "cacert={}&cert={}&key={}",
            path(cacert),
            path(cert),
            path(key)
        );
        let opened = stonecast_config_store::open(&format!("etcds://127.0.0.1:1/k?{files}"));
        let Err(OpenError::File { source, .. }) = opened else {
            panic!("{culprit} is named");
        };
        assert_eq!(source.path, certificates.path(culprit));
        let reason = source.reason;
        assert!(reason.contains(complaint), "{complaint}: {reason}");
    }
}
