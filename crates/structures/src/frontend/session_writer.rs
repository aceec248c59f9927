//! The writer of a domain over a connection.

use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_base::mutant;

use super::appends::{Appends, Until};
use super::back_end::{BackEnd, refused};
use super::error::FrontEndError;
use super::mirror_log::NoMirrorLog;
use super::tickets::{Publication, Ticket};
use super::writer::{DomainWriter, StageFault};
use crate::backend::{Grant, Territory};
use crate::shapes::{Answer, CreateFault, ExecuteFault, Many, Roots, Structure, Traversal};
use crate::space::SpaceFault;
use crate::tenure::LogFull;
use crate::wire::{self, LogKey, Operation, Request, Verb};

/// The number of answers without room in the log after which a writer gives up.
const TRIMS_MAX: u32 = 1000;
/// Publications that have begun and have not ended, at most. What they have written stays in the memory of the writer.
const AHEAD_MAX: usize = 4;

/// The writer of a domain.
pub struct Writer {
    pub(super) back_end: Rc<BackEnd>,
    pub(super) domain: u32,
    pub(super) territory: Territory,
    pub(super) grant: Grant,
    pub(super) writer: DomainWriter,
    pub(super) appends: Rc<Appends>,
    /// The records of publications that have begun, oldest first: those that were not seen to have ended.
    pub(super) publishing: VecDeque<u64>,
}

/// The identity of a domain among the domains of all back-ends. Each content counts its domains from the start, so a
/// number alone is ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainIdentity {
    content: LogKey,
    domain: u32,
}

