//! A published back-end with its front-ends.

use std::rc::Rc;

use stonecast_fabric_sim::{Process, World};
use stonecast_media::{Durability, PersistentRegion};
use stonecast_persist::execute::Commit;
use stonecast_published::asymnvm::{
    ASYM_COMPLETIONS, AsymBackEnd, AsymLayout, AsymReader, AsymSession, AsymWriter, Change,
    Variant, WriterOptions,
};

use super::load::{
    AsymError, AsymLoad, AsymStore, Contestant, FrontEnd, KEYS, Look, Step, key_of, machine, memory,
};

const ADDRESS: &str = "sim:asymnvm";
/// Bytes of each log.
const LOG_SIZE: u64 = 16 << 20;
const SLAB_SIZE: u64 = 4 << 20;
const SLABS: u64 = 24;

/// A back-end in its world.
pub(super) struct Published {
    load: AsymLoad,
    world: World,
    back_end: Process,
    layout: AsymLayout,
}

pub(super) fn layout(instances: u32) -> AsymLayout {
    AsymLayout {
        instances,
        log_size: LOG_SIZE,
        slab_size: SLAB_SIZE,
        slabs: SLABS,
    }
}

impl Published {
    pub fn new(load: &AsymLoad) -> Result<Self, AsymError> {
        let world = World::new(1);
        let layout = layout(load.writers);
        let (memory, back_end) = serve(&world, load, layout)?;
        if !variant_of(load.store).0.is_local() {
            fill(&*memory, load, layout)?;
        }
        Ok(Self {
            load: load.clone(),
            world,
            back_end,
            layout,
        })
    }

    fn options(&self) -> WriterOptions {
        let (variant, is_flushed, locks) = variant_of(self.load.store);
        WriterOptions {
            variant,
            in_flight: self.load.in_flight,
            batch: self.load.batch,
            cache: self.load.cache.options(),
            counts_cache: self.load.cache.counts,
            is_flushed,
            locks,
        }
    }

    fn session(&self, process: &Process, number: u32) -> Result<AsymSession, AsymError> {
        session(&self.world, process, number)
    }
}

/// A session of a process.
pub(super) fn session(
    world: &World,
    process: &Process,
    number: u32,
) -> Result<AsymSession, AsymError> {
    let port = process.port(ASYM_COMPLETIONS);
    let port = port.map_err(stonecast_published::PublishedError::from)?;
    Ok(world.block_on(AsymSession::connect(&port, ADDRESS, number))?)
}

/// Starts a back-end. Returns its memory, and its process.
pub(super) fn serve(
    world: &World,
    load: &AsymLoad,
    layout: AsymLayout,
) -> Result<(Rc<dyn PersistentRegion>, Process), AsymError> {
    let platform = load.platform();
    let machine = machine(world, platform);
    let (_module, memory) = memory(world, machine, platform, layout.size());
    let commit = Commit::choose(platform, Durability::Power, memory.means())
        .expect("the declaration fits the platform");
    let process = world.process(machine);
    let port = process.port(64);
    let port = port.map_err(stonecast_published::PublishedError::from)?;
    let device = port.device().clone();
    let opened = AsymBackEnd::open(memory.clone(), commit, (port, process.runtime()), layout)?;
    let listening = device.listen(ADDRESS);
    listening.map_err(stonecast_published::PublishedError::from)?;
    process.runtime().spawn(Box::pin(async move {
        let served = opened.run(&|| false).await;
        served.expect("nothing disturbs the back-end");
    }));
    Ok((memory, process))
}

fn fill(
    memory: &dyn PersistentRegion,
    load: &AsymLoad,
    layout: AsymLayout,
) -> Result<(), AsymError> {
    for instance in 0..layout.instances {
        let of = (layout, instance);
        AsymWriter::load(memory, of, load.description(), load.loaded())?;
    }
    Ok(())
}

fn variant_of(store: AsymStore) -> (Variant, bool, bool) {
    match store {
        AsymStore::Published(variant) => (variant, false, false),
        AsymStore::Flushed(variant) => (variant, true, false),
        AsymStore::Locked(variant) => (variant, false, true),
        AsymStore::Ours | AsymStore::Mirrored => unreachable!("another contestant"),
    }
}

impl Contestant for Published {
    type Writer = AsymWriter;
    type Reader = AsymReader;

    fn world(&self) -> &World {
        &self.world
    }

    fn back_end(&self) -> &Process {
        &self.back_end
    }

    fn writer(&self, number: u32) -> Result<(Process, AsymWriter), AsymError> {
        let platform = self.load.platform();
        let machine = machine(&self.world, platform);
        let process = self.world.process(machine);
        let session = self.session(&process, number)?;
        let local = match variant_of(self.load.store).0.is_local() {
            false => None,
            true => {
                let size = self.layout.size();
                let (_module, memory) = memory(&self.world, machine, platform, size);
                fill(&*memory, &self.load, self.layout)?;
                let commit = Commit::choose(platform, Durability::Power, memory.means());
                Some((memory, commit.expect("the declaration fits the platform")))
            }
        };
        let writer = AsymWriter::open(session, self.options(), local);
        let mut writer = self.world.block_on(writer)?;
        if self.load.kind.has_keys() {
            let keys: Vec<Change> = self.load.loaded().collect();
            for keys in keys.chunks(512) {
                self.world.block_on(writer.warm(keys))?;
            }
        }
        Ok((process, writer))
    }

    fn reader(&self) -> Result<(Process, AsymReader), AsymError> {
        let process = self
            .world
            .process(machine(&self.world, self.load.platform()));
        let session = self.session(&process, 0)?;
        let reader = AsymReader::open(session, self.load.kind.is_versioned());
        let mut reader = self.world.block_on(reader)?;
        self.world.block_on(reader.get(&key_of(KEYS - 1)))?;
        Ok((process, reader))
    }
}

impl FrontEnd for AsymWriter {
    async fn run(&mut self, steps: &[Step]) -> Result<(), AsymError> {
        let changes = steps.iter().filter_map(|step| match step {
            Step::Change(change) => Some(change.clone()),
            Step::Get(_) => None,
        });
        Self::run(self, &changes.collect::<Vec<_>>()).await?;
        for step in steps {
            if let Step::Get(key) = step {
                self.get(key).await?;
            }
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), AsymError> {
        Ok(Self::settle(self).await?)
    }

    fn counts(&self) -> [u64; 4] {
        let counts = Self::counts(self);
        [
            counts.session.trips,
            counts.session.writes,
            counts.hits,
            counts.misses,
        ]
    }
}

impl Look for AsymReader {
    async fn get(&mut self, key: &[u8]) -> Result<(), AsymError> {
        Self::get(self, key).await?;
        Ok(())
    }

    fn counts(&self) -> [u64; 2] {
        [self.reads, self.retries]
    }
}
