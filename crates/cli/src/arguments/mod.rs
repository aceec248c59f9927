//! The command line: every command, every flag, and the help of each.
//!
//! Flags that can also be set elsewhere are options here; [`crate::configuration`] fills in what was not typed.

mod gateway;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use stonecast_bench::erda::Design;

use crate::commands::{Doctor, Litmus, Plan, Remotelog, Sim};
use crate::values::{Address, Fabric, Period, Size};

pub use gateway::GatewayFlags;

/// A durable key-value store that clients read and write directly, in shared memory.
///
/// `stonecast serve` in one terminal, `stonecast put a b` and `stonecast get a` in another: that is all it needs.
#[derive(Debug, Parser)]
#[command(name = "stonecast", version, max_term_width = 120)]
#[command(after_help = "\
Settings come from flags, then from environment variables (STONECAST_*, named beside each flag), then from the file that
--config names (TOML; the keys are the names of the flags without dashes in front), then from the defaults.

Exit status: 0 done, 1 the operation failed (a key that is not there included), 2 wrong usage.")]
pub struct Arguments {
    /// Configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE", env = "STONECAST_CONFIG")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serves a pool until SIGTERM or SIGINT; a second signal stops at once.
    #[command(after_help = "\
Example: serve a pool of 8 GiB on an ordinary disk; one in volatile memory; one on a device of persistent memory; one to Redis clients, with metrics
  stonecast serve --data /srv/stonecast --capacity 8GiB
  stonecast serve --data /dev/shm/cache --durability process
  stonecast serve --data /dev/dax0.0 --listen shm:./socket
  stonecast serve --resp 127.0.0.1:6380 --admin 127.0.0.1:9180

An address that other machines reach needs a password or TLS
  stonecast serve --resp 0.0.0.0:6380 --password-file /etc/stonecast/password")]
    Serve(Box<Serve>),
    /// Stores a value under a key. When it returns, the value is durable.
    #[command(after_help = "\
Example: a value from the command line, one from a file, and one only if the key is still at version 17
  stonecast put greeting hello
  stonecast put picture < picture.png
  stonecast put greeting hi --if-version 17")]
    Put(Put),
    /// Prints the value of a key.
    ///
    /// The bytes go to stdout as they are; on a terminal a line feed follows.
    #[command(after_help = "\
Example: a value as it is, and as JSON with its version
  stonecast get picture > picture.png
  stonecast get greeting --json")]
    Get(Get),
    /// Deletes a key. When it returns, the deletion is durable.
    #[command(after_help = "\
Example:
  stonecast delete greeting")]
    Delete(Delete),
    /// Stores every entry of an NDJSON file, in its order.
    ///
    /// Each line is {"key":KEY,"value":VALUE}, each of the two a string or {"base64":"..."}. A broken line ends the
    /// import: the lines before it are stored, nothing of it or after it is.
    #[command(after_help = "\
Example: a file, and the output of another program
  stonecast import entries.ndjson
  zcat entries.ndjson.gz | stonecast import")]
    Import(Import),
    /// Writes every entry as NDJSON, in the order in which they were stored.
    ///
    /// An entry that is stored again moves to the end. The form is canonical: exporting what was imported from an
    /// export with unique keys gives the same bytes.
    #[command(after_help = "\
Example: to a file (replaced only when all is written), and into another program
  stonecast export entries.ndjson
  stonecast export | gzip > entries.ndjson.gz")]
    Export(Export),
    /// Shows what a running server holds and does, by clients of its memory and through its gateway.
    ///
    /// Reads are what clients report: it lacks what each of them did in the last second.
    #[command(after_help = "\
Example: once for people, as JSON for programs, and again and again with the gateway's part
  stonecast stat
  stonecast stat --json
  stonecast stat --watch --admin 127.0.0.1:9180")]
    Stat(Stat),
    /// Shows a pool that nobody serves: header, segments, counts.
    #[command(after_help = "\
Example:
  stonecast inspect ./stonecast-data")]
    Inspect(Offline),
    /// Checks every byte of a pool that nobody serves.
    ///
    /// Changes nothing. Prints every finding with file, offset, what was found and what was expected, and exits with
    /// status 1 if there is one.
    #[command(after_help = "\
Example:
  stonecast verify ./stonecast-data")]
    Verify(Offline),
    /// Runs the stores in a simulated world where anything fails and power goes at any moment, and judges what is left.
    ///
    /// A seed decides everything, so a failure can be run again. What fails is made as small as possible and told as a
    /// timeline. Status 1 if a promise was broken.
    #[command(after_help = "\
Example: one seed in full, then two thousand seeds, one line of JSON each
  stonecast sim kv --seed 17
  stonecast sim kv --seed 0 --seeds 2000 --json")]
    Sim(Sim),
    /// Shows which steps make a remote write durable on a platform, why each is there, and what is lost without it.
    ///
    /// Without selectors: the 72 scenarios of the published taxonomy. Each plan is proved on the spot.
    #[command(after_help = "\
Example: a platform by name, one scenario with a page to look at, all published plans for a program
  stonecast plan --profile modern --operation write --update single
  stonecast plan --persistence dmp --ddio off --receive-buffers dram --operation write --update compound --html plan.html
  stonecast plan --json")]
    Plan(Box<Plan>),
    /// Proves plans in a model of everything that hardware may do: sound, and each of their steps needed.
    ///
    /// Takes the selectors of `plan`. Status 1 if a plan loses anything, or has a step that is not needed.
    #[command(after_help = "\
Example: everything that was published, and one platform with its counterexamples
  stonecast litmus --all
  stonecast litmus --profile eadr --json")]
    Litmus(Box<Litmus>),
    /// Shows what this machine lets one detect of how writes become durable, what must be declared, and the profile.
    ///
    /// Claims nothing that it did not see: what no file of the kernel says is listed as what must be declared, and assumed to
    /// be what keeps plans sound.
    #[command(after_help = "\
Example: look, and plan for what was seen
  stonecast doctor --data /mnt/pmem
  stonecast doctor --write-profile this-machine.toml
  stonecast plan --profile this-machine.toml")]
    Doctor(Doctor),
    /// Prints what makes a shell complete the commands and flags of this program.
    #[command(after_help = "\
Example: for bash, and for zsh
  stonecast completions bash > /etc/bash_completion.d/stonecast
  stonecast completions zsh > /usr/share/zsh/vendor-completions/_stonecast")]
    Completions(Completions),
    /// Writes the manual, a page for each command.
    #[command(after_help = "\
Example: into the system, and one page to look at
  stonecast man /usr/share/man/man1
  stonecast man | man -l -")]
    Man(Man),
    /// Measures.
    #[command(subcommand, arg_required_else_help = true)]
    Bench(Bench),
}

