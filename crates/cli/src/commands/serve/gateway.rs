//! Flags of `serve` for Redis clients, metrics and health.

use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;
use stonecast_gateway::{GatewayLimits, GatewayOptions, Password, TlsOptions};

use crate::failure::Failure;
use crate::values::{Endpoint, Period, Size};

/// The gateway's ports, its admission of clients, and its limits.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Redis clients, metrics and health (off by default)")]
pub struct GatewayFlags {
    /// Address for Redis clients, such as 127.0.0.1:6380; port 0 stands for any free port.
    #[arg(long, value_name = "ADDRESS", env = "STONECAST_RESP")]
    pub resp: Option<Endpoint>,
    /// Address of /metrics, /healthz, /readyz and /status over HTTP, such as 127.0.0.1:9180.
    #[arg(long, value_name = "ADDRESS", env = "STONECAST_ADMIN")]
    pub admin: Option<Endpoint>,
    /// File whose first line is the password for Redis clients; other users must not be able to read the file.
    #[arg(long, value_name = "FILE", env = "STONECAST_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// File of users of Redis clients, a line for each: user NAME RULE...; read again at SIGHUP.
    #[arg(long, value_name = "FILE", env = "STONECAST_RESP_ACL_FILE")]
    pub resp_acl_file: Option<PathBuf>,
    /// Certificate chain for TLS (PEM); requires --tls-key.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_CERTIFICATE")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Authority of clients' certificates (PEM); without this flag, clients need no certificate.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_CLIENT_AUTHORITY")]
    pub tls_client_authority: Option<PathBuf>,
    /// Threads that serve Redis clients, each with a connection to the store [default: 1].
    #[arg(long, value_name = "COUNT", env = "STONECAST_GATEWAY_THREADS")]
    pub gateway_threads: Option<NonZeroU16>,
    /// Most Redis clients at a time [default: 10000].
    #[arg(long, value_name = "COUNT", env = "STONECAST_CONNECTIONS")]
    pub connections: Option<NonZeroUsize>,
    /// Longest request of a Redis client [default: 32MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_REQUEST_SIZE")]
    pub request_size: Option<Size>,
    /// Most commands of one connection in a batch; further commands wait [default: 1024].
    #[arg(long, value_name = "COUNT", env = "STONECAST_PIPELINE_DEPTH")]
    pub pipeline_depth: Option<NonZeroUsize>,
    /// Most bytes of replies that wait for one connection; above the limit, its commands wait [default: 32MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_OUTPUT_SIZE")]
    pub output_size: Option<Size>,
    /// Most bytes of requests and replies of all connections together [default: 512MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_BUFFER_SIZE")]
    pub buffer_size: Option<Size>,
    /// Time limit of a TLS handshake, after which the connection is cut [default: 10s].
    #[arg(long, value_name = "TIME", env = "STONECAST_HANDSHAKE_TIMEOUT")]
    pub handshake_timeout: Option<Period>,
    /// Time limit for a request to arrive, and for the password, after which the connection is cut [default: 60s].
    #[arg(long, value_name = "TIME", env = "STONECAST_REQUEST_TIMEOUT")]
    pub request_timeout: Option<Period>,
    /// Time limit for a client that takes none of its replies, after which the connection is cut; the limit for taking
    /// all replies is ten times as long [default: 30s].
    #[arg(long, value_name = "TIME", env = "STONECAST_OUTPUT_TIMEOUT")]
    pub output_timeout: Option<Period>,
}

impl GatewayFlags {
    /// The gateway's options, without the address of the store; `None` if no gateway was asked for.
    pub fn options(&self) -> Result<Option<GatewayOptions>, Failure> {
        let address = |endpoint: &Option<Endpoint>| endpoint.as_ref().map(|end| end.address);
        let (resp, admin) = (address(&self.resp), address(&self.admin));
        let Some(first) = resp.or(admin) else {
            return match self.first_given() {
                None => Ok(None),
                Some(flag) => Err(Failure::usage(format!(
                    "{flag} is for Redis clients or metrics, and has no meaning without --resp or --admin: add one of these, or \
                     leave the flag out"
                ))),
            };
        };
        if let (None, Some(flag)) = (resp, self.first_given_for_redis()) {
            return Err(Failure::usage(format!(
                "{flag} is for Redis clients, and has no meaning without --resp: add it, or leave the flag out"
            )));
        }
        let tls = match (
            self.tls_certificate.clone(),
            self.tls_key.clone(),
            self.tls_client_authority.clone(),
        ) {
            (Some(certificate), Some(key), client_authority) => Some(TlsOptions {
                certificate,
                key,
                client_authority,
            }),
            (None, None, None) => None,
            _ => {
                return Err(Failure::usage(
                    "TLS needs both --tls-certificate and --tls-key",
                ));
            }
        };
        let whole = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let most = GatewayLimits::default();
        let limits = GatewayLimits {
            connections: self.connections.map_or(most.connections, NonZeroUsize::get),
            request_size: self.request_size.map_or(most.request_size, |size| size.0),
            pipeline_depth: self
                .pipeline_depth
                .map_or(most.pipeline_depth, NonZeroUsize::get),
            output_size: self.output_size.map_or(most.output_size, whole),
            memory_size: self.buffer_size.map_or(most.memory_size, whole),
            handshake_timeout: self
                .handshake_timeout
                .map_or(most.handshake_timeout, |time| time.0),
            request_timeout: self
                .request_timeout
                .map_or(most.request_timeout, |time| time.0),
            output_timeout: self
                .output_timeout
                .map_or(most.output_timeout, |time| time.0),
        };
        let options = GatewayOptions {
            resp,
            admin,
            password: self.password()?,
            acl_file: self.resp_acl_file.clone(),
            tls,
            threads: self.gateway_threads.map_or(NonZeroUsize::MIN, Into::into),
            limits,
            ..GatewayOptions::new(first, String::new())
        };
        // The check comes before a pool is opened, or created, for nothing.
        options
            .check()
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Some(options))
    }

    /// The password that the file has now.
    pub fn password(&self) -> Result<Option<Password>, Failure> {
        let password = self.password_file.as_deref().map(Password::read);
        password
            .transpose()
            .map_err(|error| Failure::usage(error.to_string()))
    }

    /// A given flag that has no meaning without any address.
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.password_file.is_some(), "--password-file"),
            (self.tls_certificate.is_some(), "--tls-certificate"),
            (self.tls_key.is_some(), "--tls-key"),
            (self.handshake_timeout.is_some(), "--handshake-timeout"),
            (
                self.tls_client_authority.is_some(),
                "--tls-client-authority",
            ),
        ];
        let first = given.iter().find(|(is_given, _)| *is_given);
        first
            .map(|(_, flag)| *flag)
            .or(self.first_given_for_redis())
    }

    /// A given flag that has no meaning without Redis clients.
    fn first_given_for_redis(&self) -> Option<&'static str> {
        let given = [
            (self.resp_acl_file.is_some(), "--resp-acl-file"),
            (self.gateway_threads.is_some(), "--gateway-threads"),
            (self.connections.is_some(), "--connections"),
            (self.request_size.is_some(), "--request-size"),
            (self.pipeline_depth.is_some(), "--pipeline-depth"),
            (self.output_size.is_some(), "--output-size"),
            (self.buffer_size.is_some(), "--buffer-size"),
            (self.request_timeout.is_some(), "--request-timeout"),
            (self.output_timeout.is_some(), "--output-timeout"),
        ];
        let first = given.iter().find(|(is_given, _)| *is_given);
        first.map(|(_, flag)| *flag)
    }
}
