//! Headers of pools, and the checks that turn bytes into a header.

use std::borrow::Cow;
use std::mem::offset_of;

use stonecast_base::{Corruption, hash::xxh3_128};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use crate::pool::content::Content;
use crate::pool::geometry::{check_geometry, check_shards};
use crate::pool::layout::{
    COMPATIBLE, COMPATIBLE_HOME, COMPATIBLE_SHARDS, HeaderBytes, INCOMPATIBLE,
    INCOMPATIBLE_APPENDED, INCOMPATIBLE_BATCHES, INCOMPATIBLE_CHUNKS, INCOMPATIBLE_CLUSTER,
    INCOMPATIBLE_EXPIRY, INCOMPATIBLE_MEMBER, INCOMPATIBLE_PUBLISHED, INCOMPATIBLE_STRUCTURES,
    MAGIC, SIZE, VERSION, checksum,
};
use crate::pool::membership::Membership;
use crate::pool::options::PoolOptions;
use crate::pool::record_features::RecordFeature;
use crate::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};

/// The reason why bytes are not a header that this program can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// The bytes differ from the bytes that were written.
    Damaged(Corruption),
    /// The bytes are whole, and of a version that this program does not read.
    OtherVersion { version: u32 },
}

/// The place of a copy, for messages.
#[derive(Clone, Debug)]
pub(super) struct HeaderPlace {
    pub file: String,
    pub offset: u64,
}

impl HeaderPlace {
    fn damage(
        &self,
        what: &'static str,
        offset: usize,
        found: String,
        expected: String,
    ) -> NoHeader {
        let what: Cow<'static, str> = format!("pool header, {what}").into();
        let offset = self.offset + offset as u64;
        NoHeader::Damaged(Corruption {
            what,
            file: self.file.clone().into(),
            offset,
            found,
            expected,
        })
    }
}

/// A whole and sensible header of this version. The caller judges unknown features.
///
/// The value keeps all bytes, so that fields of a newer program survive a change.
#[derive(Clone)]
pub(super) struct Header {
    bytes: HeaderBytes,
}

/// The incompatible bit of a feature.
fn bit_of(feature: RecordFeature) -> u64 {
    match feature {
        RecordFeature::Batches => INCOMPATIBLE_BATCHES,
        RecordFeature::Chunks => INCOMPATIBLE_CHUNKS,
    }
}

impl Header {
    /// The header of a new pool, served for the first time. The options were checked.
    pub fn create(options: &PoolOptions, content: Content, power_cycle: u128) -> Self {
        let entropy = |start: usize| {
            u64::from_le_bytes(
                options.entropy[start..start + 8]
                    .try_into()
                    .expect("8 bytes"),
            )
        };
        let mut bytes = HeaderBytes::new_zeroed();
        bytes.magic = MAGIC;
        bytes.version = U32::new(VERSION);
        bytes.size = U32::new(SIZE as u32);
        bytes.generation = U64::new(1);
        let uuid: [u8; 16] = options.entropy[..16].try_into().expect("16 bytes");
        bytes.uuid = uuid::Builder::from_random_bytes(uuid)
            .into_uuid()
            .into_bytes();
        bytes.capacity = U64::new(options.capacity);
        bytes.segment_size = U64::new(options.segment_size);
        bytes.persistence_domain = options.platform.persistence_domain.code();
        bytes.ddio = options.platform.ddio.code();
        bytes.receive_buffers = options.platform.receive_buffers.code();
        bytes.durability = options.durability.code();
        bytes.opening = U32::new(1);
        bytes.power_cycle = U128::new(power_cycle);
        bytes.tag_key = U64::new(entropy(16));
        bytes.secret = [U64::new(entropy(24)), U64::new(entropy(32))];
        if options.shards > 1 {
            bytes.compatible = U64::new(COMPATIBLE_SHARDS);
            bytes.shards = U32::new(options.shards);
        }
        if let Some(seed) = options.cluster_seed {
            // The ledger lies in a segment of the kind that appends fill.
            bytes.incompatible = U64::new(INCOMPATIBLE_CLUSTER | INCOMPATIBLE_APPENDED);
            bytes.cluster_seed = U64::new(seed);
        }
        if content == Content::Structures {
            bytes.incompatible = U64::new(bytes.incompatible.get() | INCOMPATIBLE_STRUCTURES);
        }
        Self { bytes }
    }