/// Where the server is.
#[derive(Debug, Args)]
pub struct Connection {
    /// Server to connect to, shm:PATH or verbs://HOST:PORT [default: where `serve` with the same settings listens,
    /// shm:./stonecast-data/socket].
    #[arg(long, value_name = "URL", env = "STONECAST_CONNECT")]
    pub connect: Option<Address>,
    #[command(flatten)]
    pub verbs: VerbsFlags,
}

/// What addresses of the form verbs:HOST:PORT need.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "RDMA")]
pub struct VerbsFlags {
    /// Keys that prove who is who, a name and 64 hexadecimal digits a line; a client is whom the first line names.
    #[arg(long, value_name = "FILE", env = "STONECAST_KEYS")]
    pub keys: Option<PathBuf>,
    /// RDMA device, as `rdma link` shows it [default: the first one].
    #[arg(long, value_name = "NAME", env = "STONECAST_RDMA_DEVICE")]
    pub rdma_device: Option<String>,
    /// Entry of the device's table of addresses [default: RoCE v2, IPv4 if there is one].
    #[arg(long, value_name = "INDEX", env = "STONECAST_GID_INDEX")]
    pub gid_index: Option<u8>,
}

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Folder of the pool, created if it is not there, or device of persistent memory [default: ./stonecast-data].
    #[arg(long, value_name = "DIR", env = "STONECAST_DATA")]
    pub data: Option<PathBuf>,
    /// Where to listen, shm:PATH or verbs:HOST:PORT; may be given more than once, of one kind [default: shm:DIR/socket].
    #[arg(long, value_name = "URL", env = "STONECAST_LISTEN")]
    pub listen: Vec<Address>,
    /// What acknowledged writes survive; for a pool that exists, what it was created with [default: power].
    #[arg(long, value_enum, env = "STONECAST_DURABILITY")]
    pub durability: Option<DurabilityArgument>,
    /// What the memory under the pool survives; declared at creation, never guessed [default: page-file, for a device what
    /// the kernel says of it].
    #[arg(long, value_enum, env = "STONECAST_PLATFORM")]
    pub platform: Option<PlatformArgument>,
    /// Size of a new pool, such as 512MiB or 8GiB [default: 1GiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_CAPACITY")]
    pub capacity: Option<Size>,
    /// Size of each segment of a new pool, a power of two [default: 4MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_SEGMENT_SIZE")]
    pub segment_size: Option<Size>,
    /// Serves a pool that was copied while it was served: what was written or moved meanwhile may be missing.
    #[arg(long)]
    pub accept_copy: bool,
    /// Who may write into the log [default: trusted].
    #[arg(long, value_enum, env = "STONECAST_CLIENTS")]
    pub clients: Option<ClientsArgument>,
    #[command(flatten)]
    pub verbs: VerbsFlags,
    /// Written when the server is ready, with its process number in it.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Stops when the process with this number, which started it, is gone.
    #[arg(long, hide = true, value_name = "PROCESS")]
    pub exit_with_parent: Option<i32>,
    // Last: its heading would be that of what follows.
    #[command(flatten)]
    pub gateway: GatewayFlags,
}

