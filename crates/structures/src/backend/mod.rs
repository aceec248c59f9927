//! The back-end's side: a pool of lock domains. It makes the records of their owners durable, applies them, and ends
//! tenures.
//!
//! ```text
//!   page of a domain     | tenure word | root word | horizon | ... | descriptor | descriptor |
//!
//!   running      take: scan -> persist -> apply                 trim: persist data -> descriptor
//!   hand-over    raise the word -> (revoke) -> scan -> persist -> seal -> apply -> execute leftovers -> trim -> grant
//! ```
//!
//! Invariants:
//! - Nothing of a record is applied before the record is durable, and nothing between the raise of the tenure word and
//!   the seal.
//! - Only places that belong to the domain are changed, even if a record names others.
//! - The log is trimmed after the words that were applied from it are durable.
//!
//! A crash at any point leaves a whole descriptor, a log that is read again from its base, and memory on which that log
//! may be applied again from there.

mod descriptor;
mod domain;
mod error;
mod hand_over;
mod medium;
mod pool;
mod standing;
mod territory;

pub use domain::{Domain, DomainPlace, Grant, PAGE_SIZE, Taken};
pub(crate) use domain::{Gathered, Records};
pub use error::DomainError;
pub use hand_over::{Execute, HandedOver, Leftover, Raised, Replayed};
pub use medium::{Copying, Medium, Mirror, MirrorLost};
pub use pool::{PoolGeometry, Stopped, StructurePool};
pub use standing::StandingError;
pub(crate) use standing::{Role, STANDING, Standing};
pub use territory::Territory;
