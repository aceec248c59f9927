//! Tests of the checks.

mod determinism;
