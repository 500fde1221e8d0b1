//! The report as one page that needs nothing else: tables, and plots as inline SVG.

mod chart;
mod scale;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Phase, Point, Report};
use chart::{Chart, Line};
use scale::Scale;

const STYLE: &str = include_str!("style.css");

/// The page.
#[must_use]
pub fn page(report: &Report, baseline: Option<&Report>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Load test: " (report.scenario) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (head(report)) }
                main {
                    section { h2 { "Goals" } p { (report.passes_when) } (tables::goals(report)) }
                    section { h2 { "Figures" } (tables::figures(report, baseline)) (tables::counts(report)) (tables::cql(report))
                        (tables::threads(report))
                        @if !report.notes.is_empty() { ul.notes { @for note in &report.notes { li { (note) } } } }
                    }
                    @if let Some(curves) = curves(report) { section { h2 { "Latency" } (curves) } }
                    section { h2 { "Over time" } @for phase in &report.phases { (over_time(phase)) } }
                    section { h2 { "The run" } (tables::facts(report)) }
                }
            }
        }
    }
}

fn head(report: &Report) -> Markup {
    let (class, verdict) = if report.passed { ("passed", "passed") } else { ("failed", "FAILED") };
    html! {
        h1 { (report.scenario) " " span class={ "badge " (class) } { (verdict) } }
        p {
            (report.started_at) ", " (format!("{:.0} s", report.seconds)) ", commit " (report.commit) ", "
            (report.machine.processors) " × " (report.machine.model)
        }
    }
}

/// The curves of all phases that have latencies, in one plot: the more nines, the farther right.
fn curves(report: &Report) -> Option<Markup> {
    let line = |phase: &Phase| Line { name: phase.name.clone(), points: nines(&phase.healthy().curve) };
    let lines: Vec<Line> = report.phases.iter().map(line).filter(|line| line.points.len() > 1).collect();
    let chart = Chart { title: "From the intended time to the receiver, healthy destinations", unit: "ms", lines };
    (!chart.lines.is_empty()).then(|| html! { div.charts { (chart.wide(Scale::Nines, Scale::Log)) } })
}

/// Quantiles as nines, latencies in milliseconds.
fn nines(curve: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let finite = curve.iter().filter(|(quantile, _)| *quantile < 1.0);
    finite.map(|(quantile, micros)| (-(1.0 - quantile).log10(), milliseconds(*micros))).collect()
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn over_time(phase: &Phase) -> Markup {
    let line = |name: &str, of: &dyn Fn(&Point) -> Option<f64>| Line {
        name: name.to_owned(),
        points: phase.series.iter().filter_map(|point| Some((point.at, of(point)?))).collect(),
    };
    let latency = |micros: u64| (micros > 0).then(|| milliseconds(micros));
    let rates = vec![line("deliveries", &|point| Some(point.deliveries_per_second))];
    let latencies = vec![
        line("p50", &|point| latency(point.p50)),
        line("p99", &|point| latency(point.p99)),
        line("p99.9", &|point| latency(point.p999)),
    ];
    let memory = vec![line("PSS", &|point| point.pss_mib), line("RSS", &|point| point.rss_mib)];
    let processors = vec![line("hub", &|point| point.hub_processors), line("idle share", &|point| Some(point.idle))];
    html! {
        h3 { (phase.name) " " small { (phase.load) } }
        div.charts {
            (Chart { title: "Deliveries", unit: "/s", lines: rates }.narrow(Scale::Linear, Scale::Linear))
            (Chart { title: "Latency", unit: "ms", lines: latencies }.narrow(Scale::Linear, Scale::Log))
            (Chart { title: "Memory of the hub", unit: "MiB", lines: memory }.narrow(Scale::Linear, Scale::Linear))
            (Chart { title: "Processors", unit: "", lines: processors }.narrow(Scale::Linear, Scale::Linear))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Summary;
    use crate::report::{Goal, Rule};

    fn report() -> Report {
        let curve = vec![(0.0, 500), (0.5, 1_000), (0.99, 4_000), (1.0, 9_000)];
        let healthy = Summary { count: 10, p50: 1_000, p99: 4_000, curve, ..Summary::default() };
        let series = (0..20).map(|at| Point { at: f64::from(at), p50: 900, p99: 4_000, ..Point::default() }).collect();
        let phase = Phase {
            name: "parallel <1>".to_owned(),
            latencies: [("healthy".to_owned(), healthy)].into(),
            series,
            ..Phase::default()
        };
        let goals =
            vec![Goal::of("lost", Some(0.0), Rule::AtMost(0.0), ""), Goal::of("x", None, Rule::AtMost(1.0), "")];
        Report { scenario: "smoke".to_owned(), phases: vec![phase], goals, ..Report::default() }
    }

    #[test]
    fn a_page_stands_alone_and_escapes() {
        let html = page(&report(), Some(&report())).into_string();
        assert!(html.contains("parallel &lt;1&gt;") && !html.contains("parallel <1>"));
        assert!(html.contains("<svg") && html.contains("not measured"));
        for outside in ["http://", "https://", "src=", "NaN", "inf"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn quantiles_become_nines() {
        let points = nines(&[(0.0, 1_000), (0.9, 2_000), (0.999, 3_000), (1.0, 4_000)]);
        assert_eq!(points.len(), 3);
        assert!((points[2].0 - 3.0).abs() < 1e-6 && (points[2].1 - 3.0).abs() < 1e-9, "{points:?}");
    }
}
