use std::env;

use anyhow::bail;

mod ci;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(&ci::ALL),
        ["tidy"] => ci::run(&[ci::TIDY]),
        ["spec"] => {
            print!("{}", xtask::spec::report(&xtask::workspace_root())?);
            Ok(())
        }
        _ => bail!("usage: cargo xtask ci | tidy | spec"),
    }
}
