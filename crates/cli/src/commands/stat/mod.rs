//! `stat`: the content and the work of a running server, once or repeatedly.

pub mod gateway;
mod report;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use stonecast::Metrics;

use crate::failure::Failure;
use crate::flags::{Connection, OutputFlags};
use crate::output;
use crate::session::Session;
use crate::signals::Stop;
use crate::values::Period;
use gateway::{Admin, AdminFlags};
use report::{Earlier, Report};

/// Shows the content and the work of a running server, for clients of its memory and for its gateway.
///
/// The counts of reads come from reports of the clients, and lack the reads of each client's last second. On a cluster,
/// each node that leads a shard is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: once for people, as JSON for programs, and again and again with the gateway's part
  stonecast stat
  stonecast stat --json
  stonecast stat --watch --admin 127.0.0.1:9180
  stonecast stat --admin 192.0.2.7:9180 --password-file password --tls-authority authority.pem")]
pub struct Stat {
    #[command(flatten)]
    pub output: OutputFlags,
    /// Prints repeatedly, redrawn on a terminal, until interrupted. Rates, sizes and times of calls are then those
    /// since the print before; with --json they stand beside the others, under `interval`.
    #[arg(long)]
    pub watch: bool,
    /// Interval between two prints.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub every: Period,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub admin: AdminFlags,
}

/// The reports of a cluster, as `--json` prints them.
#[derive(Serialize)]
struct Nodes {
    nodes: BTreeMap<String, Report>,
}

/// Moves the cursor home and erases everything below, so that a redraw does not flicker.
const REDRAW: &str = "\x1b[H\x1b[J";
/// The interval at which the loop checks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Asks the server and prints its answer.
pub fn run(flags: &Stat) -> Result<(), Failure> {
    let admin = Admin::of(&flags.admin)?;
    let is_cluster = flags.connection.address.is_cluster();
    if is_cluster && (flags.watch || admin.is_some()) {
        return Err(Failure::usage(
            "--watch and --admin are for one server: name a node with --connect, or leave them out",
        ));
    }
    let session = Session::open(&flags.connection)?;
    let result = if is_cluster {
        print_nodes(flags, &session)
    } else if flags.watch {
        watch(flags, &session, admin.as_ref())
    } else {
        print(flags, &ask(&session)?, None, admin.as_ref())
    };
    session.close();
    result
}

fn ask(session: &Session) -> Result<Metrics, Failure> {
    session.run(async |client| Ok(client.metrics().await?))
}

/// Asks each node of a cluster and prints the answers. Fails like the last node that gave no
/// answer.
fn print_nodes(flags: &Stat, session: &Session) -> Result<(), Failure> {
    let nodes = session.run(async |client| Ok(client.nodes().await))?;
    let (mut reports, mut text, mut failed) = (BTreeMap::new(), String::new(), Ok(()));
    for (name, counted) in nodes {
        let words = match counted {
            Ok(metrics) => {
                let words = report::text(&metrics, None);
                reports.insert(name.clone(), Report::of(&metrics, None, None));
                words
            }
            Err(error) => {
                let words = format!("{error}\n");
                failed = Err(Failure::from(error));
                words
            }
        };
        text = format!("{text}node {name}\n{words}");
    }
    match flags.output.json {
        true => output::json(&Nodes { nodes: reports })?,
        false => output::bytes(text.as_bytes())?,
    }
    failed
}

fn watch(flags: &Stat, session: &Session, admin: Option<&Admin>) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut before: Option<(Metrics, Instant)> = None;
    while !stop.asked() {
        let (metrics, now) = (ask(session)?, Instant::now());
        if !flags.output.json && io::stdout().is_terminal() {
            output::bytes(REDRAW.as_bytes())?;
        } else if !flags.output.json && before.is_some() {
            output::bytes(b"\n")?;
        }
        let since = before
            .as_ref()
            .map(|(metrics, then)| (metrics, now - *then));
        print(flags, &metrics, since, admin)?;
        before = Some((metrics, now));
        while !stop.asked() && now.elapsed() < flags.every.0 {
            thread::sleep(LOOK.min(flags.every.0));
        }
    }
    Ok(())
}

fn print(
    flags: &Stat,
    metrics: &Metrics,
    before: Earlier<'_>,
    admin: Option<&Admin>,
) -> Result<(), Failure> {
    let told = admin.map(Admin::status).transpose();
    if flags.output.json {
        return output::json(&Report::of(metrics, before, told?));
    }
    // The server's part is also of use without the gateway's part.
    output::bytes(report::text(metrics, before).as_bytes())?;
    let Some(told) = told? else {
        return Ok(());
    };
    output::table(&gateway::rows(&told.gateway))?;
    match &told.structures {
        Some(back_end) => output::table(&gateway::structure_rows(back_end)),
        None => Ok(()),
    }
}
