//! A check of a pool and a server that opens the pool report the same, whatever happened to the pool's files.
//!
//! Check and server agree if
//! - the check refuses the pools that the server refuses, and no other;
//! - the check finds something to mend where the server reports a repair, and nowhere else;
//! - the check finds latent damage only where a server refuses the pool once the checkpoint is gone, and wherever a
//!   server that has opened the pool shows damage to a reader;
//! - both count the same keys where nothing is damaged.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use stonecast_kv::{StoreError, Verification, verify};
use stonecast_media::{DirectoryBacking, MediaError, OpenMode, Pool};

use crate::world::{End, World, key};

/// The result of a check of a pool.
pub struct Said(Result<Verification, MediaError>);

/// The result of serving the pool.
#[derive(Debug)]
pub struct Served {
    /// Keys, and whether anything was mended, as reported by the server.
    opened: Result<(u64, bool), String>,
    /// The value read for each key; `Err` if the key was reported as damaged.
    pub read: Vec<Result<Option<Vec<u8>>, ()>>,
}

impl Served {
    pub fn is_refused(&self) -> bool {
        self.opened.is_err()
    }

    /// The reason why the pool is refused.
    pub fn refusal(&self) -> Option<&str> {
        self.opened.as_ref().err().map(String::as_str)
    }
}

/// Checks the pool at `path`.
pub fn check(path: &Path) -> Said {
    let checked = DirectoryBacking::inspect(path)
        .and_then(|backing| Pool::open(Rc::new(backing), OpenMode::Inspect))
        .map(|(pool, repairs)| {
            let mut checked = verify(&pool, &mut |_, _| {}).expect("files can be read");
            let mended = repairs.into_iter().map(|repair| repair.corruption);
            checked.harmless.extend(mended);
            checked
        });
    Said(checked)
}

/// Opens the pool of `world` to serve it, reads the first `keys` keys, and kills the server.
pub fn serve(world: &World, keys: u64) -> Served {
    let mut read = Vec::new();
    let opened = world.try_run(End::Kill, async |world| {
        let client = world.client().await;
        for n in 0..keys {
            let mut value = Vec::new();
            read.push(match client.get(&key(n), &mut value).await {
                Ok(found) => Ok(found.map(|_| value)),
                Err(StoreError::Corrupt(damage)) => {
                    assert!(
                        damage.offset < world.capacity && damage.file == "log",
                        "{damage}"
                    );
                    Err(())
                }
                Err(error) => panic!("key {n}: {error}"),
            });
        }
    });
    let report = world.report.borrow();
    let mended =
        !report.repairs.is_empty() || report.headers_repaired > 0 || world.header_repaired.get();
    Served {
        opened: opened
            .map(|()| (report.keys, mended))
            .map_err(|error| error.to_string()),
        read,
    }
}

/// Fails unless the check and the server agree. `what` names the damage done to the pool. Leaves the pool without a
/// checkpoint where the comparison needs that.
pub fn compare(world: &World, said: &Said, served: &Served, what: &str) {
    let refused = match &said.0 {
        Ok(checked) => !checked.damage.is_empty() || checked.refusal.is_some(),
        Err(_) => true,
    };
    assert_eq!(
        refused,
        served.is_refused(),
        "{what}: verify says {:?}, the server {:?}",
        said.0,
        served.opened
    );
    let (Ok(checked), Ok((keys, mended))) = (&said.0, &served.opened) else {
        return;
    };
    assert_eq!(
        !checked.harmless.is_empty(),
        *mended,
        "{what}: mended, says verify: {:?}",
        checked.harmless
    );
    let shown = served.read.iter().any(Result::is_err);
    if checked.latent.is_empty() {
        assert!(
            !shown,
            "{what}: a reader is told of damage, verify finds none"
        );
        assert_eq!(checked.keys, *keys, "{what}: keys");
        return;
    }
    fs::write(world.pool_path().join("checkpoint"), []).expect("a checkpoint is a file");
    assert!(
        serve(world, 0).is_refused(),
        "{what}: without a checkpoint a server opens it, and verify finds {:?}",
        checked.latent
    );
}
