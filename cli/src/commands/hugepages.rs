//! `rgen hugepages`: how many there are, who has them, and more of them.

use std::fs;
use std::io::ErrorKind;

use hugemem::{PageCount, PageSize, survey};
use serde::Serialize;

use super::Manner;
use crate::args::{HugeSize, Hugepages};
use crate::error::{Error, Exit};
use crate::holders::{Holder, holders};
use crate::host::Host;
use crate::output::schema::Schema;
use crate::output::{self, text};

/// What `rgen hugepages --json` prints.
#[derive(Serialize)]
struct Document {
    schema: Schema,
    version: &'static str,
    pages: Vec<Row>,
    holders: Vec<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<Reserved>,
}

/// Pages of one size on one node.
#[derive(Debug, Serialize)]
struct Row {
    node: u32,
    size_bytes: usize,
    total: u64,
    free: u64,
    surplus: u64,
}

impl From<&PageCount> for Row {
    fn from(count: &PageCount) -> Self {
        Self {
            node: count.node,
            size_bytes: count.size.bytes(),
            total: count.total,
            free: count.free,
            surplus: count.surplus,
        }
    }
}

/// What `--reserve` did, or would do.
#[derive(Debug, Serialize)]
struct Reserved {
    file: String,
    before: u64,
    asked: u64,
    /// What the kernel then had; what was asked, for a dry run.
    after: u64,
    dry_run: bool,
}

/// Shows hugepages, after reserving some if that was asked for.
pub(super) fn run(args: &Hugepages, manner: Manner) -> Result<Exit, Error> {
    let host = Host::here();
    let reserved = match args.reserve {
        Some(count) => Some(reserve(&host, args, count)?),
        None => None,
    };
    let counts = survey(&host.path("sys"));
    let document = Document {
        schema: Schema::Hugepages,
        version: env!("CARGO_PKG_VERSION"),
        pages: counts.iter().map(Row::from).collect(),
        holders: holders(&host),
        reserved,
    };
    if manner.json {
        output::document(&document)?;
    } else {
        output::result(&for_people(&counts, &document))?;
    }
    Ok(Exit::Done)
}

/// Asks the kernel for `count` pages in all, and sees how many it found.
fn reserve(host: &Host, args: &Hugepages, count: u64) -> Result<Reserved, Error> {
    let size = match args.size {
        HugeSize::TwoMiB => PageSize::Huge2M,
        HugeSize::OneGiB => PageSize::Huge1G,
    };
    let name = size.sysfs_name().expect("a hugepage has its folder");
    let folder = match args.node {
        Some(node) => format!("sys/devices/system/node/node{node}/hugepages/{name}"),
        None => format!("sys/kernel/mm/hugepages/{name}"),
    };
    let file = format!("{folder}/nr_hugepages");
    let read = || host.read(&file).and_then(|text| text.parse::<u64>().ok());
    let before = read().ok_or_else(|| Error::NotReady {
        code: "no-such-hugepages",
        found: format!("this machine has no /{file}"),
        cure: Some("rgen hugepages shows the sizes and nodes that there are".to_owned()),
    })?;
    let done = |after| Reserved {
        file: format!("/{file}"),
        before,
        asked: count,
        after,
        dry_run: args.dry_run,
    };
    if args.dry_run {
        return Ok(done(count));
    }
    fs::write(host.path(&file), count.to_string()).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::NotReady {
            code: "no-permission",
            found: format!("cannot write /{file}: {error}"),
            cure: Some(format!("as root: echo {count} | sudo tee /{file}")),
        },
        _ => Error::NotReady {
            code: "hugepages",
            found: format!("cannot write /{file}: {error}"),
            cure: None,
        },
    })?;
    let after = read().unwrap_or(before);
    if after < count {
        return Err(Error::NotReady {
            code: "hugepages-short",
            found: format!("the kernel found room for {after} of {count} pages of {size}"),
            cure: Some(
                "free memory is in pieces: stop what uses it, or reserve at boot \
                 (hugepagesz=… hugepages=… on the kernel command line)"
                    .to_owned(),
            ),
        });
    }
    Ok(done(after))
}

fn for_people(counts: &[PageCount], document: &Document) -> String {
    let mut page = String::new();
    if let Some(reserved) = &document.reserved {
        let (before, after) = (reserved.before, reserved.after);
        let verb = if reserved.dry_run { "would go" } else { "went" };
        page.push_str(&format!(
            "{} {verb} from {before} to {after}\n\n",
            reserved.file
        ));
    }
    if counts.is_empty() {
        page.push_str("this kernel has no hugepages\n");
        return page;
    }
    let mut table = text::table(&["NODE", "SIZE", "TOTAL", "FREE", "SURPLUS"]);
    for count in counts {
        table.add_row(vec![
            count.node.to_string(),
            count.size.to_string(),
            count.total.to_string(),
            count.free.to_string(),
            count.surplus.to_string(),
        ]);
    }
    text::align_right(&mut table, 2..5);
    page.push_str(&text::render(&table));
    page.push('\n');
    for holder in &document.holders {
        let mib = holder.bytes >> 20;
        page.push_str(&format!(
            "{mib} MiB held by {} (pid {})\n",
            holder.name, holder.pid
        ));
    }
    if counts.iter().all(|count| count.total == 0) {
        page.push_str("reserve some: rgen hugepages --reserve 512 --size 2M (as root)\n");
    }
    page
}
