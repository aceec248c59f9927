//! The options of a gateway, and the check that refuses bad options.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use subtle::ConstantTimeEq as _;

use crate::acl::{Acl, DefaultUserBounds};
use crate::error::GatewayError;
use crate::resp::RequestLimits;

/// The options of a gateway. `GatewayOptions::new` sets the usual values.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The address for Redis clients. With port 0 the system chooses a port. `None`: only metrics and health are
    /// served.
    pub resp: Option<SocketAddr>,
    /// The address at which metrics and health are served over HTTP.
    pub admin: Option<SocketAddr>,
    /// The store's address on the shared-memory fabric. The admin port shows the counts of this store. `None`: the
    /// gateway has no store, and no port for Redis clients.
    pub store: Option<String>,
    /// The address of a back-end of data structures, whose counts the admin port shows, too.
    pub structures: Option<String>,
    /// The address of the cluster whose keys the gateway serves; `None`: the keys of the store.
    pub cluster: Option<String>,
    /// Threads that serve connections, each with a connection to the store.
    pub threads: NonZeroUsize,
    /// The password that clients must send before any other command.
    pub password: Option<Password>,
    /// The file of users: a line for each, `user NAME RULE...`, as `ACL LIST` prints it. `None`: the users are
    /// `default`, whose password is `password`, and the users that `ACL SETUSER` makes.
    pub acl_file: Option<PathBuf>,
    /// Encryption of the connections of clients and of the admin port.
    pub tls: Option<TlsOptions>,
    /// Bounds on the resources of clients.
    pub limits: GatewayLimits,
}

/// Files for TLS, in PEM.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Certificate of the server, and the certificates that lead to its authority.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Authority that must have signed clients' certificates. `None`: clients need no certificate.
    pub client_authority: Option<PathBuf>,
}

/// A password. Never printed.
#[derive(Clone)]
pub struct Password(String);

/// Bounds on the resources of clients. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// The most clients at a time. Connections that are not authenticated have additional places; see `newcomers`.
    pub connections: usize,
    /// The longest request, as sent.
    pub request_size: u64,
    /// The most commands of one connection in a batch. Later commands wait for the next batch.
    pub pipeline_depth: usize,
    /// The most bytes of replies that wait for one connection. Above this bound, the connection's commands wait.
    pub output_size: usize,
    /// The most bytes of requests and replies of all connections together.
    pub memory_size: usize,
    /// The time limit of a TLS handshake.
    pub handshake_timeout: Duration,
    /// The time limit of a request that has begun, and of the password.
    pub request_timeout: Duration,
    /// The time in which a client must take some of the replies that wait. The time for all replies is ten times as
    /// long.
    pub output_timeout: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            request_size: 32 << 20,
            pipeline_depth: 1024,
            output_size: 32 << 20,
            memory_size: 512 << 20,
            handshake_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            output_timeout: Duration::from_secs(30),
        }
    }
}

/// The number of clients for each place of a newcomer, and the least number of places for newcomers.
const NEWCOMERS_SHARE: usize = 4;
const NEWCOMERS_MIN: usize = 16;
/// The permission of everybody to read a file.
const OTHERS_MAY_READ: u32 = 0o004;
/// The most arguments of a command, as in Redis.
const ARGUMENTS_MAX: u32 = 1 << 20;
/// The smallest limit on a request: the longest key and value, and the bytes around them.
const REQUEST_SIZE_MIN: u64 = 2 << 20;
/// The largest limit on a request: a position in a request has 4 bytes.
const REQUEST_SIZE_MAX: u64 = 1 << 30;

impl GatewayOptions {
    /// The options of a gateway of the store at `store` that listens at `resp`.
    pub fn new(resp: SocketAddr, store: impl Into<String>) -> Self {
        Self {
            resp: Some(resp),
            admin: None,
            store: Some(store.into()),
            structures: None,
            cluster: None,
            threads: NonZeroUsize::MIN,
            password: None,
            acl_file: None,
            tls: None,
            limits: GatewayLimits::default(),
        }
    }

