use std::fs;

/// Marks of unfinished work, in two halves so that this file has none.
const UNFINISHED: [(&str, &str); 4] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];

#[test]
fn nothing_is_marked_as_unfinished() {
    let words: Vec<String> = UNFINISHED.iter().map(|(one, other)| [*one, *other].concat()).collect();
    assert_eq!(lines_with(&words), [""; 0]);
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let root = xtask::workspace_root();
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1).map(|home| format!("{home}/"));
    let paths: Vec<String> = [Some(root.display().to_string()), home].into_iter().flatten().collect();
    assert_eq!(lines_with(&paths), [""; 0]);
}

/// The lines of sources, manifests and documents that contain one of the words.
fn lines_with(words: &[String]) -> Vec<String> {
    let root = xtask::workspace_root();
    let mut found = vec![];
    for suffix in [".rs", ".toml", ".md", ".ts", ".html", ".yml"] {
        for file in xtask::files(&root, suffix).expect("the tree can be read") {
            let text = fs::read_to_string(&file).expect("sources are text");
            for (number, line) in
                text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| line.contains(word)))
            {
                let file = file.strip_prefix(&root).unwrap_or(&file).display();
                found.push(format!("{file}:{}: {line}", number + 1));
            }
        }
    }
    found
}