    /// Checks one copy, found at `place`.
    pub fn decode(found: &[u8], place: &HeaderPlace) -> Result<Self, NoHeader> {
        let damage =
            |what, offset, found, expected| Err(place.damage(what, offset, found, expected));
        let Ok(bytes) = HeaderBytes::read_from_bytes(found) else {
            return damage(
                "length",
                found.len().min(SIZE),
                format!("{} bytes", found.len()),
                format!("{SIZE} bytes"),
            );
        };
        if bytes.magic != MAGIC {
            return damage("magic", 0, text(&bytes.magic), text(&MAGIC));
        }
        // Checked before the version is believed: a header of every version has this length, and its checksum at this
        // offset.
        let expected = checksum(found);
        if bytes.checksum.get() != expected {
            let offset = offset_of!(HeaderBytes, checksum);
            return damage(
                "checksum",
                offset,
                format!("{:#034x}", bytes.checksum.get()),
                format!("{expected:#034x}"),
            );
        }
        match bytes.version.get() {
            VERSION => {}
            0 => {
                return damage(
                    "version",
                    offset_of!(HeaderBytes, version),
                    "0".to_owned(),
                    format!("1 to {VERSION}"),
                );
            }
            version => return Err(NoHeader::OtherVersion { version }),
        }
        let header = Self { bytes };
        header.check_fields(place)?;
        Ok(header)
    }

    /// A faulty program can write a nonsensical header with a correct checksum.
    fn check_fields(&self, place: &HeaderPlace) -> Result<(), NoHeader> {
        self.check_sizes(place)?;
        self.check_codes(place)?;
        self.check_counts(place)?;
        self.check_unused(place)
    }

    /// Whether the header and the log have sizes that they can have.
    fn check_sizes(&self, place: &HeaderPlace) -> Result<(), NoHeader> {
        let bytes = &self.bytes;
        if bytes.size.get() as usize != SIZE {
            return Err(place.damage(
                "size",
                offset_of!(HeaderBytes, size),
                bytes.size.to_string(),
                SIZE.to_string(),
            ));
        }
        check_geometry(bytes.capacity.get(), bytes.segment_size.get()).map_err(|reason| {
            let found = format!(
                "capacity {}, segment size {}",
                bytes.capacity, bytes.segment_size
            );
            let offset = offset_of!(HeaderBytes, capacity);
            place.damage("geometry", offset, found, reason)
        })
    }

    /// Whether each code names something.
    fn check_codes(&self, place: &HeaderPlace) -> Result<(), NoHeader> {
        let bytes = &self.bytes;
        let codes = [
            (
                "persistence domain",
                offset_of!(HeaderBytes, persistence_domain),
                bytes.persistence_domain,
                PersistenceDomain::ALL.len(),
            ),
            (
                "ddio",
                offset_of!(HeaderBytes, ddio),
                bytes.ddio,
                Ddio::ALL.len(),
            ),
            (
                "receive buffers",
                offset_of!(HeaderBytes, receive_buffers),
                bytes.receive_buffers,
                ReceiveBuffers::ALL.len(),
            ),
            (
                "durability",
                offset_of!(HeaderBytes, durability),
                bytes.durability,
                Durability::ALL.len(),
            ),
            ("clean", offset_of!(HeaderBytes, clean), bytes.clean, 2),
        ];
        for (what, offset, code, count) in codes {
            if usize::from(code) >= count {
                let expected = format!("less than {count}");
                return Err(place.damage(what, offset, code.to_string(), expected));
            }
        }
        Ok(())
    }

    /// Whether the pool was opened, and has a number of shards that a pool can have.
    fn check_counts(&self, place: &HeaderPlace) -> Result<(), NoHeader> {
        if self.bytes.opening.get() == 0 {
            let (found, expected) = ("0".to_owned(), "1 or more".to_owned());
            let offset = offset_of!(HeaderBytes, opening);
            return Err(place.damage("opening", offset, found, expected));
        }
        match self.has_shards() {
            true => check_shards(self.bytes.shards.get()).map_err(|reason| {
                let found = self.bytes.shards.to_string();
                place.damage("shards", offset_of!(HeaderBytes, shards), found, reason)
            }),
            false => Ok(()),
        }
    }

