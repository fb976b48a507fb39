use serde_json::Value;

/// Prints rows in columns as wide as their longest cell, under a head.
pub(super) fn print<const N: usize>(head: [&str; N], rows: &[[String; N]]) {
    out!("{}", lines(head, rows));
}

fn lines<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<[&str; N]> =
        std::iter::once(head).chain(rows.iter().map(|row| row.each_ref().map(String::as_str))).collect();
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut lines = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        lines += cells.collect::<Vec<_>>().join("  ").trim_end();
        lines.push('\n');
    }
    lines
}

/// A count with its noun, in the plural unless it is one.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A field of a response as a cell.
pub(super) fn cell(body: &Value, name: &str) -> String {
    match &body[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Fields of a response as a row.
pub(super) fn row<const N: usize>(body: &Value, names: [&str; N]) -> [String; N] {
    names.map(|name| cell(body, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_something_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "chat")), ["0 chats", "1 chat", "2 chats"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [["Ada".to_owned(), "owner".to_owned()], ["Bartholomäus".to_owned(), String::new()]];
        assert_eq!(lines(["name", "role"], &rows), "name          role\nAda           owner\nBartholomäus\n");
    }
}
