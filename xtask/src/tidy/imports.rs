//! Who may import whom.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Broken, manifest, members};

/// What a NIC's driver stands on.
const DRIVER: &[&str] = &["hugemem", "hw", "port"];

/// What a driver of Intel's NICs stands on: those, and the queues that all of them have.
const INTEL: &[&str] = &["hugemem", "hw", "port", "intel"];

/// Who may import whom, by folder. Dependencies of tests are free.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("hugemem", &[]),
    ("drivers/port", &["hugemem"]),
    ("drivers/hw", &["hugemem"]),
    ("drivers/models", &["hugemem", "hw"]),
    ("drivers/intel", DRIVER),
    ("drivers/e1000", INTEL),
    ("drivers/ixgbe", INTEL),
    ("drivers/i40e", INTEL),
    ("drivers/virtio", DRIVER),
    ("drivers/vmxnet3", DRIVER),
    ("drivers/mlx5", &["hugemem", "hw", "port", "mlx5-sys"]),
    ("drivers/mlx5/sys", &[]),
    ("drivers/kernel", &["hugemem", "port"]),
    ("engine", &["hugemem", "port"]),
    ("cli", &["engine", "catalog", "hw", "port", "hugemem"]),
    ("tests/peers", &[]),
    ("xtask", &["peers"]),
];

/// Crates above everything, which may import any: the catalog any driver, the rest anything.
const ANY: &[&str] = &["tests", "tests/fuzz", "benches"];

/// What the catalog may not import: all that lies above it.
const ABOVE_CATALOG: &[&str] = &["engine", "rgen", "rig", "benches", "xtask", "peers"];

/// Names each import that points up or sideways.
pub(super) fn check(root: &Path) -> Broken {
    let folders = members(root)?;
    let mut crates = Vec::new();
    for folder in folders {
        let manifest = manifest(&root.join(&folder).join("Cargo.toml"))?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"));
        let name = name
            .and_then(toml::Value::as_str)
            .context("a crate without a name")?
            .to_owned();
        crates.push((folder, name, manifest));
    }
    let ours: Vec<String> = crates.iter().map(|(_, name, _)| name.clone()).collect();
    let mut broken = Vec::new();
    for (folder, _, manifest) in &crates {
        let imports = imports(manifest)
            .into_iter()
            .filter(|name| ours.contains(name));
        broken.extend(forbidden(folder, imports)?);
    }
    Ok(broken)
}

/// All that a crate imports, but for its tests.
fn imports(manifest: &toml::Table) -> Vec<String> {
    let mut tables = Vec::new();
    let mut add = |table: &toml::Table| {
        for kind in ["dependencies", "build-dependencies"] {
            tables.extend(table.get(kind).and_then(toml::Value::as_table).cloned());
        }
    };
    add(manifest);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    for target in targets.into_iter().flat_map(toml::Table::values) {
        target.as_table().into_iter().for_each(&mut add);
    }
    tables
        .iter()
        .flat_map(toml::Table::iter)
        .map(|(name, how)| renamed(name, how))
        .collect()
}

/// A dependency's own name, where the manifest gives it another.
fn renamed(name: &str, how: &toml::Value) -> String {
    how.get("package")
        .and_then(toml::Value::as_str)
        .unwrap_or(name)
        .to_owned()
}

fn forbidden(folder: &str, imports: impl Iterator<Item = String>) -> Result<Vec<String>> {
    if ANY.contains(&folder) {
        return Ok(Vec::new());
    }
    let allowed = MAY_IMPORT
        .iter()
        .find(|(name, _)| *name == folder)
        .map(|(_, allowed)| *allowed);
    if allowed.is_none() && folder != "drivers/catalog" {
        anyhow::bail!("{folder} has no line in xtask's table of who may import whom");
    }
    let is_allowed = |name: &String| {
        allowed.map_or(!ABOVE_CATALOG.contains(&name.as_str()), |a| {
            a.contains(&name.as_str())
        })
    };
    let broken = imports.filter(|name| !is_allowed(name));
    Ok(broken
        .map(|name| format!("{folder} may not import {name}"))
        .collect())
}

#[cfg(test)]
mod test {
    use super::*;

    fn broken(folder: &str, names: &[&str]) -> Vec<String> {
        forbidden(folder, names.iter().map(|name| (*name).to_owned())).unwrap()
    }

    #[test]
    fn an_import_that_points_up_or_sideways_is_named() {
        assert_eq!(
            broken("engine", &["hugemem", "virtio"]),
            ["engine may not import virtio"]
        );
        assert_eq!(
            broken("drivers/virtio", &["models"]),
            ["drivers/virtio may not import models"]
        );
        assert_eq!(
            broken("drivers/catalog", &["virtio", "models", "port"]),
            [""; 0]
        );
        assert_eq!(broken("drivers/catalog", &["engine"]).len(), 1);
        assert_eq!(broken("tests", &["catalog", "rgen"]), [""; 0]);
        assert!(forbidden("drivers/new", std::iter::empty()).is_err());
    }

    #[test]
    fn dependencies_of_tests_are_free_and_those_of_a_target_are_not() {
        let text = "[dependencies]\na = \"1\"\n[dev-dependencies]\nb = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nc = { package = \"d\", version = \"1\" }\n";
        assert_eq!(imports(&text.parse().unwrap()), ["a", "d"]);
    }
}