/// `put`.
#[derive(Debug, Args)]
pub struct Put {
    /// The key: 1 to 1024 bytes, taken as they are typed.
    pub key: OsString,
    /// The value: at most 1 MiB. Read from stdin if it is not given or is `-`.
    #[arg(allow_hyphen_values = true)]
    pub value: Option<OsString>,
    /// Only if the key is at this version.
    #[arg(long, value_name = "VERSION", conflicts_with = "if_absent")]
    pub if_version: Option<u64>,
    /// Only if the key is not there.
    #[arg(long)]
    pub if_absent: bool,
    /// Prints {"key":..,"version":..} to stdout.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// The key.
    pub key: OsString,
    /// Prints {"key":..,"value":..,"version":..} instead.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// `delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The key.
    pub key: OsString,
    /// Prints {"key":..} to stdout.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The file; stdin if it is not given or is `-`.
    pub file: Option<PathBuf>,
    /// Operations that wait for an answer at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub in_flight: u32,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The file; stdout if it is not given or is `-`.
    pub file: Option<PathBuf>,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end; needs FILE.
    #[arg(long, requires = "file")]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// `stat`.
#[derive(Debug, Args)]
pub struct Stat {
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Prints again and again, redrawn on a terminal, until it is interrupted.
    #[arg(long)]
    pub watch: bool,
    /// How long to wait in between.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub every: Period,
    /// Asks this address of `serve --admin`, too, for what only the gateway knows: connections, commands, their times.
    #[arg(long, value_name = "ADDRESS", env = "STONECAST_ADMIN")]
    pub admin: Option<SocketAddr>,
    #[command(flatten)]
    pub connection: Connection,
}

/// `inspect` and `verify`.
#[derive(Debug, Args)]
pub struct Offline {
    /// Folder of the pool, or device of persistent memory.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Prints JSON, one object a line.
    #[arg(long)]
    pub json: bool,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Folder for all pages; without it the page of the program goes to stdout.
    pub folder: Option<PathBuf>,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Runs a workload of YCSB against a server, its own or one that runs.
    ///
    /// Without --connect it starts a server on a pool of its own and removes both at the end.
    #[command(after_help = "\
Example: reads alone, half updates with sixteen in flight on a durable pool, the same between simulated machines
  stonecast bench ycsb --workload c
  stonecast bench ycsb --workload a --in-flight 16 --durability power
  stonecast bench ycsb --workload a --fabric sim:connectx5-rowan --clients 8")]
    Ycsb(Box<Ycsb>),
    /// Appends to a log in remote memory, made durable in each of the ways that platforms ask for.
    #[command(after_help = "\
Example: a table of all published scenarios, the figure of it, and what the disk under the current folder does
  stonecast bench remotelog
  stonecast bench remotelog --figure remotelog.svg
  stonecast bench remotelog --fabric shm --appends 200
  stonecast bench remotelog --fabric verbs --data /dev/dax0.0")]
    Remotelog(Remotelog),
    /// Measures a figure of a paper again, every design of it on the same simulated machines.
    ///
    /// erda-14 ... erda-26 and erda-table1 are those of Erda's paper; erda is all of them. Virtual time: the same command
    /// gives the same numbers. erda-shm runs the same designs as processes of this machine, over shared memory.
    #[command(after_help = "\
Example: one figure as a table, one as JSON, all with pictures and the page of the documents
  stonecast bench figure erda-14
  stonecast bench figure erda-table1 --json
  stonecast bench figure erda --out docs/figures")]
    Figure(Figure),
    /// Serves a published design; started by `figure erda-shm`. It keeps no data.
    #[command(
        hide = true,
        after_help = "\
Example: the first baseline on memory of a folder, with room for a million writes
  stonecast bench serve-published redo-logging --keys 1000 --value-size 64 --writes 1000000 --data /dev/shm/redo \\
    --ready-file /dev/shm/redo-ready --exit-with-parent $$"
    )]
    ServePublished(ServePublished),
}

