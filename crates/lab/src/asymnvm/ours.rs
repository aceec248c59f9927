//! `structures` under the loads of the paper: a domain for each writer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_fabric_sim::{Process, World};
use stonecast_media::{Durability, PersistentRegion};
use stonecast_published::asymnvm::Change;
use stonecast_structures::shapes::{Answer, Roots};
use stonecast_structures::{
    BackEnd, FRONT_END_COMPLETIONS, FrontEndError, LogKey, Medium, MirrorLink, MirrorServer,
    PoolGeometry, Reader, SERVICE_COMPLETIONS, Service, StructurePool, Ticket, Verb, Writer,
};

use super::load::{
    AsymError, AsymLoad, AsymStore, Contestant, FrontEnd, Look, Step, front_end_machine, machine,
    memory,
};

const MIRROR: &str = "sim:mirror";
/// The time between two looks at a mirror that is being filled.
const LOOK_NS: u64 = 1_000_000;
const LEASE_NS: u64 = 10_000_000_000;
const SLAB_SIZE: u64 = 4 << 20;
/// Slabs of a domain.
const SLABS: u32 = 24;
/// The structure of a domain.
const STRUCTURE: u32 = 1;
/// Bytes of inner nodes that a reader remembers.
const REMEMBERED: u64 = 16 << 20;

/// A back-end of `structures` in its world.
pub(super) struct Ours {
    load: AsymLoad,
    world: Rc<World>,
    address: String,
    back_end: Process,
    /// The process of the mirror, which lives as long as this.
    mirror: Option<Process>,
    first_domain: RefCell<Option<u32>>,
}

fn geometry(writers: u32) -> PoolGeometry {
    PoolGeometry {
        domains: writers + 1,
        slab_size: SLAB_SIZE,
        slab_count: u64::from(writers * (SLABS + 4)) + 4,
    }
}

impl Ours {
    pub fn new(load: &AsymLoad) -> Result<Self, AsymError> {
        Self::within(&Rc::new(World::new(1)), load, 0)
    }

    /// The back-end with this number among those of a world.
    pub fn within(world: &Rc<World>, load: &AsymLoad, number: usize) -> Result<Self, AsymError> {
        let address = format!("sim:structures-{number}");
        let world = world.clone();
        let platform = load.platform();
        let machine = machine(&world, platform);
        let geometry = geometry(load.writers);
        let (_module, memory) = memory(&world, machine, platform, geometry.pool_size());
        let back_end = world.process(machine);
        let made = Rc::new(medium(load, memory.clone(), POOL));
        let made = StructurePool::create(made, geometry);
        drop(world.block_on(made).expect("the medium is sound"));
        let port = back_end.port(SERVICE_COMPLETIONS);
        let port = port.map_err(FrontEndError::from)?;
        let (runtime, medium) = (back_end.runtime(), medium(load, memory, POOL));
        let (medium, mirror) = match load.store {
            AsymStore::Mirrored => {
                let process = mirror(&world, load, geometry)?;
                let of = (MIRROR, LEASE_NS);
                let attaching = MirrorLink::attach(&port, runtime.clone(), medium, of);
                let (medium, link) = world.block_on(attaching)?;
                (medium, Some((process, link)))
            }
            _ => (Rc::new(medium), None),
        };
        let service = Service::start(port, runtime.clone(), medium, (&*address, LEASE_NS));
        let mut service = world.block_on(service)?;
        if let Some((_, link)) = &mirror {
            service = service.with_mirror(link.clone());
        }
        runtime.spawn(Box::pin(async move {
            service.run().await.expect("nothing disturbs the back-end");
        }));
        let ours = Self {
            load: load.clone(),
            world,
            address,
            back_end,
            mirror: mirror.map(|(process, _)| process),
            first_domain: RefCell::default(),
        };
        if ours.mirror.is_some() {
            ours.await_whole()?;
        }
        Ok(ours)
    }

    /// Waits until the mirror has everything.
    fn await_whole(&self) -> Result<(), AsymError> {
        let (process, back_end) = self.connect()?;
        let runtime = process.runtime();
        self.world.block_on(async {
            while back_end.counts().await?.mirror.bytes_to_copy > 0 {
                runtime.sleep(LOOK_NS).await;
            }
            Ok(())
        })
    }