    /// Whether the bytes that no field and no feature uses are zero. A newer program, whose features need not be
    /// understood to read the pool, may use them.
    fn check_unused(&self, place: &HeaderPlace) -> Result<(), NoHeader> {
        let bytes = &self.bytes;
        if bytes.read_only_compatible.get() | bytes.compatible.get() & !COMPATIBLE != 0 {
            return Ok(());
        }
        let unless = |is_used: bool, field| if is_used { &[][..] } else { field };
        let membership = offset_of!(HeaderBytes, cluster)..offset_of!(HeaderBytes, reserved_lease);
        let reserved = [
            (
                offset_of!(HeaderBytes, reserved_flags),
                &bytes.reserved_flags[..],
            ),
            (
                offset_of!(HeaderBytes, reserved_opening),
                bytes.reserved_opening.as_bytes(),
            ),
            (
                offset_of!(HeaderBytes, shards),
                unless(self.has_shards(), bytes.shards.as_bytes()),
            ),
            (
                offset_of!(HeaderBytes, reserved_shards),
                bytes.reserved_shards.as_bytes(),
            ),
            (
                offset_of!(HeaderBytes, cluster_seed),
                unless(self.is_of_cluster(), bytes.cluster_seed.as_bytes()),
            ),
            (
                membership.start,
                unless(self.membership().is_some(), &bytes.as_bytes()[membership]),
            ),
            (
                offset_of!(HeaderBytes, reserved_lease),
                bytes.reserved_lease.as_bytes(),
            ),
            (
                offset_of!(HeaderBytes, time_mark),
                unless(self.time_mark().is_some(), bytes.time_mark.as_bytes()),
            ),
            (offset_of!(HeaderBytes, reserved), &bytes.reserved[..]),
        ];
        for (offset, field) in reserved {
            if let Some(index) = field.iter().position(|byte| *byte != 0) {
                let (found, expected) = (field[index].to_string(), "0".to_owned());
                return Err(place.damage("reserved bytes", offset + index, found, expected));
            }
        }
        Ok(())
    }

