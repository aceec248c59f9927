//! The power of the machine is cut, and with it that of all nodes at once: a site for `power_cuts`, whose judge reads
//! the notes.

use std::path::Path;

use rand::RngExt as _;
use stonecast::Effect;
use stonecast::blocking::Client;
use stonecast_base::random_from_seed;

use crate::kill::notes::{Kind, Note, Notes};
use crate::kill::work::{WRITERS, value_of};
use crate::power_cuts::Site;

use super::nodes::Nodes;

const KEYS: usize = 12;

/// Needs a start of all nodes after a loss of power: each asks its pool what it may have lost, and all of them agree on
/// the last writes.
#[test]
#[ignore = "a machine whose power is cut runs it: cargo xtask guest --only cluster-power-cuts"]
fn loads_a_cluster_until_the_power_is_cut() {
    let site = Site::from_environment();
    site.leave("opening", b"");
    let nodes = Nodes::start();
    site.leave("export", nodes.client(&["export"]).text().as_bytes());
    if site.is_the_last_boot() {
        return;
    }
    let start_one = |worker| {
        let client = nodes.connector();
        let (notes, first) = (site.notes(site.boot, worker), site.first_operation(worker));
        std::thread::spawn(move || {
            let client = client.connect_blocking().expect("a node serves");
            write_keys(&client, worker, &notes, first);
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(start_one).collect();
    site.wait_for_notes(WRITERS);
    site.leave("loading", b"");
    for writer in writers {
        writer.join().expect("every write is done");
    }
    unreachable!("a writer ends with the machine");
}

/// Writes keys of this worker alone, one after the other.
fn write_keys(client: &Client, worker: usize, notes: &Path, first_operation: u64) {
    let notes = Notes::append(notes);
    let mut random = random_from_seed(first_operation);
    for operation in first_operation.. {
        let key = format!("writer-{worker}/{}", random.random_range(0..KEYS));
        let kind = match random.random_bool(0.25) {
            true => Kind::Delete,
            false => Kind::Put,
        };
        notes.write(&Note::Begin {
            operation,
            kind,
            key: key.clone(),
        });
        let done = match kind {
            Kind::Put => client.put(&key, value_of(operation)).map(drop),
            Kind::Delete => client.delete(&key).map(drop),
        };
        match done {
            Ok(()) => notes.write(&Note::Acknowledged { operation }),
            Err(error) if error.effect() == Effect::None => {
                notes.write(&Note::NotDone { operation });
            }
            Err(error) => panic!("{kind:?} {key}: {error}"),
        }
    }
}
