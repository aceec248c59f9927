//! The gateway in front of a real store on shared memory: what clients see, what limits keep, what a kill leaves.

mod admin;
mod atomic;
mod basics;
mod burden;
mod conformance;
mod crash;
mod differential;
mod fuzz;
mod idle;
mod limits;
mod memory;
mod pipeline;
mod protection;
mod support;
mod transactions;
