//! The pool of a server: opened, or created as was asked for. A refusal leaves it, and its place, as they were.

use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use stonecast_media::{
    Backing, Ddio, DeclaredPlatform, DetectedDomain, Durability, MediaError, OpenMode,
    PersistenceDomain, Pool, PoolOptions, ReceiveBuffers, SEGMENT_COUNT_MIN, SEGMENT_SIZE_MIN,
    create_backing, detect_domain, inspect_backing, open_backing, segment_size_default,
};

use super::arguments::PlatformArgument;
use super::settings::{CAPACITY, Serving};
use crate::failure::Failure;
use crate::flags::DurabilityArgument;
use crate::output::{say, size};
use crate::values::{Size, is_device};

/// Where a pool comes from. Unless it is kept, one that was created goes when this value does.
pub struct Origin {
    created: Option<Rc<dyn Backing>>,
    kept: Cell<bool>,
}

impl Origin {
    /// From here on clients may be served.
    pub fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(backing) = self.created.as_ref().filter(|_| !self.kept.get()) {
            backing.discard();
        }
    }
}

/// A pool that was looked at and not opened yet, which would change it; or one that is new.
pub enum Found {
    There(DeclaredPlatform),
    Created(Box<Pool>),
}

/// The pool in the folder or on the device, looked at, or created.
pub fn find_or_create(serving: &Serving) -> Result<(Found, Origin), Failure> {
    match inspect_backing(&serving.data) {
        Ok(backing) => {
            let (pool, _) = Pool::open(backing, OpenMode::Inspect)?;
            check_against(serving, &pool)?;
            let origin = Origin {
                created: None,
                kept: Cell::new(true),
            };
            Ok((Found::There(pool.platform()), origin))
        }
        Err(MediaError::NotFound { .. }) => create(serving),
        Err(error) => Err(error.into()),
    }
}

impl Found {
    /// What it was declared to lie on.
    pub fn platform(&self) -> DeclaredPlatform {
        match self {
            Self::There(platform) => *platform,
            Self::Created(pool) => pool.platform(),
        }
    }

    /// The pool, open. Says which it is, and what was repaired when it was opened. It is closed in good order by a server alone, so
    /// all that may fail before there is one comes first.
    pub fn open(self, serving: &Serving, mode: OpenMode) -> Result<Pool, Failure> {
        if let Self::Created(pool) = self {
            return Ok(*pool);
        }
        let (pool, repairs) = Pool::open(open_backing(&serving.data)?, mode)?;
        say(format_args!("opening {}", described(&pool)));
        repairs
            .iter()
            .for_each(|repair| say(format_args!("repaired: {}", repair.corruption)));
        Ok(pool)
    }
}

fn create(serving: &Serving) -> Result<(Found, Origin), Failure> {
    let backing = create_backing(&serving.data)?;
    let origin = Origin {
        created: Some(Rc::clone(&backing)),
        kept: Cell::new(false),
    };
    let options = options_of(serving, &*backing)?;
    let pool = Pool::create(backing, options)?;
    say(format_args!("created {}", described(&pool)));
    Ok((Found::Created(Box::new(pool)), origin))
}

/// Place, capacity and promise of a pool.
fn described(pool: &Pool) -> String {
    let survives = match pool.durability() {
        Durability::Power => "what it acknowledges survives power loss",
        Durability::Process => {
            "what it acknowledges survives the death of every process, not power loss"
        }
    };
    format!(
        "pool {}: {}, durability {} ({survives})",
        pool.backing().place().display(),
        size(pool.capacity()),
        pool.durability()
    )
}

