//! A back-end and its front-ends, as a subject of the checks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric_sim::{Process, SimBacking};
use stonecast_media::{
    Backing as _, DeclaredPlatform, Durability, LogOptions, PersistenceDomain, Region,
};
use stonecast_structures::shapes::{Audit, ReadRoots, Structure, StructureKind, drive};
use stonecast_structures::{
    Execute, Executor, FrontEndError, Key as _, LogKey, Medium, PoolGeometry, SERVICE_COMPLETIONS,
    Service, StructurePool, Territory,
};

use super::front_end;
use super::intent::Intent;
use super::ledger::{Contents, Ledger, Parts};
use super::model::{Answer, Call, Part, WORDS};
use super::setup::Setup;
use crate::explorer::Judge;
use crate::history::NodeId;
use crate::lab::REFUSED;
use crate::linearizability::{Verdict, check_steps};
use crate::subject::{Ended, Seat, Subject, Task, Testimony};
use crate::timeline::Words;
use crate::values::{ValueId, decode};
use crate::violation::Violation;

/// Bytes of all slabs.
const SLABS_SIZE: u64 = 1 << 20;
const KEY: LogKey = LogKey(77);
const UUID: u128 = 5;
pub(super) const LEASE_NS: u64 = 2_000_000;
pub(super) const ADDRESS: &str = "sim:back-end";

/// The structures of the domain: those with keys, a part for each key, then those without, a part each.
pub(super) const KINDS: [StructureKind; 8] = [
    StructureKind::HashTable,
    StructureKind::BTree,
    StructureKind::MvBTree,
    StructureKind::SkipList,
    StructureKind::Bst,
    StructureKind::MvBst,
    StructureKind::Stack,
    StructureKind::Queue,
];
/// Structures with keys.
const WITH_KEYS: u32 = 6;

/// A back-end and its front-ends.
pub(crate) struct Structures {
    pub setup: Setup,
    pub testimony: Testimony<Call, Answer>,
    /// Operations that no front-end has begun.
    pub left: Cell<u64>,
    pub ledger: RefCell<Ledger>,
    /// For each writer, the operation with a token that was not told as published.
    pub open: RefCell<BTreeMap<u32, Intent>>,
    value: Cell<u32>,
    token: Cell<u64>,
}

impl Structures {
    pub fn new(setup: Setup) -> Rc<Self> {
        let of = |part| kind_of(part, setup.keys);
        let kinds = (0..parts(setup.keys)).map(of).collect();
        Rc::new(Self {
            testimony: Testimony::new(parts(setup.keys)),
            left: Cell::new(setup.operations),
            ledger: RefCell::new(Ledger::new(kinds)),
            open: RefCell::default(),
            value: Cell::new(0),
            token: Cell::new(0),
            setup,
        })
    }

    /// Parts of the domain.
    pub fn parts(&self) -> u32 {
        parts(self.setup.keys)
    }

    /// Changes the ledger, or asks it, and notes its objections.
    pub fn judge(&self, of: impl FnOnce(&mut Ledger) -> Result<(), Violation>) {
        if let Err(violation) = of(&mut self.ledger.borrow_mut()) {
            self.testimony.note(violation);
        }
    }

    /// Notes that a front-end met damage, which nothing in a run causes.
    pub fn note_damage(&self, error: &FrontEndError) {
        let found = error.to_string();
        self.testimony
            .note(Violation::new("no front-end meets damage", found));
    }

    /// The next token: each names one operation.
    pub fn next_token(&self) -> u64 {
        self.token.update(|token| token + 1);
        self.token.get()
    }

    /// The kind of structure and the key of a part.
    pub fn place_of(&self, part: u32) -> (StructureKind, u64) {
        let keys = self.setup.keys;
        match part < WITH_KEYS * keys {
            true => (KINDS[(part / keys) as usize], (part % keys).into()),
            false => (KINDS[(part - WITH_KEYS * keys + WITH_KEYS) as usize], 0),
        }
    }

    /// The next value: each is written once.
    pub fn next_value(&self) -> ValueId {
        self.value.update(|value| value + 1);
        ValueId(self.value.get())
    }

