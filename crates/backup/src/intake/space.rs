//! The segments that appends fill: the intake turns, posts, searches and reuses them.
//!
//! ```text
//!   lent --turn--> posted --> consumed --> settled --floors--> reusable --turn--> posted
//!                     '------- search: entries -------'     '--turn--> returned
//! ```

use std::collections::VecDeque;

use stonecast_base::{Span, mutant};
use stonecast_fabric::{Appended, LocalSpan, MemoryRegion};
use stonecast_log::{
    Arrival, Bounds, Buffers, Consumption, Heritage, Ledger, Lineages, LogFormat, SegmentState,
    Turn, Turned, UNIT_SIZE, first_unit,
};
use stonecast_media::Region;

use super::error::IntakeError;
use super::medium::Medium;
use super::room::Room;
use crate::entries::Entries;
use crate::ledger::SharedLedger;

/// A blank segment that the owner of the pool gives to appends.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// Number of the segment.
    pub number: u32,
    /// The state of the segment, if it was used before.
    pub before: Option<SegmentState>,
    /// The log's memory of freed segments.
    pub heritage: Heritage,
}

/// The segments that appends fill, which also keep the ledger of the pool.
pub(super) struct Space {
    medium: Medium,
    entries: Entries,
    registered: MemoryRegion,
    buffers: Buffers,
    ledger: SharedLedger,
    lent: VecDeque<Lent>,
    /// The log's memory of freed segments, if the owner of the pool asks for a segment back.
    asked: Option<Heritage>,
    returned: Vec<SegmentState>,
    turning: Option<Turning>,
}

/// A segment on its way to the device, or back to records.
struct Turning {
    turn: Turn,
    is_return: bool,
    /// Bytes of the last step that are not durable yet.
    unkept: Vec<Span>,
    /// The segment has its new kind, durably.
    done: Option<SegmentState>,
}

impl Space {
    /// The space made of the segments and the ledger that an earlier run left.
    pub fn new(
        (medium, registered): (Medium, MemoryRegion),
        entries: Entries,
        ahead: usize,
        (ledger, adopted, are_writers_gone): (SharedLedger, &[SegmentState], bool),
    ) -> Self {
        let mut buffers = Buffers::new(ahead);
        for &state in adopted {
            buffers.adopt(&medium.format, state);
        }
        if !are_writers_gone {
            buffers.doubt_adopted(&medium.format);
        }
        let mut space = Self {
            medium,
            entries,
            registered,
            buffers,
            ledger,
            lent: VecDeque::new(),
            asked: None,
            returned: Vec::new(),
            turning: None,
        };
        space.choose_home();
        space
    }

    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The units in which something may lie that arrived before an entry in segment `number` and is not found yet.
    pub fn open_units_up_to(&self, number: u32) -> u64 {
        self.buffers.open_units_up_to(&self.medium.format, number)
    }

    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Whether processes of an earlier run may still write.
    pub fn is_earlier_run_doubtful(&self) -> bool {
        self.buffers.is_earlier_run_doubtful()
    }

    /// Numbers of the segments that are still being searched.
    pub fn unsettled(&self) -> impl Iterator<Item = u32> {
        self.buffers.unsettled().map(|state| state.number)
    }

    pub fn ledger(&self) -> &SharedLedger {
        &self.ledger
    }

    pub fn lend(&mut self, lent: Lent) {
        self.lent.push_back(lent);
    }

    /// The number of segments that the owner of the pool should lend now.
    pub fn wanted(&self) -> usize {
        let missing = self.buffers.wanted();
        // The usual case of each turn of a node, without a look at the segments.
        if missing == 0 {
            return 0;
        }
        let turning = self.turning.iter().filter(|turning| !turning.is_return);
        let under_way = turning.count() + self.lent.len();
        let reusable = self.reusable().len();
        missing.saturating_sub(under_way + reusable)
    }

    /// Whether no message finds a place, and no segment is on its way to the device.
    pub fn is_starved(&self) -> bool {
        self.buffers.posted_now() == 0 && self.turning.is_none() && self.wanted() > 0
    }

    /// Whether a segment is on its way to the device, or back to the store.
    pub fn is_turning(&self) -> bool {
        self.turning.is_some()
    }

    /// The number of segments that could go back now, or are on their way.
    pub fn spare(&self) -> usize {
        let returning = self.turning.iter().filter(|turning| turning.is_return);
        let free = self.returnable().count();
        free.saturating_sub(self.buffers.wanted()) + returning.count()
    }

    /// Has one segment go back as soon as one is spare, however often the owner has asked by then.
    pub fn ask_back(&mut self, heritage: Heritage) {
        self.asked = Some(heritage);
    }

    /// The segments that are durably blank segments of records again.
    pub fn take_returned(&mut self) -> Vec<SegmentState> {
        std::mem::take(&mut self.returned)
    }

    /// The segments that may be used again, without the segment that keeps the ledger.
    fn returnable(&self) -> impl Iterator<Item = SegmentState> {
        let home = self.home().map(|state| state.number);
        let free = self.reusable().into_iter();
        free.filter(move |state| Some(state.number) != home && state.may_be_used_again())
    }

