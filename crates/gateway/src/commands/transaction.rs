//! Commands after a refused `MULTI`.
//!
//! ```text
//!   MULTI                 refused; a transaction that is not done begins
//!   SET a 1, GET b, ..    refused, each
//!   EXEC                  EXECABORT, as for any transaction with an error in it; it has ended
//!   DISCARD, RESET        it has ended
//!   QUIT                  the connection ends
//! ```
//!
//! A client that pipelines a transaction has sent its commands before it learns that `MULTI` is refused. If the
//! commands ran one by one, some of them could take effect without the others, which the client ruled out.

use super::error::CommandError;
use super::operation::{Control, Operation};
use super::reply::Reply;
use super::session::Session;
use super::table::{Id, Spec};

/// The reply to a command of a refused transaction; `None` for a command that runs all the same, since it ends the
/// transaction or the connection.
pub fn refusal<'a>(
    session: &mut Session,
    spec: Option<&Spec>,
    operation: &Operation<'a>,
) -> Option<Reply<'a>> {
    let error = match operation {
        Operation::Control(Control::Exec | Control::Discard | Control::Reset | Control::Quit) => {
            return None;
        }
        Operation::Control(Control::Multi) => {
            CommandError::Refused("MULTI calls can not be nested")
        }
        // A malformed EXEC also ends the transaction, as in Redis.
        Operation::Answer(Reply::Error(error)) => {
            session.is_in_refused_transaction = spec.is_none_or(|spec| spec.id != Id::Exec);
            error.clone()
        }
        _ => CommandError::InRefusedTransaction,
    };
    Some(Reply::Error(error))
}
