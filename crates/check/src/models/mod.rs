//! Objects whose histories can be judged.

pub mod ordered_map;
pub mod queue;
pub mod register;
