//! Who is let in: passwords and TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use stonecast_gateway::{GatewayError, GatewayOptions, Password, TlsOptions, spawn};

use crate::support::{Reply, World, options, request};

fn with_password() -> GatewayOptions {
    let mut options = options();
    options.password = Some(Password::new("open sesame"));
    options
}

/// Needs the look at the password before each step.
#[test]
fn without_the_password_nothing_is_done() {
    let world = World::with(with_password());
    let mut client = world.client();
    let noauth = "NOAUTH Authentication required.";
    for command in [
        "GET a",
        "SET a 1",
        "PING",
        "INFO",
        "COMMAND",
        "KEYS *",
        "CLIENT ID",
        "FLUSHDB",
        "NONSENSE",
    ] {
        assert_eq!(client.words(command).error(), noauth, "{command}");
    }
    assert!(
        client
            .words("HELLO 3")
            .error()
            .starts_with("NOAUTH HELLO must be called")
    );
    assert!(client.words("AUTH wrong").error().starts_with("WRONGPASS"));
    assert_eq!(client.words("GET a").error(), noauth);
    assert_eq!(client.call(["AUTH", "open sesame"]), Reply::simple("OK"));
    assert_eq!(client.words("SET a 1"), Reply::simple("OK"));
    assert_eq!(client.words("RESET"), Reply::simple("RESET"));
    assert_eq!(
        client.words("GET a").error(),
        noauth,
        "RESET takes the password back"
    );
    assert!(matches!(
        client.call(["HELLO", "3", "AUTH", "default", "open sesame"]),
        Reply::Map(_)
    ));
    assert_eq!(client.words("GET a"), Reply::bulk("1"));
    assert_eq!(client.words("GET b"), Reply::Null);
}

#[test]
fn a_pipeline_that_begins_with_the_password_is_done_from_there_on() {
    let world = World::with(with_password());
    let mut client = world.client();
    let value = vec![b'x'; 100_000];
    let pipeline = [
        request(["GET", "a"]),
        request(["AUTH", "open sesame"]),
        request([&b"SET"[..], b"a", &value]),
        request(["GET", "a"]),
    ];
    client.send(pipeline.concat());
    assert!(client.reply().error().starts_with("NOAUTH"));
    assert_eq!(client.reply(), Reply::simple("OK"));
    assert_eq!(client.reply(), Reply::simple("OK"));
    assert_eq!(client.reply(), Reply::Bulk(value));
}

/// Needs the smaller limits, and the deadline of the password.
#[test]
fn who_has_not_said_the_password_gets_little_memory_and_little_time() {
    let mut options = with_password();
    options.limits.request_timeout = Duration::from_millis(300);
    let world = World::with(options);
    for (request, error) in [
        (
            "*11\r\n",
            "ERR Protocol error: unauthenticated multibulk length",
        ),
        (
            "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
            "ERR Protocol error: unauthenticated bulk length",
        ),
    ] {
        let mut client = world.client();
        client.send(request);
        assert_eq!(client.reply().error(), error);
        assert!(client.has_ended());
    }
    let mut silent = world.client();
    let mut known = world.client();
    known.call(["AUTH", "open sesame"]);
    assert!(silent.has_ended());
    assert_eq!(known.words("PING"), Reply::simple("PONG"));
}

#[test]
fn a_password_where_there_is_none_is_a_mistake_that_is_told() {
    let world = World::start();
    assert!(
        world
            .client()
            .words("AUTH x")
            .error()
            .starts_with("ERR AUTH <password> called without any password")
    );
}

#[test]
fn a_gateway_for_everybody_on_the_network_does_not_start() {
    let options = GatewayOptions::new("0.0.0.0:0".parse().unwrap(), "shm:/nowhere");
    assert!(matches!(
        spawn(options),
        Err(GatewayError::Unprotected { .. })
    ));
}

/// Files of an authority and of what it has signed.
struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    fn make() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: String| std::fs::write(directory.path().join(name), text).unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        write("authority.pem", authority.pem());
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(["localhost".to_owned()])
                .unwrap()
                .signed_by(&key, &authority)
                .unwrap();
            write(&format!("{name}.pem"), certificate.pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn options(&self, asks_clients: bool) -> GatewayOptions {
        let mut options = options();
        options.tls = Some(TlsOptions {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authority: asks_clients.then(|| self.path("authority.pem")),
        });
        options
    }

    /// A connection through TLS; with a certificate of its own, if it says who it is.
    fn connect(&self, world: &World, says_who: bool) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.path("authority.pem")).unwrap())
            .unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let configuration = if says_who {
            let chain = vec![CertificateDer::from_pem_file(self.path("client.pem")).unwrap()];
            builder
                .with_client_auth_cert(
                    chain,
                    PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap(),
                )
                .unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let socket = TcpStream::connect(world.gateway().resp_address().unwrap()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(
            ClientConnection::new(Arc::new(configuration), name).unwrap(),
            socket,
        )
    }
}

#[test]
fn commands_and_large_values_pass_through_tls() {
    let certificates = Certificates::make();
    let world = World::with(certificates.options(false));
    let mut stream = certificates.connect(&world, false);
    let value = vec![b'x'; 900_000];
    let pipeline = [
        request([&b"SET"[..], b"k", &value]),
        request(["GET", "k"]),
        request(["PING"]),
    ];
    stream.write_all(&pipeline.concat()).unwrap();
    let expected = [&b"+OK\r\n$900000\r\n"[..], &value, b"\r\n+PONG\r\n"].concat();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == expected);
    stream.write_all(&request(["QUIT"])).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(
        rest, b"+OK\r\n",
        "the end comes with a goodbye, so nothing was cut off"
    );
}

#[test]
fn who_does_not_speak_tls_gets_nothing() {
    let certificates = Certificates::make();
    let world = World::with(certificates.options(false));
    let mut plain = TcpStream::connect(world.gateway().resp_address().unwrap()).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    let mut received = Vec::new();
    // An alert of TLS, or a reset.
    let _ = plain.read_to_end(&mut received);
    assert!(!received.starts_with(b"+PONG"), "{received:?}");
}

/// Needs the verifier of clients.
#[test]
fn where_clients_must_say_who_they_are_others_get_nothing() {
    let certificates = Certificates::make();
    let world = World::with(certificates.options(true));
    let mut known = certificates.connect(&world, true);
    known.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    known.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    let mut unknown = certificates.connect(&world, false);
    // The handshake fails on one side or the other.
    let _ = unknown.write_all(b"PING\r\n");
    assert!(unknown.read_exact(&mut pong).is_err());
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let certificates = Certificates::make();
    let mut options = certificates.options(false);
    options.store = "shm:/nowhere".to_owned();
    options.tls.as_mut().unwrap().certificate = Path::new("/dev/null").to_owned();
    let error = spawn(options).err().unwrap().to_string();
    assert_eq!(error, "/dev/null: there is no certificate in it");
}
