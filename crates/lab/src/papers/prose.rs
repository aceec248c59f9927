//! Numbers of a page's text, which are those of the points.
//!
//! ```text
//!   {FIGURE | SERIES | PLACE; PLACE}               the values at these places
//!   {FIGURE | SERIES / OTHER | PLACE; PLACE}       the values in multiples of those of another series
//!   {FIGURE | SERIES | PLACE / OTHER}              the value in multiples of that at another place
//!   {FIGURE | SERIES | PLACE | 1}                  with one digit behind the point, in place of two
//! ```

use super::Points;

/// The `text` with the numbers of `points` in place of the braces.
///
/// # Panics
///
/// If the text names a point that is not there.
pub(super) fn filled(text: &str, points: &Points) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let (named, after) = behind.split_once('}').expect("a closing brace");
        filled += before;
        filled += &numbers(named, points).unwrap_or_else(|| panic!("no point for {{{named}}}"));
        rest = after;
    }
    filled + rest
}

/// The numbers that a brace names; `None` if a point is missing.
fn numbers(named: &str, points: &Points) -> Option<String> {
    let mut parts = named.split('|').map(str::trim);
    let (figure, series, places) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = parts.next().map_or(Some(2), |digits| digits.parse().ok())?;
    let at = |series: &str, x: &str| points.at(figure, series, x);
    let number = |x: &str| -> Option<String> {
        let value = match (series.split_once(" / "), x.split_once(" / ")) {
            (Some((one, other)), _) => at(one, x)? / at(other, x)?,
            (None, Some((one, other))) => at(series, one)? / at(series, other)?,
            (None, None) => at(series, x)?,
        };
        Some(format!("{value:.digits$}"))
    };
    let all = places.split(';').map(|x| number(x.trim()));
    let all: Vec<String> = all.collect::<Option<_>>()?;
    let (last, before) = all.split_last()?;
    Some(match before {
        [] => last.clone(),
        _ => format!("{} and {last}", before.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    fn points() -> Points {
        let point = |series: &str, x: &str, y: f64| Point {
            figure: "paper-1".to_owned(),
            series: series.to_owned(),
            x: x.to_owned(),
            y,
            unit: "us".to_owned(),
        };
        let all = [
            point("one", "8", 1.0),
            point("one", "8, large", 3.0),
            point("other", "8", 4.0),
            point("other", "8, large", 4.0),
        ];
        Points::from(all.to_vec())
    }

    #[test]
    fn braces_give_values_and_ratios_of_series_and_of_places() {
        let text = "{paper-1 | one | 8} us, {paper-1 | one / other | 8; 8, large} of the other, {paper-1 | one | 8, large / 8 | 1} times";
        let filled = filled(text, &points());
        assert_eq!(filled, "1.00 us, 0.25 and 0.75 of the other, 3.0 times");
    }

    #[test]
    #[should_panic(expected = "no point for {paper-1 | one | 9}")]
    fn a_brace_without_a_point_is_refused() {
        filled("{paper-1 | one | 9}", &points());
    }
}
