//! A server that is a node of a cluster.
//!
//! ```text
//!   find      the configuration is read; name and pool are compared with it: nothing is changed before
//!   open      the pool, and its part of the configuration: shards, seed of the hashes
//!   seat      the pool as the cluster sees it, and the cell that keeps the epoch
//! ```

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Context, Waker};

use stonecast_base::random_from_seed;
use stonecast_cluster::{
    ChangeError, ConfigStore, Configuration, ConfigurationId, Epoch, EpochCell, Found, InvalidName,
    Known, Node, NodeName, Pending, Refusal, Survived, Timing,
};
use stonecast_config_store::{Address as StoreAddress, Bounds, open_within};
use stonecast_fabric::{Access, Device, DeviceError, Placing, Port, Runtime};
use stonecast_kv::NodeOptions;
use stonecast_media::{MediaError, Membership, MembershipCell, Pool, SHARDS_MAX};
use stonecast_member::Seat;
use uuid::Uuid;

use super::pool::{PoolIdentity, Wanted};
use crate::address::Address;
use crate::error::{Error, ErrorKind};

/// The reason why a server does not become a node of its cluster. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotANode {
    /// The cluster or the name is missing.
    #[error("a node needs a cluster and a name: give both, or none")]
    Incomplete,
    /// The text is not the name of a node.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A power zone is given, and no cluster.
    #[error("a power zone is that of a node: give a cluster and a name, too, or no zone")]
    ZoneOfNoNode,
    /// The name of the power zone breaks the rules for names of nodes, which are those of zones.
    #[error(
        "{zone:?} is no name of a power zone: use 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit"
    )]
    Zone {
        /// The text.
        zone: String,
    },
    /// The configuration cannot be read, or refuses the node.
    #[error(transparent)]
    Configuration(#[from] ChangeError),
    /// The configuration belongs to a cluster without keys, or has an earlier format.
    #[error(
        "{store}: the cluster keeps no keys, or was created by an earlier version: create a new one with `stonecast cluster create`"
    )]
    NoKeys {
        /// The store of the configuration.
        store: String,
    },
    /// The cluster has more shards than a pool.
    #[error(
        "{store}: the cluster has {shards} shards, and a pool has at most {SHARDS_MAX}: create a cluster with fewer shards"
    )]
    TooManyShards {
        /// The store of the configuration.
        store: String,
        /// Shards of the cluster.
        shards: u32,
    },
    /// The configuration names the node with its pool, and the pool does not exist.
    #[error(
        "{name} is registered with pool {registered}, and {} holds no pool: name the folder that has the pool, or, if it is lost, remove the node first \
         (`stonecast cluster remove {name}`)",
        data.display()
    )]
    PoolMissing {
        /// The node.
        name: NodeName,
        /// The pool with which the node is registered.
        registered: Uuid,
        /// The place in which the pool was looked for.
        data: PathBuf,
    },
    /// The pool holds the keys of a server without a cluster.
    #[error(
        "{} is the pool of a server alone: a node begins with a new pool; export the keys, and import them into the cluster",
        data.display()
    )]
    PoolOfServer {
        /// The pool.
        data: PathBuf,
    },
    /// The pool belongs to a node of another cluster.
    #[error(
        "{} is the pool of a node of another cluster than {cluster}: name that cluster, or begin with a new pool",
        data.display()
    )]
    PoolOfOtherCluster {
        /// The pool.
        data: PathBuf,
        /// The cluster that the node was to join.
        cluster: Uuid,
    },
    /// The pool of a node was to be served without its cluster.
    #[error(
        "{} is the pool of a node of cluster {cluster}, whose other nodes have its later writes: serve it as that node (--cluster and --node)",
        data.display()
    )]
    PoolOfNode {
        /// The pool.
        data: PathBuf,
        /// The cluster.
        cluster: Uuid,
    },
    /// The device of the node may not write the log of the pool.
    #[error(
        "{}: other nodes write into the log of a node over RDMA, and the device may not write this log ({reason}); keep the pool of the node on a \
         device of persistent memory (--data /dev/dax0.0), or, with --durability process, in memory (--data /dev/shm/stonecast)",
        data.display()
    )]
    LogNotWritten {
        /// The pool.
        data: PathBuf,
        /// The device's own message.
        reason: DeviceError,
    },
    /// A copy of a pool was to be served as a node.
    #[error(
        "a copy of a pool that was made while it was served lacks writes that the other nodes count on: begin with a new pool"
    )]
    Copied,
    /// The pool is a copy that was made while the node served it, or after the node was killed.
    #[error(
        "{} is a copy of the pool of a node that had not ended in order, and may lack writes that the other nodes count on: name the pool that was served; if it is lost, \
         take the node out (`stonecast cluster remove NODE`), remove the copy, and start the node with a new pool, which the other nodes fill",
        data.display()
    )]
    PoolCopied {
        /// The copy.
        data: PathBuf,
    },
}

