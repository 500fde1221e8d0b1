//! The tables of the page.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::goal::number;
use super::super::{Change, Phase, Report, compare};

pub fn goals(report: &Report) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "figure" } th.number { "measured" } th.number { "goal" } th { "" } } }
            tbody { @for goal in &report.goals { tr {
                td { (goal.name) }
                td.number { (goal.value_text()) }
                td.number { (goal.rule_text()) }
                td class=(class(goal.passed)) { (goal.verdict()) }
            } } }
        } }
    }
}

const fn class(passed: Option<bool>) -> &'static str {
    match passed {
        Some(true) => "passed",
        Some(false) => "failed",
        None => "unknown",
    }
}

pub fn figures(report: &Report, baseline: Option<&Report>) -> Markup {
    let changes = baseline.map(|before| compare(report, before)).unwrap_or_default();
    html! {
        div.table { table {
            thead { tr {
                th { "phase" } th.number { "deliveries/s" } th.number { "per CPU-second" } th.number { "of bare" }
                th.number { "p50 ms" } th.number { "p99 ms" } th.number { "p99.9 ms" } th.number { "max ms" }
                th.number { "PSS MiB" } th.number { "fsyncs per 1 000" } th.number { "written, B each" }
                th.number { "idle" } th.number { "steal" }
            } }
            tbody {
                @if let Some(rate) = report.ceiling.per_second() { (ceiling(report, rate)) }
                @for phase in &report.phases { (row(phase, &changes)) }
            }
        } }
        @if !changes.is_empty() { h3 { "Over the baseline" } (over_baseline(&changes)) }
    }
}

fn ceiling(report: &Report, per_second: f64) -> Markup {
    let spread = report.ceiling.spread().unwrap_or(0.0) * 100.0;
    html! {
        tr.ceiling {
            td { "bare loop " small { (report.ceiling.runs.len()) " runs, " (format!("{spread:.0} %")) " apart" } }
            td.number { (number(per_second.round())) }
            td.number { (maybe(report.ceiling.per_processor_second().map(f64::round))) }
            td.number { "1" }
            td colspan="9" {}
        }
    }
}

fn row(phase: &Phase, changes: &[Change]) -> Markup {
    let (figures, latency) = (&phase.figures, phase.healthy());
    let milliseconds = |micros: u64| number(micros as f64 / 1e3);
    let each = |bytes: u64| (figures.delivered > 0).then(|| (bytes as f64 / figures.delivered as f64).round());
    let of = |figure: &'static str| mark(changes, &phase.name, figure);
    html! {
        tr {
            td { (phase.name) " " small { (phase.load) } }
            td.number { (number(figures.deliveries_per_second.round())) (of("deliveries/s")) }
            td.number {
                (maybe(figures.deliveries_per_processor_second.map(f64::round))) (of("deliveries per CPU-second"))
            }
            td.number { (maybe(figures.of_bare)) (of("of the bare loop")) }
            td.number { (milliseconds(latency.p50)) (of("p50, ms")) }
            td.number { (milliseconds(latency.p99)) (of("p99, ms")) }
            td.number { (milliseconds(latency.p999)) }
            td.number { (milliseconds(latency.max)) }
            td.number { (maybe(figures.pss_mib)) (of("PSS, MiB")) }
            td.number { (maybe((figures.issued > 0).then(|| figures.fsyncs * 1e3 / figures.issued as f64))) }
            td.number { (maybe(figures.written_bytes.and_then(each))) }
            td.number { (percent(figures.machine.idle)) }
            td.number { (percent(figures.machine.steal)) }
        }
    }
}

/// The change of a figure, if there is an earlier one, as a small mark.
fn mark(changes: &[Change], phase: &str, figure: &str) -> Markup {
    let change = changes.iter().find(|change| change.phase == phase && change.figure == figure);
    html! {
        @if let Some(change) = change {
            " " small class=(kind(change)) { "×" (format!("{:.2}", change.ratio)) }
        }
    }
}

fn kind(change: &Change) -> &'static str {
    if change.is_worse() {
        "failed"
    } else if change.is_better() {
        "passed"
    } else {
        "unknown"
    }
}

