//! Membership, told as stories.

mod change;
mod changes;
mod cluster;
mod contract;
mod create;
mod documents;
mod epochs;
mod faulty;
mod giving_up;
mod leases;
mod overview;
mod requests;
mod starts;
