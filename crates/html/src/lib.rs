//! Self-contained HTML pages: the reports of `tidings load` and `tidings capacity`, and the simulator's explained runs.
//!
//! A page loads nothing: styles and scripts are part of it, and its policy forbids every request. Texts from outside go
//! through [`Escaped`].

mod plot;

use std::fmt::{self, Display, Formatter, Write};

pub use plot::{COLOURS, Plot};

/// The style of a report: text, tables and plots, on light and dark backgrounds.
pub const REPORT_STYLE: &str = include_str!("report.css");

/// A page. `style`, `script` and `body` are written as they are.
pub struct Page<'a> {
    pub title: &'a str,
    pub style: &'a str,
    /// Empty for none.
    pub script: &'a str,
    pub body: &'a str,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { title, style, script, body } = self;
        let scripts = if script.is_empty() { "" } else { "; script-src 'unsafe-inline'" };
        let title = Escaped(title);
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'{scripts}\"/>\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}"
        )?;
        if !script.is_empty() {
            write!(f, "<script>\n{script}</script>\n")?;
        }
        f.write_str("</body>\n</html>\n")
    }
}

/// One row of a table, with escaped cells.
pub fn row<T: Display>(cells: impl IntoIterator<Item = T>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!("<td>{}</td>", Escaped(cell))).collect();
    format!("<tr>{cells}</tr>")
}

/// Escapes markup in a text.
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.to_string().chars() {
            match character {
                '&' => f.write_str("&amp;"),
                '<' => f.write_str("&lt;"),
                '>' => f.write_str("&gt;"),
                '"' => f.write_str("&quot;"),
                '\'' => f.write_str("&#39;"),
                '\n' => f.write_char('\n'),
                control if control.is_control() => f.write_char(char::REPLACEMENT_CHARACTER),
                other => f.write_char(other),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(row(["a<b>", "\"'&\u{0}"]), "<tr><td>a&lt;b&gt;</td><td>&quot;&#39;&amp;\u{fffd}</td></tr>");
        let page = Page { title: "</title>", style: "", script: "", body: "" }.to_string();
        assert!(page.contains("<title>&lt;/title&gt;</title>"), "{page}");
    }

    #[test]
    fn a_page_without_a_script_allows_none() {
        let page = |script| Page { title: "", style: "", script, body: "" }.to_string();
        assert!(!page("").contains("script"));
        assert!(page("x()").contains("script-src 'unsafe-inline'") && page("x()").contains("<script>\nx()</script>"));
    }
}
