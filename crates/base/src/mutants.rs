//! Seeded bugs: places where a guard is omitted on purpose, to test the checks themselves.
//!
//! ```text
//!   if mutant!(FenceMissing) { ... }      false, and gone, unless the feature `mutants` is on
//!                                         with it: whether this thread has planted this bug
//! ```
//!
//! A campaign (`cargo xtask mutants`) plants one mutant after the other, and its checks must find each. A mutant that
//! no oracle finds shows a weak oracle, or a guard that nothing needs.
//!
//! Invariants: without the feature no mutant, and no text about one, exists in the compiled program; with the feature
//! at most one is planted per thread.

macro_rules! mutants {
    ($($(#[doc = $what:literal])+ $name:ident in $place:literal, $flaw:literal;)+) => {
        /// A seeded bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $($(#[doc = $what])+ $name,)+
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// All mutants.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name of the mutant.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// The effect of the mutant.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => concat!($($what),+).trim_ascii(),)+ }
            }

            /// The crate in which the mutant is planted. `appends` stands for the fabric and its simulated provider,
            /// `clocks` for the clocks of providers, `kv/backup` and `kv/hold` for backups of a serving pool,
            /// `kv/batches` for several keys at once, `kv/expiry` for keys that expire, `kv/flaws` for the flaws of
            /// Rowan-KV as published, `kv/time` for the time of a shard, `kv/told` for that time as clients know it,
            /// `power` for the ends of simulated machines,
            /// `kv/cluster` for the store in a cluster, `persist/append` for the two sides of durable appends,
            /// `replication/machines` for rules that the world of replication seldom shows.
            pub const fn place(self) -> &'static str {
                match self { $(Self::$name => $place,)+ }
            }

            /// The flaw of a published design that the mutant brings back (`E` of client-KV stores, `R` of replicated
            /// stores, `T` of persistence recipes), or the promise that it breaks.
            pub const fn flaw(self) -> &'static str {
                match self { $(Self::$name => $flaw,)+ }
            }
        }
    };
}

