//! Stories of the log on a medium that loses what was not persisted.

mod medium;
mod record;
mod segment;
