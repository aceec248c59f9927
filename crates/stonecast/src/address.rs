//! The address of a server, or of a cluster.

use std::fmt;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address at which a server listens: `shm:PATH`, a socket of this host, or `verbs:HOST:PORT`, a machine in the
/// RDMA network. Clients also accept the address of a cluster: `cluster:URL`, with the URL of the store that holds the
/// cluster's configuration, as in `stonecast cluster`.
///
/// Two slashes after the colon are accepted and ignored: `shm://./socket` is `shm:./socket`. An address of a cluster is
/// printed without user, password and files.
///
/// ```
/// let address: stonecast::Address = "shm:./stonecast-data/socket".parse()?;
/// assert_eq!(address.to_string(), "shm:./stonecast-data/socket");
/// let cluster: stonecast::Address = "cluster:etcd://ops:secret@10.0.0.1:2379/blue".parse()?;
/// assert_eq!(cluster.to_string(), "cluster:etcd://10.0.0.1:2379/blue");
/// assert!(cluster.is_cluster() && !address.is_cluster());
/// assert!("redis://localhost".parse::<stonecast::Address>().is_err());
/// # Ok::<(), stonecast::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(pub(crate) Place);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The socket carries the first message; everything after it goes through shared memory.
    SharedMemory(PathBuf),
    /// The control plane of a machine in the RDMA network.
    #[cfg(feature = "verbs")]
    Verbs(stonecast_fabric_verbs::ControlAddress),
    /// The store that holds the configuration of a cluster.
    Cluster(stonecast_config_store::Address),
}

/// Text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address: {reason}")]
pub struct AddressError {
    /// The text.
    pub text: String,
    /// The fault in the text, and the form of an address.
    pub reason: String,
}

/// The forms that this build accepts.
#[cfg(feature = "verbs")]
const FORMS: &str = "an address is shm:PATH, verbs:HOST:PORT or cluster:URL";
#[cfg(not(feature = "verbs"))]
const FORMS: &str = "an address is shm:PATH or cluster:URL";

#[cfg(not(feature = "verbs"))]
const NO_VERBS: &str = "this build uses shared memory only (shm:PATH); a build with the feature `verbs` also uses RDMA between \
    machines";

impl Address {
    /// The default socket of the pool at `data`: in the pool's folder, or, for a device of persistent memory, which has
    /// no folder, under the device's name in `/run`.
    ///
    /// ```
    /// let address = stonecast::Address::of_pool("./stonecast-data".as_ref());
    /// assert_eq!(address.to_string(), "shm:./stonecast-data/socket");
    /// ```
    pub fn of_pool(data: &Path) -> Self {
        let is_device =
            std::fs::metadata(data).is_ok_and(|status| status.file_type().is_char_device());
        Self(Place::SharedMemory(
            match data.file_name().filter(|_| is_device) {
                Some(name) => Path::new("/run").join(format!("stonecast-{}", name.display())),
                None => data.join("socket"),
            },
        ))
    }

    /// Whether this is the address of a cluster, at which no server listens.
    pub fn is_cluster(&self) -> bool {
        matches!(self.0, Place::Cluster(_))
    }

    /// The socket of an address of this host; `None` for another machine, or a cluster.
    ///
    /// ```
    /// let address: stonecast::Address = "shm:/run/stonecast".parse()?;
    /// assert_eq!(address.socket(), Some("/run/stonecast".as_ref()));
    /// # Ok::<(), stonecast::AddressError>(())
    /// ```
    pub fn socket(&self) -> Option<&Path> {
        match &self.0 {
            Place::SharedMemory(path) => Some(path),
            #[cfg(feature = "verbs")]
            Place::Verbs(_) => None,
            Place::Cluster(_) => None,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = |reason: &str| AddressError {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        match text.split_once(':') {
            Some(("shm", path)) => match path.strip_prefix("//").unwrap_or(path) {
                "" => Err(refused(
                    "shm: needs a path after it, such as shm:./stonecast-data/socket",
                )),
                path => Ok(Self(Place::SharedMemory(path.into()))),
            },
            #[cfg(feature = "verbs")]
            Some(("verbs", _)) => text
                .parse()
                .map(|address| Self(Place::Verbs(address)))
                .map_err(|error: stonecast_fabric::DeviceError| refused(&error.to_string())),
            #[cfg(not(feature = "verbs"))]
            Some(("verbs", _)) => Err(refused(NO_VERBS)),
            Some(("cluster", store)) => {
                let store = store.strip_prefix("//").unwrap_or(store);
                let parsed = store.parse().map(|store| Self(Place::Cluster(store)));
                parsed.map_err(
                    |error: stonecast_config_store::InvalidAddress| AddressError {
                        text: format!("cluster:{}", error.found),
                        reason: error.to_string(),
                    },
                )
            }
            _ => Err(of_no_form(text)),
        }
    }
}

/// The error for a text of no known form. The text may be the URL of a configuration, and hold a password, which the
/// error leaves out.
fn of_no_form(text: &str) -> AddressError {
    match text.parse::<stonecast_config_store::Address>() {
        Ok(store) => AddressError {
            reason: format!(
                "it is the store of a configuration; write cluster:{store} for its cluster"
            ),
            text: store.to_string(),
        },
        Err(error) => AddressError {
            text: error.found,
            reason: FORMS.to_owned(),
        },
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::SharedMemory(path) => write!(formatter, "shm:{}", path.display()),
            #[cfg(feature = "verbs")]
            Place::Verbs(address) => address.fmt(formatter),
            Place::Cluster(store) => write!(formatter, "cluster:{store}"),
        }
    }
}
