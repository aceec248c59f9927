//! Figures of appending, below any store.

use std::time::Duration;

use super::plan::APPEND_SHM_4;
use super::{FiguresError, Run};
use stonecast_bench::appends::{Appends, MESSAGES, PlainCopies};

/// The rounds before the first measurement: each round lets a sender map some more pages of the buffer.
const WARM_UP_ROUNDS: u32 = 10;
/// Pairs of rounds of one repetition. A round takes milliseconds, so that a busy neighbour hits some of them only.
const ROUNDS: u32 = 15;

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    if !run.wants(&[&APPEND_SHM_4]) {
        return Ok(());
    }
    let folder =
        tempfile::tempdir_in(&run.options.memory_folder).map_err(system("making a folder"))?;
    let appends = Appends::prepare(folder.path())?;
    let plain = PlainCopies::prepare().map_err(system("making a buffer"))?;
    for _ in 0..WARM_UP_ROUNDS {
        appends.round()?;
    }
    for repetition in 1..=run.options.repetitions {
        (run.say)(&format!(
            "appends over shared memory and plain copies, {repetition} of {}",
            run.options.repetitions
        ));
        for _ in 0..ROUNDS {
            let ours = speed(appends.round()?);
            run.add(&APPEND_SHM_4, ours, speed(plain.round()));
        }
    }
    Ok(())
}

/// Messages a second of a round.
fn speed(elapsed: Duration) -> f64 {
    MESSAGES as f64 / elapsed.as_secs_f64()
}

fn system(doing: &'static str) -> impl Fn(std::io::Error) -> FiguresError {
    move |source| FiguresError::System { doing, source }
}
