//! A lock domain as its back-end serves it.

pub mod histories;
pub mod rig;
pub mod rules;
pub mod structures;
