//! A figure beside what it had to be. Pure.

use serde::{Deserialize, Serialize};

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rule {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Rule {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// One goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Which figure.
    pub name: String,
    /// What it is; absent when it could not be measured.
    pub value: Option<f64>,
    /// What it must be.
    pub rule: Rule,
    /// Its unit, with the blank before it.
    pub unit: String,
    /// Whether it is so; absent with the value.
    pub passed: Option<bool>,
}

impl Goal {
    /// Judges a figure.
    #[must_use]
    pub fn of(name: impl Into<String>, value: Option<f64>, rule: Rule, unit: &str) -> Self {
        // A figure that is no number, such as a ratio of nothing, passes no rule.
        let passed = value.map(|value| rule.holds(value));
        Self { name: name.into(), value, rule, unit: unit.to_owned(), passed }
    }

    /// `≤ 5 ms`.
    #[must_use]
    pub fn rule_text(&self) -> String {
        match self.rule {
            Rule::AtMost(limit) => format!("≤ {}{}", number(limit), self.unit),
            Rule::AtLeast(limit) => format!("≥ {}{}", number(limit), self.unit),
        }
    }

    /// `4.2 ms`.
    #[must_use]
    pub fn value_text(&self) -> String {
        self.value.map_or_else(|| "not measured".to_owned(), |value| format!("{}{}", number(value), self.unit))
    }

    /// `passed`, `FAILED`, or `–` for what could not be measured.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self.passed {
            Some(true) => "passed",
            Some(false) => "FAILED",
            None => "–",
        }
    }
}

/// A number with as many digits as are worth reading.
#[must_use]
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 {
        grouped(value)
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `1 234 567`, with thin blanks.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_hold_at_their_limits() {
        let passed = |value, rule| Goal::of("x", value, rule, " ms").passed;
        assert_eq!(passed(Some(5.0), Rule::AtMost(5.0)), Some(true));
        assert_eq!(passed(Some(5.01), Rule::AtMost(5.0)), Some(false));
        assert_eq!(passed(Some(0.6), Rule::AtLeast(0.6)), Some(true));
        assert_eq!(passed(Some(0.59), Rule::AtLeast(0.6)), Some(false));
        assert_eq!(passed(Some(f64::NAN), Rule::AtMost(1.0)), Some(false));
        assert_eq!(passed(Some(f64::NAN), Rule::AtLeast(1.0)), Some(false));
        assert_eq!(passed(None, Rule::AtMost(1.0)), None);
    }

    #[test]
    fn texts_have_units_and_groups() {
        let goal = Goal::of("rate", Some(12_345.6), Rule::AtLeast(15_000.0), "/s");
        assert_eq!(goal.value_text(), "12\u{202f}346/s");
        assert_eq!(goal.rule_text(), "≥ 15\u{202f}000/s");
        assert_eq!((number(0.123), number(12.34), number(0.0)), ("0.12".into(), "12.3".into(), "0".into()));
        assert_eq!(number(-1_234.0), "-1\u{202f}234");
    }
}