    /// A process of a front-end, on a machine of its own.
    pub fn front_end(&self) -> Process {
        let machine = front_end_machine(&self.world, &self.load);
        self.world.process(machine)
    }

    /// The process of the back-end.
    pub fn process(&self) -> Process {
        self.back_end.clone()
    }

    /// A front-end with its connection.
    pub fn connect(&self) -> Result<(Process, Rc<BackEnd>), AsymError> {
        let process = self.front_end();
        let back_end = self.connect_from(&process)?;
        Ok((process, back_end))
    }

    fn connect_from(&self, process: &Process) -> Result<Rc<BackEnd>, AsymError> {
        let port = process.port(FRONT_END_COMPLETIONS);
        let port = port.map_err(FrontEndError::from)?;
        let connecting = BackEnd::connect(&port, &self.address);
        let back_end = self.world.block_on(connecting)?;
        // Readers keep a clock, as those of the library do: the back-end vouches once for many READs.
        back_end.keep_time(process.runtime());
        Ok(back_end)
    }

    /// A writer in a process, of a domain of its own.
    pub fn writer_in(&self, process: &Process) -> Result<OurWriter, AsymError> {
        let back_end = self.connect_from(process)?;
        Ok(self.world.block_on(async {
            let domain = back_end.create_domain(SLABS).await?;
            self.first_domain.borrow_mut().get_or_insert(domain);
            let mut writer = OurWriter {
                writer: back_end.writer(domain).await?,
                batch: self.load.batch as u64,
                in_flight: self.load.in_flight,
                window: (self.load.store == AsymStore::Sliding).then(VecDeque::new),
                is_ahead: matches!(self.load.store, AsymStore::Ahead | AsymStore::Sliding),
            };
            writer.fill(&self.load).await?;
            Ok::<_, FrontEndError>(writer)
        })?)
    }
}

/// The names of the pools.
const POOL: u128 = 5;
const COPY: u128 = 6;

fn medium(load: &AsymLoad, memory: Rc<dyn PersistentRegion>, name: u128) -> Medium {
    let declared = (load.platform(), Durability::Power);
    let medium = Medium::new(memory, declared, LogKey(77), name);
    medium.expect("the declaration fits the platform")
}

/// A mirror on a machine of its own.
fn mirror(world: &World, load: &AsymLoad, geometry: PoolGeometry) -> Result<Process, AsymError> {
    let platform = load.platform();
    let machine = machine(world, platform);
    let (_module, memory) = memory(world, machine, platform, geometry.pool_size());
    let process = world.process(machine);
    let port = process.port(SERVICE_COMPLETIONS);
    let port = port.map_err(FrontEndError::from)?;
    let (runtime, medium) = (process.runtime(), Rc::new(medium(load, memory, COPY)));
    let mut server = MirrorServer::start(port, runtime.clone(), medium, MIRROR)?;
    runtime.spawn(Box::pin(async move {
        let promoted = server.run().await;
        unreachable!("nobody promotes the mirror, and nothing disturbs it: {promoted:?}");
    }));
    Ok(process)
}

impl Contestant for Ours {
    type Writer = OurWriter;
    type Reader = OurReader;

    fn world(&self) -> &World {
        &self.world
    }

    fn back_end(&self) -> &Process {
        &self.back_end
    }

    fn writer(&self, _number: u32) -> Result<(Process, OurWriter), AsymError> {
        let process = self.front_end();
        let writer = self.writer_in(&process)?;
        Ok((process, writer))
    }

    fn reader(&self) -> Result<(Process, OurReader), AsymError> {
        let (process, back_end) = self.connect()?;
        let domain = *self.first_domain.borrow();
        let domain = domain.ok_or(FrontEndError::NoStructure)?;
        let reader = self.world.block_on(async {
            let reader = back_end.reader(domain).await?;
            let mut reader = reader.remembering(REMEMBERED);
            let roots = reader.roots().await?;
            Ok::<_, FrontEndError>(OurReader {
                back_end,
                reader,
                roots,
                is_versioned: self.load.kind.is_versioned(),
                reads: 0,
            })
        })?;
        Ok((process, reader))
    }
}

/// A writer of `structures`.
pub(super) struct OurWriter {
    writer: Writer,
    batch: u64,
    in_flight: usize,
    /// The tickets of operations that are not acknowledged, oldest first; `None`: the writer waits for all of them
    /// before it goes on.
    window: Option<VecDeque<Ticket>>,
    /// Whether the writer goes on while the back-end applies its publications.
    is_ahead: bool,
}

