//! Tests of the checks.

mod determinism;
mod failure;
