//! `structures`: the data structures of a back-end.

mod mirrors;
mod transfer;
mod verify;

use clap::{Args, Subcommand};
use serde::Serialize;
use stonecast::Connector;
use stonecast::structures::{Connection as Session, DomainStat, DomainState, Listed, Metrics};
use stonecast_fabric_shm::ShmOptions;

use crate::commands::stat::gateway::{readers_in_words, tenures_in_words};
use crate::fabric::DeviceSettings;
use crate::failure::Failure;
use crate::flags::Connection;
use crate::output;
use crate::progress::Progress;
pub use mirrors::MirrorReport;

/// The commands for data structures.
#[derive(Debug, Subcommand)]
pub enum Structures {
    List(List),
    Show(Show),
    Stat(Stat),
    Verify(verify::Verify),
    Promote(mirrors::Promote),
    Detach(mirrors::Detach),
    Import(transfer::Import),
    Export(transfer::Export),
}

/// Lists the structures of a back-end.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast structures list --connect shm:/srv/structures/socket")]
pub struct List {
    /// Prints [{"name":..,"kind":..,"domain":..},..], with "mirror":.. if the back-end has a mirror.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Shows a structure: its kind, and how many entries of how many bytes it holds. Reads all of it, unless the number of
/// entries is enough.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast structures show orders --connect shm:/srv/structures/socket")]
pub struct Show {
    /// The name.
    name: String,
    /// Leaves the bytes out: the structure counts its entries, so that one READ is enough.
    #[arg(long)]
    count: bool,
    /// Prints {"name":..,"kind":..,"domain":..,"entries":..,"bytes":..}.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Shows the state of a back-end, and of each lock domain: its writer, the operations that readers do and do not see,
/// the part of the log that a restart would read, and its memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast structures stat --connect shm:/srv/structures/socket")]
pub struct Stat {
    /// Prints one JSON object, with the lock domains as a list under `domains`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Structures {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(flags) => list(&flags),
            Self::Show(flags) => show(&flags),
            Self::Stat(flags) => stat(&flags),
            Self::Verify(flags) => verify::run(&flags),
            Self::Promote(flags) => mirrors::promote(&flags),
            Self::Detach(flags) => mirrors::detach(&flags),
            Self::Import(flags) => transfer::import(&flags),
            Self::Export(flags) => transfer::export(&flags),
        }
    }
}

/// Connects to a back-end.
fn session(connection: &Connection) -> Result<Session, Failure> {
    let Connection { address, verbs } = connection;
    let device = DeviceSettings::of(address, ShmOptions::default(), verbs)?.open(None)?;
    Session::over(device, Connector::to(address.clone())).map_err(failure)
}

fn failure(error: stonecast::structures::Error) -> Failure {
    match error {
        stonecast::structures::Error::Connect(error) => error.into(),
        error => Failure::operation(error.to_string()),
    }
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    kind: &'static str,
    domain: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl<'a> Row<'a> {
    fn of(listed: &'a Listed) -> Self {
        let kind = listed
            .kind
            .split_once(' ')
            .map_or(listed.kind, |(_, kind)| kind);
        Self {
            name: &listed.name,
            kind,
            domain: listed.domain,
            mirror: None,
            entries: None,
            bytes: None,
        }
    }
}

fn list(flags: &List) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let listed = session.run(async |session| {
        let all = session.list().await?;
        let stat = session.back_end_stat().await?;
        Ok::<_, stonecast::structures::Error>((all, stat.mirror))
    });
    let (all, mirror) = listed.map_err(failure)?;
    let mirror = mirrors::state_of(&mirror);
    let rows: Vec<Row<'_>> = all
        .iter()
        .map(|listed| Row {
            mirror,
            ..Row::of(listed)
        })
        .collect();
    if flags.json {
        return output::json(&rows);
    }
    let shown: Vec<(&str, String)> = rows
        .iter()
        .map(|row| {
            let mirror = row
                .mirror
                .map_or(String::new(), |state| format!(", mirror {state}"));
            (
                row.name,
                format!("{}, domain {}{mirror}", row.kind, row.domain),
            )
        })
        .collect();
    output::table(&shown)
}

