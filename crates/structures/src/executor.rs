//! The back-end's executor of the leftovers of a tenure.

use stonecast_base::Span;
use stonecast_media::Region;

use crate::backend::{DomainPlace, Execute, Leftover, Territory};
use crate::execution::{DomainState, Executed};
use crate::shapes::{Read, ReadRoots, Stale, drive};
use crate::space::Allocator;
use crate::wire::{BODY_SIZE_MAX, Entries, LogKey, Operation};

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

/// The back-end's executor of the leftovers of a tenure. The executor takes the same blocks as the writer that logged
/// the operations, since both put the operations into one transaction.
#[derive(Debug)]
pub struct Executor {
    key: LogKey,
    place: DomainPlace,
    territory: Territory,
    /// The domain with everything executed so far; `None`: not read yet.
    state: Option<DomainState>,
}

impl Executor {
    /// An executor for one hand-over of a domain.
    pub fn new(key: LogKey, place: DomainPlace, territory: Territory) -> Self {
        Self {
            key,
            place,
            territory,
            state: None,
        }
    }

    fn read(&self, memory: &dyn Region, span: Span) -> Option<Vec<u8>> {
        // Regions are read in whole words.
        let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
        self.territory.holds(span).then(|| {
            memory.read(span.offset, &mut bytes);
            bytes.truncate(span.size as usize);
            bytes
        })
    }

    fn opened(&self, memory: &dyn Region) -> Result<DomainState, Stale> {
        let mut read = |span| self.read(memory, span);
        let roots = ReadRoots::new(self.key, self.place.number, self.territory.root);
        let roots = drive(roots, &mut read)?;
        let allocator = allocator_of(&self.territory, &mut read);
        Ok(DomainState::new(allocator, roots))
    }

    /// Executes an operation on top of the earlier ones. Returns false if the open transaction has no room.
    fn execute_in(
        &self,
        state: &mut DomainState,
        memory: &dyn Region,
        operation: &Operation<'_>,
        Leftover { lsn, number, .. }: Leftover<'_>,
    ) -> bool {
        let open = state.workspace().open_size();
        let ended = state.execute(operation, (lsn, number));
        let ended = ended.map(|execution| drive(execution, |span| self.read(memory, span)));
        match ended {
            Ok(Ok(Ok(Executed::Now(changes)))) => {
                let has_room = open + changes.size_max() <= BODY_SIZE_MAX;
                if has_room {
                    changes.commit();
                }
                has_room
            }
            // An operation that cannot be executed changes nothing.
            Ok(Ok(Ok(Executed::Before { .. }) | Err(_)) | Err(_)) | Err(_) => true,
        }
    }
}

impl Execute for Executor {
    fn execute(&mut self, memory: &dyn Region, operation: Leftover<'_>) -> bool {
        let Ok(parsed) = Operation::parse(operation.body) else {
            return true;
        };
        let opened = match self.state.take() {
            Some(state) => Ok(state),
            None => self.opened(memory),
        };
        let Ok(mut state) = opened else { return true };
        let has_room = self.execute_in(&mut state, memory, &parsed, operation);
        self.state = Some(state);
        has_room
    }

    fn close(&mut self) -> Entries {
        let state = self.state.as_mut();
        state.map_or(Entries::default(), |state| state.workspace_mut().close())
    }
}
