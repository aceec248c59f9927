//! Passwords and TLS: the admission of clients.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use stonecast_gateway::{GatewayError, GatewayOptions, Password, TlsOptions, spawn};

use crate::support::{Client, Reply, World, options, request};

fn with_password() -> GatewayOptions {
    let mut options = options();
    options.password = Some(Password::new("open sesame"));
    options
}

/// Needs the check of the password before each step.
#[test]
fn no_command_is_done_without_the_password() {
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
fn a_client_without_the_password_gets_little_memory_and_little_time() {
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
fn a_password_for_a_gateway_without_one_is_an_error() {
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
fn an_unprotected_gateway_on_the_network_does_not_start() {
    let options = GatewayOptions::new("0.0.0.0:0".parse().unwrap(), "shm:/nowhere");
    assert!(matches!(
        spawn(options),
        Err(GatewayError::Unprotected { .. })
    ));
}

/// The files of an authority, and the certificates that the authority has signed.
struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    fn make() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: String| fs::write(directory.path().join(name), text).unwrap();
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
            let only_owner = fs::Permissions::from_mode(0o600);
            fs::set_permissions(directory.path().join(format!("{name}.key")), only_owner).unwrap();
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

    /// A connection through TLS, with a client's certificate if `says_who`.
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

/// Needs the memory of TLS to be counted, and a time limit: otherwise records that are never complete would be held
/// forever.
#[test]
fn records_that_are_never_complete_are_counted_and_cut_off() {
    let certificates = Certificates::make();
    let mut options = certificates.options(false);
    options.admin = Some("127.0.0.1:0".parse().unwrap());
    options.limits.request_timeout = Duration::from_secs(4);
    let world = World::with(options);
    let held = || {
        let mut client = certificates.connect(&world, false);
        client.write_all(&request(["INFO", "memory"])).unwrap();
        let mut report = Vec::new();
        client.write_all(&request(["QUIT"])).unwrap();
        client.read_to_end(&mut report).unwrap();
        let report = String::from_utf8(report).unwrap();
        let line = report
            .lines()
            .find_map(|line| line.strip_prefix("mem_clients_normal:"));
        line.unwrap().parse::<usize>().unwrap()
    };
    let (count, part) = (40, 12_000);
    let mut incomplete: Vec<_> = (0..count)
        .map(|_| {
            let mut stream = certificates.connect(&world, false);
            stream.write_all(&request(["PING"])).unwrap();
            stream.read_exact(&mut [0; 7]).unwrap();
            let mut record = Vec::new();
            stream.conn.writer().write_all(&[b'x'; 16_000]).unwrap();
            stream.conn.write_tls(&mut record).unwrap();
            stream.sock.write_all(&record[..part]).unwrap();
            stream
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(3);
    let mut most = 0;
    while most < count * part && Instant::now() < deadline {
        most = most.max(held());
    }
    assert!(most >= count * part, "{most} bytes are counted");
    for stream in &mut incomplete {
        // The rest of the earlier replies, and the end.
        let mut rest = Vec::new();
        let ended = stream.sock.read_to_end(&mut rest);
        let is_late = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(!ended.is_err_and(is_late), "it was not cut off");
    }
    assert!(held() < count * part / 4);
}

#[test]
fn a_client_that_does_not_speak_tls_gets_nothing() {
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
fn clients_without_the_required_certificate_get_nothing() {
    let certificates = Certificates::make();
    let world = World::with(certificates.options(true));
    let mut known = certificates.connect(&world, true);
    known.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    known.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    let mut unknown = certificates.connect(&world, false);
    // The handshake fails on either side.
    let _ = unknown.write_all(b"PING\r\n");
    assert!(unknown.read_exact(&mut pong).is_err());
}

#[test]
fn files_without_certificates_are_named() {
    let certificates = Certificates::make();
    let mut options = certificates.options(false);
    options.store = Some("shm:/nowhere".to_owned());
    options.tls.as_mut().unwrap().certificate = Path::new("/dev/null").to_owned();
    let error = spawn(options).err().unwrap().to_string();
    assert_eq!(error, "/dev/null: the file has no certificate");
}

/// Reads until the peer ends the connection, and returns the bytes.
fn rest_of(mut socket: &TcpStream) -> Vec<u8> {
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => rest,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => rest,
        Err(error) => panic!("the connection does not end: {error}"),
    }
}

/// Needs a deadline apart from the password's: without a password, a silent peer would stay forever.
#[test]
fn an_unfinished_handshake_is_cut_off_and_an_idle_client_is_not() {
    let certificates = Certificates::make();
    let mut options = certificates.options(true);
    options.limits.handshake_timeout = Duration::from_millis(500);
    let world = World::with(options);
    let mut known = certificates.connect(&world, true);
    known.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    known.read_exact(&mut pong).unwrap();
    let address = world.gateway().resp_address().unwrap();
    let silent = TcpStream::connect(address).unwrap();
    let mut dripping = TcpStream::connect(address).unwrap();
    // The client sends the head of a record of 512 bytes with a greeting, and then a byte now and then.
    dripping.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).unwrap();
    let start = Instant::now();
    while dripping.write_all(&[3]).is_ok() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "a dripping peer is cut off"
        );
        thread::sleep(Duration::from_millis(20));
    }
    rest_of(&silent);
    known.write_all(b"PING\r\n").unwrap();
    known.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
}

/// Needs separate places for newcomers, the oldest of which makes way: otherwise 200 silent peers would hold every
/// place until their time limit, and then reconnect.
#[test]
fn peers_without_a_certificate_keep_out_no_client_with_a_certificate() {
    let certificates = Certificates::make();
    let mut options = certificates.options(true);
    options.limits.connections = 200;
    options.limits.handshake_timeout = Duration::from_secs(600);
    let world = World::with(options);
    let address = world.gateway().resp_address().unwrap();
    let mut clients = Vec::new();
    let mut silent = Vec::new();
    for round in 0..4 {
        silent.extend((0..200).map(|_| TcpStream::connect(address).unwrap()));
        for _ in 0..5 {
            clients.push(certificates.connect(&world, true));
            for client in &mut clients {
                let mut pong = [0; 7];
                client.write_all(b"PING\r\n").unwrap();
                client.read_exact(&mut pong).unwrap();
                assert_eq!(&pong, b"+PONG\r\n", "round {round}");
            }
        }
    }
    // The oldest newcomer has made way.
    rest_of(&silent[0]);
}

/// Needs the seat to be taken after the handshake, and the refusal to go through TLS.
#[test]
fn clients_beyond_the_limit_are_told_over_tls() {
    let certificates = Certificates::make();
    let mut options = certificates.options(true);
    options.limits.connections = 1;
    let world = World::with(options);
    let mut first = certificates.connect(&world, true);
    let mut pong = [0; 7];
    first.write_all(b"PING\r\n").unwrap();
    first.read_exact(&mut pong).unwrap();
    let mut second = certificates.connect(&world, true);
    let mut words = String::new();
    second.write_all(b"PING\r\n").unwrap();
    let _ = second.read_to_string(&mut words);
    assert_eq!(words, "-ERR max number of clients reached\r\n");
    first.write_all(b"PING\r\n").unwrap();
    first.read_exact(&mut pong).unwrap();
}

#[test]
fn peers_without_the_password_keep_out_no_client_that_knows_it() {
    let mut options = with_password();
    options.limits.connections = 20;
    let world = World::with(options);
    let mut clients = Vec::new();
    let mut others = Vec::new();
    for _ in 0..20 {
        others.extend((0..20).map(|_| world.client()));
        let mut client = world.client();
        assert_eq!(client.call(["AUTH", "open sesame"]), Reply::simple("OK"));
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.words("PING"), Reply::simple("PONG"));
    }
    let mut beyond = world.client();
    assert_eq!(beyond.call(["AUTH", "open sesame"]), Reply::simple("OK"));
    assert_eq!(beyond.reply().error(), "ERR max number of clients reached");
    assert!(beyond.has_ended());
    assert!(others[0].has_ended(), "the oldest has made way");
}

/// Needs the turn before a password is compared: without the turn, 2,000 passwords are answered in a few milliseconds.
/// A slow machine may answer fewer.
#[test]
fn wrong_passwords_are_compared_slowly_and_do_not_delay_clients_with_the_right_one() {
    let world = World::with(with_password());
    let start = Instant::now();
    let mut guessing: Vec<Client> = (0..4).map(|_| world.client()).collect();
    for (index, client) in guessing.iter_mut().enumerate() {
        let guess = match index % 2 {
            0 => request(["AUTH", "guess"]),
            _ => request(["HELLO", "3", "AUTH", "default", "guess"]),
        };
        client.send(guess.repeat(500));
    }
    for client in &mut guessing {
        for _ in 0..4 {
            assert!(client.reply().error().starts_with("WRONGPASS"));
        }
        assert!(
            start.elapsed() >= Duration::from_secs(1),
            "three at once, then one a second"
        );
    }
    let mut client = world.client();
    assert_eq!(client.call(["AUTH", "open sesame"]), Reply::simple("OK"));
    assert_eq!(client.words("PING"), Reply::simple("PONG"));
    // The same holds for a client that has sent a wrong password before.
    let mut mistaken = world.client();
    assert!(mistaken.words("AUTH open").error().starts_with("WRONGPASS"));
    assert_eq!(mistaken.call(["AUTH", "open sesame"]), Reply::simple("OK"));
}
