//! A published back-end with its front-ends.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric_sim::{Machine, Process, World};
use stonecast_media::{Durability, PersistentRegion};
use stonecast_persist::execute::Commit;
use stonecast_published::asymnvm::{
    ASYM_COMPLETIONS, AsymBackEnd, AsymLayout, AsymReader, AsymSession, AsymWriter, Change,
    Variant, WriterOptions,
};
use stonecast_structures::shapes::Description;

use super::load::{
    AsymError, AsymLoad, AsymStore, Contestant, FrontEnd, KEYS, Look, Setting, Step,
    front_end_machine, key_of, machine, memory,
};

const SLAB_SIZE: u64 = 4 << 20;
const SLABS: u64 = 24;

/// A back-end in its world.
pub(super) struct Published {
    load: AsymLoad,
    world: Rc<World>,
    address: String,
    back_end: Process,
    layout: AsymLayout,
}

pub(super) fn layout(instances: u32, setting: Setting) -> AsymLayout {
    AsymLayout {
        instances,
        log_size: setting.log_size,
        slab_size: SLAB_SIZE,
        slabs: SLABS,
    }
}

impl Published {
    pub fn new(load: &AsymLoad) -> Result<Self, AsymError> {
        Self::within(&Rc::new(World::new(1)), load, 0)
    }

    /// The back-end with this number among those of a world.
    pub fn within(world: &Rc<World>, load: &AsymLoad, number: usize) -> Result<Self, AsymError> {
        let (this, memory) = Self::empty(world, load, number)?;
        if !variant_of(load.store).is_local() {
            fill(&*memory, load, this.layout)?;
        }
        Ok(this)
    }

    /// A back-end that holds nothing, and its memory.
    fn empty(
        world: &Rc<World>,
        load: &AsymLoad,
        number: usize,
    ) -> Result<(Self, Rc<dyn PersistentRegion>), AsymError> {
        let layout = layout(load.writers, load.setting);
        let address = format!("sim:asymnvm-{number}");
        let (memory, back_end) = serve(world, load, (layout, &address), |back_end| back_end)?;
        let this = Self {
            load: load.clone(),
            world: world.clone(),
            address,
            back_end,
            layout,
        };
        Ok((this, memory))
    }

    /// A back-end with several structures under one lock, and their writer.
    pub fn with_tables(
        load: &AsymLoad,
        tables: &[Description],
        rows: impl Iterator<Item = (u32, Change)>,
    ) -> Result<(Self, Process, AsymWriter), AsymError> {
        let (this, memory) = Self::empty(&Rc::new(World::new(1)), load, 0)?;
        let (process, machine) = this.front_end();
        let local = this.local(machine);
        let (filled, local) = match local {
            Some((memory, commit)) => (memory.clone(), Some((memory, commit))),
            None => (memory, None),
        };
        AsymWriter::load_tables(&*filled, (this.layout, 0), tables, rows)?;
        let session = this.session(&process, 0)?;
        let opening = AsymWriter::open(session, this.options(), local);
        let writer = this.world.block_on(opening)?;
        Ok((this, process, writer))
    }

    /// A process of a front-end, and its machine.
    pub fn front_end(&self) -> (Process, Machine) {
        let machine = front_end_machine(&self.world, &self.load);
        (self.world.process(machine), machine)
    }

    /// The process of the back-end.
    pub fn process(&self) -> Process {
        self.back_end.clone()
    }

    /// The memory of a front-end's machine in the symmetric setting, and its plan.
    fn local(&self, machine: Machine) -> Option<(Rc<dyn PersistentRegion>, Commit)> {
        if !variant_of(self.load.store).is_local() {
            return None;
        }
        let platform = self.load.platform();
        let size = self.layout.size();
        let (_module, memory) = memory(&self.world, machine, platform, size);
        let commit = Commit::choose(platform, Durability::Power, memory.means());
        Some((memory, commit.expect("the declaration fits the platform")))
    }

    /// A writer in a process, whose cache is warm.
    pub fn writer_in(
        &self,
        (process, machine): &(Process, Machine),
        number: u32,
    ) -> Result<AsymWriter, AsymError> {
        let session = self.session(process, number)?;
        let local = self.local(*machine);
        if let Some((memory, _)) = &local {
            fill(&**memory, &self.load, self.layout)?;
        }
        let writer = AsymWriter::open(session, self.options(), local);
        let mut writer = self.world.block_on(writer)?;
        if self.load.cache.remembers {
            let changes: Vec<Change> = self.load.loaded().collect();
            for changes in changes.chunks(512) {
                self.world.block_on(AsymWriter::run(&mut writer, changes))?;
                self.world.block_on(writer.finish())?;
            }
        } else if self.load.kind.has_keys() {
            let keys: Vec<Change> = self.load.loaded().collect();
            for keys in keys.chunks(512) {
                self.world.block_on(writer.warm(keys))?;
            }
        }
        Ok(writer)
    }

    /// A process on a machine of its own with a session of the first structure.
    pub fn reader_session(&self) -> Result<(Process, AsymSession), AsymError> {
        let (process, _machine) = self.front_end();
        let session = self.session(&process, 0)?;
        Ok((process, session))
    }

    /// The bytes of the first structure's slabs.
    pub fn data(&self) -> Span {
        self.layout.data(0)
    }

    fn options(&self) -> WriterOptions {
        let store = self.load.store;
        WriterOptions {
            variant: variant_of(store),
            in_flight: self.load.in_flight,
            batch: self.load.batch,
            cache: self.load.cache.options(),
            counts_cache: self.load.cache.counts,
            is_flushed: matches!(store, AsymStore::Flushed(_)),
            locks: matches!(store, AsymStore::Locked(_)),
            awaits_applied: matches!(store, AsymStore::Applied(_)),
            remembers: self.load.cache.remembers,
            read_size_max: self.load.setting.read_size_max,
        }
    }

    fn session(&self, process: &Process, number: u32) -> Result<AsymSession, AsymError> {
        session(&self.world, process, (&self.address, number))
    }
}

/// A session of a process.
pub(super) fn session(
    world: &World,
    process: &Process,
    (address, number): (&str, u32),
) -> Result<AsymSession, AsymError> {
    let port = process.port(ASYM_COMPLETIONS);
    let port = port.map_err(stonecast_published::PublishedError::from)?;
    Ok(world.block_on(AsymSession::connect(&port, address, number))?)
}

/// Starts a back-end. Returns its memory, and its process.
pub(super) fn serve(
    world: &World,
    load: &AsymLoad,
    (layout, address): (AsymLayout, &str),
    change: fn(AsymBackEnd) -> AsymBackEnd,
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
    let opened = change(opened);
    let listening = device.listen(address);
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
        // A writer that knows what it has written makes the structure itself.
        let loaded = load.loaded().filter(|_| !load.cache.remembers);
        AsymWriter::load(memory, of, load.description(), loaded)?;
    }
    Ok(())
}

fn variant_of(store: AsymStore) -> Variant {
    match store {
        AsymStore::Published(variant)
        | AsymStore::Flushed(variant)
        | AsymStore::Locked(variant)
        | AsymStore::Applied(variant) => variant,
        AsymStore::Ours | AsymStore::Sliding | AsymStore::Ahead | AsymStore::Mirrored => {
            unreachable!("another contestant")
        }
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
        let front_end = self.front_end();
        let writer = self.writer_in(&front_end, number)?;
        Ok((front_end.0, writer))
    }

    fn reader(&self) -> Result<(Process, AsymReader), AsymError> {
        let (process, session) = self.reader_session()?;
        let reader = AsymReader::open(session, self.load.kind);
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
