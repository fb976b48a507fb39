use std::collections::BTreeSet;
use std::fs;

/// Where each claim names the test that shows it.
const PAGE: &str = "docs/security.md";

#[test]
fn every_test_that_the_page_on_security_names_exists() {
    let root = xtask::workspace_root();
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let mut defined = BTreeSet::new();
    for file in xtask::files(&root, ".rs").unwrap() {
        let source = fs::read_to_string(file).unwrap();
        defined.extend(source.lines().filter_map(function).map(str::to_owned));
    }
    let named: Vec<&str> = names(&page).collect();
    assert!(named.len() > 40, "the page is read: {named:?}");
    let unknown: Vec<_> = named.into_iter().filter(|name| !defined.contains(*name)).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn every_threat_has_a_test_or_says_that_it_has_none() {
    let page = fs::read_to_string(xtask::workspace_root().join(PAGE)).unwrap();
    let (_, threats) = page.split_once("\n## Threats").expect("the page has its threats");
    let threats = threats.split("\n## ").next().unwrap();
    let rows = threats.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| threat"));
    let bare: Vec<_> = rows.filter(|row| names(row).next().is_none() && !row.contains("no test")).collect();
    assert_eq!(bare, [""; 0]);
}

/// Names of tests are facts, which take more words than other names. Metrics, which do as well, begin with ours.
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
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[test]
fn names_of_tests_are_told_from_other_words_in_code() {
    let text =
        "| a | `a_token_is_void_on_another_device`, `otp_verify_per_ip`, `tidings doctor` | `tidings_a_b_c_total` |";
    assert_eq!(names(text).collect::<Vec<_>>(), ["a_token_is_void_on_another_device"]);
}
