//! Stack and queue.
//!
//! ```text
//!   stack   line ─▶ item 3 ─▶ item 2 ─▶ item 1                 an item names the item below it
//!
//!   queue   line ─▶ item 7             head chunk: link, items 0 to 126     tail chunk: link, items 127 to ...
//! ```
//!
//! The line holds everything that changes, under one tag: the number of items, the item that comes next, and the chunks
//! of a queue. A reader reads the line and the item. Only writers read chunks, in memory that no other front-end
//! changes, so the words of chunks need no tags; each item of a queue holds its own number.

mod cursor;
mod line;
mod queue;
mod stack;

pub use cursor::{Cursor, CursorPlan, CursorState, CursorTravel, ReadCursor, TAKEN_MAX};
pub(super) use line::Line;
pub use line::Peek;
pub(super) use queue::{CHUNK_SIZE, parts_of_chunk};
pub use queue::{ItemOf, Numbered, NumbersOf, Queue, QueuePlan, QueueTravel, QueueWalk};
pub use stack::{Stack, StackPlan, StackTravel, StackWalk};
