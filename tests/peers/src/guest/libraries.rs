//! The shared libraries that a program needs, so that it runs in a guest as it runs here.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every library that `program` is linked with, the loader among them, as `ldd` finds them. None
/// for a program that is linked statically.
pub(super) fn of(program: &Path) -> io::Result<Vec<PathBuf>> {
    asked(Command::new("ldd").arg(program))
}

/// Every library that `ldd` names, which is asked about one file or several, here or in a root of
/// its own.
pub(super) fn asked(ldd: &mut Command) -> io::Result<Vec<PathBuf>> {
    let output = ldd.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(missing) = text.lines().find(|line| line.contains("not found")) {
        let missing = missing.trim();
        return Err(io::Error::other(format!(
            "a library is missing ({ldd:?}): {missing}"
        )));
    }
    Ok(text.lines().filter_map(library).collect())
}

/// The path in a line of `ldd`'s: `libc.so.6 => /lib/libc.so.6 (0x…)`, or `/lib64/ld.so (0x…)`.
/// None for what the kernel itself brings (`linux-vdso.so.1 (0x…)`), and for a file's name above
/// its libraries (`/bin/sh:`).
fn library(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let path = line.split_once(" => ").map_or(line, |(_, path)| path);
    let (path, _) = path.split_once(" (")?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_paths_in_ldds_lines_are_found() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffc)"), None);
        assert_eq!(
            library("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)"),
            path("/lib/x86_64-linux-gnu/libc.so.6")
        );
        assert_eq!(
            library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"),
            path("/lib64/ld-linux-x86-64.so.2")
        );
        assert_eq!(library("\tnot a dynamic executable"), None);
        assert_eq!(library("/usr/bin/dpdk-testpmd:"), None);
    }
}
