//! The demo's text for a person: who takes part, what happened, one signature checked.

use std::io::{self, Write};

use super::checks::Check;
use super::facts::{Facts, Row};
use super::plan::{ROLES, TENANTS, Takes};
use super::proof::Proof;
use super::table::{self, Cell};

/// How texts are set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Not at all.
    Plain,
    /// With ANSI colours (ECMA-48, SGR).
    Colours,
}

impl Paint {
    fn with(self, code: u8, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    fn bold(self, text: &str) -> String {
        self.with(1, text)
    }

    fn dim(self, text: &str) -> String {
        self.with(2, text)
    }

    fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    fn green(self, text: &str) -> String {
        self.with(32, text)
    }
}

/// Writes who takes part.
///
/// # Errors
/// When the output can't be written.
pub fn write_cast(output: &mut dyn Write, paint: Paint, address: &str, directory: &str) -> io::Result<()> {
    let title = "Streaming Hub: events in, signed webhooks out";
    writeln!(output, "{}", paint.bold(title))?;
    writeln!(output, "One hub in this process, three tenants that publish, seven receivers of different tempers.\n")?;
    writeln!(output, "  hub      {address}, data in {directory}")?;
    for tenant in &TENANTS {
        let kind = match tenant.takes {
            Takes::CloudEvents => "CloudEvents",
            Takes::Webhooks => "plain webhooks",
        };
        let roles = ROLES.iter().filter(|role| role.tenant == tenant.name).map(|role| role.name);
        let receivers = roles.collect::<Vec<_>>().join(", ");
        writeln!(output, "  {:<8} publishes {kind:<14} to `{}` for {receivers}", tenant.name, tenant.slug)?;
    }
    writeln!(output, "\n{}\n", paint.bold("Publishing and delivering"))?;
    output.flush()
}

/// Writes what happened.
///
/// # Errors
/// When the output can't be written.
pub fn write_facts(output: &mut dyn Write, paint: Paint, facts: &Facts, checks: &[Check]) -> io::Result<()> {
    writeln!(output, "\n{}\n", paint.bold("What became of it"))?;
    write_table(output, paint, &facts.receivers)?;
    writeln!(output)?;
    for check in checks {
        let mark = if check.holds { paint.green("✓") } else { paint.red("✗") };
        writeln!(output, "  {mark} {}", check.claim)?;
    }
    if let Some(proof) = &facts.signature {
        write_proof(output, paint, proof)?;
    }
    write_verdict(output, paint, facts, checks)
}

fn write_table(output: &mut dyn Write, paint: Paint, rows: &[Row]) -> io::Result<()> {
    let heads = ["tenant", "receiver", "its temper", "matched", "delivered", "waiting", "dead", "attempts", "circuit"];
    let cells = |row: &Row| -> Vec<Cell> {
        let tally = &row.tally;
        let numbers = [tally.matched, tally.delivered, tally.waiting, tally.dead_lettered, tally.attempts];
        let texts = [row.tenant, row.receiver, row.temper.as_str()].map(Cell::from);
        let again = tally.circuit_moved && tally.circuit == "closed";
        let circuit = if again { "closed again" } else { tally.circuit.as_str() };
        texts.into_iter().chain(numbers.map(Cell::from)).chain([Cell::from(circuit)]).collect()
    };
    let lines = table::lines(&heads, &rows.iter().map(cells).collect::<Vec<_>>());
    for (number, line) in lines.iter().enumerate() {
        let line = if number < 2 { paint.dim(line) } else { line.clone() };
        writeln!(output, "  {line}")?;
    }
    Ok(())
}

fn write_proof(output: &mut dyn Write, paint: Paint, proof: &Proof) -> io::Result<()> {
    let title = format!("One delivery to {}, checked as its receiver would", proof.receiver);
    writeln!(output, "\n{}\n", paint.bold(&title))?;
    let yes = |holds: bool| if holds { paint.green("verified") } else { paint.red("not verified") };
    let forgery = if proof.forgery_verified { paint.red("accepted") } else { paint.green("refused") };
    for (name, value) in [
        ("event", proof.event_type.as_str()),
        ("body", &proof.body),
        ("webhook-id", &proof.webhook_id),
        ("webhook-timestamp", &proof.webhook_timestamp),
        ("webhook-signature", &proof.webhook_signature),
        ("recomputed", &proof.recomputed),
    ] {
        writeln!(output, "  {name:<18} {value}")?;
    }
    let how = paint.dim("HMAC-SHA256 with the destination's secret over <id>.<timestamp>.<body>");
    writeln!(output, "  {:<18} {how}", "")?;
    writeln!(output, "  {:<18} {}; with one byte of the body changed: {forgery}", "", yes(proof.verified))
}

fn write_verdict(output: &mut dyn Write, paint: Paint, facts: &Facts, checks: &[Check]) -> io::Result<()> {
    let broken = checks.iter().filter(|check| !check.holds).count();
    let tenths = facts.elapsed_ms / 100;
    let delivered: u64 = facts.receivers.iter().map(|row| row.tally.delivered).sum();
    let sums = format!("{} events in, {delivered} deliveries out, {}.{} s", facts.accepted, tenths / 10, tenths % 10);
    let verdict = match broken {
        0 => paint.green(&format!("All {} expectations hold", checks.len())),
        _ => paint.red(&format!("{broken} of {} expectations are broken", checks.len())),
    };
    writeln!(output, "\n{verdict}: {sums}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::facts::tests::facts;

    fn written(paint: Paint, checks: &[Check]) -> String {
        let mut output = Vec::new();
        write_cast(&mut output, paint, "http://127.0.0.1:1", "/tmp/x").expect("written");
        write_facts(&mut output, paint, &facts(), checks).expect("written");
        String::from_utf8(output).expect("UTF-8")
    }

    #[test]
    fn lines_fit_a_terminal_and_broken_expectations_are_marked() {
        let text = written(Paint::Plain, &crate::cli::demo::checks::checks(&facts()));
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        let check = |holds| Check { claim: "it is".to_owned(), holds };
        let text = written(Paint::Plain, &[check(true), check(false)]);
        assert!(text.contains("  ✓ it is\n  ✗ it is\n"), "{text}");
        assert!(text.contains("1 of 2 expectations are broken: 2 events in, 10 deliveries out, 3.4 s."), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn colours_come_only_where_asked_for() {
        let text = written(Paint::Colours, &[Check { claim: "it is".to_owned(), holds: true }]);
        assert!(text.contains("\x1b[32m✓\x1b[0m it is") && text.contains("All 1 expectations hold"), "{text}");
    }
}
