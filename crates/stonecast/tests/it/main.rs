//! The library as a program uses it, against servers over shared memory.

mod behaviour;
mod endings;
mod readme;
mod support;
mod trouble;
