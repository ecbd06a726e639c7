//! How fast rgen and testpmd send on one and the same NIC, in turns, into one and the same sink.
//!
//! Each window is a line: [`MARK`], then JSON.

use std::thread;
use std::time::{Duration, Instant};

use peers::{Counters, Forward, Testpmd};
use serde_json::{Value, json};

use super::stream::Stream;
use super::{CORE, FIRST_CORE, Fallible, LONG, Place};

/// What begins a line that holds a window.
const MARK: &str = "@rate ";
/// What a sender gets to come to its speed.
const WARM_UP: Duration = Duration::from_secs(1);

/// What a sender and the sink counted at one moment.
struct Moment {
    sent: u64,
    /// On the sender's own clock.
    at_s: f64,
    sink: Counters,
}

/// `rounds` turns of each sender, a window of `seconds` each.
pub(crate) fn run(place: &Place, title: &str, rounds: u32, seconds: u32) -> Fallible {
    let mut sink = place.testpmd(1, CORE, Forward::RxOnly, &[])?;
    for round in 1..=rounds {
        for sender in ["rgen", "testpmd"] {
            let [from, to] = match sender {
                "rgen" => rgen(place, &mut sink, seconds)?,
                _ => testpmd(place, &mut sink, seconds)?,
            };
            let line = window(&from, &to);
            println!(
                "{MARK}{}",
                json!({ "device": title, "sender": sender, "round": round, "window": line })
            );
        }
    }
    sink.stop()?;
    Ok(())
}

fn window(from: &Moment, to: &Moment) -> Value {
    let rate = |from: u64, to: u64, seconds: f64| (to - from) as f64 / seconds;
    let sink_s = (to.sink.at - from.sink.at).as_secs_f64();
    json!({
        "sent_pps": rate(from.sent, to.sent, to.at_s - from.at_s),
        "received_pps": rate(from.sink.rx_frames, to.sink.rx_frames, sink_s),
        "missed_pps": rate(from.sink.rx_missed, to.sink.rx_missed, sink_s),
        "seconds": sink_s,
    })
}

fn rgen(place: &Place, sink: &mut Testpmd, seconds: u32) -> Fallible<[Moment; 2]> {
    let port = &place.ends[0];
    let words = [
        "run", "bench", "-t", "size=64", "-m", "max", "-p", port, "-d", "60s",
    ];
    let mut running = Stream::start(&words)?;
    let mut moment = |lines: u32| -> Fallible<Moment> {
        let mut line = running.next()?;
        for _ in 1..lines {
            line = running.next()?;
        }
        Ok(Moment {
            sent: line["ports"][0]["tx_frames"].as_u64().ok_or("no count")?,
            at_s: line["elapsed_s"].as_f64().ok_or("no time")?,
            sink: sink.counters()?,
        })
    };
    let moments = [moment(1)?, moment(seconds)?];
    let (code, document) = running.stop()?;
    if code != Some(130) {
        return Err(format!("rgen ended with {code:?}: {document:#}").into());
    }
    Ok(moments)
}

fn testpmd(place: &Place, sink: &mut Testpmd, seconds: u32) -> Fallible<[Moment; 2]> {
    let idle = sink.counters()?.rx_frames;
    let mut running = place.testpmd(0, FIRST_CORE, Forward::TxOnly, &[])?;
    sink.received(idle + 1, LONG)?;
    let started = Instant::now();
    let mut moment = |after: Duration| -> Fallible<Moment> {
        thread::sleep(after);
        let sent = running.counters()?;
        Ok(Moment {
            sent: sent.tx_frames,
            at_s: (sent.at - started).as_secs_f64(),
            sink: sink.counters()?,
        })
    };
    let moments = [
        moment(WARM_UP)?,
        moment(Duration::from_secs(seconds.into()))?,
    ];
    running.stop()?;
    Ok(moments)
}
