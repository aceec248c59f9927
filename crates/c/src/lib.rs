//! The C library `stonecast`: a client that waits, behind opaque handles. `include/stonecast.h` is printed from this
//! crate, and has the comments of its functions.
//!
//! ```text
//!   client   options          connect, close
//!   read     value   entries  stat
//!   change   write   outcomes                 writes, their options, the outcomes of several
//!     link                    the connection of a client, lent to one call at a time
//!     owner                   the thread and the process to which it belongs
//!   error    status           results
//!   border                    arguments as C has them; no panic leaves a function
//! ```
//!
//! Handles are references and boxes that may be null, so the types say who owns what. The contract that C must keep
//! stands at the top of the header: pointers are valid, a handle is not used after its end, and is used by one thread
//! at a time.

mod border;
mod limits;
mod link;
mod owner;

// The header shows the functions in this order.
mod status;

mod error;

mod options;

mod client;

mod value;

mod read;

mod write;

mod outcomes;

mod change;

mod entries;

mod stat;

#[cfg(test)]
mod tests;
