//! Tests of the planner as its users see it.

mod published;
mod timed;
