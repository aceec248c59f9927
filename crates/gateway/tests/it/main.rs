//! The gateway in front of a real store on shared memory: what clients see, what limits keep, what a kill leaves.

mod atomic;
mod basics;
mod differential;
mod pipeline;
mod support;
