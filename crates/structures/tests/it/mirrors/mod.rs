//! A back-end and its mirror on simulated machines.

pub mod logs;
mod losses;
pub mod pair;
pub mod promotions;
pub mod records;

use std::cell::Cell;
use std::rc::Rc;

use stonecast_fabric_sim::Process;
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{BackEnd, Key as _, Verb, Writer};

use crate::sessions::{create, operation};

/// The seeds of a story: its usual ones, or as many as a campaign demands.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let demanded = std::env::var("STONECAST_MIRROR_SEEDS").ok();
    0..demanded.map_or(usual, |count| count.parse().expect("a number of seeds"))
}

/// A writer of one structure that works until its back-end is gone, and the number of keys that it was told to be
/// durable.
pub struct Work {
    pub domain: u32,
    pub structure: u32,
    pub told: Rc<Cell<u64>>,
}

impl Work {
    /// Makes a structure, and begins to insert keys.
    pub async fn begin(process: &Process, back_end: &Rc<BackEnd>, kind: StructureKind) -> Self {
        let domain = back_end.create_domain(3).await.expect("there is room");
        let mut writer = back_end.writer(domain).await.expect("the domain is free");
        let structure = create(&mut writer, kind).await;
        writer.publish().await.expect("the tenure lasts");
        let work = Self {
            domain,
            structure,
            told: Rc::default(),
        };
        work.go_on(process, writer);
        work
    }

    /// Inserts keys from the first one that was not told.
    pub fn go_on(&self, process: &Process, mut writer: Writer) {
        let (structure, told) = (self.structure, self.told.clone());
        process.runtime().spawn(Box::pin(async move {
            for key in told.get().. {
                let (encoded, value) = (key.encoded(), (key * 3).to_le_bytes());
                let insert = operation(structure, Verb::Insert, &encoded, &value);
                let Ok((_, ticket)) = writer.stage(&insert).await else {
                    return;
                };
                let answered = match key % 7 {
                    0..2 => ticket.await,
                    2 => writer.flush().await,
                    3 => writer.publish().await,
                    4 => match writer.start_publication().await {
                        Ok(_publication) => continue,
                        Err(_) => return,
                    },
                    _ => continue,
                };
                match answered {
                    Ok(()) => told.set(key + 1),
                    Err(_) => return,
                }
            }
        }));
    }
}
