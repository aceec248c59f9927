//! The numbers of `INCRBYFLOAT`: 64 bits of mantissa and 15 of exponent, as the `long double` of x86-64, with which
//! Redis computes.
//!
//! Text is read, added and printed as the C library does it: each result is the exact one, rounded once to the
//! nearest number, to the even one in the middle. Digits are those of `%.17Lf` without the zeros at the end.
//!
//! Hexadecimal numbers, which the C library reads as well, are no numbers here.

use num_bigint::{BigInt, BigUint, Sign};

/// Bits of the mantissa.
const MANTISSA_BITS: u64 = 64;
/// The exponents of the last bit of the smallest and the largest number.
const EXPONENT_MIN: i64 = -16_445;
const EXPONENT_MAX: i64 = 16_320;
/// Decimal places that are printed.
const PLACES: usize = 17;
/// Bytes of the longest text that Redis takes for a number.
const TEXT_SIZE_MAX: usize = 5 * 1024 - 1;
/// A number with its first digit behind this many places before the point is too large, and one so far behind it is
/// too small, for any mantissa.
const MAGNITUDE_MAX: i64 = 5000;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongDouble {
    Finite {
        is_negative: bool,
        /// The number is the mantissa times two to the power of the exponent.
        mantissa: u64,
        exponent: i64,
    },
    Infinite,
}

impl LongDouble {
    pub const ZERO: Self = Self::Finite {
        is_negative: false,
        mantissa: 0,
        exponent: 0,
    };

    /// Reads a number. `None`: the text is not a number, or the number is too large, or so small that it would be zero.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_SIZE_MAX {
            return None;
        }
        let (is_negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        if [&b"inf"[..], b"infinity"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
        {
            return Some(Self::Infinite);
        }
        let (digits, power) = decimal(text)?;
        let first = digits.iter().position(|&digit| digit != b'0');
        let Some(first) = first else {
            return Some(Self::Finite {
                is_negative,
                mantissa: 0,
                exponent: 0,
            });
        };
        let digits = &digits[first..];
        let magnitude = power.saturating_add(digits.len() as i64);
        if magnitude.abs() > MAGNITUDE_MAX {
            return None;
        }
        let number = BigUint::parse_bytes(digits, 10)?;
        let scale = BigUint::from(10_u8).pow(power.unsigned_abs() as u32);
        let rounded = match power < 0 {
            true => round(is_negative, number, &scale),
            false => round(is_negative, number * scale, &BigUint::from(1_u8)),
        };
        let is_number = |it: &Self| matches!(it, Self::Finite { mantissa, .. } if *mantissa > 0);
        Some(rounded).filter(is_number)
    }

    /// The sum; `None` if it is no finite number.
    pub fn add(self, other: Self) -> Option<Self> {
        let Self::Finite { exponent: left, .. } = self else {
            return None;
        };
        let Self::Finite {
            exponent: right, ..
        } = other
        else {
            return None;
        };
        let exponent = left.min(right);
        let sum = self.over(exponent) + other.over(exponent);
        let (is_negative, sum) = (sum.sign() == Sign::Minus, sum.into_parts().1);
        let one = BigUint::from(1_u8);
        let rounded = match exponent < 0 {
            true => round(is_negative, sum, &(one << exponent.unsigned_abs())),
            false => round(is_negative, sum << exponent.unsigned_abs(), &one),
        };
        Some(rounded).filter(|sum| *sum != Self::Infinite)
    }

    /// The number divided by two to the power of `exponent`, which is not above its own.
    fn over(self, exponent: i64) -> BigInt {
        let Self::Finite {
            is_negative,
            mantissa,
            exponent: own,
        } = self
        else {
            unreachable!("sums are of finite numbers")
        };
        let whole = BigInt::from(mantissa) << (own - exponent).unsigned_abs();
        if is_negative { -whole } else { whole }
    }

    /// The digits as Redis stores and returns them.
    pub fn text(self) -> String {
        let Self::Finite {
            is_negative,
            mantissa,
            exponent,
        } = self
        else {
            return "inf".to_owned();
        };
        let scaled = BigUint::from(mantissa) * BigUint::from(10_u64.pow(PLACES as u32));
        let scaled = match exponent < 0 {
            true => divided(scaled, &(BigUint::from(1_u8) << exponent.unsigned_abs())),
            false => scaled << exponent.unsigned_abs(),
        };
        let digits = format!("{scaled:0>width$}", width = PLACES + 1);
        let (whole, places) = digits.split_at(digits.len() - PLACES);
        let places = places.trim_end_matches('0');
        let point = if places.is_empty() { "" } else { "." };
        let sign = match is_negative && scaled != BigUint::ZERO {
            true => "-",
            false => "",
        };
        format!("{sign}{whole}{point}{places}")
    }
}

