//! Stories of the direct store over shared memory.

mod basics;
mod crash;
mod world;
