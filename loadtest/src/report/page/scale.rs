//! Axes: where a value lies between an axis' ends, and which values are marked. Pure.

/// How an axis grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten.
    Log,
    /// Evenly, with marks that name quantiles: 1 is 90 %, 2 is 99 %.
    Nines,
}

/// An axis with its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis with room for all values.
    #[must_use]
    pub fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Self { scale, low: 0.0, high: 1.0 };
        }
        match scale {
            Scale::Linear => {
                Self { scale, low: 0.0, high: step(high / 4.0) * (high / step(high / 4.0)).ceil().max(1.0) }
            }
            Scale::Nines => Self { scale, low: 0.0, high: high.max(1.0) },
            Scale::Log => {
                let (low, high) = (low.max(1e-3).log10().floor(), high.max(1e-3).log10().ceil());
                Self { scale, low, high: if high > low { high } else { low + 1.0 } }
            }
        }
    }

    /// From 0 at the low end to 1 at the high one.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear | Scale::Nines => value,
            Scale::Log => value.max(1e-3).log10(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Places of the marks, and their texts.
    #[must_use]
    pub fn marks(&self) -> Vec<(f64, String)> {
        let span = self.high - self.low;
        match self.scale {
            Scale::Linear => {
                let step = step(span / 4.0);
                let count = (span / step).round() as u32;
                (0..=count).map(|n| f64::from(n) * step).map(|value| (value / span, text(value))).collect()
            }
            Scale::Nines => {
                let names = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];
                let within = names.iter().enumerate().filter(|(nines, _)| *nines as f64 <= self.high);
                within.map(|(nines, name)| (nines as f64 / self.high, (*name).to_owned())).collect()
            }
            Scale::Log => {
                let powers = (self.low as i32)..=(self.high as i32);
                powers.map(|power| ((f64::from(power) - self.low) / span, text(10_f64.powi(power)))).collect()
            }
        }
    }
}

/// The next round number at or above: 1, 2 or 5 with zeros.
fn step(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|round| value / power <= round + 1e-9);
    power * round.unwrap_or(10.0)
}

fn text(value: f64) -> String {
    if value >= 1e6 {
        format!("{} M", value / 1e6)
    } else if value >= 1e4 {
        format!("{} k", value / 1e3)
    } else {
        // Cuts what a sum of tenths leaves behind.
        format!("{}", (value * 1e6).round() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_round() {
        let axis = Axis::around(Scale::Linear, [130.0, 871.0].into_iter());
        let marks: Vec<String> = axis.marks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(marks, ["0", "500", "1000"]);
        assert!((axis.place(250.0) - 0.25).abs() < 1e-9);
        let small = Axis::around(Scale::Linear, [0.7].into_iter());
        assert_eq!(small.marks().last().unwrap().1, "0.8");
    }

    #[test]
    fn a_log_axis_has_powers_of_ten() {
        let axis = Axis::around(Scale::Log, [0.4, 37.0].into_iter());
        let marks: Vec<String> = axis.marks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(marks, ["0.1", "1", "10", "100"]);
        assert!((axis.place(1.0) - 1.0 / 3.0).abs() < 1e-9);
        assert!(axis.place(0.0).abs() < 1e-9);
    }

    #[test]
    fn axes_of_nothing_and_of_one_value_are_axes() {
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            for values in [&[][..], &[0.0], &[1.0]] {
                let axis = Axis::around(scale, values.iter().copied());
                assert!(axis.marks().iter().all(|(place, _)| (0.0..=1.0).contains(place)), "{scale:?} {values:?}");
                assert!(axis.place(1.0).is_finite());
            }
        }
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([0.3, 1.0, 1.1, 30.0, 700.0].map(step), [0.5, 1.0, 2.0, 50.0, 1_000.0]);
    }
}
