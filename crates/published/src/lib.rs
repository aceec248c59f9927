//! Published designs as their papers describe them: Erda and the two schemes with which it was
//! compared, Redo Logging and Read After Write; Rowan-KV and its rivals ([`rowan`]), and a store
//! like Clover ([`clover`]); AsymNVM ([`asymnvm`]). They exist to be measured and to show their flaws;
//! **do not keep data in them**. Their flaws stay on purpose (`docs/figures/erda.md` and the tests
//! list them); where the paper and its artefact differ, this crate follows the paper.
//!
//! ```text
//!   ErdaServer / ErdaClient           erda/        client-direct, zero-copy, a word with two versions
//!   BaselineServer / BaselineClient   baseline/    the server copies from a log or ring to the place
//!          both on: Table (hopscotch hashing), Hub and Link (connections), Geometry (layout)
//! ```
//!
//! All keys of a store have one length and all values another, as in the artefact, so that an object carries no lengths
//! and the published counts of bytes hold exactly.
//!
//! Source: X. Liu, Y. Hua, X. Li, Q. Liu, *Write-Optimized and Consistent RDMA-based NVM Systems*.
#![forbid(unsafe_code)]

pub mod asymnvm;
mod baseline;
pub mod clover;
mod erda;
mod error;
mod geometry;
mod hub;
mod link;
mod message;
mod object;
pub mod rowan;
mod table;

pub use baseline::{BaselineClient, BaselineServer, Scheme};
pub use erda::{CleaningState, ErdaClient, ErdaOptions, ErdaServer};
pub use error::PublishedError;
pub use geometry::Geometry;
pub use hub::SERVER_COMPLETIONS;
pub use link::CLIENT_COMPLETIONS;