/// `bench figure`.
#[derive(Debug, Args)]
pub struct Figure {
    /// Which.
    #[arg(value_name = "NAME", value_parser = figure_names())]
    pub name: String,
    /// Writes pictures (SVG), the points (JSON lines) and, for all figures of a paper, the page of the documents there.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Operations of each point, instead of as many as the documents have.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(10..))]
    pub operations: Option<u64>,
    /// Prints one JSON object for each point.
    #[arg(long)]
    pub json: bool,
}

fn figure_names() -> PossibleValuesParser {
    use stonecast_bench::erda::{ALL, FIGURES, REAL};
    PossibleValuesParser::new(FIGURES.into_iter().chain([ALL, REAL]))
}

/// `bench serve-published`.
#[derive(Debug, Args)]
pub struct ServePublished {
    /// Which.
    #[arg(value_parser = published_design)]
    pub design: Design,
    /// Keys that will be stored.
    #[arg(long)]
    pub keys: u64,
    /// Bytes of a value.
    #[arg(long)]
    pub value_size: usize,
    /// Writes after those that store each key once.
    #[arg(long)]
    pub writes: u64,
    /// Folder of its memory.
    #[arg(long)]
    pub data: PathBuf,
    /// Is written when it listens.
    #[arg(long)]
    pub ready_file: PathBuf,
    /// Ends when this process does.
    #[arg(long)]
    pub exit_with_parent: i32,
}

fn published_design(name: &str) -> Result<Design, String> {
    let published = Design::ALL
        .into_iter()
        .filter(|design| *design != Design::Kv);
    published
        .clone()
        .find(|design| design.name() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = published.map(Design::name).collect();
            format!("is one of {}", names.join(", "))
        })
}

