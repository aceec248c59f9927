//! Tests of the planner as its users see it.

mod litmus;
mod matrix;
mod page;
mod profile;
mod published;
mod search;
mod timed;