    /// Refuses options that contradict each other or leave the store unprotected.
    pub fn check(&self) -> Result<(), GatewayError> {
        // The admin port knows no users.
        let without_users = exposed(self.resp).filter(|_| self.acl_file.is_none());
        if let Some(address) = exposed(self.admin).or(without_users)
            && self.password.is_none()
            && self.tls.is_none()
        {
            return Err(GatewayError::Unprotected { address });
        }
        if self.store.is_none() && (self.resp.is_some() || self.structures.is_none()) {
            return Err(GatewayError::Options(
                "Redis clients need a store of keys and values, and metrics a store or a back-end"
                    .to_owned(),
            ));
        }
        if self.resp.is_none() && self.admin.is_none() {
            return Err(GatewayError::Options(
                "neither an address for Redis clients nor one for metrics is given".to_owned(),
            ));
        }
        if let Some(password) = &self.password {
            password.check()?;
        }
        Acl::of(
            self.acl_file.as_deref(),
            self.password.as_ref(),
            self.guard(),
        )?;
        if let Some(tls) = &self.tls {
            read_secret(&tls.key)?;
        }
        let limits = &self.limits;
        if !(REQUEST_SIZE_MIN..=REQUEST_SIZE_MAX).contains(&limits.request_size) {
            let words = format!(
                "a request may have between {REQUEST_SIZE_MIN} and {REQUEST_SIZE_MAX} bytes"
            );
            return Err(GatewayError::Options(words));
        }
        if limits.connections == 0
            || limits.pipeline_depth == 0
            || limits.output_size == 0
            || limits.memory_size == 0
        {
            return Err(GatewayError::Options(
                "a limit of 0 lets no client in".to_owned(),
            ));
        }
        if limits.handshake_timeout.is_zero()
            || limits.request_timeout.is_zero()
            || limits.output_timeout.is_zero()
        {
            return Err(GatewayError::Options(
                "a time limit of 0 cuts every client off".to_owned(),
            ));
        }
        Ok(())
    }
}

/// The address, if other machines reach it.
fn exposed(address: Option<SocketAddr>) -> Option<SocketAddr> {
    address.filter(|address| !address.ip().is_loopback())
}

impl GatewayOptions {
    /// The bounds on changes of the `default` user.
    pub(crate) fn guard(&self) -> DefaultUserBounds {
        DefaultUserBounds {
            may_be_closed: self.password.is_some() || self.acl_file.is_some(),
            may_be_open: self.tls.is_some() || exposed(self.resp).is_none(),
        }
    }

    /// The places for connections that are not authenticated; 0 if no client has to authenticate.
    pub(crate) fn newcomers(&self) -> usize {
        if !self.guard().may_be_closed && self.tls.is_none() {
            return 0;
        }
        (self.limits.connections / NEWCOMERS_SHARE).max(NEWCOMERS_MIN)
    }
}

impl GatewayLimits {
    /// Limits on a request of an authenticated client.
    pub(crate) fn requests(&self) -> RequestLimits {
        RequestLimits {
            arguments: ARGUMENTS_MAX,
            argument_size: self.request_size,
            size: self.request_size,
        }
    }
}

/// Reads a secret file. A file that everybody may read is refused.
pub fn read_secret(path: &Path) -> Result<String, GatewayError> {
    let refuse = |reason: String| {
        GatewayError::Options(format!("the secret file {}: {reason}", path.display()))
    };
    let mode = fs::metadata(path)
        .map_err(|error| refuse(error.to_string()))?
        .permissions()
        .mode();
    if mode & OTHERS_MAY_READ != 0 {
        return Err(refuse(
            "every user may read the file; remove that permission with `chmod o=`".to_owned(),
        ));
    }
    fs::read_to_string(path).map_err(|error| refuse(error.to_string()))
}

