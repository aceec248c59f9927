//! Membership, told as stories.

mod change;
mod changes;
mod cluster;
mod contract;
mod documents;
mod epochs;
mod giving_up;
mod leases;
mod starts;