impl OurWriter {
    async fn fill(&mut self, load: &AsymLoad) -> Result<(), FrontEndError> {
        let create = Change {
            verb: Verb::Create,
            key: b"structure".to_vec(),
            value: load.description().encode(),
        };
        let (answer, _ticket) = self.writer.stage(&create.operation(0)).await?;
        assert_eq!(answer, Answer::Created(STRUCTURE));
        for change in load.loaded() {
            self.stage(&change).await?;
            if self.writer.waiting() >= 512 {
                self.writer.publish().await?;
            }
        }
        self.writer.publish().await
    }

    /// Waits for the oldest operation if too many are in flight.
    async fn slide(&mut self, ticket: Ticket) -> Result<(), FrontEndError> {
        let Some(window) = &mut self.window else {
            // The flush behind a chunk waits for all of its tickets.
            return Ok(());
        };
        window.push_back(ticket);
        // The record leaves now, and not with the next wait.
        let newest = window.back_mut().expect("it was just pushed");
        let sent = poll_fn(|context| Poll::Ready(Pin::new(&mut *newest).poll(context))).await;
        if let Poll::Ready(ended) = sent {
            ended?;
            window.clear();
        } else if window.len() >= self.in_flight {
            let oldest = window.pop_front().expect("some are in flight");
            oldest.await?;
        }
        Ok(())
    }

    /// Publishes everything staged, and waits for that where the writer does.
    async fn publish(&mut self) -> Result<(), FrontEndError> {
        if !self.is_ahead {
            return self.writer.publish().await;
        }
        if self.window.is_none() {
            // The operations are acknowledged before their transaction is on its way.
            self.writer.flush().await?;
        }
        let _publication = self.writer.start_publication().await?;
        Ok(())
    }

    async fn stage(&mut self, change: &Change) -> Result<(), FrontEndError> {
        let (_answer, ticket) = self.writer.stage(&change.operation(STRUCTURE)).await?;
        self.slide(ticket).await
    }
}

impl FrontEnd for OurWriter {
    async fn run(&mut self, steps: &[Step]) -> Result<(), AsymError> {
        let keys = steps.iter().filter_map(|step| match step {
            Step::Change(change) if !change.key.is_empty() => Some(change.key.clone()),
            _ => None,
        });
        let keys: Vec<Vec<u8>> = keys.collect();
        let structure = self.writer.roots().structure(STRUCTURE);
        let structure = structure.ok_or(FrontEndError::NoStructure)?;
        if self.in_flight > 1 && !keys.is_empty() {
            self.writer.look_ahead(&structure, &keys).await?;
        }
        for step in steps {
            if let Step::Change(change) = step {
                self.stage(change).await?;
            }
        }
        let looked_up = steps.iter().filter_map(|step| match step {
            Step::Get(key) => Some((STRUCTURE, &**key)),
            Step::Change(_) => None,
        });
        let looked_up: Vec<(u32, &[u8])> = looked_up.collect();
        if !looked_up.is_empty() {
            self.writer.read_staged(&looked_up).await?;
        }
        let has_changed = looked_up.len() < steps.len();
        match (self.writer.waiting() >= self.batch, &self.window) {
            (true, _) => self.publish().await?,
            // The look at the tenure behind the records covers what was read before them.
            (false, None) if has_changed => self.writer.flush().await?,
            (false, Some(_)) if looked_up.is_empty() => {}
            _ => self.writer.confirm().await?,
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), AsymError> {
        Ok(self.writer.flush().await?)
    }

    fn counts(&self) -> [u64; 4] {
        [0; 4]
    }
}

/// A reader of `structures` that remembers inner nodes.
pub(super) struct OurReader {
    back_end: Rc<BackEnd>,
    reader: Reader,
    roots: Roots,
    is_versioned: bool,
    reads: u64,
}

impl Look for OurReader {
    async fn get(&mut self, key: &[u8]) -> Result<(), AsymError> {
        if self.is_versioned {
            self.roots = self.reader.roots().await?;
        }
        self.reader.get(&self.roots, STRUCTURE, key).await?;
        self.reads += 1;
        Ok(())
    }

    fn counts(&self) -> [u64; 2] {
        [self.reads, self.back_end.retries()]
    }
}