impl Password {
    /// A password with this text.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// Reads the first line of a file. A file that everybody may read is refused.
    pub fn read(path: &Path) -> Result<Self, GatewayError> {
        let text = read_secret(path)?;
        match text.lines().next() {
            Some(password) if !password.is_empty() => Ok(Self::new(password)),
            _ => Err(GatewayError::Options(format!(
                "the password file {}: its first line is empty",
                path.display()
            ))),
        }
    }

    /// Refuses the empty password.
    pub(crate) fn check(&self) -> Result<(), GatewayError> {
        if self.0.is_empty() {
            return Err(GatewayError::Options(
                "an empty password protects nothing; leave it out, or choose one".to_owned(),
            ));
        }
        Ok(())
    }

    /// The text, for a client that has to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether `said` is the password. The time of the comparison depends on the length alone.
    pub fn is(&self, said: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(said).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(resp: &str) -> GatewayOptions {
        GatewayOptions::new(resp.parse().unwrap(), "socket")
    }

    /// Needs the check of addresses: otherwise anybody on the network could read and write the store.
    #[test]
    fn an_address_that_other_machines_reach_needs_a_password_or_tls() {
        for loopback in ["127.0.0.1:6380", "[::1]:6380", "127.8.8.8:1"] {
            options(loopback).check().unwrap();
        }
        for open in ["0.0.0.0:6380", "[::]:6380", "10.0.0.1:6380"] {
            assert!(
                matches!(options(open).check(), Err(GatewayError::Unprotected { .. })),
                "{open}"
            );
            let mut admin = options("127.0.0.1:6380");
            admin.admin = Some(open.parse().unwrap());
            assert!(
                matches!(admin.check(), Err(GatewayError::Unprotected { .. })),
                "{open}"
            );
            let mut protected = options(open);
            protected.password = Some(Password::new("secret"));
            protected.check().unwrap();
        }
    }

    #[test]
    fn a_password_is_compared_whole_and_never_printed() {
        let password = Password::new("secret");
        assert!(password.is(b"secret"));
        assert!(!password.is(b"secre") && !password.is(b"secrets") && !password.is(b""));
        assert_eq!(format!("{password:?}"), "Password(..)");
        let mut empty = options("127.0.0.1:6380");
        empty.password = Some(Password::new(""));
        assert!(empty.check().is_err());
    }

    /// Needs the check of the file's permissions.
    #[test]
    fn a_private_key_is_used_only_if_others_cannot_read_it() {
        let key = tempfile::NamedTempFile::new().unwrap();
        let mut options = options("127.0.0.1:6380");
        options.tls = Some(TlsOptions {
            certificate: "certificate".into(),
            key: key.path().to_owned(),
            client_authority: None,
        });
        let check = |mode: u32| {
            fs::set_permissions(key.path(), fs::Permissions::from_mode(mode)).unwrap();
            options.check()
        };
        check(0o640).unwrap();
        let refused = check(0o644).unwrap_err().to_string();
        assert!(
            refused.contains("every user may read the file"),
            "{refused}"
        );
    }

    /// Needs the check of the file's permissions.
    #[test]
    fn a_password_file_is_read_only_if_others_cannot_read_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str, mode: u32| {
            fs::write(file.path(), text).unwrap();
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            Password::read(file.path())
        };
        assert!(
            write("open sesame\r\nnot this\n", 0o640)
                .unwrap()
                .is(b"open sesame")
        );
        let refused = write("open sesame", 0o644).unwrap_err().to_string();
        assert!(
            refused.contains("every user may read the file"),
            "{refused}"
        );
        assert!(
            write("\nopen sesame", 0o600)
                .unwrap_err()
                .to_string()
                .contains("is empty")
        );
        assert!(
            Password::read(Path::new("/nowhere"))
                .unwrap_err()
                .to_string()
                .starts_with("the secret file /nowhere: ")
        );
    }

    #[test]
    fn limits_that_admit_nothing_are_refused() {
        let mut options = options("127.0.0.1:6380");
        options.limits.request_size = 1 << 20;
        assert!(options.check().is_err());
        options.limits = GatewayLimits {
            connections: 0,
            ..GatewayLimits::default()
        };
        assert!(options.check().is_err());
    }
}
