//! Tidy: rules about the sources that neither the compiler nor clippy holds.

mod imports;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use source::Source;

/// Where `unsafe` may be written.
const UNSAFE: &[&str] = &[
    "hugemem/",
    "drivers/hw/",
    "drivers/kernel/",
    "drivers/mlx5/sys/",
];
/// Crates below `drivers/` that are not a NIC's driver.
const NOT_A_NIC: &[&str] = &[
    "drivers/port",
    "drivers/hw",
    "drivers/models",
    "drivers/catalog",
    "drivers/kernel",
    "drivers/mlx5/sys",
];
/// Lines that a file may have.
const LONGEST: usize = 800;
/// Macros that mark unfinished work.
const UNFINISHED: &[&str] = &["todo!", "dbg!", "unimplemented!"];

/// What breaks a rule, a line each.
type Broken = Result<Vec<String>>;

/// Checks every rule: its name, and what breaks it.
pub(crate) fn check(root: &Path) -> Vec<(&'static str, Broken)> {
    let sources = match Source::all(root) {
        Ok(sources) => sources,
        Err(error) => return vec![("sources can be read", Err(error))],
    };
    vec![
        ("imports point down", imports::check(root)),
        (
            "unsafe lives in four places",
            Ok(unsafe_elsewhere(&sources)),
        ),
        (
            "every NIC driver forbids unsafe",
            drivers_without_forbid(root),
        ),
        ("no test is ignored", Ok(mentions(&sources, &["#[ignore"]))),
        (
            "nothing is left to do in the code",
            Ok(mentions(&sources, UNFINISHED)),
        ),
        ("files are short", Ok(long_files(&sources))),
        ("README names every crate", unnamed_crates(root)),
    ]
}

/// The folders of all crates, as the workspace lists them.
fn members(root: &Path) -> Result<Vec<String>> {
    let manifest = manifest(&root.join("Cargo.toml"))?;
    let members = manifest.get("workspace").and_then(|w| w.get("members"));
    let members = members
        .and_then(toml::Value::as_array)
        .context("no workspace.members")?;
    Ok(members
        .iter()
        .filter_map(toml::Value::as_str)
        .map(str::to_owned)
        .collect())
}

fn manifest(file: &Path) -> Result<toml::Table> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    text.parse().with_context(|| file.display().to_string())
}

fn unsafe_elsewhere(sources: &[Source]) -> Vec<String> {
    let elsewhere = sources
        .iter()
        .filter(|s| !UNSAFE.iter().any(|home| s.name.starts_with(home)));
    let mut broken = Vec::new();
    for source in elsewhere {
        for (number, line) in source.code_lines() {
            let opens = ["allow(unsafe_code", "expect(unsafe_code"]
                .iter()
                .any(|o| line.contains(o));
            if opens || source::has_word(line, "unsafe") {
                broken.push(format!("{}:{number}: {}", source.name, line.trim()));
            }
        }
    }
    broken
}

fn drivers_without_forbid(root: &Path) -> Broken {
    let mut broken = Vec::new();
    for member in members(root)? {
        if !member.starts_with("drivers/") || NOT_A_NIC.contains(&member.as_str()) {
            continue;
        }
        let file = root.join(&member).join("src/lib.rs");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        if !text.contains("#![forbid(unsafe_code)]") {
            broken.push(format!(
                "{member}/src/lib.rs has no #![forbid(unsafe_code)]"
            ));
        }
    }
    Ok(broken)
}

fn mentions(sources: &[Source], words: &[&str]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        for (number, line) in source.code_lines() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                broken.push(format!("{}:{number}: {word}", source.name));
            }
        }
    }
    broken
}

/// Tests and tables may be as long as they are.
fn long_files(sources: &[Source]) -> Vec<String> {
    let is_exempt = |source: &Source| {
        let path = PathBuf::from(&source.name);
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        let is_test = path.components().any(|part| part.as_os_str() == "tests") || stem == "test";
        is_test || stem.ends_with("tables") || stem.ends_with("table")
    };
    let long = sources
        .iter()
        .filter(|s| s.line_count() > LONGEST && !is_exempt(s));
    long.map(|s| format!("{}: {} lines, {LONGEST} at most", s.name, s.line_count()))
        .collect()
}

fn unnamed_crates(root: &Path) -> Broken {
    let readme = fs::read_to_string(root.join("README.md")).context("README.md")?;
    let mut broken = Vec::new();
    for member in members(root)? {
        let folder = member.rsplit('/').next().unwrap_or(&member);
        if !readme.contains(&member) && !readme.contains(&format!("{folder}/")) {
            broken.push(format!("README.md does not name {member}"));
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod test {
    use super::*;

    fn sources(name: &str, text: &str) -> Vec<Source> {
        vec![Source::new(name.to_owned(), text)]
    }

    #[test]
    fn unsafe_is_seen_in_code_and_not_in_words_about_it() {
        let code = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(unsafe_elsewhere(&sources("engine/src/a.rs", code)).len(), 1);
        assert_eq!(
            unsafe_elsewhere(&sources("drivers/hw/src/a.rs", code)).len(),
            0
        );
        let words = "// unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert_eq!(
            unsafe_elsewhere(&sources("engine/src/a.rs", words)),
            [""; 0]
        );
        let opened = "#![expect(unsafe_code, reason = \"x\")]\n";
        assert_eq!(unsafe_elsewhere(&sources("cli/src/a.rs", opened)).len(), 1);
    }

    #[test]
    fn a_long_file_is_named_unless_it_is_a_test_or_a_table() {
        let long = "\n".repeat(801);
        assert_eq!(long_files(&sources("engine/src/a.rs", &long)).len(), 1);
        for name in [
            "engine/tests/a.rs",
            "engine/src/test.rs",
            "engine/src/imix_tables.rs",
        ] {
            assert_eq!(long_files(&sources(name, &long)), [""; 0], "{name}");
        }
        assert_eq!(
            long_files(&sources("engine/src/a.rs", &"\n".repeat(800))),
            [""; 0]
        );
    }

    #[test]
    fn unfinished_work_is_named_with_its_line() {
        let found = mentions(
            &sources("cli/src/a.rs", "fn f() {\n    todo!()\n}\n"),
            UNFINISHED,
        );
        assert_eq!(found, ["cli/src/a.rs:2: todo!"]);
    }

    #[test]
    fn this_workspace_can_be_checked() {
        let root = crate::root();
        assert!(members(&root).unwrap().contains(&"xtask".to_owned()));
        for (name, broken) in check(&root) {
            // Whether the rules hold is what `cargo xtask tidy` says; here they are only run.
            assert!(
                name == "README names every crate" || broken.is_ok(),
                "{name}: {broken:?}"
            );
        }
    }
}