fn over_baseline(changes: &[Change]) -> Markup {
    html! {
        div.table { table {
            thead { tr {
                th { "phase" } th { "figure" } th.number { "before" } th.number { "now" } th.number { "ratio" }
            } }
            tbody { @for change in changes { tr {
                td { (change.phase) } td { (change.figure) }
                td.number { (number(change.before)) } td.number { (number(change.now)) }
                td class={ "number " (kind(change)) } { (format!("{:.2}", change.ratio)) }
            } } }
        } }
    }
}

pub fn counts(report: &Report) -> Markup {
    html! {
        h3 { "Counts" }
        div.table { table {
            thead { tr {
                th { "phase" } th.number { "issued" } th.number { "lost" } th.number { "repeated" }
                th.number { "out of order" } th.number { "attempts" } th.number { "refused" } th.number { "errors" }
                th.number { "signatures checked" } th.number { "sent late, p99 ms" } th.number { "acknowledged, p99 ms" }
            } }
            tbody { @for phase in &report.phases {
                @let (figures, counts) = (&phase.figures, phase.figures.counts);
                tr {
                    td { (phase.name) }
                    td.number { (count(figures.issued)) }
                    td class=(none(counts.lost)) { (count(counts.lost)) }
                    td class=(none(counts.repeated)) { (count(counts.repeated)) }
                    td.number { (counts.out_of_order.map_or_else(|| "–".to_owned(), count)) }
                    td.number { (count(counts.attempts)) }
                    td.number { (count(counts.refused)) }
                    td.number { (count(counts.errors)) }
                    td.number { (count(counts.signatures_checked)) }
                    td.number { (number(phase.lateness.p99 as f64 / 1e3)) }
                    td.number { (number(phase.acknowledgement.p99 as f64 / 1e3)) }
                }
            } }
        } }
    }
}

/// Where the processor time of a delivery goes.
pub fn threads(report: &Report) -> Markup {
    let names: BTreeSet<&String> = report.phases.iter().flat_map(|phase| phase.figures.thread_micros.keys()).collect();
    html! {
        @if !names.is_empty() {
            h3 { "Processor time of a delivery by the hub's threads, µs" }
            div.table { table {
                thead { tr { th { "phase" } th.number { "all" } @for name in &names { th.number { (name) } } } }
                tbody { @for phase in &report.phases {
                    @let micros = &phase.figures.thread_micros;
                    tr {
                        td { (phase.name) }
                        td.number { (number(micros.values().sum())) }
                        @for name in &names { td.number { (maybe(micros.get(*name).copied())) } }
                    }
                } }
            } }
        }
    }
}

/// What an event is to the CQL server, beside a bare loop that does the same.
pub fn cql(report: &Report) -> Markup {
    let phases: Vec<_> = report.phases.iter().filter_map(|phase| Some((phase, phase.figures.cql?))).collect();
    html! {
        @if !phases.is_empty() {
            h3 { "CQL" }
            div.table { table {
                thead { tr {
                    th { "phase" } th.number { "requests per event" } th.number { "rows per event" }
                    th.number { "bare loop: requests" } th.number { "rows" } th.number { "events/s" }
                    th.number { "deliveries/s over that" }
                } }
                tbody { @for (phase, cql) in phases { tr {
                    td { (phase.name) }
                    td.number { (precise(Some(cql.requests_per_event))) }
                    td.number { (number(cql.rows_per_event)) }
                    td.number { (precise(cql.bare.map(|bare| bare.requests_per_event))) }
                    td.number { (maybe(cql.bare.map(|bare| bare.rows_per_event))) }
                    td.number { (maybe(cql.bare.map(|bare| bare.per_second.round()))) }
                    td.number { (maybe(phase.figures.of_bare_cql())) }
                } } }
            } }
        }
    }
}

/// A number that is well below one.
fn precise(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
}

fn count(value: u64) -> String {
    number(value as f64)
}

const fn none(value: u64) -> &'static str {
    if value == 0 { "number" } else { "number failed" }
}

pub fn facts(report: &Report) -> Markup {
    html! {
        dl {
            dt { "kernel" } dd { (report.machine.kernel) }
            @for (name, value) in &report.settings { dt { (name) } dd { (value) } }
        }
    }
}

fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
