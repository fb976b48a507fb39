use std::collections::BTreeSet;
use std::fs;

/// The page where each claim names its test.
const PAGE: &str = "docs/security.md";
/// The page with the guarantees, each with its code and its test.
const GUARANTEES: &str = "docs/guarantees.md";

#[test]
fn every_test_that_the_pages_name_exists() {
    let root = xtask::workspace_root();
    let pages = [PAGE, GUARANTEES].map(|page| fs::read_to_string(root.join(page)).unwrap()).concat();
    let mut defined = BTreeSet::new();
    for file in xtask::files(&root, ".rs").unwrap() {
        let source = fs::read_to_string(file).unwrap();
        defined.extend(source.lines().filter_map(function).map(str::to_owned));
    }
    let named: Vec<&str> = names(&pages).collect();
    assert!(named.len() > 60, "the pages are read: {named:?}");
    let unknown: Vec<_> = named.into_iter().filter(|name| !defined.contains(*name)).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn every_file_that_the_guarantees_name_exists() {
    let root = xtask::workspace_root();
    let page = fs::read_to_string(root.join(GUARANTEES)).unwrap();
    let files: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|span| span.ends_with(".rs")).collect();
    assert!(files.len() > 20, "the page is read: {files:?}");
    let missing: Vec<_> = files.into_iter().filter(|file| !root.join(file).is_file()).collect();
    assert_eq!(missing, [""; 0]);
}

/// Headings of the first column of tables whose rows are claims.
const CLAIMS: [&str; 5] = ["threat", "bound", "quota", "rule", "characters"];

#[test]
fn every_threat_and_every_bound_names_its_test() {
    let page = fs::read_to_string(xtask::workspace_root().join(PAGE)).unwrap();
    let (mut claims, mut bare) = (0, vec![]);
    let mut is_of_claims = false;
    let lines: Vec<&str> = page.lines().collect();
    for (n, line) in lines.iter().enumerate() {
        let is_header = lines.get(n + 1).is_some_and(|next| next.starts_with("|---"));
        if is_header {
            is_of_claims = line.split('|').nth(1).is_some_and(|column| CLAIMS.contains(&column.trim()));
        } else if is_of_claims && line.starts_with("| ") {
            claims += 1;
            bare.extend(names(line).next().is_none().then_some(*line));
        }
    }
    assert!(claims > 100, "the page is read: {claims}");
    assert_eq!(bare, [""; 0]);
}

/// The names of tests in code spans. They have more words than other names, except for metrics, which have a prefix.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && word.bytes().filter(|byte| *byte == b'_').count() >= 4
            && !word.starts_with("tidings_")
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(restricted) => restricted.split_once(") ").map_or(line, |(_, line)| line),
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[test]
fn names_of_tests_are_told_from_other_words_in_code() {
    let text =
        "| a | `a_token_is_void_on_another_device`, `otp_verify_per_ip`, `tidings doctor` | `tidings_a_b_c_total` |";
    assert_eq!(names(text).collect::<Vec<_>>(), ["a_token_is_void_on_another_device"]);
}
