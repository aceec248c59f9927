//! SmallBank: customers with a savings and a checking account each. The mix is that of H-Store, to which the paper
//! refers: payments 25 % of the transactions, each of the others 15 %.

use rand::RngExt as _;
use stonecast_base::Random;

use super::{Next, Row, RowPlace, at};

/// Customers, savings, checking. Amounts are cents.
pub(super) const ROW_SIZES: [u32; 3] = [16, 8, 8];
const CUSTOMERS: usize = 0;
const SAVINGS: usize = 1;
const CHECKING: usize = 2;
/// The content of each account before the first transaction.
const START: i64 = 1_000_000;
/// A check that is not covered costs this.
const PENALTY: i64 = 100;

/// A transaction of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankTransaction {
    /// Reads both accounts.
    Balance { customer: u64 },
    /// Pays in.
    Deposit { customer: u64, amount: i64 },
    /// Changes the savings, which do not go below 0.
    Save { customer: u64, amount: i64 },
    /// Moves everything of one customer to the checking account of another one.
    Amalgamate { from: u64, to: u64 },
    /// Pays out of the checking account, with a penalty if both accounts hold less.
    Check { customer: u64, amount: i64 },
    /// Pays from one checking account to another one.
    Pay { from: u64, to: u64, amount: i64 },
}

/// The rows of the customers.
pub(super) fn rows(population: u64) -> Vec<(RowPlace, Row)> {
    let of = |customer: u64| {
        let name = format!("{customer:016}");
        let account = |table| (at(table, customer), amount_row(START));
        [
            (at(CUSTOMERS, customer), Some(name.into_bytes())),
            account(SAVINGS),
            account(CHECKING),
        ]
    };
    (0..population).flat_map(of).collect()
}

/// All accounts and customers.
pub(super) fn places(population: u64) -> Vec<RowPlace> {
    let of = |customer| [CUSTOMERS, SAVINGS, CHECKING].map(|table| at(table, customer));
    (0..population).flat_map(of).collect()
}

/// The money in rows.
pub(super) fn money_in<'a>(rows: impl Iterator<Item = (RowPlace, &'a Row)>) -> i64 {
    let accounts = rows.filter(|(place, _)| place.table != CUSTOMERS);
    accounts.map(|(_, row)| amount(row)).sum()
}

fn amount_row(amount: i64) -> Row {
    Some(amount.to_le_bytes().to_vec())
}

/// The money in an account; an account that is not there holds none, so its loss shows in the sum.
fn amount(row: &Row) -> i64 {
    let bytes = row.as_ref().and_then(|row| row.first_chunk());
    bytes.map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

impl BankTransaction {
    pub fn draw(population: u64, random: &mut Random) -> Self {
        let customer = random.random_range(0..population);
        let to = (customer + random.random_range(1..population)) % population;
        let cents = random.random_range(1..50_000);
        match random.random_range(0..100) {
            0..15 => Self::Amalgamate { from: customer, to },
            15..30 => Self::Balance { customer },
            30..45 => Self::Deposit {
                customer,
                amount: cents,
            },
            45..70 => Self::Pay {
                from: customer,
                to,
                amount: cents,
            },
            70..85 => Self::Save {
                customer,
                amount: cents - 25_000,
            },
            _ => Self::Check {
                customer,
                amount: cents,
            },
        }
    }

    fn places(self) -> Vec<RowPlace> {
        match self {
            Self::Balance { customer } | Self::Check { customer, .. } => [
                at(CUSTOMERS, customer),
                at(SAVINGS, customer),
                at(CHECKING, customer),
            ]
            .to_vec(),
            Self::Deposit { customer, .. } => {
                vec![at(CUSTOMERS, customer), at(CHECKING, customer)]
            }
            Self::Save { customer, .. } => vec![at(CUSTOMERS, customer), at(SAVINGS, customer)],
            Self::Amalgamate { from, to } => vec![
                at(CUSTOMERS, from),
                at(CUSTOMERS, to),
                at(SAVINGS, from),
                at(CHECKING, from),
                at(CHECKING, to),
            ],
            Self::Pay { from, to, .. } => vec![
                at(CUSTOMERS, from),
                at(CUSTOMERS, to),
                at(CHECKING, from),
                at(CHECKING, to),
            ],
        }
    }

    /// Reads all rows at once, since the program names the customers by their numbers.
    pub fn next(self, seen: &[Row]) -> Next {
        if seen.is_empty() {
            return Next::Read(self.places());
        }
        let row = |table, key, amount| (at(table, key), amount_row(amount));
        Next::End(match self {
            Self::Balance { .. } => Vec::new(),
            Self::Deposit {
                customer,
                amount: by,
            } => {
                vec![row(CHECKING, customer, amount(&seen[1]) + by)]
            }
            Self::Save {
                customer,
                amount: by,
            } => match amount(&seen[1]) + by {
                ..0 => Vec::new(),
                after => vec![row(SAVINGS, customer, after)],
            },
            Self::Amalgamate { from, to } => {
                let [savings, checking, of_other] = [2, 3, 4].map(|at: usize| amount(&seen[at]));
                vec![
                    row(SAVINGS, from, 0),
                    row(CHECKING, from, 0),
                    row(CHECKING, to, of_other + savings + checking),
                ]
            }
            Self::Check { customer, .. } => {
                vec![row(CHECKING, customer, amount(&seen[2]) + self.money(seen))]
            }
            Self::Pay {
                from,
                to,
                amount: by,
            } => match amount(&seen[2]) - by {
                ..0 => Vec::new(),
                left => vec![
                    row(CHECKING, from, left),
                    row(CHECKING, to, amount(&seen[3]) + by),
                ],
            },
        })
    }

    /// The money that the transaction brings from outside.
    pub fn money(self, seen: &[Row]) -> i64 {
        match self {
            Self::Deposit { amount, .. } => amount,
            Self::Save { amount: by, .. } if amount(&seen[1]) + by >= 0 => by,
            Self::Check { amount: by, .. } => match amount(&seen[1]) + amount(&seen[2]) < by {
                true => -by - PENALTY,
                false => -by,
            },
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use stonecast_base::random_from_seed;

    use super::super::{Application, model::Model};

    #[test]
    fn transfers_keep_the_money_and_the_others_change_it_by_what_they_say() {
        let mut model = Model::new(Application::SmallBank, 4);
        let mut random = random_from_seed(1);
        let start = model.money();
        let mut from_outside = 0;
        for _ in 0..2000 {
            let work = Application::SmallBank.draw(4, &mut random);
            from_outside += model.execute(&work).1;
            assert_eq!(model.money(), start + from_outside, "{work:?}");
        }
        assert!(from_outside != 0);
    }
}
