//! Flags of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stonecast::Address;
use stonecast_media::SHARDS_MAX;

use super::gateway::GatewayFlags;
use super::log::LogFlags;
use super::sharing::SharingFlags;
use crate::flags::{DurabilityArgument, VerbsFlags};
use crate::values::{self, Period, Size};

/// Serves a pool until SIGTERM, SIGINT or the end of its terminal; a second signal stops at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: serve a pool of 8 GiB on an ordinary disk; one in volatile memory; one on a device of persistent memory; one to Redis clients, with metrics
  stonecast serve --data /srv/stonecast --capacity 8GiB
  stonecast serve --data /dev/shm/cache --durability process
  stonecast serve --data /dev/dax0.0 --listen shm:./socket
  stonecast serve --resp 127.0.0.1:6380 --admin 127.0.0.1:9180

An address that other machines reach needs a password or TLS
  stonecast serve --resp 0.0.0.0:6380 --password-file /etc/stonecast/password

Data structures: alone, and beside a pool of keys and values
  stonecast serve --structures /srv/structures
  stonecast serve --data /srv/stonecast --structures /srv/structures

Data structures with a mirror: the mirror, and the back-end
  stonecast serve --structures /srv/copy --structures-role mirror --listen verbs:10.0.0.2:7171 --keys keys
  stonecast serve --structures /srv/structures --structures-mirror verbs:10.0.0.2:7171 --listen verbs:10.0.0.1:7171 --keys keys

The same, with a mirror that promotes itself: both have the flag
  stonecast serve --structures /srv/structures ... --structures-cluster etcd://10.0.0.3:2379/structures

A node of a cluster, which keeps copies on the other nodes
  stonecast serve --data /srv/stonecast --cluster etcd://10.0.0.1:2379/stonecast --node a

Clients of other users, those of the group staff, over shared memory
  stonecast serve --listen shm:/run/stonecast/socket --socket-mode 0660 --socket-group staff")]
