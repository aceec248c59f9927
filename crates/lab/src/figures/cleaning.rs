//! The figure of writes into a pool that has to be cleaned all the time.

use std::sync::Arc;

use stonecast_workload::{Distribution, Mix};

use super::plan::PUT_CLEANING;
use super::writes::puts;
use super::{FiguresError, Run, capacity, loaded_server_of, record_size};
use stonecast_bench::kv::Amount;

/// Percentage of the small pool that is live.
const LIVE_PERCENT: u64 = 80;
/// Default bytes of a segment, and the smallest number of segments of a pool.
const SEGMENT_SIZE: u64 = 4 << 20;
const SEGMENTS_MIN: u64 = 16;

/// Measures PUTs into a pool of which [`LIVE_PERCENT`] percent are live, beside PUTs into a pool that never has
/// to be cleaned.
pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    if !run.wants(&[&PUT_CLEANING]) {
        return Ok(());
    }
    let options = run.options;
    let live = options.data.keys * record_size(&options.data);
    let small = (live * 100 / LIVE_PERCENT)
        .next_multiple_of(SEGMENT_SIZE)
        .max(SEGMENTS_MIN * SEGMENT_SIZE);
    // Before the measurement writes as large as the small pool fill it; the large pool never fills
    // up.
    let warm_up = small / record_size(&options.data);
    let all = (options.puts * 2 + warm_up) * u64::from(options.repetitions);
    let sequence = Arc::new(run.sequence(Mix::UpdateOnly, Distribution::ScrambledZipfian));
    (run.say)(&format!(
        "loading a pool of {} MiB that has to be cleaned, and one that need not be",
        small >> 20
    ));
    let (cleaned_server, cleaned) = loaded_server_of(options, small)?;
    let (roomy_server, roomy) = loaded_server_of(options, capacity(options, all))?;
    puts(
        &cleaned,
        &sequence,
        (16, 1),
        Amount::Operations(warm_up),
        options.data.value_size,
    )?;
    for repetition in 1..=options.repetitions {
        (run.say)(&format!(
            "{}, {repetition} of {}",
            PUT_CLEANING.name, options.repetitions
        ));
        let ours = puts(
            &cleaned,
            &sequence,
            (16, 1),
            Amount::Operations(options.puts),
            options.data.value_size,
        )?;
        let beside = puts(
            &roomy,
            &sequence,
            (16, 1),
            Amount::Operations(options.puts),
            options.data.value_size,
        )?;
        run.add(&PUT_CLEANING, ours, beside);
    }
    let cleaning = cleaned.block_on(cleaned.client().metrics())?.cleaning;
    (run.say)(&format!(
        "{} segments cleaned, {:.2} bytes written for each byte of a PUT",
        cleaning.segments,
        cleaning.write_amplification()
    ));
    cleaned.close();
    roomy.close();
    drop((cleaned_server, roomy_server));
    Ok(())
}