    fn geometry(&self) -> PoolGeometry {
        let slab_size = self.setup.slab_size;
        PoolGeometry {
            domains: 2,
            slab_size,
            slab_count: SLABS_SIZE / slab_size,
        }
    }

    fn declared(&self) -> DeclaredPlatform {
        let platform = self.setup.machine.platform;
        match self.setup.is_mistaken {
            true => DeclaredPlatform {
                persistence_domain: PersistenceDomain::Wsp,
                ..platform
            },
            false => platform,
        }
    }

    fn medium(&self, backing: &SimBacking) -> Result<Rc<Medium>, String> {
        let declared = self.declared();
        let options = LogOptions {
            capacity: self.geometry().pool_size(),
            platform: declared,
            durability: Durability::Power,
        };
        let region = backing
            .open_log(options)
            .map_err(|error| error.to_string())?;
        let medium = Medium::new(region, (declared, Durability::Power), KEY, UUID);
        medium.map(Rc::new).map_err(|error| error.to_string())
    }

    async fn back_end(&self, seat: &Seat) -> Result<(), String> {
        let text = |error: &dyn ToString| error.to_string();
        let medium = self.medium(&seat.backing)?;
        if !StructurePool::was_created(&medium, &self.geometry()) {
            let made = StructurePool::create(medium.clone(), self.geometry()).await;
            made.map_err(|error| text(&error))?;
        }
        let port = seat.process.port(SERVICE_COMPLETIONS);
        let port = port.map_err(|error| text(&error))?;
        let of = (ADDRESS, LEASE_NS);
        let service = Service::start(port, seat.process.runtime().clone(), medium, of).await;
        let mut service = service.map_err(|error| text(&error))?;
        service.run().await.map_err(|error| text(&error))
    }

    /// Opens the pool, which executes and applies the operations that count, and reads everything.
    async fn open(&self, seat: &Seat) -> Result<Contents, Violation> {
        let refused = |error: String| Violation::new(REFUSED, error);
        let medium = self.medium(&seat.backing).map_err(refused)?;
        let mut contents = Contents {
            operations: 0,
            parts: vec![Vec::new(); self.parts() as usize],
        };
        if !StructurePool::was_created(&medium, &self.geometry()) {
            return Ok(contents);
        }
        let mut executor = |place, territory: &Territory| {
            Box::new(Executor::new(KEY, place, territory.clone())) as Box<dyn Execute>
        };
        let opened = StructurePool::open(medium.clone(), &mut executor);
        let mut pool = opened.await.map_err(|error| refused(error.to_string()))?;
        if let Some(damage) = (0..self.geometry().domains).find_map(|domain| pool.damage(domain)) {
            return Err(refused(damage.to_string()));
        }
        let Some(domain) = pool.domain(0) else {
            return Ok(contents);
        };
        contents.operations = domain.operation();
        let territory = domain.territory().clone();
        let bytes = medium.bytes();
        let read = &mut |span: Span| territory.holds(span).then(|| copied(bytes, span));
        let stale = |stale: stonecast_structures::shapes::Stale| refused(stale.to_string());
        let roots = ReadRoots::new(KEY, 0, territory.root);
        let roots = drive(roots, &mut *read).map_err(stale)?;
        for row in roots.rows() {
            let structure = roots.structure(row.number).expect("the table names it");
            let found = structure.contents(read).map_err(stale)?;
            self.note_contents(row.description.kind, &found.items, &mut contents.parts)
                .map_err(refused)?;
        }
        let slabs = territory.slabs.iter().copied();
        let audit = Audit::of(&roots, territory.geometry, slabs, read).map_err(stale)?;
        match audit.is_sound() {
            true => Ok(contents),
            false => Err(Violation::new(
                "no block is lost or used twice",
                format!("{audit:?}"),
            )),
        }
    }