    /// The bytes for the medium, with their checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.checksum = U128::new(0);
        bytes.checksum = U128::new(xxh3_128(bytes.as_bytes()));
        bytes.as_bytes().to_vec()
    }

    /// The header of the next opening for serving; `None` when the openings are used up.
    pub fn opened(&self) -> Option<Self> {
        let mut next = self.changed();
        next.bytes.opening = U32::new(self.opening().checked_add(1)?);
        next.bytes.clean = 0;
        Some(next)
    }

    /// The header of a pool that was recovered in this power cycle.
    pub fn recovered(&self, power_cycle: u128) -> Self {
        let mut next = self.changed();
        next.bytes.power_cycle = U128::new(power_cycle);
        next
    }

    /// The same header, for a pool that is served at `home`.
    pub fn at(mut self, home: u128) -> Self {
        self.bytes.compatible = U64::new(self.bytes.compatible.get() | COMPATIBLE_HOME);
        self.bytes.home = U128::new(home);
        self
    }

    /// The header of a pool that was closed in order.
    pub fn closed(&self) -> Self {
        let mut next = self.changed();
        next.bytes.clean = 1;
        next
    }

    fn changed(&self) -> Self {
        let mut next = self.clone();
        // An opening makes six changes, and openings are counted in 32 bits.
        next.bytes.generation = U64::new(
            self.generation()
                .checked_add(1)
                .expect("fewer than 2^64 changes"),
        );
        next
    }

    /// The header of the same pool with a log of `capacity` bytes.
    pub fn grown(&self, capacity: u64) -> Self {
        let mut next = self.changed();
        next.bytes.capacity = U64::new(capacity);
        next
    }

    /// The header of a pool in which clients publish.
    pub fn published(&self) -> Self {
        let mut next = self.changed();
        next.bytes.incompatible = U64::new(next.bytes.incompatible.get() | INCOMPATIBLE_PUBLISHED);
        next
    }

    /// The header of a pool to which other nodes append.
    pub fn appended(&self) -> Self {
        let mut next = self.changed();
        next.bytes.incompatible = U64::new(next.bytes.incompatible.get() | INCOMPATIBLE_APPENDED);
        next
    }

    /// The header of a pool whose server's time may go up to `mark_ms`, and whose records may have an expiry.
    pub fn timed(&self, mark_ms: u64) -> Self {
        let mut next = self.changed();
        let bytes = &mut next.bytes;
        bytes.incompatible = U64::new(bytes.incompatible.get() | INCOMPATIBLE_EXPIRY);
        bytes.time_mark = U64::new(mark_ms);
        next
    }

    /// The header of a pool whose records may need `feature`.
    pub fn with(&self, feature: RecordFeature) -> Self {
        let mut next = self.changed();
        let incompatible = next.bytes.incompatible.get() | bit_of(feature);
        next.bytes.incompatible = U64::new(incompatible);
        next
    }

    /// The header of the pool of a node in that configuration.
    pub fn member(&self, membership: Membership) -> Self {
        let Membership {
            cluster,
            epoch,
            attempt,
            lease_duration_ns,
            lease_tick_ns,
            lease_drift_ppm,
        } = membership;
        let mut next = self.changed();
        let bytes = &mut next.bytes;
        bytes.incompatible = U64::new(bytes.incompatible.get() | INCOMPATIBLE_MEMBER);
        bytes.cluster = U128::new(cluster);
        bytes.epoch = U64::new(epoch);
        bytes.attempt = U128::new(attempt);
        bytes.lease_duration = U64::new(lease_duration_ns);
        bytes.lease_tick = U64::new(lease_tick_ns);
        bytes.lease_drift = U32::new(lease_drift_ppm);
        next
    }

    /// Features that this program does not know and without which no program opens the pool.
    pub fn unknown_incompatible(&self) -> u64 {
        self.bytes.incompatible.get() & !INCOMPATIBLE
    }
    /// The kind of content.
    pub fn content(&self) -> Content {
        match self.bytes.incompatible.get() & INCOMPATIBLE_STRUCTURES {
            0 => Content::KeysAndValues,
            _ => Content::Structures,
        }
    }
    /// Whether clients have ever published in this pool.
    pub fn is_published(&self) -> bool {
        self.bytes.incompatible.get() & INCOMPATIBLE_PUBLISHED != 0
    }
    /// Whether other nodes have ever appended to this pool.
    pub fn is_appended(&self) -> bool {
        self.bytes.incompatible.get() & INCOMPATIBLE_APPENDED != 0
    }
    /// Whether records of the pool may need `feature`.
    pub fn has(&self, feature: RecordFeature) -> bool {
        self.bytes.incompatible.get() & bit_of(feature) != 0
    }
    /// The mark of the server's time; `None`: no record of the pool has ever had an expiry.
    pub fn time_mark(&self) -> Option<u64> {
        let is_timed = self.bytes.incompatible.get() & INCOMPATIBLE_EXPIRY != 0;
        is_timed.then(|| self.bytes.time_mark.get())
    }
    pub fn read_only_compatible(&self) -> u64 {
        self.bytes.read_only_compatible.get()
    }
    pub fn generation(&self) -> u64 {
        self.bytes.generation.get()
    }
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.bytes.uuid)
    }
    pub fn capacity(&self) -> u64 {
        self.bytes.capacity.get()
    }
    pub fn segment_size(&self) -> u64 {
        self.bytes.segment_size.get()
    }
    fn has_shards(&self) -> bool {
        self.bytes.compatible.get() & COMPATIBLE_SHARDS != 0
    }
    /// Number of shards.
    pub fn shards(&self) -> u32 {
        match self.has_shards() {
            true => self.bytes.shards.get(),
            false => 1,
        }
    }
    fn is_of_cluster(&self) -> bool {
        self.bytes.incompatible.get() & INCOMPATIBLE_CLUSTER != 0
    }
    /// The seed of the cluster; `None`: the pool belongs to no cluster.
    pub fn cluster_seed(&self) -> Option<u64> {
        self.is_of_cluster().then(|| self.bytes.cluster_seed.get())
    }
    /// The configuration in which the node of this pool last was; `None`: the pool belongs to no node.
    pub fn membership(&self) -> Option<Membership> {
        let bytes = &self.bytes;
        let is_member = bytes.incompatible.get() & INCOMPATIBLE_MEMBER != 0;
        is_member.then(|| Membership {
            cluster: bytes.cluster.get(),
            epoch: bytes.epoch.get(),
            attempt: bytes.attempt.get(),
            lease_duration_ns: bytes.lease_duration.get(),
            lease_tick_ns: bytes.lease_tick.get(),
            lease_drift_ppm: bytes.lease_drift.get(),
        })
    }
    pub fn platform(&self) -> DeclaredPlatform {
        let known = "checked when the header was decoded";
        DeclaredPlatform {
            persistence_domain: PersistenceDomain::from_code(self.bytes.persistence_domain)
                .expect(known),
            ddio: Ddio::from_code(self.bytes.ddio).expect(known),
            receive_buffers: ReceiveBuffers::from_code(self.bytes.receive_buffers).expect(known),
        }
    }
    pub fn durability(&self) -> Durability {
        Durability::from_code(self.bytes.durability).expect("checked when the header was decoded")
    }
    pub fn clean(&self) -> bool {
        self.bytes.clean == 1
    }
    pub fn opening(&self) -> u32 {
        self.bytes.opening.get()
    }
    pub fn power_cycle(&self) -> u128 {
        self.bytes.power_cycle.get()
    }
    /// The home at the last opening for serving; 0: unknown.
    pub fn home(&self) -> u128 {
        self.bytes.home.get()
    }
    pub fn tag_key(&self) -> u64 {
        self.bytes.tag_key.get()
    }
    pub fn secret(&self) -> [u64; 2] {
        self.bytes.secret.map(U64::get)
    }
}

fn text(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
