//! Tests of the planner as its users see it.

mod litmus;
mod profile;
mod published;
mod search;
mod timed;
