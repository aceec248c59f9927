//! The library as a program uses it, against servers over shared memory.

mod behaviour;
mod endings;
mod opening;
mod readme;
mod support;
mod trouble;
mod versions;