impl From<NotANode> for Error {
    fn from(reason: NotANode) -> Self {
        ErrorKind::Node(reason).into()
    }
}

/// The cluster to which a pool is to belong.
#[derive(Clone, Copy, Debug)]
pub struct WantedCluster {
    /// The seed of the hashes of keys.
    pub seed: u64,
    /// The cluster.
    pub nonce: Uuid,
}

/// The cluster of a server that is about to become a node.
pub struct Joining {
    store: Rc<dyn ConfigStore>,
    name: NodeName,
    zone: Option<String>,
    configuration: Configuration,
    seed: u64,
}

impl Joining {
    /// Reads the configuration of the cluster at `address`, which the node `name` in `zone` is to join; `None`: the
    /// server is alone.
    pub fn find(
        address: Option<&str>,
        name: Option<&str>,
        zone: Option<String>,
    ) -> Result<Option<Self>, Error> {
        let (address, name) = match (address, name) {
            (None, None) if zone.is_some() => return Err(NotANode::ZoneOfNoNode.into()),
            (None, None) => return Ok(None),
            (Some(address), Some(name)) => (address, name),
            _ => return Err(NotANode::Incomplete.into()),
        };
        let name: NodeName = name.parse().map_err(NotANode::from)?;
        if let Some(zone) = &zone
            && zone.parse::<NodeName>().is_err()
        {
            let zone = zone.clone();
            return Err(NotANode::Zone { zone }.into());
        }
        let address = address.strip_prefix("cluster:").unwrap_or(address);
        let address: StoreAddress = address.parse().map_err(|error| {
            ErrorKind::ConfigStore(stonecast_config_store::OpenError::Address(error))
        })?;
        let store = open_within(&address, Bounds::DEFAULT).map_err(ErrorKind::from)?;
        let configuration = read(&*store)?;
        let store_name = || store.name().to_owned();
        let policy = &configuration.policy;
        let Some(seed) = policy.hash_seed.filter(|_| policy.shards > 0) else {
            return Err(NotANode::NoKeys {
                store: store_name(),
            }
            .into());
        };
        if policy.shards > SHARDS_MAX {
            return Err(NotANode::TooManyShards {
                store: store_name(),
                shards: policy.shards,
            }
            .into());
        }
        Ok(Some(Self {
            name,
            zone,
            seed: seed.0,
            configuration,
            store,
        }))
    }

    /// Asks for the pool of a node of this cluster.
    pub fn complete(&self, wanted: &mut Wanted) -> Result<(), Error> {
        if wanted.accepts_copy {
            return Err(NotANode::Copied.into());
        }
        wanted.shards = Some(wanted.shards.unwrap_or(self.configuration.policy.shards));
        wanted.cluster = Some(WantedCluster {
            seed: self.seed,
            nonce: self.configuration.nonce,
        });
        Ok(())
    }

    /// Refuses a name that belongs to another pool, and a pool with another name. The registration asks the store
    /// again.
    pub fn admit(&self, pool: Option<PoolIdentity>, wanted: &Wanted) -> Result<(), Error> {
        let name = || self.name.clone();
        let nodes = &self.configuration.nodes;
        let registered = nodes.get(&self.name).map(|node| node.pool);
        let refused = match (pool, registered) {
            (None, None) => return Ok(()),
            (None, Some(registered)) => {
                return Err(NotANode::PoolMissing {
                    name: name(),
                    registered,
                    data: wanted.data.clone(),
                }
                .into());
            }
            (Some(PoolIdentity { uuid: found }), Some(registered)) if found != registered => {
                Refusal::NameTaken {
                    name: name(),
                    registered,
                    found,
                }
            }
            (Some(PoolIdentity { uuid }), _) => {
                let mut others = nodes.iter().filter(|(other, _)| **other != self.name);
                match others.find(|(_, node)| node.pool == uuid) {
                    Some((registered, _)) => Refusal::PoolNamedOtherwise {
                        registered: registered.clone(),
                    },
                    None => return Ok(()),
                }
            }
        };
        Err(NotANode::Configuration(refused.into()).into())
    }