    /// Notes the content of a structure in its parts.
    pub fn note_contents(
        &self,
        kind: StructureKind,
        items: &[(Vec<u8>, Vec<u8>)],
        contents: &mut Parts,
    ) -> Result<(), String> {
        let at = KINDS.iter().position(|known| *known == kind);
        let at = at.ok_or("a structure of another kind")? as u32;
        let first = match at < WITH_KEYS {
            true => at * self.setup.keys,
            false => WITH_KEYS * self.setup.keys + at - WITH_KEYS,
        };
        for (key, value) in items {
            let value = decode(value).ok_or("a value that nobody wrote")?;
            let key = match at < WITH_KEYS {
                true => u64::decoded(key).map_err(|fault| fault.to_string())?,
                false => 0,
            };
            let part = contents.get_mut((u64::from(first) + key) as usize);
            part.ok_or("a key that nobody wrote")?.push(value);
        }
        if kind == StructureKind::Stack {
            contents[first as usize].reverse();
        }
        Ok(())
    }

    /// Judges the history of each part, in at most so many states of a search.
    pub fn judge_history(&self, states_max: usize) -> Result<(), Violation> {
        let (history, ledger) = (self.testimony.history.borrow(), self.ledger.borrow());
        for part in 0..self.parts() {
            let model = kind_of(part, self.setup.keys);
            let found = match check_steps(&model, ledger.steps(&history, part), states_max) {
                Verdict::Linearizable => continue,
                Verdict::NotLinearizable { explained, stuck } => format!(
                    "part {part}: {explained} operations have an explanation, operation {stuck:?} has none"
                ),
                Verdict::Undecided => format!("part {part}: undecided after {states_max} states"),
            };
            return Err(Violation::new("operations are linearizable", found));
        }
        Ok(())
    }
}

fn parts(keys: u32) -> u32 {
    WITH_KEYS * keys + KINDS.len() as u32 - WITH_KEYS
}

fn kind_of(part: u32, keys: u32) -> Part {
    match part.checked_sub(WITH_KEYS * keys) {
        None => Part::Key,
        Some(0) => Part::Stack,
        Some(_) => Part::Queue,
    }
}

fn copied(bytes: &dyn Region, span: Span) -> Vec<u8> {
    let mut copy = vec![0; span.size.next_multiple_of(8) as usize];
    bytes.read(span.offset, &mut copy);
    copy.truncate(span.size as usize);
    copy
}

/// The structure of a kind among those of a domain.
pub(super) fn structure_of(
    roots: &stonecast_structures::shapes::Roots,
    kind: StructureKind,
) -> Option<(u32, Structure)> {
    let row = roots
        .rows()
        .iter()
        .find(|row| row.description.kind == kind)?;
    Some((row.number, roots.structure(row.number)?))
}

impl Subject for Structures {
    type Call = Call;
    type Answer = Answer;
    type Contents = Contents;
    type Beside = ();

    const WORDS: Words<Call, Answer> = WORDS;

    fn name(&self, _: NodeId) -> String {
        "the back-end".to_owned()
    }

    fn testimony(&self) -> &Testimony<Call, Answer> {
        &self.testimony
    }

    fn serve(self: Rc<Self>, seat: Seat) -> Task<Result<(), Ended>> {
        Box::pin(async move {
            self.back_end(&seat).await.map_err(|error| Ended {
                error,
                is_excused: false,
            })
        })
    }

    fn live(self: Rc<Self>, process: Process, client: u32, seed: u64) -> Task<()> {
        Box::pin(front_end::live(self, process, client, seed))
    }

    fn beside(&self) {}

    fn recover(self: Rc<Self>, seats: Vec<Seat>, _: Rc<()>) -> Task<Result<Contents, Violation>> {
        Box::pin(async move { self.open(&seats[0]).await })
    }
}

impl Judge<Contents> for Ledger {
    fn judge(&self, contents: &Contents) -> Result<(), Violation> {
        Self::judge(self, contents)
    }

    fn judge_again(&self, first: &Contents, second: &Contents) -> Result<(), Violation> {
        match first == second {
            true => Ok(()),
            false => Err(Violation::new(
                "a recovery that is done again finds the same",
                format!("{first:?}, then {second:?}"),
            )),
        }
    }
}
