//! The rows as a serial execution of transactions leaves them.

use std::collections::BTreeMap;

use super::{Application, Next, Row, RowPlace, Transaction, bank, telecom};

/// The rows of an application.
#[derive(Clone, Debug)]
pub(super) struct Model {
    application: Application,
    population: u64,
    rows: BTreeMap<RowPlace, Row>,
}

impl Model {
    /// The rows before the first transaction.
    pub fn new(application: Application, population: u64) -> Self {
        Self {
            rows: application.rows(population).into_iter().collect(),
            application,
            population,
        }
    }

    /// The row at a place.
    pub fn row(&self, place: RowPlace) -> Row {
        self.rows.get(&place).cloned().flatten()
    }

    /// Executes a transaction behind all others. Returns the rows that it sees, and the money that it brings.
    pub fn execute(&mut self, transaction: &Transaction) -> (Vec<Row>, i64) {
        let mut seen = Vec::new();
        loop {
            match transaction.next(&seen) {
                Next::Read(places) => seen.extend(places.iter().map(|place| self.row(*place))),
                Next::End(changes) => {
                    let money = transaction.money(&seen);
                    self.rows.extend(changes);
                    return (seen, money);
                }
            }
        }
    }

    /// The money of the bank; 0 elsewhere.
    pub fn money(&self) -> i64 {
        match self.application {
            Application::SmallBank => {
                bank::money_in(self.rows.iter().map(|(place, row)| (*place, row)))
            }
            Application::Tatp => 0,
        }
    }

    /// Whether rows that name others find them.
    pub fn is_consistent(&self) -> bool {
        match self.application {
            Application::SmallBank => true,
            Application::Tatp => {
                telecom::is_consistent(self.population, |place| self.row(place).is_some())
            }
        }
    }
}
