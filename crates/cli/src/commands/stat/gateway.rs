//! The facts that only the gateway knows, read from its admin port.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use stonecast_gateway::{Password, read_secret};

use crate::commands::structures::MirrorReport;
use crate::failure::{Failure, Status};
use crate::output;
use crate::values::Endpoint;

/// The admin port answers from memory, after one question to the store.
const PATIENCE: Duration = Duration::from_secs(3);
/// A status is shorter than this, in bytes.
const STATUS_SIZE_MAX: u64 = 1 << 20;

/// The flags that name the gateway's admin port.
#[derive(Debug, Args)]
#[command(next_help_heading = "The gateway's part")]
pub struct AdminFlags {
    /// Also asks this address of `serve --admin` for the gateway's own counters: connections, commands, their times.
    #[arg(long, value_name = "ADDRESS", env = "STONECAST_ADMIN")]
    pub admin: Option<Endpoint>,
    /// File whose first line is the password of `serve --password-file`; other users must not be able to read the file.
    #[arg(long, value_name = "FILE", env = "STONECAST_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Authority of the gateway's certificate (PEM), for an admin port over TLS.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_AUTHORITY")]
    pub tls_authority: Option<PathBuf>,
    /// Certificate for the gateway (PEM), if the gateway requires one of its clients.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_CLIENT_CERTIFICATE")]
    pub tls_client_certificate: Option<PathBuf>,
    /// Private key of that certificate (PEM); other users must not be able to read the file.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_CLIENT_KEY")]
    pub tls_client_key: Option<PathBuf>,
}

/// The parts of `/status` that other addresses do not tell.
pub struct Told {
    /// The gateway.
    pub gateway: Value,
    /// The back-end of data structures beside the store, if there is one.
    pub structures: Option<Value>,
}

/// An admin port that can be asked again and again.
pub struct Admin {
    endpoint: Endpoint,
    authorization: Option<String>,
    tls: Option<Arc<ClientConfig>>,
}

impl Admin {
    /// The admin port that `flags` name; `None` without `--admin`.
    pub fn of(flags: &AdminFlags) -> Result<Option<Self>, Failure> {
        let tls = client_configuration(flags)?;
        let Some(endpoint) = flags.admin.clone() else {
            return match tls {
                None => Ok(None),
                Some(_) => Err(Failure::usage("--tls-authority needs --admin")),
            };
        };
        let password = flags.password_file.as_deref().map(Password::read);
        let password = password
            .transpose()
            .map_err(|error| Failure::usage(error.to_string()))?;
        let authorization =
            password.map(|password| BASE64.encode(format!(":{}", password.reveal())));
        Ok(Some(Self {
            endpoint,
            authorization,
            tls,
        }))
    }

    /// The answer of `/status`.
    pub fn status(&self) -> Result<Told, Failure> {
        let endpoint = &self.endpoint;
        let answer = self.ask().map_err(|error| self.silent(&error))?;
        let answer = String::from_utf8_lossy(&answer);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            let hint = match self.tls {
                None => {
                    "does not speak HTTP; if the port uses TLS, name its authority with --tls-authority"
                }
                Some(_) => "does not speak HTTP",
            };
            return Err(Failure::operation(format!("{endpoint} {hint}")));
        };
        match head.split(' ').nth(1) {
            Some("200") => {}
            Some("401") => {
                let words = match self.authorization {
                    None => {
                        "requires a password; name the file of the password with --password-file"
                    }
                    Some(_) => "refuses the password of --password-file",
                };
                return Err(Failure::operation(format!("{endpoint} {words}")));
            }
            _ => {
                return Err(Failure::operation(format!(
                    "{endpoint} answers {}",
                    head.lines().next().unwrap_or_default()
                )));
            }
        }
        let status = serde_json::from_str::<Value>(body).ok();
        let told = status.and_then(|mut status| {
            let gateway = status.get_mut("gateway")?.take();
            let structures = status.get_mut("structures").map(Value::take);
            let structures = structures.filter(|part| !part.is_null());
            Some(Told {
                gateway,
                structures,
            })
        });
        told.ok_or_else(|| {
            Failure::operation(format!("{endpoint} is not an admin port of stonecast"))
        })
    }

    fn ask(&self) -> io::Result<Vec<u8>> {
        let stream = TcpStream::connect_timeout(&self.endpoint.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        match &self.tls {
            None => self.talk(stream),
            Some(configuration) => {
                let name =
                    ServerName::try_from(self.endpoint.host.clone()).map_err(io::Error::other)?;
                let connection =
                    ClientConnection::new(configuration.clone(), name).map_err(io::Error::other)?;
                self.talk(StreamOwned::new(connection, stream))
            }
        }
    }

    fn talk(&self, mut stream: impl Read + Write) -> io::Result<Vec<u8>> {
        let authorization = match &self.authorization {
            Some(credentials) => format!("Authorization: Basic {credentials}\r\n"),
            None => String::new(),
        };
        write!(
            stream,
            "GET /status HTTP/1.1\r\nHost: {}\r\n{authorization}Connection: close\r\n\r\n",
            self.endpoint
        )?;
        stream.flush()?;
        let mut answer = Vec::new();
        match stream.take(STATUS_SIZE_MAX).read_to_end(&mut answer) {
            // The peer ended without closing TLS. The length of the body shows whether the body is complete, and so
            // does the JSON.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(answer),
        }
    }

    /// The failure of a port that did not answer, or whose answer could not be trusted.
    fn silent(&self, error: &io::Error) -> Failure {
        let endpoint = &self.endpoint;
        let is_tls = error
            .get_ref()
            .is_some_and(|inner| inner.is::<rustls::Error>());
        if is_tls {
            return Failure::operation(format!("{endpoint}: {error}"));
        }
        Failure::new(
            Status::Unreachable,
            format!("{endpoint} does not answer: {error}"),
        )
    }
}

