//! The writer of a domain over a connection.

use std::rc::Rc;

use stonecast_base::mutant;

use super::appends::{Appends, Ticket, Until};
use super::back_end::{BackEnd, refused};
use super::error::FrontEndError;
use super::writer::{DomainWriter, StageFault};
use crate::backend::{Grant, PoolGeometry, Territory};
use crate::shapes::{Answer, CreateFault, ExecuteFault, Many, Roots, Structure, Traversal};
use crate::space::SpaceFault;
use crate::tenure::LogFull;
use crate::wire::{self, Operation, Request, Verb};

/// Answers of the back-end without room in the log after which a writer gives up.
const TRIMS_MAX: u32 = 1000;

/// The writer of a domain.
pub struct Writer {
    pub(super) back_end: Rc<BackEnd>,
    pub(super) domain: u32,
    pub(super) territory: Territory,
    pub(super) grant: Grant,
    pub(super) writer: DomainWriter,
    pub(super) appends: Rc<Appends>,
}

impl Writer {
    /// The structures of the domain.
    pub fn roots(&self) -> &Roots {
        self.writer.roots()
    }

    /// Executes an operation, and appends its record. The operation counts when the ticket has ended well, or when
    /// [`Writer::flush`] or [`Writer::publish`] returns. Where there is no room, everything staged is published first,
    /// or the domain gets another slab.
    ///
    /// Records go out when somebody waits for them, many with one doorbell.
    ///
    /// # Errors
    /// [`FrontEndError::Stage`], [`FrontEndError::NoRoom`]: nothing was changed. After any other error the writer has
    /// to be dropped.
    pub async fn stage(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<(Answer, Ticket), FrontEndError> {
        self.stage_where_room_is(operation, None).await
    }

    /// Does the same for an operation with a token that was staged before, perhaps in an earlier tenure, for the first
    /// time when [`Writer::operations`] was `since`. If the operation was done, its first answer is given again.
    ///
    /// # Errors
    /// As [`Writer::stage`]. [`ExecuteFault::Forgotten`]: the operation may have been done, and its result is not kept
    /// any more.
    pub async fn stage_again(
        &mut self,
        operation: &Operation<'_>,
        since: u64,
    ) -> Result<(Answer, Ticket), FrontEndError> {
        self.stage_where_room_is(operation, Some(since)).await
    }

    async fn stage_where_room_is(
        &mut self,
        operation: &Operation<'_>,
        since: Option<u64>,
    ) -> Result<(Answer, Ticket), FrontEndError> {
        let mut trims = 0;
        loop {
            self.note_told();
            match self.try_stage(operation, since).await {
                Ok(staged) => return Ok(staged),
                Err(FrontEndError::Stage(StageFault::LogFull(full))) => {
                    self.make_log_room(full).await?;
                    trims += 1;
                    if trims == TRIMS_MAX {
                        return Err(StageFault::LogFull(full).into());
                    }
                }
                Err(FrontEndError::Stage(StageFault::TransactionFull { .. }))
                    if self.writer.waiting() > 0 =>
                {
                    self.publish().await?;
                }
                Err(FrontEndError::Stage(StageFault::Execute(
                    ExecuteFault::Space(SpaceFault::NoSpace { .. })
                    | ExecuteFault::Create(CreateFault::Space(SpaceFault::NoSpace { .. })),
                ))) => self.grow().await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_stage(
        &mut self,
        operation: &Operation<'_>,
        since: Option<u64>,
    ) -> Result<(Answer, Ticket), FrontEndError> {
        if !self.appends.has_room() {
            self.appends.wait(Until::Room).await?;
        }
        let staging = match since {
            Some(since) => self.writer.staging_again(operation, since)?,
            None => self.writer.staging(operation)?,
        };
        let ended = self.back_end.drive(&self.territory, staging);
        let ended = ended.await?;
        let ended = ended.unwrap_or_else(|stale| Err(ExecuteFault::from(stale).into()));
        if matches!(ended, Err(StageFault::Execute(ExecuteFault::Damaged(_)))) {
            self.check_tenure().await?;
        }
        let staged = ended?;
        let number = match staged.record {
            Some(record) => self.appends.append(record),
            // The operation was done before: it is durable with the records that were staged so far.
            None => self.records(),
        };
        Ok((staged.answer, Ticket::new(&self.appends, number)))
    }

    /// Makes room in the log: publishes the staged operations, and waits until the back-end has trimmed the log.
    async fn make_log_room(&mut self, full: LogFull) -> Result<(), FrontEndError> {
        if self.writer.waiting() > 0 {
            return self.publish().await;
        }
        let domain = self.domain;
        let answer = self.back_end.talk.ask(Request::Notify { domain }).await?;
        let wire::Answer::Noted { trimmed, .. } = answer else {
            return Err(refused(answer, domain));
        };
        self.writer.note_trimmed(trimmed);
        if full.size > self.grant.area.size {
            return Err(StageFault::LogFull(full).into());
        }
        Ok(())
    }

    /// A ticket for everything staged.
    pub fn ticket(&self) -> Ticket {
        Ticket::new(&self.appends, self.records())
    }

    fn note_told(&mut self) {
        let told = self.appends.told();
        self.writer.note_applied(told.applied);
        self.writer.note_trimmed(told.trimmed);
    }

    /// Makes everything staged durable. Readers do not see it yet.
    ///
    /// # Errors
    /// [`FrontEndError::Over`]: the tenure is over, and operations that no ticket has acknowledged may count or not.
    pub async fn flush(&mut self) -> Result<(), FrontEndError> {
        self.appends.wait(Until::Durable(self.records())).await
    }

    /// Makes everything staged durable and visible to all readers.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub async fn publish(&mut self) -> Result<(), FrontEndError> {
        self.reclaim_ended().await?;
        if let Some(record) = self.writer.publish() {
            self.appends.append(record);
        }
        self.appends.wait(Until::Taken(self.records())).await?;
        self.note_told();
        Ok(())
    }

    /// Stages that some blocks of structures that have ended are freed, with the next publication.
    async fn reclaim_ended(&mut self) -> Result<(), FrontEndError> {
        if self.writer.waiting() == 0 || !self.writer.roots().has_ended() {
            return Ok(());
        }
        // No versions: the program decides how long these are kept.
        let value = 0_u32.to_le_bytes();
        let reclaim = Operation {
            token: 0,
            structure: 0,
            verb: Verb::Reclaim,
            key: &[],
            value: &value,
        };
        match self.try_stage(&reclaim, None).await {
            // A later publication finds the room.
            Ok(_) | Err(FrontEndError::Stage(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The value of an encoded key in a structure with keys, as it is with everything staged. Staged operations on
    /// which the answer may rest become durable first.
    ///
    /// # Errors
    /// As [`Writer::flush`]; [`FrontEndError::Stale`]: the structure is damaged.
    pub async fn get(
        &mut self,
        structure: &Structure,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, FrontEndError> {
        self.flush().await?;
        match structure.find(key) {
            Some(find) => self.end_of(find).await,
            None => Ok(None),
        }
    }

    /// Reads the ways to keys of a structure, all at once: each level costs one round trip, whatever the number of
    /// keys. Changes of these keys then find everything known, but for values that they compare, as long as it fits
    /// into the memory of the writer.
    ///
    /// # Errors
    /// [`FrontEndError`]; a damaged structure is left to the change that meets it.
    pub async fn look_ahead(
        &mut self,
        structure: &Structure,
        keys: &[Vec<u8>],
    ) -> Result<(), FrontEndError> {
        let ways = keys.iter().filter_map(|key| structure.find(key));
        let recalling = self.writer.recalling(Many::new(ways));
        let _either = self.back_end.drive(&self.territory, recalling).await?;
        Ok(())
    }

    /// Drives a walk over the words that the writer knows, and over the pool. These words are good while the tenure
    /// lasts, which the tenure word shows behind the walk.
    async fn end_of<T: Traversal>(&mut self, traversal: T) -> Result<T::End, FrontEndError> {
        let recalling = self.writer.recalling(traversal);
        let driven = self.back_end.drive(&self.territory, recalling).await?;
        if !mutant!(KnownBeyondTenure) {
            self.check_tenure().await?;
        }
        driven.map_err(FrontEndError::Stale)
    }

    /// Looks at the tenure word. While the tenure lasts, nobody else changes the memory of the domain.
    async fn check_tenure(&self) -> Result<(), FrontEndError> {
        let word = PoolGeometry::place(self.domain).tenure_word();
        let found = self.back_end.read_one(word).await?;
        let tenure = u64::from(self.grant.tenure).to_le_bytes();
        let domain = self.domain;
        match found == tenure {
            true => Ok(()),
            false => Err(FrontEndError::Over { domain }),
        }
    }

    /// Records of this tenure.
    fn records(&self) -> u64 {
        self.writer.log().chain().lsn - self.grant.start.chain.lsn
    }

    /// The number of the operation that was staged last. Operations are numbered through all tenures of the domain.
    pub fn operations(&self) -> u64 {
        self.writer.log().chain().operation
    }

    /// Operations that are staged, and that no reader sees.
    pub fn waiting(&self) -> u64 {
        self.writer.waiting()
    }

    /// Tells the back-end that this writer lives: a tenure whose owner is silent for longer than its lease ends.
    ///
    /// # Errors
    /// [`FrontEndError::Over`]: the tenure is over.
    pub async fn renew(&self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        match self.back_end.talk.ask(Request::Notify { domain }).await? {
            wire::Answer::Noted { .. } => Ok(()),
            answer => Err(refused(answer, domain)),
        }
    }

    /// Asks for another slab: an operation found no room ([`SpaceFault::NoSpace`]).
    ///
    /// # Errors
    /// [`FrontEndError::NoRoom`]: no slab is free. [`FrontEndError::Held`], [`FrontEndError::Over`]: the tenure is
    /// over.
    pub async fn grow(&mut self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        let answer = self.back_end.talk.ask(Request::GiveSlab { domain }).await?;
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

    /// Gives the tenure back. The back-end executes operations that are durable and not published; the others are lost.
    ///
    /// # Errors
    /// [`FrontEndError::Over`]: it was over.
    pub async fn release(self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        match self.back_end.talk.ask(Request::Release { domain }).await? {
            wire::Answer::Released => Ok(()),
            answer => Err(refused(answer, domain)),
        }
    }

    /// The tenure of the writer.
    pub fn tenure(&self) -> u32 {
        self.grant.tenure
    }
}
