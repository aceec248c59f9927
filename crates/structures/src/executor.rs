//! Executes the operations of a domain: in the memory of the back-end, for a writer that has died, and in front of the log, for a writer that lives.

use stonecast_base::Span;
use stonecast_media::Region;

use crate::backend::{DomainPlace, Execute, Leftover, Territory};
use crate::shapes::{
    Answer, CreateFault, Description, ExecuteFault, Read, ReadRoots, Roots, Structure, drive,
};
use crate::space::{Allocator, Draft, Workspace};
use crate::wire::{Entries, LogKey, Operation, Verb};

/// The structure that an operation creates, and all structures with it.
pub(crate) fn create(
    roots: &Roots,
    operation: &Operation<'_>,
    draft: &mut Draft<'_>,
) -> Result<(Answer, Roots), ExecuteFault> {
    let name = String::from_utf8_lossy(operation.key);
    let description = Description::parse(operation.value).ok_or(CreateFault::Description)?;
    let (number, roots) = roots.create(draft, &name, description)?;
    Ok((Answer::Created(number), roots))
}

/// The structure that an operation names.
pub(crate) fn structure_of(
    roots: &Roots,
    operation: &Operation<'_>,
) -> Result<Structure, ExecuteFault> {
    let number = operation.structure;
    let structure = roots.structure(number);
    structure.ok_or(ExecuteFault::Structure { number })
}

/// The allocator that the bits in the slabs of a domain give.
///
/// # Panics
/// If `read` refuses a slab of the domain.
fn allocator_of(territory: &Territory, read: Read<'_>) -> Allocator {
    let geometry = territory.geometry;
    let mut allocator = Allocator::new(geometry);
    for &slab in &territory.slabs {
        let bits = Span::new(geometry.slab(slab).offset, geometry.bits_size());
        allocator.add_slab(slab, &read(bits).expect("the slab is the domain's"));
    }
    allocator
}

/// The back-end's executor of what a tenure has left over.
#[derive(Debug)]
pub struct Executor {
    key: LogKey,
    place: DomainPlace,
    territory: Territory,
    workspace: Option<Workspace>,
}

impl Executor {
    /// An executor for one hand-over of a domain.
    pub fn new(key: LogKey, place: DomainPlace, territory: Territory) -> Self {
        Self {
            key,
            place,
            territory,
            workspace: None,
        }
    }
}

impl Execute for Executor {
    fn execute(&mut self, memory: &dyn Region, operation: Leftover<'_>) -> Entries {
        let Ok(parsed) = Operation::parse(operation.body) else {
            return Entries::default();
        };
        let territory = &self.territory;
        let mut read = |span: Span| {
            // Regions are read in whole words.
            let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
            territory.holds(span).then(|| {
                memory.read(span.offset, &mut bytes);
                bytes.truncate(span.size as usize);
                bytes
            })
        };
        let workspace = match &mut self.workspace {
            Some(workspace) => workspace,
            none => none.insert(Workspace::new(allocator_of(territory, &mut read))),
        };
        let roots = ReadRoots::new(self.key, self.place.number, territory.root);
        let Ok(roots) = drive(roots, &mut read) else {
            return Entries::default();
        };
        let lsn = operation.lsn;
        let executed = match parsed.verb {
            Verb::Create => {
                let mut draft = workspace.draft(lsn);
                create(&roots, &parsed, &mut draft).map(|_| draft)
            }
            _ => structure_of(&roots, &parsed)
                .and_then(|structure| structure.execute(&parsed, (&mut *workspace, lsn), &mut read))
                .map(|(_, draft)| draft),
        };
        if executed.map(Draft::commit).is_err() {
            return Entries::default();
        }
        // The back-end applies the entries before the next operation.
        let entries = workspace.close();
        workspace.note_applied();
        entries
    }
}
