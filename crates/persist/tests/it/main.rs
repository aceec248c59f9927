//! Tests of the planner as its users see it.

mod litmus;
mod published;
mod search;
mod timed;
