//! The opening of a pool whose back-end was killed, by the bytes of the log that it reads. The pool is opened in this
//! process, so that the start of a process does not count.

use std::time::Instant;

use stonecast::Durability;
use stonecast::structures::{BlockingWriter, Server, connect_blocking};

use super::{
    BYTES_PER_KEY, BackEnd, Hundred, Pairs, StructuresError, StructuresOptions, Tree, is_right,
    load,
};
use crate::figures::{Definition, Direction, Judged};

/// Bytes of a pool beside those of the keys.
const ROOM: u64 = 256 << 20;
/// Keys that are loaded at a time.
const LOADED: u64 = 4096;
/// Inserts that are durable and not published when the back-end is killed. More would be published on the way: their
/// transaction is nearly as long as it may be.
const STAGED: u64 = 3_000;
/// Inserts whose transaction is published and perhaps not trimmed.
const PUBLISHED: u64 = 3_000;

const SPEED: Definition = Definition {
    name: "b-tree-restart",
    what: "restart of a back-end: bytes of the log that are read",
    unit: "B/s",
    judged: Judged::Ours,
    target: Some(1e9),
    direction: Direction::AtLeast,
};
const TIME: Definition = Definition {
    name: "b-tree-restart-time",
    what: "restart of a back-end: duration",
    unit: "s",
    target: None,
    direction: Direction::AtMost,
    ..SPEED
};

pub(super) const FIGURES: [Definition; 2] = [SPEED, TIME];

pub(super) fn measure(options: &StructuresOptions) -> Result<Pairs, StructuresError> {
    let parent = options.memory_folder.as_path();
    let capacity = ROOM + options.keys * BYTES_PER_KEY;
    let mut back_end = BackEnd::start(options, (parent, "process"), capacity)?;
    load_tree(&back_end, options.keys)?;
    let mut keys = options.keys;
    let (mut speeds, mut times) = (Vec::new(), Vec::new());
    for repetition in 0..options.repetitions {
        if repetition > 0 {
            back_end.process.restart()?;
        }
        let bytes = leave_over(&back_end, &mut keys)?;
        back_end.process.kill();
        let start = Instant::now();
        let server = Server::builder(&back_end.place);
        let server = server.durability(Durability::Process).open()?;
        let seconds = start.elapsed().as_secs_f64();
        server.close()?;
        speeds.push((bytes as f64 / seconds, f64::NAN));
        times.push((seconds, f64::NAN));
    }
    back_end.process.restart()?;
    check(&back_end, keys)?;
    Ok(vec![(SPEED, speeds), (TIME, times)])
}

fn load_tree(back_end: &BackEnd, keys: u64) -> Result<(), StructuresError> {
    let session = connect_blocking(&back_end.url())?;
    let mut writer: BlockingWriter<Tree> = session.writer("entries")?;
    load(&mut writer, keys, LOADED, |_| ())?;
    Ok(writer.release()?)
}

/// Inserts keys, of which the last ones are durable and not published. Returns the bytes of the log that a restart
/// reads.
fn leave_over(back_end: &BackEnd, keys: &mut u64) -> Result<u64, StructuresError> {
    let session = connect_blocking(&back_end.url())?;
    let mut writer: BlockingWriter<Tree> = session.writer("entries")?;
    let mut insert = |count: u64| {
        for key in *keys..*keys + count {
            writer.stage(&key, &Hundred::of(key))?;
        }
        *keys += count;
        Ok::<_, StructuresError>(())
    };
    insert(PUBLISHED)?;
    insert(STAGED)?;
    writer.flush()?;
    // The back-end counts records of which it was told.
    writer.renew()?;
    let states = session.stat()?;
    Ok(states.iter().map(|state| state.stat.log_used).sum())
}

/// Everything that was durable is there.
fn check(back_end: &BackEnd, keys: u64) -> Result<(), StructuresError> {
    let session = connect_blocking(&back_end.url())?;
    let mut reader = session.reader::<Tree>("entries")?;
    let last = keys - 1;
    is_right("the B+tree", last, reader.get(&last)?.as_ref())?;
    match reader.len()? == keys {
        true => Ok(()),
        false => Err(StructuresError::Wrong {
            store: "the B+tree",
            key: keys,
        }),
    }
}
