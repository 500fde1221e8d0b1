//! A table of texts and numbers for a terminal: numbers to the right, texts to the left.

use std::fmt::Write as _;

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// To the left.
    Text(String),
    /// To the right.
    Number(u64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// The lines of a table: the heads, a rule, the rows. Every row has as many cells as there are heads.
#[must_use]
pub fn lines(heads: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| text(&row[column]).chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let is_number = |column: usize| rows.first().is_some_and(|row| matches!(row[column], Cell::Number(_)));
    let head = |(column, head): (usize, &&str)| padded(head, widths[column], is_number(column));
    let heads = joined(heads.iter().enumerate().map(head));
    let rule = joined(widths.iter().map(|width| "─".repeat(*width)));
    let line = |row: &Vec<Cell>| {
        joined(
            row.iter().zip(&widths).map(|(cell, width)| padded(&text(cell), *width, matches!(cell, Cell::Number(_)))),
        )
    };
    [heads, rule].into_iter().chain(rows.iter().map(line)).collect()
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(number) => number.to_string(),
    }
}

fn padded(text: &str, width: usize, right: bool) -> String {
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    let line = cells.fold(String::new(), |mut line, cell| {
        write!(line, "{cell}  ").expect("writing to a string can't fail");
        line
    });
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_texts_left() {
        let rows = [vec!["acme".into(), 7.into(), "é".into()], vec!["b".into(), 1_000.into(), "open".into()]];
        let expected = ["tenant     n  circuit", "──────  ────  ───────", "acme       7  é", "b       1000  open"];
        assert_eq!(lines(&["tenant", "n", "circuit"], &rows), expected);
    }

    #[test]
    fn a_table_may_be_empty() {
        assert_eq!(lines(&["a", "bc"], &[]), ["a  bc", "─  ──"]);
    }
}
