//! Hugepages for the time that something needs them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Pages of 2 MiB that were added to the system's pool; dropping this takes them out again.
pub(crate) struct Reserved {
    file: PathBuf,
    before: Option<u64>,
}

impl Reserved {
    /// Sees to it that `pages` pages are free.
    pub(crate) fn at_least(pages: u64) -> Result<Self> {
        let pool = Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB");
        let file = pool.join("nr_hugepages");
        let free = number(&pool.join("free_hugepages"))?;
        if free >= pages {
            return Ok(Self { file, before: None });
        }
        let before = number(&file)?;
        let wanted = before + (pages - free);
        let cure = || format!("as root: echo {wanted} > {}", file.display());
        fs::write(&file, wanted.to_string()).with_context(cure)?;
        let reserved = Self {
            file: file.clone(),
            before: Some(before),
        };
        let free = number(&pool.join("free_hugepages"))?;
        ensure!(
            free >= pages,
            "only {free} of {pages} pages of 2 MiB are to be had"
        );
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Pages still in use stay until they are free: the kernel counts them as surplus.
            let _ = fs::write(&self.file, before.to_string());
        }
    }
}

fn number(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    text.trim()
        .parse()
        .with_context(|| format!("{}: {text}", file.display()))
}
