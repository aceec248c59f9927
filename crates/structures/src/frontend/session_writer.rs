//! The writer of a domain over a connection.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{LocalSpan, Operation as Verbs, RemoteAddress, Rkey, Status};

use super::back_end::{BackEnd, refused};
use super::error::FrontEndError;
use super::writer::{DomainWriter, StageFault};
use crate::backend::{Grant, Territory};
use crate::shapes::{Answer, ExecuteFault, Roots};
use crate::wire::{self, Operation, Request};

/// The writer of a domain.
pub struct Writer {
    pub(super) back_end: Rc<BackEnd>,
    pub(super) domain: u32,
    pub(super) territory: Territory,
    pub(super) grant: Grant,
    pub(super) rkey: Rkey,
    pub(super) writer: DomainWriter,
}

impl Writer {
    /// The structures of the domain.
    pub fn roots(&self) -> &Roots {
        self.writer.roots()
    }

    /// Executes an operation, and sends its record. The operation counts when [`Writer::flush`] or [`Writer::publish`] returns.
    ///
    /// # Errors
    /// [`FrontEndError::Stage`]: nothing was changed. After any other error the writer has to be dropped.
    pub async fn stage(&mut self, operation: &Operation<'_>) -> Result<Answer, FrontEndError> {
        let travel = self.writer.travel(operation).map_err(StageFault::from)?;
        let plan = match travel {
            None => None,
            Some(travel) => {
                let patch = |span, bytes: &mut [u8]| self.writer.patch(span, bytes);
                let plan = self.back_end.drive(&self.territory, travel, patch).await?;
                Some(plan.map_err(|stale| StageFault::from(ExecuteFault::from(stale)))?)
            }
        };
        let staged = self.writer.finish(operation, plan)?;
        self.send(&staged.record.bytes, &staged.record.pieces)
            .await?;
        Ok(staged.answer)
    }

    /// Writes a record to the log.
    async fn send(&self, bytes: &[u8], pieces: &[Span]) -> Result<(), FrontEndError> {
        self.back_end.alone(self.send_now(bytes, pieces)).await
    }

    async fn send_now(&self, bytes: &[u8], pieces: &[Span]) -> Result<(), FrontEndError> {
        let local = self.back_end.staged(bytes);
        let mut offset = 0;
        let mut writes = Vec::new();
        for piece in pieces {
            writes.push(Verbs::Write {
                local: LocalSpan {
                    offset,
                    size: piece.size as u32,
                    ..local
                },
                remote: RemoteAddress {
                    address: self.back_end.memory.address + piece.offset,
                    rkey: self.rkey,
                },
            });
            offset += piece.size;
        }
        let qp = self.back_end.endpoint.qp();
        match self.back_end.port().submit(qp, &writes).await? {
            Status::Success => Ok(()),
            _ => Err(FrontEndError::Over {
                domain: self.domain,
            }),
        }
    }

    /// Makes everything staged durable. Readers do not see it yet.
    ///
    /// # Errors
    /// [`FrontEndError::Over`]: the tenure is over, and what was not told as durable may count or not.
    pub async fn flush(&mut self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        let answer = self.back_end.ask(Request::Notify { domain }).await?;
        let wire::Answer::Noted {
            durable,
            applied,
            trimmed,
        } = answer
        else {
            return Err(refused(answer, domain));
        };
        if durable != self.writer.log().chain().lsn {
            return Err(FrontEndError::Over { domain });
        }
        self.writer.note_applied(applied);
        self.writer.note_trimmed(trimmed);
        Ok(())
    }

    /// Makes everything staged durable and visible to all readers.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub async fn publish(&mut self) -> Result<(), FrontEndError> {
        if let Some(record) = self.writer.publish() {
            self.send(&record.bytes, &record.pieces).await?;
        }
        self.flush().await
    }

    /// Asks for another slab: an operation found no room ([`SpaceFault::NoSpace`](crate::SpaceFault::NoSpace)).
    ///
    /// # Errors
    /// [`FrontEndError::NoRoom`]: no slab is free. [`FrontEndError::Held`], [`FrontEndError::Over`]: the tenure is over.
    pub async fn grow(&mut self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        let answer = self.back_end.ask(Request::GiveSlab { domain }).await?;
        let wire::Answer::Slabs { slabs } = answer else {
            return Err(refused(answer, domain));
        };
        for slab in slabs {
            if slab >= self.back_end.geometry.slab_count {
                return Err(FrontEndError::Protocol);
            }
            if self.territory.slabs.insert(slab) {
                self.writer.add_slab(slab);
            }
        }
        Ok(())
    }

    /// Gives the tenure back. What was staged and not published is executed by the back-end.
    ///
    /// # Errors
    /// [`FrontEndError::Over`]: it was over.
    pub async fn release(self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        match self.back_end.ask(Request::Release { domain }).await? {
            wire::Answer::Released => Ok(()),
            answer => Err(refused(answer, domain)),
        }
    }

    /// The tenure of the writer.
    pub fn tenure(&self) -> u32 {
        self.grant.tenure
    }
}
