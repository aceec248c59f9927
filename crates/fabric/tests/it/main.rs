//! Tests of the fabric as its users see it.

mod loopback;
mod suite;
