//! Figures out of the hub's metrics text. Pure.

/// The sum over all labels of a counter or gauge; 0 when it is not there.
#[must_use]
pub fn sum(text: &str, name: &str) -> f64 {
    let samples = text.lines().filter_map(|line| line.strip_prefix(name));
    let values = samples.filter_map(|rest| match rest.chars().next()? {
        ' ' | '{' => rest.rsplit(' ').next()?.parse::<f64>().ok(),
        _ => None,
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_summed_and_longer_names_are_others() {
        let text = "# HELP a_total x\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3.5\na_total_more 100\nb 7\n";
        assert!((sum(text, "a_total") - 5.5).abs() < 1e-9);
        assert!((sum(text, "b") - 7.0).abs() < 1e-9);
        assert!(sum(text, "c").abs() < 1e-9);
    }
}
