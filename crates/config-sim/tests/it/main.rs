//! The service behind its messages, told as stories.

mod failing;
mod scene;
mod serving;
