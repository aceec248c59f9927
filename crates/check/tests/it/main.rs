//! Tests of the checks.

mod connecting;
mod determinism;
mod failure;
mod generations;
mod leases;
mod one_server;
mod witnesses;
