//! Membership, told as stories.

mod change;
mod changes;
mod cluster;
mod contract;
mod documents;
mod epochs;
mod leases;
mod starts;