/// `bench ycsb`.
#[derive(Debug, Args)]
pub struct Ycsb {
    /// Mix of operations: a = half updates, b = 5 % updates, c = reads alone, update-only.
    #[arg(long, value_enum, default_value = "c")]
    pub workload: WorkloadArgument,
    /// Which keys are asked for: zipfian is YCSB's scrambled zipfian of 0.99.
    #[arg(long, value_enum, default_value = "zipfian")]
    pub distribution: DistributionArgument,
    /// Keys loaded before.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Client threads, each with a connection of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=250))]
    pub clients: u32,
    /// Bytes of a value.
    #[arg(long, value_name = "SIZE", default_value = "100")]
    pub value_size: Size,
    /// Operations of one client that wait for an answer at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub in_flight: u32,
    /// Reads that are asked for in one multi_get, or updates that are put with one multi_put.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: u32,
    /// Keys whose places in the log each client remembers, 16 bytes of its memory each, so that it reads them in one round
    /// trip; 0: none. Over shared memory none are: a read takes no round trip there.
    #[arg(long, value_name = "COUNT", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(0..=1 << 28))]
    pub locations: u32,
    /// How long to measure [default: 10, in the simulated world 0.05 of its seconds].
    #[arg(long, value_name = "SECONDS", conflicts_with = "ops")]
    pub seconds: Option<f64>,
    /// How many operations to measure instead, over all clients.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
    /// Seed of keys and values; the same seed asks for the same.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What server and clients go through: shm, or sim:PROFILE, machines in virtual time; PROFILE is connectx3-erda,
    /// connectx3-asymnvm, connectx4-taxonomy, connectx5-rowan or modern.
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    pub fabric: Fabric,
    /// What writes survive, for the server that this command starts.
    #[arg(
        long,
        value_enum,
        default_value = "process",
        conflicts_with = "connect"
    )]
    pub durability: DurabilityArgument,
    /// Where the pool of the server that this command starts is put [default: /dev/shm for process, the current folder for power].
    #[arg(long, value_name = "DIR", conflicts_with = "connect")]
    pub data: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// A running server to measure, shm:PATH or verbs://HOST:PORT; its keys stay there. STONECAST_CONNECT is not looked at.
    #[arg(long, value_name = "URL")]
    pub connect: Option<Address>,
    /// With --connect verbs://HOST:PORT: the keys, as `--keys` of other commands names them.
    #[arg(
        long,
        value_name = "FILE",
        env = "STONECAST_KEYS",
        help_heading = "RDMA"
    )]
    pub key_file: Option<PathBuf>,
    /// RDMA device, as `rdma link` shows it [default: the first one].
    #[arg(
        long,
        value_name = "NAME",
        env = "STONECAST_RDMA_DEVICE",
        help_heading = "RDMA"
    )]
    pub rdma_device: Option<String>,
    /// Entry of the device's table of addresses [default: RoCE v2, IPv4 if there is one].
    #[arg(
        long,
        value_name = "INDEX",
        env = "STONECAST_GID_INDEX",
        help_heading = "RDMA"
    )]
    pub gid_index: Option<u8>,
}

/// What acknowledged writes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityArgument {
    /// Power loss.
    Power,
    /// The death of every process, but not power loss.
    Process,
}

/// What the memory under the pool survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

/// Who may write into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientsArgument {
    /// Clients of the server's own user write in place, others, and everybody where the log is a file that is synced,
    /// through memory that the server copies from.
    Trusted,
    /// Like trusted; clients that write in place also publish their overwrites themselves, for durability process. They can then
    /// spoil what the server counts and finds, so only for programs that are as trusted as the server.
    Publishing,
    /// Everybody writes through memory that the server copies from.
    Copying,
}

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArgument {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads alone.
    C,
    /// Updates alone.
    UpdateOnly,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DistributionArgument {
    /// YCSB's scrambled zipfian, constant 0.99.
    Zipfian,
    /// Each key alike.
    Uniform,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_has_no_contradictions() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_names_every_simulated_machine() {
        let mut command = Arguments::command();
        let ycsb = command
            .find_subcommand_mut("bench")
            .and_then(|bench| bench.find_subcommand_mut("ycsb"));
        let help = ycsb.expect("it is there").render_long_help().to_string();
        let words: Vec<&str> = help.split([' ', '\n', ',', ';', '.']).collect();
        for profile in stonecast_fabric_sim::Profile::ALL {
            assert!(words.contains(&profile.name), "{help}");
        }
    }

    #[test]
    fn every_command_has_a_help_with_an_example() {
        fn leaves(command: &clap::Command) -> Vec<&clap::Command> {
            let below: Vec<_> = command.get_subcommands().collect();
            if below.is_empty() {
                vec![command]
            } else {
                below.into_iter().flat_map(leaves).collect()
            }
        }
        let command = Arguments::command();
        let leaves = leaves(&command);
        assert!(leaves.len() >= 13, "{}", leaves.len());
        for leaf in leaves {
            let example = leaf
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                example.starts_with("Example:") && example.contains("  stonecast "),
                "{}",
                leaf.get_name()
            );
            assert!(leaf.get_about().is_some(), "{}", leaf.get_name());
            let undocumented: Vec<_> = leaf
                .get_arguments()
                .filter(|argument| argument.get_help().is_none())
                .collect();
            assert!(
                undocumented.is_empty(),
                "{}: {undocumented:?}",
                leaf.get_name()
            );
        }
    }
}
