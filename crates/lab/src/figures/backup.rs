//! The figure of writes beside backups of the same server, one after the other.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use stonecast_workload::{Distribution, Mix};

use super::plan::PUT_BACKUP;
use super::writes::puts;
use super::{FigureOptions, FiguresError, Run, capacity, loaded_server_of};
use stonecast_bench::kv::Amount;

/// Measures PUTs beside backups, and PUTs of the same client alone.
pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    if !run.wants(&[&PUT_BACKUP]) {
        return Ok(());
    }
    let options = run.options;
    let all = options.puts * 2 * u64::from(options.repetitions);
    let sequence = Arc::new(run.sequence(Mix::UpdateOnly, Distribution::ScrambledZipfian));
    (run.say)("loading a server that will be backed up");
    let (server, session) = loaded_server_of(options, capacity(options, all))?;
    let folder = tempfile::tempdir_in(&options.disk_folder);
    let folder = folder.map_err(system("making a folder for backups"))?;
    let file = folder.path().join("backup");
    for repetition in 1..=options.repetitions {
        (run.say)(&format!(
            "{}, {repetition} of {}",
            PUT_BACKUP.name, options.repetitions
        ));
        let puts = || {
            let amount = Amount::Operations(options.puts);
            puts(
                &session,
                &sequence,
                (16, 1),
                amount,
                options.data.value_size,
            )
        };
        let (beside, backups) = beside_backups(options, &server.address(), &file, puts)?;
        let alone = puts()?;
        (run.say)(&format!("{backups} backups meanwhile"));
        run.add(&PUT_BACKUP, beside, alone);
    }
    session.close();
    Ok(())
}

/// Runs `work` while one backup follows the other. Returns its result and the number of backups.
fn beside_backups<T>(
    options: &FigureOptions,
    address: &str,
    file: &Path,
    work: impl FnOnce() -> Result<T, FiguresError>,
) -> Result<(T, u32), FiguresError> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let backups = scope.spawn(|| -> Result<u32, FiguresError> {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                back_up(&options.program, address, file)?;
                count += 1;
            }
            Ok(count)
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        let count = backups.join().expect("a backup does not panic");
        Ok((done?, count?))
    })
}

fn back_up(program: &Path, address: &str, file: &Path) -> Result<(), FiguresError> {
    let backup = Command::new(program)
        .args(["backup", "--connect", address])
        .arg(file)
        .output()
        .map_err(system("starting a backup"))?;
    if !backup.status.success() {
        return Err(FiguresError::NoBackup {
            status: backup.status,
            said: String::from_utf8_lossy(&backup.stderr).trim().to_owned(),
        });
    }
    fs::remove_file(file).map_err(system("removing a backup"))
}

fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> FiguresError {
    move |source| FiguresError::System { doing, source }
}
