//! The gateway in front of a real store on shared memory: its replies, its limits, and its state after a kill.

mod acl;
mod admin;
mod atomic;
mod basics;
mod burden;
mod clients;
mod conformance;
mod crash;
mod differential;
mod expiry;
mod fuzz;
mod idle;
mod large_transactions;
mod limits;
mod memory;
mod monitoring;
mod pipeline;
mod protection;
mod support;
mod transactions;
