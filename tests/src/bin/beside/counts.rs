//! Every frame counted by both: sent by rgen, sent by testpmd, and sent back by testpmd.

use std::time::Duration;

use peers::{Forward, Testpmd};
use rig::rgen::{self, Ran, adds_up, number};
use serde_json::Value;

use super::stream::Stream;
use super::{CORE, FIRST_CORE, Fallible, LONG, Place, ensure};

/// Bursts of 32 frames that testpmd sends at a time: fewer frames than a ring has slots, as
/// nothing holds back a sender whom the receiver's device does not.
const BURSTS: u32 = 4;
/// How long counters stand still that will not move any more.
const STILL: Duration = Duration::from_millis(100);
/// How many times.
const TIMES: u32 = 160;

/// Bytes that testpmd counts of a frame's check sequence, 0 or 4; none where its device counts no
/// bytes at all.
type Fcs = Option<u64>;

/// All scenarios. `mac` is rgen's address.
pub(crate) fn run(place: &Place, mac: &str, fcs: Fcs) -> Fallible {
    rgen_sends(place, fcs)?;
    testpmd_sends(place, fcs)?;
    testpmd_sends_back(place, Forward::MacSwap, &[])?;
    // Unchanged, so that they must be for rgen from the start.
    testpmd_sends_back(place, Forward::Io, &["--dst-mac", mac])
}

/// A testpmd whose receive ring has room for all that comes while a busy host keeps its core away.
/// (virtio-net's has as many slots as the device says.)
fn patient(place: &Place, forward: Forward) -> Fallible<Testpmd> {
    place.testpmd(1, CORE, forward, &["--rxd=4096"])
}

/// An `rgen run` on rgen's end that must end well.
fn rgen_run(place: &Place, words: &[&str]) -> Ran {
    let core = FIRST_CORE.to_string();
    let fixed = ["run", "-p", &place.ends[0], "--cores", &core, "--json"];
    // A reflector whose core a busy host keeps away for a while is no loss.
    let patience = ["--drain", "3s"];
    let words = fixed.iter().chain(words).chain(&patience);
    rgen::run(&words.copied().collect::<Vec<_>>())
}

/// rgen's document, after its own sums were checked. Its exit code is 0; or 6 where a busy host kept
/// its core away, and then the frames that it did not send for that are in the document.
fn document(ran: &Ran) -> Fallible<Value> {
    let document = ran.json();
    adds_up(&document);
    let was_late = number(&document, "/shortfall_frames") > 0;
    ensure!(
        ran.code == Some(0) || (ran.code == Some(6) && was_late),
        "{ran:#?}"
    );
    Ok(document)
}

/// What testpmd counts of `frames` that have `bytes` bytes with their check sequences.
fn as_counted(bytes: u64, frames: u64, fcs: Fcs) -> u64 {
    fcs.map_or(0, |fcs| bytes - (4 - fcs) * frames)
}

fn rgen_sends(place: &Place, fcs: Fcs) -> Fallible {
    let mut sink = patient(place, Forward::RxOnly)?;
    for (knobs, rate) in [("size=64,vm=var1", "10kpps"), ("size=imix", "5kpps")] {
        let before = sink.counters()?;
        let words = ["bench", "-t", knobs, "-m", rate, "-d", "2s"];
        let document = document(&rgen_run(place, &words))?;
        let frames = number(&document, "/ports/0/tx_frames");
        let bytes = as_counted(number(&document, "/ports/0/tx_bytes"), frames, fcs);
        let after = sink.received(before.rx_frames + frames, LONG)?;
        let counted = (
            after.rx_frames - before.rx_frames,
            after.rx_bytes - before.rx_bytes,
        );
        ensure!(
            counted == (frames, bytes) && frames > 1_000,
            "rgen sent {frames} frames and {bytes} bytes of {knobs}; testpmd: {after:?}"
        );
        println!("testpmd counts what rgen sent: {frames} frames of {knobs}, {bytes} bytes");
    }
    sink.stop()?;
    Ok(())
}

fn testpmd_sends(place: &Place, fcs: Fcs) -> Fallible {
    let mut sender = patient(place, Forward::RxOnly)?;
    let mut sink = Stream::start(&["fwd", "-p", &place.ends[0], "--mode", "rxonly"])?;
    sink.next()?;
    for _ in 0..TIMES {
        sender.pause()?;
        let start = format!("start tx_first {BURSTS}");
        sender.told(&start, "packet forwarding - ports=")?;
    }
    sender.pause()?;
    let sent = sender.settled(STILL, LONG)?;
    ensure!(
        sent.tx_frames > 15_000,
        "hardly anything was sent: {sent:?}"
    );
    let (code, document) = sink.stop()?;
    ensure!(code == Some(0), "rgen ended with {code:?}: {document:#}");
    let frames = number(&document, "/ports/0/rx_frames");
    let bytes = as_counted(number(&document, "/ports/0/rx_bytes"), frames, fcs);
    ensure!(
        (frames, bytes) == (sent.tx_frames, sent.tx_bytes),
        "testpmd sent {sent:?}, rgen received {frames} frames, {bytes} bytes: {document:#}"
    );
    for none in ["/ports/0/rx_missed", "/ports/0/rx_errors"] {
        ensure!(number(&document, none) == 0, "{none}: {document:#}");
    }
    println!("rgen counts what testpmd sent: {} frames", sent.tx_frames);
    sender.stop()?;
    Ok(())
}

/// Has testpmd try again for up to a second where its send ring is full: else it drops, as a host
/// that keeps QEMU's own thread away makes it do.
fn retries(reflector: &mut Testpmd, forward: Forward) -> Fallible {
    reflector.pause()?;
    reflector.tell("set burst tx delay 100 retry 10000")?;
    let set = format!("set fwd {} retry", forward.name());
    reflector.told(&set, "with retry")?;
    reflector.told("start", "with retry - ports=")?;
    Ok(())
}

fn testpmd_sends_back(place: &Place, forward: Forward, more: &[&str]) -> Fallible {
    let mut reflector = patient(place, forward)?;
    retries(&mut reflector, forward)?;
    let fixed = ["latency", "-m", "5kpps", "-d", "2s"];
    let words: Vec<&str> = fixed.iter().chain(more).copied().collect();
    let document = document(&rgen_run(place, &words))?;
    let sent = number(&document, "/ports/0/tx_frames");
    let received = number(&document, "/ports/0/rx_frames");
    let name = forward.name();
    ensure!(
        sent == received && sent > 1_000,
        "{name}: {sent} sent, {received} came back: {document:#}"
    );
    let streams = document["streams"].as_array().ok_or("no streams")?;
    let mut measured = 0;
    for stream in streams.iter().filter(|stream| stream["measured"] == true) {
        let (tx, rx) = (number(stream, "/tx_frames"), number(stream, "/rx_frames"));
        ensure!(tx == rx && tx > 0, "{name}: {stream:#}");
        // Their order may change: where a ring was full, QEMU's queue before the device (its
        // net/queue.c) lets a frame that finds room pass those that wait.
        for none in ["/lost", "/duplicated", "/misdirected", "/surplus"] {
            ensure!(number(stream, none) == 0, "{name}: {stream:#}");
        }
        measured += tx;
    }
    ensure!(measured > 0, "{name}: no stream is measured: {document:#}");
    let counted = reflector.stop()?;
    ensure!(
        (counted.rx_frames, counted.tx_frames) == (sent, sent),
        "{name}: rgen sent {sent}, testpmd: {counted:?}"
    );
    println!("rgen gets back what it sent, by {name}: {sent} frames, {measured} measured");
    Ok(())
}