/// What a new pool is made with.
fn options_of(serving: &Serving, backing: &dyn Backing) -> Result<PoolOptions, Failure> {
    let durability = durability_of(serving.durability.unwrap_or(DurabilityArgument::Power));
    let persistence_domain = match serving.platform {
        Some(platform) => domain_of(platform),
        None if durability == Durability::Process => PersistenceDomain::Volatile,
        None if is_device(&serving.data) => detected(&serving.data)?,
        None => PersistenceDomain::PageFile,
    };
    let mut entropy = [0; 64];
    fs::File::open("/dev/urandom")?.read_exact(&mut entropy)?;
    let largest = || backing.capacity_max(SEGMENT_SIZE_MIN);
    let wanted = serving.capacity.map(|size| size.0).or_else(largest);
    let segment_size = serving.segment_size.map_or_else(
        || segment_size_default(wanted.unwrap_or(CAPACITY.0)),
        |size| size.0,
    );
    let least = SEGMENT_COUNT_MIN.saturating_mul(segment_size);
    if let Some(asked) = serving.capacity.filter(|asked| asked.0 < least) {
        return Err(Failure::operation(format!(
            "--capacity {asked} is too small: a pool has at least {SEGMENT_COUNT_MIN} segments, {} each (--segment-size)",
            Size(segment_size)
        )));
    }
    Ok(PoolOptions {
        capacity: match (serving.capacity, backing.capacity_max(segment_size)) {
            (None, Some(capacity)) => capacity,
            (said, _) => whole_segments(said.unwrap_or(CAPACITY), segment_size),
        },
        segment_size,
        platform: DeclaredPlatform {
            persistence_domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability,
        entropy,
    })
}

/// What the kernel says of the device, where nobody declares it.
fn detected(device: &Path) -> Result<PersistenceDomain, Failure> {
    let said = detect_domain(device).and_then(DetectedDomain::declared);
    said.ok_or_else(|| {
        Failure::operation(format!(
            "the kernel does not say what {} keeps when the power goes; say it with --platform (dmp: what was written back, \
             mhp: caches too, wsp: everything)",
            device.display()
        ))
    })
}

/// A log is made of whole segments: `--capacity 1GB` is as many as fit.
fn whole_segments(capacity: Size, segment_size: u64) -> u64 {
    capacity.0 - capacity.0.checked_rem(segment_size).unwrap_or(0)
}

/// What was asked for must be what the pool is: a promise is declared once, at creation.
fn check_against(serving: &Serving, pool: &Pool) -> Result<(), Failure> {
    let data = serving.data.display();
    let differs = |what: &str, has: String, asked: String| {
        Err(Failure::operation(format!(
            "{data} was created with {what} {has}, not {asked}; leave the flag away, or export the pool into a new one"
        )))
    };
    if let Some(asked) = serving
        .durability
        .map(durability_of)
        .filter(|asked| *asked != pool.durability())
    {
        return differs(
            "--durability",
            pool.durability().to_string(),
            asked.to_string(),
        );
    }
    let domain = pool.platform().persistence_domain;
    if let Some(asked) = serving
        .platform
        .map(domain_of)
        .filter(|asked| *asked != domain)
    {
        return differs("--platform", domain.to_string(), asked.to_string());
    }
    if let Some(asked) = serving
        .segment_size
        .filter(|asked| asked.0 != pool.segment_size())
    {
        return differs(
            "--segment-size",
            size(pool.segment_size()),
            asked.to_string(),
        );
    }
    if let Some(asked) = serving
        .capacity
        .filter(|asked| whole_segments(*asked, pool.segment_size()) != pool.capacity())
    {
        return differs("--capacity", size(pool.capacity()), asked.to_string());
    }
    Ok(())
}

fn durability_of(argument: DurabilityArgument) -> Durability {
    match argument {
        DurabilityArgument::Power => Durability::Power,
        DurabilityArgument::Process => Durability::Process,
    }
}

fn domain_of(argument: PlatformArgument) -> PersistenceDomain {
    match argument {
        PlatformArgument::PageFile => PersistenceDomain::PageFile,
        PlatformArgument::Dmp => PersistenceDomain::Dmp,
        PlatformArgument::Mhp => PersistenceDomain::Mhp,
        PlatformArgument::Wsp => PersistenceDomain::Wsp,
    }
}
