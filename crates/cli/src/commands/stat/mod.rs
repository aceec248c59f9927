//! `stat`: what a running server holds and does, once or again and again.

mod gateway;
mod report;

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use stonecast_kv::Metrics;

use crate::arguments::Stat;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;
use crate::signals::Stop;
use report::Report;

/// Home, and everything below is erased: what was there is drawn over, without flicker.
const REDRAW: &str = "\x1b[H\x1b[J";
/// How often it is looked whether somebody asked for the end.
const LOOK: Duration = Duration::from_millis(50);

/// Asks the server and prints its answer.
pub fn run(flags: &Stat, session: Session, admin: Option<SocketAddr>) -> Result<(), Failure> {
    let result = if flags.watch {
        watch(flags, &session, admin)
    } else {
        print(flags, &ask(&session)?, None, admin)
    };
    session.close();
    result
}

fn ask(session: &Session) -> Result<Metrics, Failure> {
    session.run(async |client| Ok(client.metrics().await?))
}

fn watch(flags: &Stat, session: &Session, admin: Option<SocketAddr>) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut before: Option<(Metrics, Instant)> = None;
    while !stop.asked() {
        let (metrics, now) = (ask(session)?, Instant::now());
        if !flags.json && io::stdout().is_terminal() {
            output::bytes(REDRAW.as_bytes())?;
        } else if !flags.json && before.is_some() {
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
    before: Option<(&Metrics, Duration)>,
    admin: Option<SocketAddr>,
) -> Result<(), Failure> {
    let gateway = admin.map(gateway::status).transpose();
    if flags.json {
        let report = Report::of(metrics, gateway.unwrap_or_default());
        return output::json(&report);
    }
    output::bytes(report::text(metrics, before).as_bytes())?;
    match gateway {
        Ok(Some(status)) => output::table(&gateway::rows(&status)),
        Ok(None) => Ok(()),
        Err(reason) => output::table(&[("gateway", reason)]),
    }
}
