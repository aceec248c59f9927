//! A lock domain as its back-end serves it.

pub mod histories;
pub mod pools;
pub mod rig;
pub mod rules;
pub mod structures;