/// The digits of a decimal number without its point, and the power of ten by which they count.
fn decimal(text: &[u8]) -> Option<(Vec<u8>, i64)> {
    let end = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (number, power) = match end {
        None => (text, 0),
        Some(end) => (&text[..end], exponent(&text[end + 1..])?),
    };
    let point = number.iter().position(|&byte| byte == b'.');
    let places = point.map_or(0, |point| number.len() - point - 1);
    let mut digits = number.to_vec();
    if let Some(point) = point {
        digits.remove(point);
    }
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    are_digits.then(|| (digits, power.saturating_sub(places as i64)))
}

/// An exponent: a sign, perhaps, and digits. A number of any length is bounded.
fn exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text.split_first()? {
        (b'-', rest) => (-1, rest),
        (b'+', rest) => (1, rest),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_i64, |number, digit| {
        (number * 10 + i64::from(digit - b'0')).min(1 << 32)
    });
    Some(sign * number)
}

/// The quotient, rounded to the nearest number, to the even one in the middle.
fn divided(number: BigUint, by: &BigUint) -> BigUint {
    let quotient = &number / by;
    let twice = (number - &quotient * by) * 2_u8;
    let is_up = twice > *by || (twice == *by && quotient.bit(0));
    quotient + u8::from(is_up)
}

/// The number that is nearest to a quotient.
fn round(is_negative: bool, number: BigUint, by: &BigUint) -> LongDouble {
    if number == BigUint::ZERO {
        return LongDouble::Finite {
            is_negative,
            mantissa: 0,
            exponent: 0,
        };
    }
    // The quotient has at least 64 bits with this exponent, and at most 65.
    let mut exponent = number.bits() as i64 - by.bits() as i64 - MANTISSA_BITS as i64;
    loop {
        exponent = exponent.max(EXPONENT_MIN);
        let mantissa = match exponent < 0 {
            true => divided(number.clone() << exponent.unsigned_abs(), by),
            false => divided(number.clone(), &(by.clone() << exponent.unsigned_abs())),
        };
        match u64::try_from(&mantissa) {
            Ok(_) if exponent > EXPONENT_MAX => return LongDouble::Infinite,
            Ok(mantissa) => {
                return LongDouble::Finite {
                    is_negative,
                    mantissa,
                    exponent,
                };
            }
            // Rounded from the exact quotient again: two roundings could differ from one.
            Err(_) => exponent += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(left: &str, right: &str) -> Option<String> {
        let parse = |text: &str| LongDouble::parse(text.as_bytes());
        Some(parse(left)?.add(parse(right)?)?.text())
    }

    /// These are the digits that redis-server printed.
    #[test]
    fn sums_have_the_digits_of_redis() {
        for (left, right, digits) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("-1", "1", "0"),
            ("-0", "-0", "0"),
            ("1e-20", "0", "0"),
            ("-1e-20", "0", "0"),
            (".5", "5.", "5.5"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551617", "0", "18446744073709551616"),
        ] {
            assert_eq!(
                sum(left, right).as_deref(),
                Some(digits),
                "{left} + {right}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", "-", ".", "e1", "1e", "1e+", "1.2.3", " 1", "1 ", "nan", "-nan", "0x10", "1,5",
            "1e5000", "1e-5000", "infinit", "--1", "1e1.5",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["0e999999999999", "1e4932", "1e-4950", "+1", "-.5e-3"] {
            assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text}");
        }
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
        assert!(LongDouble::parse(&[b'1'; TEXT_SIZE_MAX + 1]).is_none());
    }
}
