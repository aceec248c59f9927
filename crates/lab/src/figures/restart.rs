//! The figure of recovery: the speed of scanning the pool of a killed server.

use std::rc::Rc;
use std::time::Instant;

use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{ClientPolicy, RecoveryReport, Server, StoreError};
use stonecast_media::{DirectoryBacking, OpenMode, Pool};

use super::plan::RESTART_SCAN;
use super::{FiguresError, Run, loaded_server};

/// Entries of the completion queues of a server without clients.
const COMPLETIONS: u32 = 4096;

/// Measures openings of the pool in this process, so that the start of a process does not count. Each opening scans the
/// whole log again, since no opening closes the pool.
pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    if !run.wants(&[&RESTART_SCAN]) {
        return Ok(());
    }
    let options = run.options;
    (run.say)("loading a server that will be killed");
    let (mut server, session) = loaded_server(options)?;
    server.kill();
    drop(session);
    for repetition in 1..=options.repetitions {
        (run.say)(&format!(
            "recovery, {repetition} of {}",
            options.repetitions
        ));
        let start = Instant::now();
        let backing = DirectoryBacking::open(&server.pool())?;
        let (pool, _) = Pool::open(Rc::new(backing), OpenMode::Serve)?;
        let report = recover(pool)?;
        let seconds = start.elapsed().as_secs_f64();
        let found = report.keys;
        if found != options.data.keys {
            let errors = options.data.keys.abs_diff(found);
            return Err(FiguresError::OperationsFailed {
                what: "recovery",
                errors,
                ops: options.data.keys,
            });
        }
        run.add(&RESTART_SCAN, report.bytes_scanned as f64 / seconds, 0.0);
    }
    Ok(())
}

fn recover(pool: Pool) -> Result<RecoveryReport, StoreError> {
    let device = ShmDevice::new(ShmOptions::default())?;
    let executor = BusyPoll::new(device.clone(), 0);
    let port = Rc::new(Port::new(device, COMPLETIONS)?);
    executor.add_port(&port);
    let options = stonecast_kv::ServerOptions {
        clients: ClientPolicy::Trusted,
        ..Default::default()
    };
    let (_server, report) =
        executor.block_on(Server::open(pool, port, executor.runtime(), options))?;
    Ok(report)
}