mutants! {
    /// Records are acknowledged before they are written back.
    RecordNotWrittenBack in "kv", "E1";
    /// The last line of each record is not written back.
    LastLineNotWrittenBack in "kv", "E1";
    /// The header of a new segment is not written back with its first records.
    SegmentHeaderNotWrittenBack in "kv", "E5";
    /// Index words are stored before their records are durable.
    PublishBeforeDurable in "kv", "E4";
    /// Writes are answered before they are durable.
    AnswerBeforeDurable in "kv", "E1";
    /// The server stamps clients' records without checking their tags.
    TagNotCheckedByServer in "kv", "E6";
    /// A tag does not depend on the opening, so the server accepts records of another opening.
    OpeningNotChecked in "log", "openings fence";
    /// The server ignores conditions of writes.
    ConditionIgnored in "kv", "conditional writes";
    /// Deletes remove the word from the index and leave no tombstone.
    TombstoneLeftOut in "kv", "E11";
    /// A write is persisted beside the one on which its verdict rests.
    StampedBesideItsCause in "kv", "a retried write is done once";
    /// A lease's segment is given to others while its key still opens it.
    LeaseNotRevoked in "session", "E8";
    /// A reader that finds an invalid record deletes the key.
    ReaderRepairs in "kv", "E3";
    /// A client trusts a remembered place without the bucket's word.
    LocationTrusted in "kv", "one round trip for reads";
    /// Readers do not check the tags of records.
    TagNotCheckedByReader in "log", "E9";
    /// A tag does not depend on the record's position.
    PositionNotInTag in "log", "E9";
    /// Recovery accepts a stamped record whose bytes are not whole.
    TornTailAccepted in "log", "E2";
    /// Recovery accepts records with any commit tag.
    CommitTagIgnored in "log", "R5";
    /// Recovery does not check the links between records.
    LinksNotChecked in "log", "E7";
    /// Recovery does not compare the records found with the seal.
    SealNotCompared in "log", "E7";
    /// Recovery seals nothing.
    SealSkipped in "log", "recovery is idempotent";
    /// A server never notes that persisted records are durable.
    DurableNotNoted in "log", "E7";
    /// Recovery chooses the older of two versions of a key.
    OlderVersionRecovered in "kv", "recovery order";
    /// Recovery removes a deleted key even where a later put stored it again.
    TombstoneWinsAlways in "kv", "E11";
    /// Recovery does not scan segments that the checkpoint knows.
    StaleCheckpointBelieved in "kv", "E7";
    /// Recovery accepts a checkpoint without checking its checksum.
    CheckpointNotChecked in "kv", "mutated pool";
    /// Settled segments are not persisted before the server opens.
    SettledNotPersisted in "kv", "E5";
    /// A server does not remember which writes with tokens were done.
    OutcomesNotNoted in "kv", "R8";
    /// Recovery forgets which writes with tokens were done.
    OutcomesNotRecovered in "kv", "R8";
    /// A recovered server gives out the last version again.
    VersionGivenTwice in "kv", "versions grow";
    /// A segment's witness is stored before its records are durable.
    WitnessTooEarly in "kv", "segments lost whole";
    /// A segment is reused in the same generation.
    GenerationKept in "log", "E9";
    /// A segment is freed before the copies of its records are durable.
    CopiesNotDurable in "kv", "R9";
    /// A moved record is published even where its key has a newer one.
    RepublishedUnchecked in "kv", "R9";
    /// A segment's next generation is not persisted before it is written again.
    NextGenerationNotPersisted in "kv", "E8";
    /// A tombstone is dropped while older versions of its key are still in the log.
    TombstoneDroppedEarly in "kv", "E11";
    /// Live records are left behind in a freed segment.
    LiveRecordLeftBehind in "kv", "E12";
    /// Puts take the segments that are reserved for deletes.
    DeletesNotReserved in "kv", "a full pool can forget";
    /// The server accepts a record in staging memory for which no segment has room.
    LongRecordTaken in "kv", "hostile clients";
    /// A freed segment is never given out again.
    FreedMemoryLost in "kv", "no space is lost";
    /// A client that publishes takes its sequence before it reads the word that it replaces.
    SequenceBeforeRead in "kv", "versions grow";
    /// A client that publishes treats a lost compare-and-swap as a success.
    LostSwapBelieved in "kv", "lost update";
    /// The server writes keys without claiming them from clients that publish.
    ClaimIgnored in "kv", "lost update";
    /// Recovery takes all keys for keys of the first shard.
    RecoveredIntoOneShard in "kv", "lost key";
    /// Recovery counts the records of a batch that is not whole.
    TornBatchCounts in "kv/batches", "a batch is done as a whole";
    /// Records of a batch do not say their places.
    BatchUnmarked in "kv/batches", "a batch is done as a whole";
    /// The rest of a torn batch is left as it is, so a copy of one of its records may count.
    TornBatchStays in "kv/batches", "a batch is done as a whole";
    /// A copy that the cleaner makes keeps its place in a batch whose other records may be gone.
    MovedKeepsPlace in "kv/batches", "lost key";
    /// A batch is done even if an expectation does not hold.
    ExpectationIgnored in "kv/batches", "a batch is done as expected";
    /// A batch that expects a record that is not durable yet is stamped beside it.
    BatchBesideItsCause in "kv/batches", "a batch is done as expected";
    /// The outcome of a batch is not remembered.
    BatchOutcomeForgotten in "kv/batches", "a write is done once";
    /// A node takes a batch with keys of several shards for one of the shard of the first key.
    BatchOnSeveralShards in "kv/batches", "a batch is done as a whole";
    /// A node that starts counts the records of its own batches that are not whole.
    TornOwnBatchCounts in "kv/batches", "a batch is done as a whole";
    /// A node that starts sends each record of a batch that it has stamped as an entry of its own.
    BatchLeftInParts in "kv/batches", "a batch is done as a whole";
    /// The answer that an expectation does not hold is not kept until the copies have what it saw.
    BatchAnswerUnawaited in "kv/batches", "a reader sees what survives";
    /// A batch does not claim the words of its keys from clients that publish.
    BatchUnclaimed in "kv/batches", "lost update";
    /// A record that names chunks is written whether they are there or not.
    HeadWithoutChunks in "kv/chunks", "a value in chunks is whole";
    /// The chunks of a value stay when the record that names them is gone.
    ChunksOutliveHead in "kv/chunks", "a value in chunks is whole";
    /// A record that names chunks drops them when it comes to a copy a second time.
    HeadReplacesItself in "kv/chunks", "a value in chunks is whole";
    /// A chunk goes when its time has come, whether a record names it or not.
    NamedChunkExpires in "kv/chunks", "a value in chunks is whole";
    /// A server does not keep the records that later writes replace under a hold.
    ReplacedNotKept in "kv/backup", "a backup is the state at one version";
    /// A server does not keep the records of keys that expire under a hold.
    ExpiredNotKept in "kv/backup", "a backup is the state at one version";
    /// A segment is freed while a backup has to read kept records there.
    KeptNotWaitedFor in "kv/hold", "a backup is the state at one version";
    /// A version is held in the middle of a batch, whose writes are decided and not visible.
    HoldInsideBatch in "kv/hold", "a backup is the state at one version";
    /// A backup takes records that are later than its version.
    LaterInHold in "kv/backup", "a backup is the state at one version";
    /// A reader returns keys that have expired.
    ExpiryIgnoredByReader in "kv/expiry", "an expired key is absent";
    /// A client carries the server's time forward as if no clock drifted.
    DriftIgnored in "kv/expiry", "an expired key is absent";
    /// A server decides writes as if nothing had expired.
    ExpiredIsPresent in "kv/expiry", "an expired key is absent";
    /// Keys that have expired stay in the index, and in the room that live records take.
    ExpiredStays in "kv/expiry", "an expired key is absent";
    /// The cleaner drops an expired record while older versions of its key are still in the log.
    ExpiredLeavesNoTombstone in "kv/expiry", "E11";
    /// The server's time does not begin at the mark of the last run.
    TimeMarkForgotten in "kv/expiry", "time does not go back";
    /// The server's time goes on beyond its mark.
    TimeBeyondMark in "kv/expiry", "time does not go back";
    /// The server's time is that of the wall clock at any moment.
    WallClockBelieved in "kv/expiry", "time does not go back";
    /// The heir of a shard begins at its own clock, whatever its predecessors have told.
    HeirForgetsMark in "kv/expiry", "time does not go back";
    /// An heir tells the time up to a mark that may be on no other copy.
    HeirTellsAtOnce in "kv/time", "time does not go back";
    /// A primary tells the time up to a mark that is not on all copies yet.
    TimeBeforeCopies in "kv/time", "time does not go back";
    /// A copy takes the mark of its primary for the time that has passed there.
    CopyAhead in "kv/time", "an expired key is absent, and no other";
    /// A primary that resigns forgets the time by which it has removed keys.
    PassedForgotten in "kv/time", "E11";
    /// A primary that has removed keys stamps no mark that says so.
    RemovalUntold in "kv/time", "copies remove what has expired";
    /// A client carries the time of one shard forward for all shards.
    ToldForAllShards in "kv/told", "an expired key is absent";
    /// A client carries the time of a shard forward in a later term.
    ToldForAllTerms in "kv/told", "an expired key is absent";
    /// A copy does not keep the marks of its primary.
    MarkOfCopyForgotten in "kv/expiry", "time does not go back";
    /// A joiner does not take the mark of its primary from the pages.
    MarkNotInPages in "kv/expiry", "time does not go back";
    /// A server accepts requests for a term in which it has stopped leading the shard.
    RequestOutlivesTerm in "kv/cluster", "a retried write is done once";
    /// A client of a cluster trusts what it read without checking its lease.
    ReadUnchecked in "kv/cluster", "readers within the primary's lease";
    /// A client of a cluster trusts an error of a read without checking its lease.
    ErrorUnchecked in "kv/cluster", "readers within the primary's lease";
    /// A client takes the effect of a write from its last error.
    EffectOfLastError in "kv/cluster", "a retried write is done once";
    /// A client takes a lease on one shard for a lease on all shards that it has entered.
    LeaseOfAllShards in "kv/cluster", "readers within the primary's lease";
    /// A client stays in the term of a shard while the client asks to enter a later term.
    StaysUntilEntered in "kv/cluster", "readers within the primary's lease";
    /// A client asks for the outcome of a write with a version that another node named.
    SinceOfConnection in "kv/cluster", "a retried write is done once";
    /// A copy digests entries in the order in which it finds them in its memory, whatever their versions.
    PlaceDecides in "kv/flaws", "R4";
    /// A copy does not remember which writes with tokens the entries of its primary have done.
    OutcomesOfCopiesNotNoted in "kv/flaws", "R8";
    /// The store of a joiner leaves out the outcomes that pages bring.
    OutcomesNotPulled in "kv/node", "a retried write is done once";
    /// The store of a joiner keeps the keys of the copy that it drops.
    DroppedKeysStay in "kv/node", "a joiner begins with nothing";
    /// A primary that resigns forgets the places of the puts that it has stamped but not settled.
    UnsettledPutUncounted in "kv/resigned", "E11";
    /// A primary that resigns says that it has not done the writes that it has stamped but not settled.
    FailureMeansNotDone in "kv/node", "a retried write is done once";
    /// A node that has left a shard answers for the outcomes of its writes.
    OutcomeAfterLead in "kv/node", "a retried write is done once";
    /// A node decides a write by its index alone, though earlier writes of the key wait for copies.
    InFlightUnseen in "kv/node", "lost update";
    /// A node goes on to serve the readers of a shard that it leads no longer.
    BackupReadable in "kv/node", "readers within the primary's lease";
    /// A server of a pool of a cluster lets clients publish.
    PublishedPastCopies in "kv/node", "acknowledged means on all copies";
    /// A joiner digests while a page that was read earlier is on its way.
    TombstonesForgotten in "kv/node", "who is in sync has everything";
    /// The store of a node makes records durable before the versions that no record has.
    SkipsNotPersisted in "kv/node", "persisted in order";
    /// A node reports its own copy before the commit of its log.
    OwnCommitNotAwaited in "node", "acknowledged means on all copies";
    /// A node gives out what is settled without asking for its lease.
    LeaseNotAsked in "node", "one primary at a time";
    /// A joiner keeps the copy that it had before its join.
    OldCopyKept in "node", "a joiner begins with nothing";
    /// A joiner says that it has pulled everything before the pull is durable.
    PulledUnpersisted in "node", "who is in sync has everything";
    /// A node appends to a copy that has not said that it follows.
    SentUnfollowed in "node", "streams are open before entries come";
    /// An heir searches its memory while a dismissed primary may still append.
    DismissedNotFenced in "node", "quiesce before the look";
    /// A node that has ended goes on to grant leases, and to renew its own.
    FailedNodeGrants in "node", "every group is led again";
    /// A copy waits for an earlier sender that may still finish a write, before it follows an heir.
    DoubtStopsCopies in "node", "every group is led again";
    /// An heir with a consent decides before its search has reached everything that its predecessor answered.
    ConsentBeforeSearch in "node", "an heir has everything";
    /// A floor rises only after many entries, however much time passes.
    FloorByCountAlone in "node", "segments are used again";
    /// A report that a link received causes no turn of the node.
    ReportsWakeNobody in "node", "a write waits for no pause";
    /// A sender that was quiet does not wake its peer.
    RestingPeerNotWoken in "node", "a write waits for no pause";
    /// A primary stamps writes for which its copies have no room.
    StampedWithoutRoom in "node", "a shard that is offered too much goes on";
    /// A node waits for the commit of its pipeline without a bound.
    OwnCommitUnbounded in "node", "every group is led again";
    /// A primary awaits a copy that takes no entry for as long as the copy grants leases.
    FullCopyAwaited in "node", "rule 22: a copy that fills up is not awaited for ever";
    /// The connections of a node that was replaced have the numbers of its predecessor.
    NumbersOfPredecessor in "node", "a replaced node is another one";
    /// A primary counts a copy that has lost entries which the copy had reported.
    ShortCopyCounts in "node", "who is in sync has everything";
    /// A copy does not object to an heir whose history lacks entries that were on all copies.
    ShortHeirStays in "node", "every group is led again";
    /// A joiner pauses before it asks for the rest of a page that is longer than an answer.
    LongPagesPause in "node", "a joiner is filled without pauses";
    /// A primary drains again as soon as it has given up a drain.
    DrainsAtOnce in "node", "a move pauses a shard for a moment";
    /// A primary consents to its heir while readers have leases of the primary.
    ReadersNotAwaited in "node", "readers within the primary's lease";
    /// The plan that a server runs has lost its write-back.
    WriteBackNotPlanned in "persist", "E1";
    /// An appender omits the READ behind its entries and acts as if it had completed.
    AppendsNotFlushed in "persist/append", "R1";
    /// An appender to lent memory omits the READ behind its entries and acts as if it had completed.
    LentNotFlushed in "structures", "append, then flush";
    /// A receiver of appends answers without writing entries back.
    AppendsNotWrittenBack in "persist/append", "R7";
    /// A copy gives an heir a lease while that of its predecessor may last.
    PredecessorNotAwaited in "cluster", "leases from the copies";
    /// A restarted copy waits for none of the leases that it has forgotten.
    GrantForgotten in "cluster", "leases from the copies";
    /// A primary relies on its lease until its last grant ends, not its first.
    OneGrantEnough in "cluster", "leases from the copies";
    /// Readers are offered a whole lease, whatever is left of the primary's own lease.
    GrantBeyondOwn in "cluster", "readers within the primary's lease";
    /// A reader takes bytes that it read in an earlier term for those of the term of its lease.
    TermNotCompared in "cluster", "readers compare terms";
    /// A joiner takes the lead.
    StrangerPromoted in "cluster", "the leader has everything";
    /// A primary names a joiner for a join that is over, while a later join goes on.
    EarlierJoinCounts in "cluster", "a joiner gets everything";
    /// A node is in an epoch that it does not keep.
    EpochForgotten in "cluster", "epochs are durable before they count";
    /// Configurations of one epoch count as one, even if two nodes stored them.
    AttemptNotCompared in "cluster", "one configuration for each epoch";
    /// A primary that starts again leads in its old term.
    EpochReused in "cluster", "each start takes a new term";
    /// A pool that has lost a copy is registered as one.
    LostCopyCounts in "cluster", "a lost copy is none";
    /// A silent node is removed from one group and stays in sync with others.
    FencePerShard in "cluster", "removed from all groups";
    /// A node is granted leases although it names a later start than the configuration knows.
    UnknownStartGranted in "member", "leases from the copies";
    /// A primary whose lease ended is removed instead of deposed.
    RemovedByPause in "member", "a pause costs no copy";
    /// A node mistakes its own pause for the silence of others.
    OwnPauseCounted in "member", "a pause costs no copy";
    /// The proof that one process of a node is gone counts for a later process of that node.
    EveryStartDead in "member", "a start is another process than its predecessor";
    /// A dead node is removed at once where writes need its copy.
    DeadBelowMinCopies in "member", "a removal leaves the copies that writes need";
    /// A primary whose lease ended goes on.
    LeaseEndIgnored in "member", "leases from the copies";
    /// A backup accepts entries that were made for other pools, or by a node that may not append.
    AppendTagIgnored in "replication/machines", "entries prove themselves";
    /// A backup accepts entries whose body is not whole.
    AppendBodyUnchecked in "replication", "entries prove themselves";
    /// Backups demand versions of a shard without gaps, although a worker counts versions for all of its shards.
    CutByStream in "replication", "gaps are those of a shard";
    /// A backup accepts entries at or below its floor.
    ReplayCounts in "replication", "old entries are no news";
    /// Entries above the cut of their term count on copies that have them.
    SuffixKept in "replication", "an heir's log decides";
    /// A backup digests entries that may not be on all copies.
    DigestBeyondHorizon in "replication", "backups digest what is on all copies";
    /// A backup digests a new term before the rest of an old one.
    DigestAcrossTerms in "replication", "an old term is digested first";
    /// A primary takes any report of a copy as covering all versions up to the reported one.
    PersistedOutOfOrder in "replication", "persisted in order";
    /// A primary continues behind the last entry that it sent, even on a new connection.
    ResentFromLastSent in "replication", "persisted in order";
    /// A write is done when most copies have it.
    MajorityEnough in "replication", "acknowledged means on every copy";
    /// A write is done when it is stamped.
    PublishedEarly in "replication", "acknowledged means on every copy";
    /// A refusal is sent while the write that it rests on may still be lost.
    RefusalUncommitted in "replication", "refusals wait for what they saw";
    /// A primary whose lease is over sends a refusal.
    RefusalUnleased in "replication", "refusals need the lease";
    /// A primary publishes and answers after its lease is over.
    LeaseUnchecked in "replication", "the lease is asked last";
    /// An heir reads its memory while its predecessor may still append.
    AppendsNotFenced in "replication", "an heir fences first";
    /// An heir decides while a peer has a lease under which an append may still finish.
    UnquiescedIgnored in "replication/machines", "an heir fences first";
    /// An heir serves before it has persisted what it found.
    NotSettled in "replication", "an heir settles what it found";
    /// An heir serves before all copies have its history.
    ServedEarly in "replication", "an heir settles what it found";
    /// An heir serves while its predecessor may hold a lease.
    LeasesNotAwaited in "replication", "one leader at a time";
    /// A joiner gets the entries that are stamped from its join on, but not the earlier ones that are not published
    /// yet.
    UnpublishedLeftOut in "replication", "a joiner gets everything";
    /// A primary takes the report of an earlier join for that of the present one.
    EarlierPullCounts in "replication", "a joiner gets everything";
    /// A primary counts copies that it awaits, and that no configuration names, towards the fewest copies.
    AwaitedCounted in "replication", "a write is on the fewest copies";
    /// A primary checks the number of copies when it stamps, but not when it answers.
    FewestAtStampAlone in "replication", "a write is on the fewest copies";
    /// A refusal that saw no key waits for nothing.
    AbsenceSawNothing in "replication", "refusals wait for what they saw";
    /// A primary takes reports of connections that have ended.
    ReportOfAnyConnection in "replication/machines", "persisted in order";
    /// A copy keeps the history of an heir before it has the entries of that history.
    LineageBeforeEntries in "replication", "a history is durable after its entries";
    /// A copy raises its floor in a term whose history it has not kept.
    FloorBeforeHistory in "replication", "a history is durable after its entries";
    /// A copy must have all entries of a history that it has adopted, even where the heir never sent them.
    AdoptedHistoryCounts in "replication", "an heir has everything";
    /// A copy adopts the history of an heir that has lost what was on all copies.
    ShortHistoryAdopted in "replication/machines", "an heir has everything";
    /// A copy raises its floor above what it has digested.
    FloorBeyondDigest in "replication", "a floor follows the digest";
    /// A copy takes a floor of an earlier term for one of its present history.
    FloorOfAnyTerm in "replication", "a floor follows the digest";
    /// A primary answers before its lease is granted.
    UngrantedAnswers in "replication", "one leader at a time";
    /// A copy that has lost entries leads.
    LostCutLeads in "replication", "an heir has everything";
    /// An heir takes the confirmation of an earlier history for one of its own.
    ConfirmationOfAnyTerm in "replication", "an heir settles what it found";
    /// An heir takes the consent to an earlier heir for its own.
    ConsentOfAnyTerm in "replication/machines", "one leader at a time";
    /// The key of appends does not depend on the nonce of the cluster.
    NonceNotInKey in "replication", "entries prove themselves";
    /// A joiner is named as in sync while the primary does not wait for it.
    NamedBeforeAwaited in "replication", "acknowledged means on every copy";
    /// A primary that starts again goes on in its old term.
    TermReused in "replication", "each start takes a new term";
    /// A fence is confirmed before the bytes that its peer had written are searched.
    FencedBeforeSearch in "backup", "a fence covers what has landed";
    /// A peer that may still write is asked once whether it is quiet.
    DoubtAskedOnce in "backup", "doubt ends when the peer is gone";
    /// The windows of other sessions stay as they are when a doubt is over.
    DoubtNotRecounted in "backup", "credits do not drift at the ends of sessions";
    /// Credits are refilled only when half of the window is used.
    RefilledAtHalfAlone in "backup", "credits never wedge";
    /// A sender that uses credits that were never given goes on.
    OverdraftUnnoticed in "backup", "no sender takes the room of others";
    /// Credits that an ended session held never come back.
    EndedCreditsKept in "backup", "credits do not drift";
    /// Staging memory is not used again from its start before it is empty.
    StagingNeverWraps in "backup", "a ring with room takes entries";
    /// An answer about an earlier join of a backup counts for a later join.
    EarlierJoinAnswers in "backup", "reports name their join";
    /// A backup answers for entries behind a gap.
    GapAnswered in "backup", "persisted in order";
    /// A backup answers for a record when its first piece is durable.
    AnsweredByFirstPiece in "backup", "persisted in order";
    /// A persist that was dropped half-way is not done again.
    DroppedPersistForgotten in "backup", "futures may be dropped";
    /// A backup closes a stream, and does not tell the stream's primary.
    CloseNotTold in "backup", "no stream holds up another";
    /// A backup charges no session for entries of a stream that the backup has closed.
    StraysNotCharged in "backup", "credits never wedge";
    /// A backup has a session go on behind entries that a stream which opened again gave up.
    InterruptedGoesOn in "backup", "credits never wedge";
    /// A backup charges no session for entries that the floors settle.
    SettledNotCharged in "backup", "credits never wedge";
    /// A backup looks for entries no further than sessions have credit.
    DeadPlacesForgotten in "backup", "all that lands is found";
    /// A backup counts memory as silent that peers of an earlier run may still write.
    EarlierWritersTrusted in "backup", "doubt ends when the peer is gone";
    /// A segment goes back to records before the floors that settle its entries are durable.
    ReturnedBeforeFloors in "backup", "floors are durable first";
    /// Persisting does not wait for the lines that it wrote back.
    FenceMissing in "fabric-sim", "T8";
    /// Persisting fences but writes no line back.
    WriteBackMissing in "fabric-sim", "E1";
    /// A sync error is taken for success.
    SyncErrorIgnored in "fabric-sim", "T9";
    /// The clock of a machine stands still while the machine is suspended.
    ClockStandsStill in "clocks", "leases from the copies";
    /// A queue pair counts as quiet while messages of its peer are still inside the NIC.
    QuietTooEarly in "appends", "after quiesce nothing lands";
    /// A buffer waits forever for messages of a sender that died.
    BufferLostWithSender in "appends", "buffers come back";
    /// Messages to a silent queue make completions.
    SilenceBroken in "appends", "a receiver may ask for silence";
    /// A message is placed only after all messages of other senders that arrived before it.
    PlacedInOrderOfArrival in "appends", "senders do not wait for each other";
    /// A power cut ends only the threads that opened a device.
    PowerSparesThreads in "power", "a power cut ends everything";
    /// A queue pair counts as quiet while its peer is in the middle of a message.
    InsideNotAwaited in "fabric-shm", "after quiesce nothing lands";
    /// Messages of the connection manager pass through partitions.
    HandshakeThroughPartition in "appends", "a partition keeps everything";
    /// A port gives an arrival on a claimed queue pair to the first caller that asks.
    ArrivalToAnybody in "appends", "arrivals go to their claimant";
    /// A segment is posted before the floors that cover its old entries are durable.
    LedgerNotPersisted in "append-log", "floors are durable before a buffer is posted";
    /// Old entries count, wherever they stand.
    OldEntryCounts in "append-log", "an old entry is no news";
    /// Ledgers leave cuts out.
    CutNotWritten in "append-log", "an entry above the cut stays void";
    /// A cut of an heir that never served stays when the next heir has the entries above it.
    CutOfUnservedHeirStays in "append-log", "the history of the last heir decides";
    /// A version that is missing in a node's own log does not end the history.
    MissingVersionIgnored in "own-log", "the history ends at the first missing version";
    /// All records count as records of one shard.
    ShardOfKeyIgnored in "own-log", "each shard has a chain of its own";
    /// A record counts in the last term that the node led, whenever the record was stamped.
    LastTermForAll in "own-log", "a record is of the term before it";
    /// Records behind a missing version count once later ones are settled.
    SkippedVersionCounts in "own-log", "what was behind a missing version never counts";
    /// Records that an heir has cut off count.
    VoidOwnRecordCounts in "own-log", "what was cut off never counts";
    /// Records that were moved, or came from elsewhere, stand in the history.
    MovedRecordInHistory in "own-log", "the history has what was stamped here";
    /// Records that were digested before the node dropped its copy of their shard count.
    DroppedShardCounts in "own-log", "what was dropped never counts";
    /// A version that was durable, and is missing, ends the history like one that a crash has taken.
    DamageTakenForCrash in "own-log", "no crash takes what was durable";
    /// Versions are settled by the floor of any shard.
    SettledPastAShard in "own-log", "a shard that lags holds all versions";
    /// A node that runs forgets a range of void versions while their records lie in the log.
    ReachedRangeForgotten in "own-log", "what was cut off never counts";
    /// A receiver grants credits for which its buffers have no room.
    CreditWithoutRoom in "appends", "a sender that pays finds room";
    /// A record of a tenure's log counts without its tag.
    LogTagNotChecked in "structures", "rule 1: one tag over everything";
    /// A record of another tenure counts.
    TenureNotInTag in "structures", "rule 1: a record is of its tenure";
    /// A record counts behind any other record.
    PredecessorNotInTag in "structures", "rule 1: one chain";
    /// A transaction may leave operations out.
    CoverageNotContiguous in "structures", "rule 1: a transaction covers a contiguous range";
    /// A log that ends before a durable record is taken for a log that a crash has cut.
    GapNotReported in "structures", "rule 2: a gap below the durable horizon is corruption";
    /// A hand-over does not raise the tenure word.
    WordNotRaised in "structures", "rule 3: raise, revoke, scan";
    /// Records that a hand-over counts are not made durable.
    ScannedNotSettled in "structures", "rule 3: what was scanned is durable before the seal";
    /// The end of a tenure's log is not sealed.
    EndNotSealed in "structures", "rule 3: the end is sealed before anything is executed";
    /// Operations that no transaction covers are dropped at a hand-over.
    LeftoverNotExecuted in "structures", "rule 3: leftovers are executed";
    /// A hand-over executes operations without a record of it.
    ExecutedUnlogged in "structures", "rule 3: what is executed is logged first";
    /// Transactions are applied before they are durable.
    AppliedBeforeDurable in "structures", "rule 4: apply after durable";
    /// The log is trimmed before what was applied from it is durable.
    TrimmedBeforeData in "structures", "rule 4: trim after the data is durable";
    /// Entries of a transaction may name any memory.
    EntryTrusted in "structures", "rule 5: the back-end trusts no entry";
    /// A record is read again after it was checked.
    RecordReadAgain in "structures", "rule 5: a private copy is checked";
    /// A transaction links blocks without their bits.
    BitsNotInTransaction in "structures", "rule 6: bits change with the links";
    /// A block that is used again has the generation that it had.
    GenerationNotRaised in "structures", "rule 7: pointers carry generations";
    /// Readers do not check the tags of blocks.
    BlockTagNotChecked in "structures", "rule 8: content tags";
    /// Readers do not check the tags of slots.
    SlotTagNotChecked in "structures", "rule 8: a tag for each slot";
    /// A writer answers from its own copy of the state, and does not read the tenure word afterwards.
    KnownBeyondTenure in "structures", "rule 13: what a writer knows is good within its tenure";
    /// A writer forgets a word that a publication has written once an earlier publication is applied.
    PageReleasedEarly in "structures", "rule 13: what a writer knows stays until the pool has it";
    /// The record of a publication becomes durable by the answer to its notice, and so does every record behind it.
    PublicationAnswered in "structures", "a ticket behind a publication needs no answer";
    /// A publication ends when its record is durable.
    PublishedWhenDurable in "structures", "what was published is seen";
    /// A reader takes a node for that of its key without checking the node's fences.
    FenceIgnored in "structures", "rule 9: fences";
    /// A slab is given to a domain with the bits of the domain before.
    SlabGivenDirty in "structures", "rule 6: slabs belong to a domain";
    /// A slab changes hands while a log may hold entries for it.
    SlabTakenEarly in "structures", "rule 6: a slab changes its domain after the log is trimmed";
    /// A damaged domain keeps the back-end from serving the others.
    DamageStopsAll in "structures", "rule 5: a hostile writer harms nobody else";
    /// Readers do not look at the serving word.
    ServingWordIgnored in "structures", "rule 11: a reader reads the serving word before and after";
    /// A restart leaves the serving word even.
    ServingLeftEven in "structures", "rule 11: the word is odd before a restart touches data";
    /// A writer takes no log space for the transactions of the operations that it stages.
    RoomNotReserved in "structures", "rule 12: room before acknowledgement";
    /// A log of an earlier run is given away while its owner may still write to it.
    OldLogGiven in "structures", "rule 3: nothing is reused within reach of an earlier owner";
    /// A writer reports a record as durable without reading the tenure word again behind it.
    WordNotReadAgain in "structures", "rule 3: the word is read again behind each append";
    /// The root word is stored before the table that it names.
    RootBeforeTable in "structures", "rule 10: all roots change by one word";
    /// A block that nothing links is not marked as dead.
    DeadNotMarked in "structures", "rule 9: what is cached is noticed to be old";
    /// A binary tree changes a node of the open transaction in place, although a reader may reach it before the rest is
    /// applied.
    NodeRotatedInPlace in "structures", "rule 9: a node that is replaced stays as it was";
    /// A link of a skip list that changes in a block of the open transaction is a part of the first content of the
    /// block.
    LinksMerged in "structures", "rule 4: apply in listed order";
    /// Entries are loaded behind the last leaf of a tree although they belong in front of other keys.
    LoadedAmongOthers in "structures", "a load adds entries behind all keys, or nothing";
    /// A block that old snapshots reach is used again at once.
    RetiredAtOnce in "structures", "rule 6: deferred frees stand in a retire chain";
    /// A reader of a snapshot takes younger nodes for nodes of its version.
    BirthNotChecked in "structures", "rule 7: snapshots end with snapshot too old";
    /// A reader whose version is gone tries again.
    AgeIgnored in "structures", "rule 7: snapshots end with snapshot too old";
    /// A reader that accepts answers of some age gives them again at any age.
    AnswerKeptForever in "structures", "rule 13: what is cached is good for a bounded time";
    /// A reader reads every place that a pointer names, without a check.
    PlaceTrusted in "structures", "rule 5: a hostile writer harms nobody else";
    /// A reader does not check that the table is still the one that it read.
    RootWordIgnored in "structures", "rule 10: all roots change by one word";
    /// Operations that cancel each other are annulled even where others stand before them.
    AnnulledBehindOthers in "structures", "rule 14: annulment only where nothing stands before the pair";
    /// A consumer's record forgets what it has taken.
    TakenForgotten in "structures", "rule 15: what is taken stays in the record until it is done";
    /// A consumer's record counts what it has taken for done.
    TakenIsDone in "structures", "rule 15: what is taken stays in the record until it is done";
    /// An operation that is retried takes effect again.
    TokenForgotten in "structures", "rule 3: the next tenure has the results of retried operations";
    /// An operation that is retried takes effect again once its result is not kept.
    ForgottenRetried in "structures", "rule 3: the next tenure has the results of retried operations";
    /// A back-end applies and acknowledges operations that are durable in its own pool and not in its mirror.
    MirrorNotAwaited in "structures", "rule 16: what is acknowledged or seen is in the mirror";
    /// A ticket ends when its record is durable at the back-end, although the mirror may lack it.
    TicketWithoutMirror in "structures", "rule 16: a ticket waits for the mirror, A1";
    /// A ticket ends when its record is durable at the back-end, although the append to the mirror is under way.
    MirrorLogNotAwaited in "structures", "rule 16: a ticket waits for the mirror, A1";
    /// The windows of front-ends on logs at a mirror outlast that of their source.
    MirrorLogsLeftOpen in "structures", "rule 16: the mirror fences the old tenure before its scan";
    /// A tenure is handed over while its owner can write to the log at the mirror.
    HandedOverUnexpelled in "structures", "rule 16: the end of a tenure closes both windows before the scan";
    /// A back-end copies whole lines to its mirror, with the place of the record that comes next.
    LinesCopied in "structures", "rule 16: what is acknowledged is in the mirror";
    /// A mirror becomes the back-end while its source can still write to its memory.
    PromotedUnfenced in "structures", "rule 16: the mirror fences the old back-end before its scan";
    /// A mirror becomes the back-end while the lease of its source lasts.
    PromotedEarly in "structures", "rule 16: a promotion waits for the leases of the old back-end";
    /// A reader takes the memory of a back-end for the latest after its mirror may have taken its place.
    ReaderLeaseIgnored in "structures", "rule 16: readers of the old back-end hold leases";
    /// A new mirror gets no changes while it is being filled.
    CopyWithoutLog in "structures", "rule 16: a fuzzy copy, and then the log";
    /// A back-end that returns as a mirror counts as whole before it was compared.
    ReturningTaken in "structures", "rule 16: a returning back-end gives up what the other lacks";
    /// A mirror becomes the back-end without a swap of the standing record.
    PromotedUnrecorded in "structures", "rule 16: the standing record decides between promotion and detachment";
    /// A pool is detached without a swap of its standing record.
    DetachedUnrecorded in "structures", "rule 16: the standing record decides between promotion and detachment";
    /// A mirror counts as whole before the standing record names it.
    WholeBeforeRecord in "structures", "rule 16: a mirror that is whole is named by the standing record";
    /// A back-end starts without a swap of its standing record.
    OpeningNotSwapped in "structures", "rule 16: each opening decides the swaps that are under way";
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// The mutant called `name`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|mutant| mutant.name() == name)
    }
}