impl DomainIdentity {
    /// Whether both domains are of one content.
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Writer {
    /// The identity of the domain. A promoted back-end has the content of its source, and therefore the same domains.
    pub fn identity(&self) -> DomainIdentity {
        DomainIdentity {
            content: self.back_end.log_key,
            domain: self.domain,
        }
    }

    /// The structures of the domain.
    pub fn roots(&self) -> &Roots {
        self.writer.roots()
    }

    /// Executes an operation, and appends its record. The operation counts when the ticket has ended well, or when
    /// [`Writer::flush`] or [`Writer::publish`] returns. Without room, everything staged is published first, or the
    /// domain gets another slab.
    ///
    /// Records are sent when a caller waits for them, many with one doorbell.
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

    /// Stages an operation with a token again, perhaps in a later tenure; [`Writer::operations`] was `since` when the
    /// operation was first staged. If the operation was done, its first answer is returned again.
    ///
    /// # Errors
    /// The errors of [`Writer::stage`]. [`ExecuteFault::Forgotten`]: the operation may have been done, and its result
    /// is not kept any more.
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
        let (size, size_max) = (full.size, self.grant.area.size);
        if size > size_max {
            return Err(StageFault::Long { size, size_max }.into());
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

    /// Begins to publish everything staged, and goes on: tickets of later operations end without waiting for it, where
    /// records become durable without the processor of the back-end. Elsewhere they wait for the back-end, which works
    /// on the publication first.
    ///
    /// The publication goes on with the waits of this writer: a writer that waits for nothing more may leave it to the
    /// hand-over. If four publications have begun and not ended, the call waits for the oldest one.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub async fn start_publication(&mut self) -> Result<Publication, FrontEndError> {
        self.reclaim_ended().await?;
        while let Some(oldest) = self.publishing.front().map(|record| Until::Taken(*record)) {
            if !self.appends.has_come(oldest) {
                if self.publishing.len() < AHEAD_MAX {
                    break;
                }
                self.appends.wait(oldest).await?;
            }
            self.publishing.pop_front();
        }
        self.note_told();
        if let Some(record) = self.writer.publish() {
            let number = self.appends.append(record);
            self.publishing.push_back(number);
            self.appends.announce(number);
        }
        Ok(Publication::new(&self.appends, self.records()))
    }

    /// Makes everything staged durable and visible to all readers.
    ///
    /// # Errors
    /// The errors of [`Writer::flush`].
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
    /// The errors of [`Writer::flush`]; [`FrontEndError::Stale`]: the structure is damaged.
    pub async fn get(
        &mut self,
        structure: &Structure,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, FrontEndError> {
        match structure.find(key) {
            Some(find) => self.read(find).await,
            None => Ok(None),
        }
    }

    /// The end of a walk over a structure of the domain, as it is with everything staged. Staged operations on which
    /// the answer may rest become durable first.
    ///
    /// # Errors
    /// The errors of [`Writer::get`].
    pub async fn read<T: Traversal>(&mut self, walk: T) -> Result<T::End, FrontEndError> {
        self.flush().await?;
        self.end_of(walk).await
    }

    /// The values of encoded keys, each in the structure with this number, as they are with everything staged. All are
    /// read at once: each level costs one round trip, and known places cost none.
    ///
    /// The answers are *provisional*: they count when an operation that is staged later is durable, or when
    /// [`Writer::confirm`] returns. So a transaction that reads and then stages a group waits only for its ticket. A
    /// crash before that leaves nothing of the transaction.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`]: a number names no structure with keys. [`FrontEndError::Over`]: the tenure is
    /// over. [`FrontEndError::Stale`]: a structure is damaged.
    pub async fn read_staged(
        &mut self,
        keys: &[(u32, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, FrontEndError> {
        let find = |(number, key): &(u32, &[u8])| self.roots().structure(*number)?.find(key);
        let finds: Option<Vec<_>> = keys.iter().map(find).collect();
        let finds = Many::new(finds.ok_or(FrontEndError::NoStructure)?);
        let recalling = self.writer.recalling(finds);
        let found = self.back_end.drive(&self.territory, recalling).await?;
        let found = found.and_then(|ends| ends.into_iter().collect());
        if found.is_err() {
            // No other front-end changes the memory while the tenure lasts.
            self.check_tenure().await?;
        }
        found.map_err(FrontEndError::Stale)
    }

    /// Waits until everything staged is durable, and checks that the tenure lasts: the answers of
    /// [`Writer::read_staged`] from before then count.
    ///
    /// # Errors
    /// The errors of [`Writer::flush`].
    pub async fn confirm(&mut self) -> Result<(), FrontEndError> {
        self.flush().await?;
        self.check_tenure().await
    }

    /// Reads the ways to keys of a structure, all at once: each level costs one round trip, whatever the number of
    /// keys. Changes of these keys then need no READ, except for values that they compare, as long as everything fits
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

    /// Drives a walk over the words that the writer knows, and over the pool. These words are valid while the tenure
    /// lasts, which the tenure word shows after the walk.
    async fn end_of<T: Traversal>(&mut self, traversal: T) -> Result<T::End, FrontEndError> {
        let recalling = self.writer.recalling(traversal);
        let driven = self.back_end.drive(&self.territory, recalling).await?;
        if !mutant!(KnownBeyondTenure) {
            self.check_tenure().await?;
        }
        driven.map_err(FrontEndError::Stale)
    }

    /// Checks that the tenure lasts.
    async fn check_tenure(&self) -> Result<(), FrontEndError> {
        let check = self.back_end.check_tenure(self.domain, self.grant.tenure);
        check.await
    }

    /// Records of this tenure.
    fn records(&self) -> u64 {
        self.writer.log().chain().lsn - self.grant.start.chain.lsn
    }

    /// The number of the operation that was staged last. Operations are numbered through all tenures of the domain.
    pub fn operations(&self) -> u64 {
        self.writer.log().chain().operation
    }

    /// Operations that are staged, and that no reader sees yet.
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

    /// Requests another slab after an operation found no room ([`SpaceFault::NoSpace`]).
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
    /// [`FrontEndError::Over`]: the tenure was over.
    pub async fn release(self) -> Result<(), FrontEndError> {
        let domain = self.domain;
        match self.back_end.talk.ask(Request::Release { domain }).await? {
            wire::Answer::Released => Ok(()),
            answer => Err(refused(answer, domain)),
        }
    }

    /// Whether tickets end when both logs have the record: that of the back-end and that of its mirror. Otherwise, and
    /// from the end of the connection to the mirror on, tickets of a pool with a mirror end with an answer of the
    /// back-end.
    ///
    /// # Errors
    /// [`NoMirrorLog`]: the reason.
    pub fn mirror_log(&self) -> Result<(), Rc<NoMirrorLog>> {
        self.appends.mirror_log()
    }

    /// The tenure of the writer.
    pub fn tenure(&self) -> u32 {
        self.grant.tenure
    }
}
