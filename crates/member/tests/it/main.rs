//! How nodes stay in their cluster, told as stories.

mod detection;
mod scene;
mod staying;
