//! Stories of sessions and leases, each told in a simulated world and over shared memory.

mod connecting;
mod leases;
mod world;
