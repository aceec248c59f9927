//! SmallBank and TATP over structures of one lock domain: transactions that read rows, and change several of them at
//! once.
//!
//! ```text
//!   bank.rs  telecom.rs    rows, and what a transaction reads and changes: functions without I/O
//!   model.rs               the rows as a serial execution leaves them; judges reads, and the money of the bank
//!   ours.rs  published.rs  rows in structures: a group is one operation
//!   run.rs                 a measured run, every read of which is judged
//!   trial.rs               a run with kills, pauses and power cuts
//!   figures.rs             the columns of Table 2
//!   causes.rs              the causes of their numbers: one respect changed at a time
//! ```

mod bank;
pub(super) mod causes;
pub(super) mod figures;
mod model;
mod ours;
mod published;
mod run;
mod telecom;
mod trial;

use stonecast_base::Random;
use stonecast_structures::shapes::{Description, StructureKind};
use stonecast_structures::{Key as _, Verb};

use stonecast_published::asymnvm::Change;

pub use run::{ApplicationLoad, ApplicationOutcome, measure_application};
pub use trial::{Mistake, Trial, TrialFault, try_application};

/// One of the paper's two applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Application {
    /// Accounts of a bank, in hash tables.
    SmallBank,
    /// Subscribers of a telephone network, in B+trees.
    Tatp,
}

/// The place of a row: its table, counted from 0, and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPlace {
    pub table: usize,
    pub key: u64,
}

/// The content of a row; `None`: the row does not exist.
pub(super) type Row = Option<Vec<u8>>;

/// The next step of a transaction that has seen some rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The transaction also reads these rows.
    Read(Vec<RowPlace>),
    /// The transaction ends and replaces the content of these rows, all or none.
    End(Vec<(RowPlace, Row)>),
}

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    Bank(bank::BankTransaction),
    Telecom(telecom::TelecomTransaction),
}

impl Transaction {
    /// The next step after rows were seen, in the order in which they were asked for.
    pub fn next(&self, seen: &[Row]) -> Next {
        match self {
            Self::Bank(work) => work.next(seen),
            Self::Telecom(work) => work.next(seen),
        }
    }

    /// Reads until the transaction ends. Returns the rows that it has seen, and its changes.
    async fn read_by<E>(
        &self,
        mut read: impl AsyncFnMut(&[RowPlace]) -> Result<Vec<Row>, E>,
    ) -> Result<(Vec<Row>, Vec<(RowPlace, Row)>), E> {
        let mut seen = Vec::new();
        loop {
            match self.next(&seen) {
                Next::Read(places) => seen.extend(read(&places).await?),
                Next::End(changes) => return Ok((seen, changes)),
            }
        }
    }

    /// The money that comes from outside, if the transaction has seen these rows.
    pub fn money(&self, seen: &[Row]) -> i64 {
        match self {
            Self::Bank(work) => work.money(seen),
            Self::Telecom(_) => 0,
        }
    }
}

impl Application {
    /// The kinds of its tables.
    fn kind(self) -> StructureKind {
        match self {
            Self::SmallBank => StructureKind::HashTable,
            Self::Tatp => StructureKind::BTree,
        }
    }

    /// The descriptions of its tables.
    pub(super) fn tables(self) -> Vec<Description> {
        let sizes = match self {
            Self::SmallBank => bank::ROW_SIZES.to_vec(),
            Self::Tatp => telecom::ROW_SIZES.to_vec(),
        };
        let kind = self.kind();
        let of = |value_size| Description {
            kind,
            key_size_max: 8,
            value_size,
            schema: 0,
        };
        sizes.into_iter().map(of).collect()
    }

    /// The rows before the first transaction, for so many customers or subscribers.
    pub(super) fn rows(self, population: u64) -> Vec<(RowPlace, Row)> {
        match self {
            Self::SmallBank => bank::rows(population),
            Self::Tatp => telecom::rows(population),
        }
    }

    /// All places at which a row may be.
    pub(super) fn places(self, population: u64) -> Vec<RowPlace> {
        match self {
            Self::SmallBank => bank::places(population),
            Self::Tatp => telecom::places(population),
        }
    }

    /// Draws a transaction.
    pub(super) fn draw(self, population: u64, random: &mut Random) -> Transaction {
        match self {
            Self::SmallBank => Transaction::Bank(bank::BankTransaction::draw(population, random)),
            Self::Tatp => {
                Transaction::Telecom(telecom::TelecomTransaction::draw(population, random))
            }
        }
    }
}

const fn at(table: usize, key: u64) -> RowPlace {
    RowPlace { table, key }
}

impl RowPlace {
    /// The number of its structure.
    fn structure(self) -> u32 {
        self.table as u32 + 1
    }
}

/// The encoded keys of rows, each with the number of its structure.
fn keys_of(places: &[RowPlace]) -> Vec<(u32, Vec<u8>)> {
    let places = places.iter();
    places
        .map(|place| (place.structure(), place.key.encoded()))
        .collect()
}

fn borrowed(keys: &[(u32, Vec<u8>)]) -> Vec<(u32, &[u8])> {
    keys.iter().map(|(of, key)| (*of, &**key)).collect()
}

/// The changes that give rows another content, each with the number of its structure.
fn changes_of(rows: &[(RowPlace, Row)]) -> Vec<(u32, Change)> {
    let change = |(place, row): &(RowPlace, Row)| {
        let change = Change {
            verb: match row {
                Some(_) => Verb::Insert,
                None => Verb::Remove,
            },
            key: place.key.encoded(),
            value: row.clone().unwrap_or_default(),
        };
        (place.structure(), change)
    };
    rows.iter().map(change).collect()
}