fn show(flags: &Show) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let shown = session.run(async |session| {
        let all = session.list().await?;
        if flags.count {
            let entries = session.length(&flags.name).await?;
            return Ok((all, entries, None));
        }
        let progress = Progress::of_bytes("reading", None);
        let watch = |bytes| progress.advance(bytes);
        let contents = session.contents_watched(&flags.name, &watch).await?;
        let sizes = contents.iter().map(|(key, value)| key.len() + value.len());
        let bytes = sizes.sum::<usize>() as u64;
        Ok::<_, stonecast::structures::Error>((all, contents.len() as u64, Some(bytes)))
    });
    let (all, entries, bytes) = shown.map_err(failure)?;
    let listed = all.iter().find(|listed| listed.name == flags.name);
    let Some(listed) = listed else {
        return Err(Failure::operation(format!(
            "there is no structure {:?}",
            flags.name
        )));
    };
    let row = Row {
        entries: Some(entries),
        bytes,
        ..Row::of(listed)
    };
    if flags.json {
        return output::json(&row);
    }
    let mut rows = vec![
        ("kind", row.kind.to_owned()),
        ("domain", row.domain.to_string()),
        ("entries", entries.to_string()),
    ];
    rows.extend(bytes.map(|bytes| ("bytes", output::size(bytes))));
    rows.push(("longest key", format!("{} bytes", listed.key_size_max)));
    output::table(&rows)
}

#[derive(Serialize)]
struct Report<'a> {
    front_ends: u64,
    damaged: u64,
    tenures_granted: u64,
    tenures_ended: u64,
    tenures_silent: u64,
    answers: u64,
    retries: u64,
    snapshot_age_ns: u64,
    capacity_bytes: u64,
    free_bytes: u64,
    quota_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<MirrorReport>,
    domains: Vec<State<'a>>,
}

impl<'a> Report<'a> {
    fn of(metrics: &'a Metrics) -> Self {
        let (stat, slab_size) = (&metrics.stat, metrics.slab_size);
        Self {
            front_ends: stat.front_ends,
            damaged: stat.damaged,
            tenures_granted: stat.tenures_granted,
            tenures_ended: stat.tenures_ended,
            tenures_silent: stat.tenures_silent,
            answers: stat.readers.answers,
            retries: stat.readers.retries,
            snapshot_age_ns: stat.readers.snapshot_age_ns,
            capacity_bytes: stat.slabs * slab_size,
            free_bytes: stat.free_slabs * slab_size,
            quota_bytes: stat.quota * slab_size,
            mirror: MirrorReport::of(&stat.mirror),
            domains: metrics.domains.iter().map(State::of).collect(),
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let tenures = [
            self.tenures_granted,
            self.tenures_ended,
            self.tenures_silent,
        ];
        let readers = [self.answers, self.retries, self.snapshot_age_ns];
        let (tenures, readers) = (tenures_in_words(tenures), readers_in_words(readers));
        let mut rows = vec![
            (
                "memory",
                format!(
                    "{} free of {}, at most {} for a lock domain",
                    output::size(self.free_bytes),
                    output::size(self.capacity_bytes),
                    output::size(self.quota_bytes)
                ),
            ),
            (
                "front-ends",
                format!(
                    "{}, and {} damaged lock domains",
                    self.front_ends, self.damaged
                ),
            ),
            ("tenures", tenures),
            ("readers", readers),
        ];
        let mirror = self.mirror.as_ref().map(MirrorReport::in_words);
        rows.extend(mirror.map(|words| ("mirror", words)));
        rows
    }
}

#[derive(Serialize)]
struct State<'a> {
    name: &'a str,
    domain: u32,
    tenure: u32,
    published: u64,
    staged: u64,
    log_used: u64,
    log_size: u64,
    memory: u64,
    old_versions: u64,
}

impl<'a> State<'a> {
    fn of(state: &'a DomainState) -> Self {
        let DomainStat {
            tenure,
            published,
            staged,
            log_used,
            log_size,
            ..
        } = state.stat;
        Self {
            name: &state.name,
            domain: state.number,
            tenure,
            published,
            staged,
            log_used,
            log_size,
            memory: state.memory,
            old_versions: state.old_versions,
        }
    }

    fn in_words(&self) -> String {
        let writer = match self.tenure {
            0 => "no writer".to_owned(),
            tenure => format!("tenure {tenure}"),
        };
        format!(
            "{writer}, {} operations published, {} staged, log {} of {}, memory {}, old versions {}",
            self.published,
            self.staged,
            output::size(self.log_used),
            output::size(self.log_size),
            output::size(self.memory),
            output::size(self.old_versions)
        )
    }
}

fn stat(flags: &Stat) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let metrics = session
        .run(async |session| session.metrics().await)
        .map_err(failure)?;
    let report = Report::of(&metrics);
    if flags.json {
        return output::json(&report);
    }
    output::table(&report.rows())?;
    let shown: Vec<(&str, String)> = report
        .domains
        .iter()
        .map(|state| (state.name, state.in_words()))
        .collect();
    output::table(&shown)
}