pub struct Serve {
    /// Folder of the pool, created if it does not exist, or device of persistent memory [default: ./stonecast-data, or
    /// none with --structures].
    #[arg(long, value_name = "DIR", env = "STONECAST_DATA")]
    pub data: Option<PathBuf>,
    /// Folder or device of a pool of data structures, served alone, or beside the keys and values of --data; front-ends
    /// connect to shm:DIR/socket.
    #[arg(long, value_name = "DIR", env = "STONECAST_STRUCTURES")]
    pub structures: Option<PathBuf>,
    /// Size of a new pool of data structures [default: 256MiB].
    #[arg(
        long,
        value_name = "SIZE",
        env = "STONECAST_STRUCTURES_CAPACITY",
        requires = "structures"
    )]
    pub structures_capacity: Option<Size>,
    /// Time after which a silent writer of data structures loses its tenure.
    #[arg(
        long,
        value_name = "TIME",
        env = "STONECAST_STRUCTURES_LEASE",
        default_value = "10s"
    )]
    pub structures_lease: Period,
    /// Memory of the pool of data structures that one lock domain may have [default: all of it].
    #[arg(
        long,
        value_name = "SIZE",
        env = "STONECAST_STRUCTURES_QUOTA",
        requires = "structures"
    )]
    pub structures_quota: Option<Size>,
    /// Part that the pool of data structures plays: a mirror holds the copy of another server's pool, serves no
    /// front-end, and becomes the back-end when it is promoted.
    #[arg(
        long,
        value_enum,
        env = "STONECAST_STRUCTURES_ROLE",
        default_value = "back-end"
    )]
    pub structures_role: RoleArgument,
    /// Server that holds a copy of the pool of data structures (--structures-role mirror), shm:PATH or verbs:HOST:PORT:
    /// nothing is acknowledged before it is durable in both [default: none].
    #[arg(
        long,
        value_name = "URL",
        env = "STONECAST_STRUCTURES_MIRROR",
        value_parser = values::address,
        requires = "structures"
    )]
    pub structures_mirror: Option<Address>,
    /// Time after the last word of this back-end before which its mirror is not promoted. A back-end that has heard
    /// nothing of its mirror for so long ends.
    #[arg(
        long,
        value_name = "TIME",
        env = "STONECAST_STRUCTURES_MIRROR_LEASE",
        default_value = "5s"
    )]
    pub structures_mirror_lease: Period,
    /// Store of the standing record that a back-end of data structures shares with its mirror, the same at both:
    /// file:PATH, etcd://HOST:PORT/NAME, or etcds://HOST:PORT/NAME?cacert=FILE. With it, a mirror whose back-end is
    /// silent promotes itself [default: none].
    #[arg(
        long,
        value_name = "URL",
        env = "STONECAST_STRUCTURES_CLUSTER",
        requires = "structures"
    )]
    pub structures_cluster: Option<String>,
    /// Address to listen at, shm:PATH or verbs:HOST:PORT; may be given more than once, with addresses of one kind
    /// [default: shm:DIR/socket].
    #[arg(long, value_name = "URL", env = "STONECAST_LISTEN", value_parser = values::address)]
    pub listen: Vec<Address>,
    /// Failures that acknowledged writes survive; declared when the pool is created [default: power].
    #[arg(long, value_enum, env = "STONECAST_DURABILITY")]
    pub durability: Option<DurabilityArgument>,
    /// Persistence of the memory under the pool; declared when the pool is created, never guessed [default: page-file,
    /// for a device the kernel's report].
    #[arg(long, value_enum, env = "STONECAST_PLATFORM")]
    pub platform: Option<PlatformArgument>,
    /// Size of a new pool, such as 512MiB or 8GiB [default: 1GiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_CAPACITY")]
    pub capacity: Option<Size>,
    /// Size of each segment of a new pool, a power of two [default: 4MiB, or a 32nd of a pool below 128MiB, rounded
    /// down].
    #[arg(long, value_name = "SIZE", env = "STONECAST_SEGMENT_SIZE")]
    pub segment_size: Option<Size>,
    /// Number of shards of a new pool, 1 to 64: even ranges of key hashes, each with an index of its own [default: 1].
    #[arg(long, value_name = "NUMBER", env = "STONECAST_SHARDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: Option<u32>,
    /// Store of the configuration of a cluster, which the server joins as a node: file:PATH, etcd://HOST:PORT/NAME, or
    /// etcds://HOST:PORT/NAME?cacert=FILE.
    #[arg(long, value_name = "URL", env = "STONECAST_CLUSTER")]
    pub cluster: Option<String>,
    /// Name of the node in its cluster; it stays with the pool.
    #[arg(long, value_name = "NAME", env = "STONECAST_NODE")]
    pub node: Option<String>,
    /// Power zone of the node, such as its host or rack: the copies of a shard are placed in different zones as far as
    /// there are enough.
    #[arg(long, value_name = "NAME", env = "STONECAST_ZONE")]
    pub zone: Option<String>,
    /// Accepts a pool that was copied while a server ran on it: records written or moved during the copy may be
    /// missing.
    #[arg(long)]
    pub accept_copy: bool,
    /// Rights of clients to write into the log.
    #[arg(long, value_enum, env = "STONECAST_CLIENTS", default_value = "trusted")]
    pub clients: ClientsArgument,
    /// File that the server writes when it is ready, with its process number as the content.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Stops when the process with this number, the parent of the server, is gone.
    #[arg(long, hide = true, value_name = "PROCESS")]
    pub exit_with_parent: Option<i32>,
    // These flags come last: flags after them would stand under their headings.
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub sharing: SharingFlags,
    #[command(flatten)]
    pub verbs: VerbsFlags,
    #[command(flatten)]
    pub gateway: GatewayFlags,
}

/// The part of a server of data structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArgument {
    /// Front-ends work on the structures of the pool.
    BackEnd,
    /// The pool is the copy of another server's, until it is promoted.
    Mirror,
}

/// The persistence of the memory under the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlatformArgument {
    /// An ordinary file on an ordinary disk: pages that were synced survive power loss.
    PageFile,
    /// Persistent memory (DAX): cache lines that were written back survive power loss.
    Dmp,
    /// Persistent memory with caches that survive power loss (eADR).
    Mhp,
    /// A whole system that survives power loss, by battery.
    Wsp,
}

/// Rights of clients to write into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientsArgument {
    /// Clients of the server's own user write in place. Other users' clients write through memory that the server
    /// copies from, as do all clients if the log is a file that is synced.
    Trusted,
    /// Like trusted; clients that write in place also publish their overwrites themselves, for durability process. Such
    /// clients can corrupt the server's counters and index, so they must be as trusted as the server.
    Publishing,
    /// All clients write through memory that the server copies from.
    Copying,
}
