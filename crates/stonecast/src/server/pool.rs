//! The pool of a server: opened, or created if the place has no pool. A refusal leaves the pool and its place
//! unchanged.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use stonecast_media::{
    Backing, Content, Ddio, DeclaredPlatform, DetectedDomain, Durability, MediaError, OpenMode,
    PersistenceDomain, Pool, PoolOptions, ReceiveBuffers, Repair, SEGMENT_COUNT_MIN,
    SEGMENT_SIZE_MIN, create_backing, detect_domain, inspect_backing, open_backing,
    segment_size_default,
};
use uuid::Uuid;

use super::node::{NotANode, WantedCluster};
use crate::entropy::entropy;
use crate::error::{Error, ErrorKind};

/// The settings that the operator asks for; `None` if not given.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub data: PathBuf,
    /// The kind of the pool's content.
    pub content: Content,
    pub durability: Option<Durability>,
    pub domain: Option<PersistenceDomain>,
    pub capacity: Option<u64>,
    pub segment_size: Option<u64>,
    pub shards: Option<u32>,
    /// The cluster of the node to which the pool belongs; `None`: the server is alone.
    pub cluster: Option<WantedCluster>,
    pub accepts_copy: bool,
}

/// A pool as it was before it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDescription {
    /// The folder or the device of persistent memory.
    pub data: PathBuf,
    /// Whether the pool did not exist, so that the opening creates it.
    pub is_new: bool,
    /// Bytes of the log.
    pub capacity: u64,
    /// The failures that acknowledged writes survive.
    pub durability: Durability,
    /// The declared platform of the pool.
    pub platform: DeclaredPlatform,
}

/// The name of a pool for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolIdentity {
    pub uuid: Uuid,
}

/// The origin of a server's pool: creation or opening. Making this value has refused everything that can be refused
/// without opening the pool.
pub struct Origin {
    description: PoolDescription,
    content: Content,
    source: Source,
}

enum Source {
    /// The pool exists, with the settings asked for.
    Existing {
        mode: OpenMode,
        identity: PoolIdentity,
        segment_size: u64,
    },
    /// The place is taken for a new pool.
    New {
        place: NewPlace,
        options: PoolOptions,
    },
}

/// The place of a new pool. Unless the pool is kept, everything that was created is removed when this value is dropped.
struct NewPlace {
    backing: Rc<dyn Backing>,
    is_kept: Cell<bool>,
}

impl Drop for NewPlace {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            self.backing.discard();
        }
    }
}

/// Bytes of the log of a new pool in a folder.
const CAPACITY: u64 = 1 << 30;

impl Wanted {
    pub fn new(data: PathBuf) -> Self {
        Self {
            data,
            content: Content::KeysAndValues,
            durability: None,
            domain: None,
            capacity: None,
            segment_size: None,
            shards: None,
            cluster: None,
            accepts_copy: false,
        }
    }
}

impl Origin {
    /// The pool in the folder or on the device of persistent memory. The pool must have the wanted settings.
    pub fn find(wanted: &Wanted) -> Result<Self, Error> {
        let backing = match inspect_backing(&wanted.data) {
            Ok(backing) => backing,
            Err(MediaError::NotFound { .. }) => return Self::create(wanted),
            Err(error) => return Err(error.into()),
        };
        // The pool is inspected first, because opening changes it.
        let (pool, _) = Pool::open_of(wanted.content, backing, OpenMode::Inspect)?;
        check_cluster(wanted, &pool)?;
        check_against(wanted, &pool)?;
        Ok(Self {
            content: wanted.content,
            description: PoolDescription {
                data: wanted.data.clone(),
                is_new: false,
                capacity: pool.capacity(),
                durability: pool.durability(),
                platform: pool.platform(),
            },
            source: Source::Existing {
                identity: PoolIdentity { uuid: pool.uuid() },
                segment_size: pool.segment_size(),
                mode: match wanted.accepts_copy {
                    true => OpenMode::Adopt,
                    false => OpenMode::Serve,
                },
            },
        })
    }

    fn create(wanted: &Wanted) -> Result<Self, Error> {
        let place = NewPlace {
            backing: create_backing(&wanted.data)?,
            is_kept: Cell::new(false),
        };
        let options = options_of(wanted, &*place.backing)?;
        Ok(Self {
            content: wanted.content,
            description: PoolDescription {
                data: wanted.data.clone(),
                is_new: true,
                capacity: options.capacity,
                durability: options.durability,
                platform: options.platform,
            },
            source: Source::New { place, options },
        })
    }

    /// The pool for programs; `None`: the pool is new.
    pub fn identity(&self) -> Option<PoolIdentity> {
        match &self.source {
            Source::Existing { identity, .. } => Some(*identity),
            Source::New { .. } => None,
        }
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        match &self.source {
            Source::Existing { segment_size, .. } => *segment_size,
            Source::New { options, .. } => options.segment_size,
        }
    }

    /// The pool as it was found.
    pub fn description(&self) -> &PoolDescription {
        &self.description
    }

    /// Opens or creates the pool. From here on, until it is closed, the pool is in the state that a crash would leave.
    pub fn open(&self) -> Result<(Pool, Vec<Repair>), Error> {
        match &self.source {
            Source::Existing { mode, .. } => {
                let backing = open_backing(&self.description.data)?;
                Ok(Pool::open_of(self.content, backing, *mode)?)
            }
            Source::New { place, options } => {
                let pool =
                    Pool::create_of(self.content, Rc::clone(&place.backing), options.clone())?;
                Ok((pool, Vec::new()))
            }
        }
    }

