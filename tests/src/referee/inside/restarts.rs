//! Links, interfaces and drivers that go and come back.

use std::path::Path;

use super::super::heard::Wish;
use super::super::net::{End, Fallible, SHORT, interface, run, stream};
use super::{Bench, Done, Outcome, STREAM, link, load};

pub(super) fn wire(bench: &mut Bench) -> Outcome {
    Wish::Unplug.ask()?;
    let gone = bench.ends.iter().try_for_each(End::wait_for_no_link);
    Wish::Plug.ask()?;
    gone?;
    bench.ends.iter().try_for_each(End::wait_for_link)?;
    let [a, b] = &bench.ends;
    a.ping(b.ip, 1472, 10)?;
    stream(a, b, STREAM, 9)?;
    Ok(Done::Passed)
}

/// Linux's virtual functions lose their link then, and wait for a word of the physical one that it
/// does not say: a restart brings them back.
pub(super) fn pf_reset(bench: &mut Bench) -> Outcome {
    Wish::ResetPf.ask()?;
    bench.ends.iter().try_for_each(End::wait_for_no_link)?;
    anew(bench)?;
    let [a, b] = &bench.ends;
    stream(a, b, STREAM, 10)?;
    stream(b, a, STREAM, 11)?;
    Ok(Done::Passed)
}

/// Brings both interfaces up anew.
fn anew(bench: &Bench) -> Fallible {
    for end in &bench.ends {
        end.down()?;
        end.up()?;
    }
    bench.ends.iter().try_for_each(End::wait_for_link)?;
    let [a, b] = &bench.ends;
    a.ping(b.ip, 1472, 10)
}

/// Linux's ixgbe refuses an 82599's virtual function what its own MTU does not allow, and punishes
/// it for the question: nothing is received until it asks for less.
pub(super) fn pf_short(bench: &mut Bench) -> Outcome {
    let (mtu, [a, b]) = (bench.device.mtu, &bench.ends);
    Wish::ShortPf.ask()?;
    anew(bench)?;
    if b.set_mtu(mtu).is_ok() {
        return Err(format!("an MTU of {mtu} was taken"));
    }
    if a.ping_for(b.ip, 56, 1, SHORT).is_ok() {
        return Err("frames arrive after an MTU was refused".into());
    }
    anew(bench)?;
    Wish::LongPf.ask()?;
    anew(bench)?;
    b.set_mtu(mtu)?;
    b.set_mtu(1500)?;
    anew(bench)?;
    Ok(Done::Passed)
}

pub(super) fn down_and_up(bench: &mut Bench) -> Outcome {
    for round in 0..20 {
        let [a, b] = &bench.ends;
        let end = if round % 2 == 0 { a } else { b };
        end.down()?;
        end.up()?;
        a.wait_for_link().and(b.wait_for_link())?;
        a.ping(b.ip, 200, 2)
            .map_err(|error| format!("round {round}: {error}"))?;
    }
    let [a, b] = &bench.ends;
    stream(a, b, STREAM, 7)?;
    Ok(Done::Passed)
}

fn remove(bench: &Bench) -> Fallible {
    run("rmmod", &[bench.device.module])?;
    for end in &bench.ends {
        if interface(&end.bdf).is_some() {
            return Err(format!("{} still has an interface", end.bdf));
        }
    }
    Ok(())
}

pub(super) fn again(bench: &mut Bench) -> Outcome {
    // With interfaces up, as a user may do it.
    remove(bench)?;
    load(bench)?;
    link(bench)?;
    let [a, b] = &bench.ends;
    a.ping(b.ip, 1472, 10)?;
    stream(a, b, STREAM, 8)?;
    Ok(Done::Passed)
}

pub(super) fn unload(bench: &mut Bench) -> Outcome {
    remove(bench)?;
    let path = Path::new("/sys/module").join(bench.device.module);
    if path.exists() {
        return Err(format!("{} is still there", path.display()));
    }
    Ok(Done::Passed)
}