/// The configuration of TLS; `None` for plain text.
fn client_configuration(flags: &AdminFlags) -> Result<Option<Arc<ClientConfig>>, Failure> {
    let own = match (&flags.tls_client_certificate, &flags.tls_client_key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(Failure::usage(
                "--tls-client-certificate and --tls-client-key must be given together",
            ));
        }
    };
    let Some(authority) = &flags.tls_authority else {
        return match own {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--tls-client-certificate needs --tls-authority",
            )),
        };
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots
            .add(certificate)
            .map_err(|error| unusable(authority, error))?;
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let configuration = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let text = read_secret(key).map_err(|error| Failure::usage(error.to_string()))?;
            let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
                .map_err(|error| unusable(key, error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, key)
                .map_err(|error| unusable(certificate, error))?
        }
    };
    Ok(Some(Arc::new(configuration)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| unusable(path, error))?;
    match found.is_empty() {
        true => Err(unusable(path, "the file has no certificate")),
        false => Ok(found),
    }
}

fn unusable(path: &Path, reason: impl ToString) -> Failure {
    Failure::usage(format!("{}: {}", path.display(), reason.to_string()))
}

/// The back-end of data structures for human readers.
pub fn structure_rows(back_end: &Value) -> Vec<(&'static str, String)> {
    let number = |name: &str| back_end[name].as_u64().unwrap_or(0);
    if let Some(error) = back_end["error"].as_str() {
        return vec![("structures", error.to_owned())];
    }
    let tenures = ["tenures_granted", "tenures_ended", "tenures_silent"];
    let readers = ["answers", "retries", "snapshot_age_ns"];
    let domains = back_end["domains"].as_array();
    let sum = |name: &str| -> u64 {
        let values = domains.into_iter().flatten();
        values.filter_map(|domain| domain[name].as_u64()).sum()
    };
    let mut rows = vec![
        (
            "structures",
            format!(
                "{} lock domains, {} operations staged, {} of logs to read at a restart",
                domains.map_or(0, Vec::len),
                sum("staged"),
                output::size(sum("log_used"))
            ),
        ),
        ("tenures", tenures_in_words(tenures.map(number))),
        ("readers", readers_in_words(readers.map(number))),
    ];
    let mirror = MirrorReport::told(&back_end["mirror"]);
    rows.extend(mirror.map(|mirror| ("mirror", mirror.in_words())));
    rows
}

/// The tenures of a back-end, in words.
pub fn tenures_in_words([granted, ended, silent]: [u64; 3]) -> String {
    format!("{granted} granted, {ended} ended, {silent} of them because the writer was silent")
}

/// The readers of a back-end, in words. The age of the oldest snapshot is in nanoseconds.
pub fn readers_in_words([answers, retries, age]: [u64; 3]) -> String {
    let age = match age {
        0 => "no snapshot".to_owned(),
        age => format!("oldest snapshot {:.1} s", age as f64 / 1e9),
    };
    format!("{answers} answers, {retries} retries, {age}")
}

/// The status for human readers.
pub fn rows(status: &Value) -> Vec<(&'static str, String)> {
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let commands = status["commands"].as_object().map(|commands| {
        let mut counts: Vec<(&String, u64)> = commands
            .iter()
            .map(|(name, count)| (name, count.as_u64().unwrap_or(0)))
            .collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect::<Vec<_>>()
            .join(", ")
    });
    let time = |kind: &str| {
        let microseconds = |name: &str| match status["latency"][kind][name].as_u64() {
            Some(time) => format!("{:.1} us", time as f64 / 1e3),
            None => "-".to_owned(),
        };
        format!(
            "{} on average, 99 % at most {}",
            microseconds("mean_ns"),
            microseconds("p99_ns")
        )
    };
    vec![
        (
            "gateway",
            status["resp"]
                .as_str()
                .unwrap_or("no Redis clients, metrics alone")
                .to_owned(),
        ),
        (
            "connections",
            format!(
                "{} of at most {}; {} accepted, {} refused, {} cut off",
                number("connections"),
                number("connections_max"),
                number("connections_accepted"),
                number("connections_refused"),
                number("connections_cut")
            ),
        ),
        (
            "commands",
            commands
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "none".to_owned()),
        ),
        (
            "errors",
            format!(
                "{} replies, {} broken requests",
                number("error_replies"),
                number("protocol_errors")
            ),
        ),
        ("reading", time("read")),
        ("writing", time("write")),
    ]
}