    /// Sets whether a pool that was created stays when this value is dropped.
    pub fn keep(&self, is_kept: bool) {
        if let Source::New { place, .. } = &self.source {
            place.is_kept.set(is_kept);
        }
    }
}

/// The options of a new pool.
fn options_of(wanted: &Wanted, backing: &dyn Backing) -> Result<PoolOptions, Error> {
    let durability = wanted.durability.unwrap_or(Durability::Power);
    let largest = || backing.capacity_max(SEGMENT_SIZE_MIN);
    let capacity = wanted.capacity.or_else(largest).unwrap_or(CAPACITY);
    let segment_size = wanted
        .segment_size
        .unwrap_or_else(|| segment_size_default(capacity));
    if let Some(capacity) = wanted.capacity
        && capacity < SEGMENT_COUNT_MIN.saturating_mul(segment_size)
    {
        return Err(ErrorKind::TooSmall {
            capacity,
            segment_size,
            segments: SEGMENT_COUNT_MIN,
        }
        .into());
    }
    let entropy = entropy()?;
    Ok(PoolOptions {
        capacity: match (wanted.capacity, backing.capacity_max(segment_size)) {
            (None, Some(capacity)) => capacity,
            (said, _) => whole_segments(said.unwrap_or(CAPACITY), segment_size),
        },
        segment_size,
        shards: wanted.shards.unwrap_or(1),
        cluster_seed: wanted.cluster.map(|cluster| cluster.seed),
        platform: DeclaredPlatform {
            persistence_domain: domain_of(wanted, durability, backing)?,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability,
        entropy,
    })
}

fn domain_of(
    wanted: &Wanted,
    durability: Durability,
    backing: &dyn Backing,
) -> Result<PersistenceDomain, Error> {
    let is_device = backing.capacity_max(SEGMENT_SIZE_MIN).is_some();
    match wanted.domain {
        Some(domain) => Ok(domain),
        None if durability == Durability::Process => Ok(PersistenceDomain::Volatile),
        None if is_device => detected(&wanted.data),
        None => Ok(PersistenceDomain::PageFile),
    }
}

/// The persistence domain that the kernel reports for the device of persistent memory, for a pool without a declared
/// one.
fn detected(device: &Path) -> Result<PersistenceDomain, Error> {
    let said = detect_domain(device).and_then(DetectedDomain::declared);
    said.ok_or_else(|| {
        ErrorKind::Setup(format!(
            "the kernel does not say what {} keeps at a power cut; declare the platform (dmp: bytes that were written back, \
             mhp: also caches, wsp: everything)",
            device.display()
        ))
        .into()
    })
}

/// Rounds `capacity` down to whole segments: a capacity of 1 GB has as many segments as fit.
fn whole_segments(capacity: u64, segment_size: u64) -> u64 {
    capacity - capacity.checked_rem(segment_size).unwrap_or(0)
}

/// Checks that the pool of a node is served by that node alone, and that a node has a pool of its cluster, and no copy
/// of one that another folder has.
fn check_cluster(wanted: &Wanted, pool: &Pool) -> Result<(), Error> {
    let data = || wanted.data.clone();
    let member = pool.membership().load();
    let member = member.map(|member| Uuid::from_u128(member.cluster));
    let refused = match (wanted.cluster, pool.cluster_seed(), member) {
        (None, _, Some(cluster)) => NotANode::PoolOfNode {
            data: data(),
            cluster,
        },
        (None, _, None) => return Ok(()),
        (Some(_), None, _) => NotANode::PoolOfServer { data: data() },
        (Some(WantedCluster { seed, nonce }), Some(found), member) => {
            let is_of_cluster = found == seed && member.is_none_or(|member| member == nonce);
            match (is_of_cluster, pool.was_copied()) {
                (true, false) => return Ok(()),
                (true, true) => NotANode::PoolCopied { data: data() },
                (false, _) => NotANode::PoolOfOtherCluster {
                    data: data(),
                    cluster: nonce,
                },
            }
        }
    };
    Err(refused.into())
}

/// Checks the settings asked for, which must be those of the pool: a promise is declared once, at
/// creation.
fn check_against(wanted: &Wanted, pool: &Pool) -> Result<(), Error> {
    let check = |setting, has: String, asked: Option<String>| match asked {
        Some(asked) if asked != has => Err(ErrorKind::OtherSetting {
            data: wanted.data.clone(),
            setting,
            has,
            asked,
        }),
        _ => Ok(()),
    };
    check(
        "durability",
        pool.durability().to_string(),
        wanted.durability.map(|asked| asked.to_string()),
    )?;
    check(
        "platform",
        pool.platform().persistence_domain.to_string(),
        wanted.domain.map(|asked| asked.to_string()),
    )?;
    check(
        "segment-size",
        pool.segment_size().to_string(),
        wanted.segment_size.map(|asked| asked.to_string()),
    )?;
    check(
        "shards",
        pool.shards().to_string(),
        wanted.shards.map(|asked| asked.to_string()),
    )?;
    let capacity = wanted
        .capacity
        .map(|asked| whole_segments(asked, pool.segment_size()));
    check(
        "capacity",
        pool.capacity().to_string(),
        capacity.map(|asked| asked.to_string()),
    )?;
    Ok(())
}