/// Whether the named mutant is planted. Always false, at compile time, without the feature `mutants`.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_planted($crate::mutants::Mutant::$name)
    };
}

/// See [`crate::mutant`].
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is_planted(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// See [`crate::mutant`].
#[cfg(feature = "mutants")]
#[inline]
pub fn is_planted(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}

/// Plants a mutant in everything that this thread runs from now on; `None` removes it.
#[cfg(feature = "mutants")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "mutants")]
    use super::*;

    #[cfg(feature = "mutants")]
    #[test]
    fn a_mutant_is_found_by_its_name_and_describes_its_effect() {
        for &mutant in Mutant::ALL {
            assert_eq!(Mutant::by_name(mutant.name()), Some(mutant));
            assert!(
                !mutant.what().is_empty()
                    && !mutant.place().is_empty()
                    && !mutant.flaw().is_empty()
            );
        }
        assert_eq!(Mutant::by_name("Sphinx"), None);
    }

    #[cfg(not(feature = "mutants"))]
    #[test]
    fn a_program_without_the_feature_contains_no_mutant() {
        const { assert!(!mutant!(FenceMissing)) };
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn at_most_one_mutant_is_planted_at_a_time() {
        plant(Some(Mutant::FenceMissing));
        assert!(mutant!(FenceMissing) && !mutant!(WriteBackMissing));
        plant(None);
        assert!(!mutant!(FenceMissing));
    }
}
