//! Membership, told as stories.

mod change;
mod changes;
mod cluster;
mod documents;
mod epochs;
mod leases;