    /// The segments that may be used again. A single segment keeps the ledger until there is another one.
    fn reusable(&self) -> Vec<SegmentState> {
        match self.buffers.states().nth(1) {
            Some(_) => self
                .ledger
                .with_floors(|floors| self.buffers.reusable(floors)),
            None => Vec::new(),
        }
    }

    /// Takes out a segment that may be used again. The ledger stays in the others.
    fn release(&mut self, number: u32) -> SegmentState {
        let Self {
            buffers, ledger, ..
        } = self;
        let state = ledger.with_floors(|floors| buffers.release(number, floors));
        self.choose_home();
        state
    }

    fn choose_home(&mut self) {
        self.ledger.move_home(self.home());
    }

    /// The segment that gets the next ledger.
    fn home(&self) -> Option<SegmentState> {
        self.buffers.states().last()
    }

    /// One step of the search; see [`Buffers::step`].
    pub fn search(
        &mut self,
        bounds: Bounds,
        visit: &mut dyn FnMut(&Entries, &Arrival<'_>),
    ) -> Vec<Consumption> {
        self.scan(|buffers, place, entries, floors| {
            buffers.step(place, entries, floors, bounds, &mut |arrival| {
                visit(entries, arrival);
            })
        })
    }

    /// Looks at the places of messages that have arrived; see [`Buffers::look_at`].
    pub fn look_at(
        &mut self,
        messages: &[Appended],
        visit: &mut dyn FnMut(&Entries, &Arrival<'_>),
    ) {
        self.scan(|buffers, place, entries, floors| {
            for message in messages {
                let at = (message.wr_id as u32, message.placement.offset);
                buffers.look_at(place, entries, floors, at, &mut |arrival| {
                    visit(entries, arrival);
                });
            }
        });
    }

    /// Looks into the segments that appends fill, at the floors of this moment.
    fn scan<T>(
        &mut self,
        look: impl FnOnce(&mut Buffers, (&dyn Region, &LogFormat), &Entries, &Lineages) -> T,
    ) -> T {
        let Self {
            medium,
            entries,
            buffers,
            ledger,
            ..
        } = self;
        let place = (&*medium.region as &dyn Region, &medium.format);
        ledger.with_floors(|floors| look(buffers, place, entries, floors))
    }

    /// Takes one step towards the next posted segment, if one is wanted, or towards one that goes back. Dropping the
    /// future loses nothing.
    pub async fn turn(&mut self, room: &mut Room) -> Result<(), IntakeError> {
        if self.turning.is_none() {
            self.turning = self.begin_turn();
        }
        if self.turning.is_none() {
            self.turning = self.begin_return().await?;
        }
        let Some(turning) = &mut self.turning else {
            return Ok(());
        };
        if !turning.unkept.is_empty() {
            let _durable = self.medium.persist(&mut turning.unkept).await?;
        }
        let Some(state) = turning.done else {
            match self.ledger.step(&mut turning.turn, &self.entries).await? {
                Turned::Persist(spans) => turning.unkept = spans,
                Turned::Done(state) => turning.done = Some(state),
            }
            return Ok(());
        };
        if turning.is_return {
            self.returned.push(state);
            self.turning = None;
            return Ok(());
        }
        room.post(state.number, self.buffer_of(state.number))?;
        let mut turning = self.turning.take().expect("it has ended");
        let (format, stale) = (&self.medium.format, turning.turn.take_stale());
        match mutant!(SettledNotCharged) {
            true => self.buffers.posted(format, state),
            false => self.buffers.posted_over(format, state, stale),
        }
        self.choose_home();
        Ok(())
    }

    fn begin_turn(&mut self) -> Option<Turning> {
        if self.buffers.wanted() == 0 {
            return None;
        }
        let reusable = self.reusable();
        let again = reusable.iter().find(|state| state.may_be_used_again());
        let lent = match again {
            Some(state) => {
                let state = self.release(state.number);
                Lent {
                    number: state.number,
                    before: Some(state),
                    heritage: state.heritage,
                }
            }
            None => self.lent.pop_front()?,
        };
        Some(Turning {
            turn: Turn::to_appends(lent.number, lent.before.as_ref(), lent.heritage),
            is_return: false,
            unkept: Vec::new(),
            done: None,
        })
    }

    /// A segment that goes back keeps no ledger, so the floors that settle its entries are kept elsewhere first.
    async fn begin_return(&mut self) -> Result<Option<Turning>, IntakeError> {
        let (Some(heritage), Some(state)) = (self.asked, self.returnable().next()) else {
            return Ok(None);
        };
        self.ledger.leave(state.number).await?;
        // The store may have dropped a floor meanwhile, with the copy that it belonged to.
        if !self.returnable().any(|free| free == state) {
            return Ok(None);
        }
        self.asked = None;
        let state = self.release(state.number);
        let turn = |ledger: &Ledger| Turn::to_records(&state, heritage, ledger);
        Ok(Some(Turning {
            turn: self.ledger.read(turn),
            is_return: true,
            unkept: Vec::new(),
            done: None,
        }))
    }

    /// The bytes of a segment that appends fill.
    fn buffer_of(&self, number: u32) -> LocalSpan {
        let format = &self.medium.format;
        let first = first_unit(format);
        LocalSpan {
            region: self.registered,
            offset: format.position(number, first),
            size: ((format.segment_units() - first) * UNIT_SIZE as u32),
        }
    }
}
