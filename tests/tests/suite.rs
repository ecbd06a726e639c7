//! The conformance checks on trial: they pass on a good cable, and each flaw is found.

use rig::cable::{Flaw, cable};
use rig::conformance::{Failure, Pair, checks, run_all};

fn pair(flaw: Flaw) -> Result<Pair, Failure> {
    Ok(Pair {
        ports: cable(flaw),
        objections: Box::new(Vec::new),
    })
}

#[test]
fn a_good_cable_passes_every_check_that_it_offers() {
    let lines = run_all(&|| pair(Flaw::None)).unwrap();
    let passed = lines.iter().filter(|line| line.starts_with("ok: ")).count();
    assert!(passed >= 18, "{}", lines.join("\n"));
}

#[test]
fn every_flaw_is_found_and_named() {
    for (flaw, check) in [
        (Flaw::Loses, "three laps"),
        (Flaw::Damages, "every frame size"),
        (Flaw::Reorders, "every frame size"),
        (Flaw::Duplicates, "every frame size"),
        (Flaw::Cuts, "every frame size"),
        (Flaw::Keeps, "gives every frame back"),
        (Flaw::Miscounts, "counted as they were sent"),
        (Flaw::Forgets, "starved"),
        (Flaw::AcceptsAll, "when promiscuous, and only then"),
        (Flaw::Overfills, "full send ring"),
        (Flaw::StartsAnything, "refuses what its caps"),
        (Flaw::StartsOver, "resident"),
        (Flaw::Mistags, "tag that is asked for"),
        (Flaw::Mistags, "put in and taken off"),
        (Flaw::Untags, "taken off and told"),
        (Flaw::Untags, "put in and taken off"),
        (Flaw::DamagesJumbo, "up to the largest MTU"),
        (Flaw::TakesAnyMtu, "too large or too small is refused"),
        (Flaw::Truncates, "too large for the receiver"),
        (Flaw::CountsAnew, "never go down"),
    ] {
        let check = checks()
            .into_iter()
            .find(|known| known.name.contains(check));
        let verdict = check.unwrap().run(&|| pair(flaw));
        assert!(verdict.is_err(), "{flaw:?}: {verdict:?}");
    }
}
