//! The library as a program uses it, against servers over shared memory.

mod backups;
mod behaviour;
mod cluster;
mod endings;
mod mirrors;
mod nodes;
mod opening;
mod partitions;
mod readme;
mod stand_ins;
mod structures;
mod structures_domains;
mod structures_effects;
mod structures_limits;
mod structures_ordered;
mod structures_processes;
mod support;
mod trouble;
mod versions;