    /// The options of the node, for a pool with segments of this many bytes.
    pub fn options(&self, segment_size: u64) -> NodeOptions {
        /// The least number of nodes that have room.
        const NODES_MIN: usize = 8;
        /// The part of a lease for which a node may stand still and keep its sessions, and the part after which a
        /// letter is repeated.
        const UNREADY_SHARE: u64 = 3;
        const REPEAT_SHARE: u64 = 200;
        let nodes = self.configuration.nodes.len() + 1;
        let options = NodeOptions::new(segment_size, nodes.max(NODES_MIN));
        // As long as the members wait for each other: the lease of a cluster reflects the speed of its hosts and its
        // network.
        let lease_ns = self.configuration.policy.lease.duration_ns;
        NodeOptions {
            connect_ns: options.connect_ns.max(2 * lease_ns),
            unready_ns: lease_ns / UNREADY_SHARE,
            repeat_ns: options.repeat_ns.max(lease_ns / REPEAT_SHARE),
            ..options
        }
    }

    /// The seat of the node in its cluster, with `pool`. Peers and clients reach it at `addresses`.
    pub fn seat(
        self,
        pool: &Pool,
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        addresses: &[Address],
    ) -> Result<Seat<PoolEpoch>, Error> {
        let addresses = addresses.iter().map(reachable).collect();
        let node = Node {
            zone: self.zone,
            ..Node::new(pool.uuid(), pool.durability(), pool.platform(), addresses)
        };
        let survived = match () {
            () if pool.was_clean() => Survived::Close,
            () if pool.same_power_cycle() => Survived::ProcessDeath,
            () => Survived::PowerLoss,
        };
        Ok(Seat {
            port,
            runtime,
            store: self.store,
            cell: PoolEpoch(pool.membership()),
            cluster: self.configuration.nonce,
            name: self.name,
            node,
            found: Found {
                survived,
                ..Found::nothing()
            },
            random: random_from_seed(seed()?),
        })
    }
}

/// Refuses a pool whose log a NIC may not write: other nodes would append nothing, and their writes wait forever.
pub fn check_log_of_appends(device: &dyn Device, pool: &Pool, data: &Path) -> Result<(), Error> {
    // Peers that write directly write to memory that this process maps.
    if device.placing() == Placing::RequesterProcessor {
        return Ok(());
    }
    // No queue pair exists that could use the key before the key ends.
    let region = match device.register_persistent(pool.log(), Access::REMOTE_WRITE) {
        Ok(region) => region,
        Err(reason) => {
            let data = data.to_owned();
            return Err(NotANode::LogNotWritten { data, reason }.into());
        }
    };
    let _ended = device.poll_invalidate(region.rkey, &mut Context::from_waker(Waker::noop()));
    device.deregister(region)?;
    Ok(())
}

/// The configuration in `store`.
fn read(store: &dyn ConfigStore) -> Result<Configuration, NotANode> {
    let name = || store.name().to_owned();
    let stored = stonecast_config_store::executor().block_on(store.read());
    let stored = stored.map_err(|error| ChangeError::Store {
        error,
        attempts: 1,
        is_unknown: false,
    })?;
    let stored = stored.ok_or_else(|| ChangeError::NoCluster { store: name() })?;
    let decoded = Configuration::decode(&stored.bytes);
    Ok(decoded.map_err(|error| ChangeError::Document {
        store: name(),
        error,
    })?)
}

/// The address for other processes of the host and for other hosts. Other processes have another working
/// directory.
fn reachable(address: &Address) -> String {
    match address.socket().map(std::path::absolute) {
        Some(Ok(socket)) => format!("shm:{}", socket.display()),
        _ => address.to_string(),
    }
}

fn seed() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| ErrorKind::Setup(format!("cannot read /dev/urandom: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The epoch of a node, in the header of its pool.
pub struct PoolEpoch(MembershipCell);

impl EpochCell for PoolEpoch {
    type Error = MediaError;

    fn load(&self) -> Option<Known> {
        let known = self.0.load()?;
        Some(Known {
            nonce: Uuid::from_u128(known.cluster),
            configuration: ConfigurationId {
                epoch: Epoch(known.epoch),
                attempt: Uuid::from_u128(known.attempt),
            },
            longest_lease: Timing {
                duration_ns: known.lease_duration_ns,
                drift_ppm: known.lease_drift_ppm,
                tick_ns: known.lease_tick_ns,
            },
        })
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), MediaError>> {
        let lease = known.longest_lease;
        let membership = Membership {
            cluster: known.nonce.as_u128(),
            epoch: known.configuration.epoch.0,
            attempt: known.configuration.attempt.as_u128(),
            lease_duration_ns: lease.duration_ns,
            lease_tick_ns: lease.tick_ns,
            lease_drift_ppm: lease.drift_ppm,
        };
        Box::pin(async move { self.0.store(membership) })
    }
}
