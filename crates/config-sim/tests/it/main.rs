//! The service behind its messages, told as stories.

mod contract;
mod failing;
mod scene;
mod serving;
