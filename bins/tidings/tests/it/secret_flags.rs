use std::process::Command;

/// The help of a command and of all its subcommands.
fn helps(path: &[&str], found: &mut Vec<String>) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidings")).args(path).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    if let Some((_, commands)) = help.split_once("\nCommands:\n") {
        let indented = commands.lines().take_while(|line| line.starts_with("  "));
        let names = indented.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| *name != "help") {
            helps(&[path, &[name]].concat(), found);
        }
    }
    found.push(help);
}

#[test]
fn no_flag_takes_a_secret() {
    let mut found = Vec::new();
    helps(&[], &mut found);
    assert!(found.len() > 15, "commands have commands");
    let words = found.iter().flat_map(|help| help.split_whitespace());
    let flags = words.filter_map(|word| word.strip_prefix("--"));
    let secret = |flag: &&str| ["token", "secret", "password", "key", "otp"].iter().any(|word| flag.contains(word));
    let taking: Vec<_> = flags.filter(secret).filter(|flag| !flag.contains("file")).collect();
    assert_eq!(taking, [""; 0]);
}
