//! The schema as this program knows it: the steps of `schema.cql`, and whether a keyspace has the right ones.

/// The schema's text.
pub const SCHEMA: &str = include_str!("../../../schema.cql");

/// What begins each step.
const STEP: &str = "-- step ";

/// Statements that are applied together and noted as one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Counted from 1.
    pub version: u32,
    /// In order; each may be repeated.
    pub statements: Vec<String>,
}

/// A keyspace is not for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    /// Nothing was ever applied.
    #[error("it has no tables of the hub: run `streaming-hub migrate`")]
    Absent,
    /// Steps are missing.
    #[error("its schema has version {found} and this program needs {needed}: run `streaming-hub migrate`")]
    TooOld {
        /// The highest version without a gap below it.
        found: u32,
        /// This program's.
        needed: u32,
    },
    /// A later program has changed it.
    #[error("its schema has version {found} and this program knows {known}: run the release that made it")]
    TooNew {
        /// The highest version.
        found: u32,
        /// This program's.
        known: u32,
    },
}

/// The steps of the schema, in order.
#[must_use]
pub fn steps() -> Vec<Step> {
    steps_of(SCHEMA)
}

/// The version that this program works with: the last step's.
#[must_use]
pub fn version() -> u32 {
    steps().last().map_or(0, |step| step.version)
}

/// Judges a keyspace by the versions noted in it, in any order.
///
/// # Errors
/// [`SchemaFault`] when they are not this program's.
pub fn judge(noted: &[u32], needed: u32) -> Result<(), SchemaFault> {
    let highest = noted.iter().copied().max().ok_or(SchemaFault::Absent)?;
    if highest > needed {
        return Err(SchemaFault::TooNew { found: highest, known: needed });
    }
    let found = (1..=needed).take_while(|version| noted.contains(version)).last().unwrap_or(0);
    if found < needed { Err(SchemaFault::TooOld { found, needed }) } else { Ok(()) }
}

fn steps_of(text: &str) -> Vec<Step> {
    let parts = text.split(STEP).skip(1);
    parts
        .map(|part| {
            let (number, rest) = part.split_once('\n').expect("a step has a line of its own");
            let version = number.trim().parse().expect("a step has a number");
            Step { version, statements: statements_of(rest) }
        })
        .collect()
}

/// Statements end with a semicolon, and comments begin a line: the schema has no text that holds either.
fn statements_of(text: &str) -> Vec<String> {
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
    let plain = plain.join("\n");
    plain.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::scylla::api_query::ApiQuery;
    use crate::store::scylla::query::Query;
    use crate::store::scylla::statement::Statement;

    #[test]
    fn steps_are_numbered_from_one_and_may_be_repeated() {
        let steps = steps();
        let versions: Vec<u32> = steps.iter().map(|step| step.version).collect();
        assert_eq!(versions, (1..=version()).collect::<Vec<_>>());
        for statement in steps.iter().flat_map(|step| &step.statements) {
            assert!(statement.contains("IF NOT EXISTS"), "{statement}");
        }
        let first = &steps[0].statements[0];
        assert!(first.starts_with("CREATE TABLE IF NOT EXISTS schema_version"), "it notes all others: {first}");
    }

    #[test]
    fn every_table_that_is_written_is_made() {
        let made: Vec<String> = steps().into_iter().flat_map(|step| step.statements).collect();
        for statement in Statement::ALL {
            let words: Vec<&str> = statement.text().split_whitespace().collect();
            let place = if words[0] == "UPDATE" { 1 } else { 2 };
            let head = format!("CREATE TABLE IF NOT EXISTS {} (", words[place]);
            assert!(made.iter().any(|made| made.starts_with(&head)), "{head}");
        }
    }

    #[test]
    fn every_table_that_is_read_is_made_and_none_is_scanned() {
        let made: Vec<String> = steps().into_iter().flat_map(|step| step.statements).collect();
        let queries = Query::ALL.into_iter().filter(|query| !query.is_conditional());
        for query in queries.chain(ApiQuery::ALL.map(Query::Api)) {
            let text = query.text();
            let (_, source) = text.split_once(" FROM ").expect("it reads a table");
            let table = source.split_whitespace().next().expect("a name");
            assert!(
                made.iter().any(|made| made.starts_with(&format!("CREATE TABLE IF NOT EXISTS {table} ("))),
                "{text}"
            );
            assert!(text.contains(" WHERE ") && !text.contains("ALLOW FILTERING"), "{text}");
        }
    }

    #[test]
    fn a_schema_is_absent_too_old_right_or_too_new() {
        assert_eq!(judge(&[], 3), Err(SchemaFault::Absent));
        assert_eq!(judge(&[1, 2], 3), Err(SchemaFault::TooOld { found: 2, needed: 3 }));
        assert_eq!(judge(&[3, 1], 3), Err(SchemaFault::TooOld { found: 1, needed: 3 }), "a step was lost");
        assert_eq!(judge(&[1, 2, 3], 3), Ok(()));
        assert_eq!(judge(&[1, 2, 3, 4], 3), Err(SchemaFault::TooNew { found: 4, known: 3 }));
        let told = judge(&[1], 2).expect_err("too old").to_string();
        assert!(told.contains("version 1") && told.contains("needs 2") && told.contains("migrate"), "{told}");
    }
}
