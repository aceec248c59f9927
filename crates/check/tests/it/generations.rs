//! Segments that were used so often that the bits of a word no longer distinguish their
//! generations, in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::decorate::{Meter, Observed};
use stonecast_fabric_sim::{MachineOptions, MachineProfile, Process, World};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, ClientOptions, Server};
use stonecast_log::{LogFormat, SegmentState, generation_of};
use stonecast_media::persist_spans;

use crate::one_server::{self, ADDRESS};

const SEGMENTS: u32 = 4;
/// Time after the read of a word for which its record may be read, once generations repeat.
const SPAN_NS: Nanoseconds = 500_000_000;

/// The current generations of all segments in the server's memory.
type Seen = Rc<Cell<[u32; SEGMENTS as usize]>>;

/// A server whose segments are all in this generation.
fn start(world: &World, generation: u32) -> Seen {
    let seen = Seen::default();
    let told = seen.clone();
    one_server::start(world, SEGMENTS, async move |pool| {
        let format = LogFormat::of(pool);
        let log = pool.log();
        let headers: Vec<_> = (0..SEGMENTS)
            .map(|number| SegmentState::fresh(number, generation).write_header(&*log, &format))
            .collect();
        persist_spans(&*log, &headers).await.unwrap();
        move |_: &Server| {
            told.set(std::array::from_fn(|number| {
                generation_of(&*log, &format, number as u32).unwrap_or_default()
            }))
        }
    });
    seen
}

/// A client that remembers no places, so that each look-up reads a bucket and then a record.
fn connect(world: &World) -> (Process, Rc<Meter>, Client) {
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let meter = Rc::<Meter>::default();
    let client = world.block_on(async {
        process.runtime().sleep(100_000_000).await;
        let device = Rc::new(Observed::new(process.open_device(), meter.clone()));
        let port = process.port_on(device, CLIENT_COMPLETIONS).unwrap();
        let options = ClientOptions {
            locations: 0,
            ..ClientOptions::default()
        };
        Client::connect_with(options, port, process.runtime(), ADDRESS)
            .await
            .unwrap()
    });
    (process, meter, client)
}

/// READs of a look-up whose client is stopped for `pause_ns` between bucket and record.
fn reads_of_a_look_up(generation: u32, pause_ns: Nanoseconds) -> u64 {
    let world = World::new(1);
    start(&world, generation);
    let (process, meter, client) = connect(&world);
    world.block_on(async {
        client.put(b"key", b"value").await.unwrap();
        // A client that has read a record of such a generation reads the clock afterwards.
        assert!(client.get(b"key", &mut Vec::new()).await.unwrap().is_some());
    });
    let before = meter.counts().reads;
    let found = Rc::new(RefCell::new(None));
    let (reader, told) = (client.clone(), found.clone());
    process.runtime().spawn(Box::pin(async move {
        let mut value = Vec::new();
        reader.get(b"key", &mut value).await.unwrap();
        told.replace(Some(value));
    }));
    while meter.counts().reads == before {
        assert!(world.step());
    }
    process.pause(pause_ns);
    while found.borrow().is_none() {
        assert!(world.step());
    }
    assert_eq!(found.take().unwrap(), b"value");
    meter.counts().reads - before
}

/// Fails without `Generations::believes`: a word is valid as long as its segment cannot have been used 1024 more times.
#[test]
fn a_record_that_was_read_long_after_its_word_is_read_again_once_generations_wrap_around() {
    assert_eq!(reads_of_a_look_up(1024, SPAN_NS / 2), 2, "soon enough");
    assert_eq!(
        reads_of_a_look_up(1024, SPAN_NS + SPAN_NS / 10),
        4,
        "bucket and record, and both again"
    );
    assert_eq!(
        reads_of_a_look_up(1, SPAN_NS + SPAN_NS / 10),
        2,
        "nothing can be confused yet"
    );
}

/// Fails without `Space::may_reuse`, on which readers depend: these generations would take three fifths of that time.
#[test]
fn no_segment_goes_through_256_generations_in_less_than_half_a_second() {
    let world = World::new(2);
    let seen = start(&world, 255);
    let (process, _, client) = connect(&world);
    let written = Rc::new(Cell::new(false));
    let told = written.clone();
    let watch = seen.clone();
    process.runtime().spawn(Box::pin(async move {
        let value = vec![7; 100_000];
        while watch.get().iter().all(|generation| *generation < 512) {
            client.put(b"key", &value).await.unwrap();
        }
        told.set(true);
    }));
    let mut began = [None; SEGMENTS as usize];
    while !written.get() {
        assert!(world.step());
        for (began, generation) in began.iter_mut().zip(seen.get()) {
            if generation >= 256 {
                let began = *began.get_or_insert(world.now());
                assert!(
                    generation < 512 || world.now() >= began + SPAN_NS,
                    "256 generations in {} ns",
                    world.now() - began
                );
            }
        }
    }
}

/// Fails unless a record of another key notes its generation: the key's own record may have been at that place.
#[test]
fn a_key_is_not_taken_for_absent_because_another_keys_record_of_a_later_round_is_there() {
    const KEYS: u32 = 400;
    const VALUE: [u8; 1000] = [7; 1000];
    const LOOK_UPS: u32 = 500_000;
    let world = World::new(3);
    start(&world, 1024);
    let (_writing, _, writer) = connect(&world);
    world.block_on(async {
        for n in 0..KEYS {
            writer.put(&n.to_be_bytes(), &VALUE).await.unwrap();
        }
    });
    let (_reading, meter, reader) = connect(&world);
    let reads = world.block_on(async {
        for n in 0..LOOK_UPS {
            let before = meter.counts();
            let key = [b"absent".as_slice(), &n.to_be_bytes()].concat();
            assert_eq!(reader.get(&key, &mut Vec::new()).await.unwrap(), None);
            let after = meter.counts();
            // Only buckets are read, unless the key has the fingerprint of another one.
            if after.bytes_in - before.bytes_in > VALUE.len() as u64 {
                return after.reads - before.reads;
            }
        }
        panic!("no key has the fingerprint of another one");
    });
    assert_eq!(
        reads, 4,
        "bucket and the other key's record, and both again, now by the clock"
    );
}
