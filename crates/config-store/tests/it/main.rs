//! Stores of configurations, told as stories.

mod contract;
mod support;
