//! `rgen bind` and `rgen unbind`: NICs to vfio-pci, and back.

use serde::Serialize;

use hw::pci::{Bdf, BindError, Binding, Pci, PciError};

use super::Manner;
use crate::args::Bind;
use crate::error::{Error, Exit, with_causes};
use crate::host::Host;
use crate::output;
use crate::output::schema::Schema;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To `vfio-pci`.
    Bind,
    /// Back to the kernel's own driver.
    Unbind,
}

/// What `rgen bind --json` prints.
#[derive(Serialize)]
struct Document {
    schema: Schema,
    version: &'static str,
    dry_run: bool,
    functions: Vec<Moved>,
}

/// A NIC that went from one driver to another, or would.
#[derive(Debug, Serialize)]
struct Moved {
    function: String,
    before: Option<String>,
    /// What it has now; what it would have, for a dry run.
    now: Option<String>,
}

/// Moves every NIC that is named, or none if one of them must not be moved.
pub(super) fn run(args: &Bind, way: Way, manner: Manner) -> Result<Exit, Error> {
    let pci = Host::here().pci();
    let functions = args
        .functions
        .iter()
        .map(|text| parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    let planned = functions
        .iter()
        .map(|&bdf| plan(&pci, bdf, way))
        .collect::<Result<Vec<_>, _>>()?;
    let moved = if args.dry_run {
        planned
    } else {
        functions
            .iter()
            .map(|&bdf| carry_out(&pci, bdf, way))
            .collect::<Result<Vec<_>, _>>()?
    };
    if manner.json {
        output::document(&Document {
            schema: Schema::Bind,
            version: env!("CARGO_PKG_VERSION"),
            dry_run: args.dry_run,
            functions: moved,
        })?;
    } else {
        output::result(&for_people(&moved, args.dry_run))?;
    }
    Ok(Exit::Done)
}

fn parse(text: &str) -> Result<Bdf, Error> {
    text.parse::<Bdf>().map_err(|_| Error::Usage {
        found: format!("`{text}` is no PCI address"),
        cure: "write 0000:3b:00.0 or 3b:00.0; rgen ports lists them".to_owned(),
    })
}

/// What would be done, and the refusal if it must not be.
fn plan(pci: &Pci, bdf: Bdf, way: Way) -> Result<Moved, Error> {
    let device = pci.device(bdf).map_err(no_device)?;
    if !device.is_network() {
        return Err(Error::Usage {
            found: format!("{bdf} is no NIC: {}", device.name()),
            cure: "rgen ports lists NICs".to_owned(),
        });
    }
    let is_there = device.driver.as_deref() == Some("vfio-pci");
    if way == Way::Bind && is_there {
        return Ok(Moved {
            function: bdf.to_string(),
            before: device.driver.clone(),
            now: device.driver,
        });
    }
    if way == Way::Unbind && !is_there {
        return Err(Error::Usage {
            found: format!(
                "{bdf} is not bound to vfio-pci but to {}",
                device.driver.as_deref().unwrap_or("nothing")
            ),
            cure: "there is nothing to undo: rgen ports".to_owned(),
        });
    }
    let uses = pci
        .uses(&device)
        .map_err(|source| refused(&BindError::Unknown { bdf, source }))?;
    if !uses.is_empty() {
        return Err(refused(&BindError::InUse { bdf, uses }));
    }
    Ok(Moved {
        function: bdf.to_string(),
        before: device.driver,
        now: (way == Way::Bind).then(|| "vfio-pci".to_owned()),
    })
}

fn carry_out(pci: &Pci, bdf: Bdf, way: Way) -> Result<Moved, Error> {
    let done = match way {
        Way::Bind => pci.bind_to_vfio(bdf),
        Way::Unbind => pci.unbind(bdf, None),
    };
    let Binding { bdf, before, now } = done.map_err(|error| refused(&error))?;
    Ok(Moved {
        function: bdf.to_string(),
        before,
        now,
    })
}

fn no_device(error: PciError) -> Error {
    Error::Usage {
        found: error.to_string(),
        cure: "rgen ports lists NICs".to_owned(),
    }
}

fn refused(error: &BindError) -> Error {
    let code = match error {
        BindError::InUse { .. } | BindError::Unknown { .. } => "nic-in-use",
        BindError::NoDriver { .. } => "no-driver",
        BindError::Denied { .. } => "no-permission",
        _ => "bind",
    };
    Error::NotReady {
        code,
        found: with_causes(error),
        cure: error.remedy(),
    }
}

fn for_people(moved: &[Moved], dry_run: bool) -> String {
    let mut text = String::new();
    for Moved {
        function,
        before,
        now,
    } in moved
    {
        let name = |driver: &Option<String>| driver.clone();
        let before = name(before).unwrap_or_else(|| "no driver".to_owned());
        let now = name(now).unwrap_or_else(|| "the driver that the kernel picks".to_owned());
        text.push_str(&match (dry_run, before == now) {
            (_, true) => format!("{function}: has {now} already\n"),
            (true, false) => format!("{function}: would go from {before} to {now}\n"),
            (false, false) => format!("{function}: went from {before} to {now}\n"),
        });
    }
    text
}
