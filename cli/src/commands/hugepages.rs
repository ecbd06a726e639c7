//! `rgen hugepages`: how many there are, who has them, and more of them.

use hugemem::{PageCount, PageHolder, PageSize, ReserveError, page_holders, survey};
use serde::Serialize;

use super::Manner;
use crate::args::{HugeSize, Hugepages};
use crate::error::{Error, Exit, with_causes};
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

/// A process that has hugepages.
#[derive(Debug, Serialize)]
struct Holder {
    pid: u32,
    command: String,
    bytes: u64,
}

impl From<PageHolder> for Holder {
    fn from(holder: PageHolder) -> Self {
        Self {
            pid: holder.pid,
            command: holder.command,
            bytes: holder.bytes,
        }
    }
}

/// What `--reserve` did, or would do.
#[derive(Debug, Serialize)]
struct Reserved {
    size_bytes: usize,
    node: Option<u32>,
    before: u64,
    asked: u64,
    /// What there then was; what was asked, for a dry run.
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
        holders: page_holders(&host.path(""))
            .into_iter()
            .map(Holder::from)
            .collect(),
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
    let before = survey(&host.path("sys"))
        .iter()
        .filter(|row| row.size == size && args.node.is_none_or(|node| node == row.node))
        .map(|row| row.total)
        .sum();
    let after = if args.dry_run {
        count
    } else {
        hugemem::reserve(&host.path(""), size, args.node, count).map_err(|error| refused(&error))?
    };
    Ok(Reserved {
        size_bytes: size.bytes(),
        node: args.node,
        before,
        asked: count,
        after,
        dry_run: args.dry_run,
    })
}

fn refused(error: &ReserveError) -> Error {
    let code = match error {
        ReserveError::Unsupported { .. } => "no-such-hugepages",
        ReserveError::Denied { .. } => "no-permission",
        ReserveError::Fewer { .. } => "hugepages-short",
        _ => "hugepages",
    };
    Error::NotReady {
        code,
        found: with_causes(error),
        cure: error.remedy(),
    }
}

fn for_people(counts: &[PageCount], document: &Document) -> String {
    let mut page = String::new();
    if let Some(reserved) = &document.reserved {
        let (before, after) = (reserved.before, reserved.after);
        let verb = if reserved.dry_run { "would go" } else { "went" };
        let mib = reserved.size_bytes >> 20;
        page.push_str(&format!(
            "pages of {mib} MiB {verb} from {before} to {after}\n\n"
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
            holder.command, holder.pid
        ));
    }
    if counts.iter().all(|count| count.total == 0) {
        page.push_str("reserve some: rgen hugepages --reserve 512 --size 2M (as root)\n");
    }
    page
}
