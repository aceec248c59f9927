//! The pool behind a server: opened, or created where there is none.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stonecast_media::{
    Backing, Ddio, DeclaredPlatform, DetectedDomain, Durability, MediaError, OpenMode,
    PersistenceDomain, Pool, PoolOptions, ReceiveBuffers, Repair, SEGMENT_SIZE_MIN, create_backing,
    detect_domain, open_backing, segment_size_default,
};

use crate::error::{Error, ErrorKind};

/// What the operator asks for. `None`: nothing was said.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub data: PathBuf,
    pub durability: Option<Durability>,
    pub domain: Option<PersistenceDomain>,
    pub capacity: Option<u64>,
    pub segment_size: Option<u64>,
    pub accepts_copy: bool,
}

/// A pool, and how it came to be open.
pub struct OpenedPool {
    pub pool: Pool,
    pub repairs: Vec<Repair>,
    pub was_created: bool,
}

/// Bytes of the log of a new pool in a folder.
const CAPACITY: u64 = 1 << 30;

impl Wanted {
    pub fn new(data: PathBuf) -> Self {
        Self {
            data,
            durability: None,
            domain: None,
            capacity: None,
            segment_size: None,
            accepts_copy: false,
        }
    }
}

/// The pool in the folder or on the device.
pub fn open_or_create(wanted: &Wanted) -> Result<OpenedPool, Error> {
    let backing = match open_backing(&wanted.data) {
        Ok(backing) => backing,
        Err(MediaError::NotFound { .. }) => {
            let backing = create_backing(&wanted.data)?;
            let options = options_of(wanted, &*backing)?;
            return Ok(OpenedPool {
                pool: Pool::create(backing, options)?,
                repairs: Vec::new(),
                was_created: true,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let mode = match wanted.accepts_copy {
        true => OpenMode::Adopt,
        false => OpenMode::Serve,
    };
    let (pool, repairs) = Pool::open(backing, mode)?;
    check_against(wanted, &pool)?;
    Ok(OpenedPool {
        pool,
        repairs,
        was_created: false,
    })
}

/// What a new pool is made with.
fn options_of(wanted: &Wanted, backing: &dyn Backing) -> Result<PoolOptions, Error> {
    let durability = wanted.durability.unwrap_or(Durability::Power);
    let largest = || backing.capacity_max(SEGMENT_SIZE_MIN);
    let capacity = wanted.capacity.or_else(largest).unwrap_or(CAPACITY);
    let segment_size = wanted
        .segment_size
        .unwrap_or_else(|| segment_size_default(capacity));
    let mut entropy = [0; 64];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut entropy))
        .map_err(|error| ErrorKind::Setup(format!("cannot read /dev/urandom: {error}")))?;
    Ok(PoolOptions {
        capacity: match (wanted.capacity, backing.capacity_max(segment_size)) {
            (None, Some(capacity)) => capacity,
            (said, _) => whole_segments(said.unwrap_or(CAPACITY), segment_size),
        },
        segment_size,
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

/// What the kernel says of the device, where nobody declares it.
fn detected(device: &Path) -> Result<PersistenceDomain, Error> {
    let said = detect_domain(device).and_then(DetectedDomain::declared);
    said.ok_or_else(|| {
        ErrorKind::Setup(format!(
            "the kernel does not say what {} keeps when the power goes; declare the platform (dmp: what was written back, mhp: \
             caches too, wsp: everything)",
            device.display()
        ))
        .into()
    })
}

/// A log is made of whole segments: a capacity of 1 GB is as many as fit.
fn whole_segments(capacity: u64, segment_size: u64) -> u64 {
    capacity - capacity.checked_rem(segment_size).unwrap_or(0)
}

/// What was asked for must be what the pool is: a promise is declared once, at creation.
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
