//! What is done with two devices: the same on either side.
//!
//! Everything goes in lockstep: frames are posted, then waited for, then rings are noted, then
//! buffers are armed again. So what the driver writes next depends on nothing that takes time. The
//! end of each portion is a frame that every port accepts: once it is there, whatever came before
//! it was received or dropped.

mod acts;

use std::time::Instant;

use hugemem::{Burst, TxFlags};
use port::{Config, Mac, Port, PortError};

use super::record::Recorder;
use super::subject::Subject;
use super::trace::{Line as Note, Trace};
use crate::conformance::{Failure, Line, PATIENCE, Received, frame};
use crate::require;

/// Opens both ports on devices that `recorder` notes. What comes with them says, at the end, what
/// the devices object to.
pub(super) type Open<'a> = dyn FnMut(&Recorder) -> Result<Opened, Failure> + 'a;

/// Two ports, and what their devices object to.
pub(super) type Opened = ([Box<dyn Port>; 2], Box<dyn FnOnce() -> Vec<String>>);

/// Slots of each ring: few, so that they are gone round soon.
const SLOTS: usize = 64;
/// Frames in a portion: each may take two slots, and some of a ring stays free.
const PORTION: usize = 24;
/// Numbers of frames that end a portion begin here.
const LAST: u64 = 0xfeed_0000;

/// Carries the scenario out.
pub(super) fn run(
    subject: &Subject,
    open: &mut Open<'_>,
    objections: &mut Vec<String>,
) -> Result<Trace, Failure> {
    let mut whole = Trace::default();
    for (name, act) in acts::ACTS {
        let recorder = Recorder::new([subject.rings(), subject.rings()]);
        recorder.begin(&format!("{name}: open"));
        let (ports, said) = open(&recorder)?;
        let stage = Stage {
            recorder: recorder.clone(),
            act: name,
            sent: 0,
        };
        let done = act(stage, ports);
        objections.extend(said());
        let trace = recorder.take();
        whole.steps.extend(trace.steps);
        done.map_err(|failure| Failure::Found(format!("{name}: {failure}")))?;
    }
    Ok(whole)
}

/// A frame to send, and what is asked of the device.
#[derive(Debug, Clone)]
pub(super) struct Post {
    bytes: Vec<u8>,
    flags: TxFlags,
    vlan: u16,
}

impl From<Vec<u8>> for Post {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            flags: TxFlags::empty(),
            vlan: 0,
        }
    }
}

/// An act that is being played.
pub(super) struct Stage {
    recorder: Recorder,
    act: &'static str,
    /// Portions so far.
    sent: u64,
}

impl Stage {
    fn begin(&self, step: &str) {
        self.recorder.begin(&format!("{}: {step}", self.act));
    }

    /// Starts both ports with small rings, and waits for the link.
    fn start(&self, ports: [Box<dyn Port>; 2], config: &Config) -> Result<Line, Failure> {
        let mut line = self.start_unarmed(ports, config)?;
        self.begin("arm");
        line.ends.iter_mut().for_each(|end| end.arm());
        self.recorder.note_rings();
        Ok(line)
    }

    fn start_unarmed(&self, ports: [Box<dyn Port>; 2], config: &Config) -> Result<Line, Failure> {
        self.begin("start");
        self.recorder.forget_rings();
        let config = Config {
            rx_slots: Some(SLOTS),
            tx_slots: Some(SLOTS),
            ..config.clone()
        };
        let mut line = Line::start_unarmed(ports, &config)?;
        self.recorder.quietly(|| line.wait_for_link())?;
        for (number, end) in line.ends.iter_mut().enumerate() {
            let link = self.recorder.quietly(|| end.port.link())?;
            self.note(number, "link", [("is", format!("{link:?}"))]);
        }
        Ok(line)
    }

    /// Stops both ports.
    fn stop(&self, line: Line) -> Result<[Box<dyn Port>; 2], Failure> {
        self.begin("stop");
        let ports = line.stop()?;
        self.recorder.forget_rings();
        Ok(ports)
    }

    fn note(
        &self,
        end: usize,
        what: &str,
        fields: impl IntoIterator<Item = (&'static str, String)>,
    ) {
        self.recorder
            .note(Note::new(format!("{end} {what}"), fields));
    }

    /// Sends `posts` from end `from`, in portions, and notes what arrives and what the rings say.
    fn carry(&mut self, line: &mut Line, from: usize, posts: &[Post]) -> Result<(), Failure> {
        self.carry_in(line, from, posts, PORTION)
    }

    fn carry_in(
        &mut self,
        line: &mut Line,
        from: usize,
        posts: &[Post],
        portion: usize,
    ) -> Result<(), Failure> {
        for posts in posts.chunks(portion) {
            let macs = line.macs();
            self.sent += 1;
            let last = frame(macs[1 - from], macs[from], 64, LAST + self.sent);
            let mut posts = posts.to_vec();
            posts.push(last.clone().into());
            self.post(line, from, &posts)?;
            let received = self
                .recorder
                .quietly(|| wait_for(line, from, |got| got.bytes == last))?;
            self.recorder.note_rings();
            for (queue, got) in &received {
                self.arrived(1 - from, *queue, got);
            }
            line.ends[1 - from].arm();
        }
        Ok(())
    }

    /// Posts all of `posts` in one burst.
    fn post(&self, line: &mut Line, from: usize, posts: &[Post]) -> Result<(), Failure> {
        let mut burst = Burst::new();
        let end = &mut line.ends[from];
        for post in posts {
            let taken = end.to_send.take();
            let mut frame = taken.ok_or_else(|| Failure::Found("no frame to send".into()))?;
            frame.fill(&post.bytes);
            (frame.flags, frame.vlan) = (post.flags, post.vlan);
            let pushed = burst.push(frame).is_ok();
            require!(pushed, "a portion is larger than a burst");
        }
        let before = burst.len();
        let posted = end.queues.tx[0].burst(&mut burst);
        require!(
            burst.is_empty(),
            "of {before} buffers in an empty ring {posted} frames were posted, {} are left",
            burst.len()
        );
        Ok(())
    }

    fn arrived(&self, end: usize, queue: usize, got: &Received) {
        let meta = &got.meta;
        let fields = [
            ("queue", queue.to_string()),
            ("len", got.bytes.len().to_string()),
            ("bytes", format!("{:016x}", digest(&got.bytes))),
            ("flags", format!("{:?}", meta.flags.bits())),
            ("vlan", format!("{:#x}", meta.vlan)),
            ("hash", format!("{:#x}", meta.hash)),
            ("buffers", got.buffers.to_string()),
        ];
        self.note(end, "frame", fields);
    }

    /// Notes every counter of both ports that is not zero.
    fn counters(&self, line: &mut Line) -> Result<(), Failure> {
        self.begin("counters");
        for (number, end) in line.ends.iter_mut().enumerate() {
            let (counters, more) = self.recorder.quietly(|| {
                let counters = end.port.counters()?;
                Ok::<_, PortError>((counters, end.port.extended()?))
            })?;
            let rows = [
                ("tx_frames", counters.tx_frames),
                ("tx_bytes", counters.tx_bytes),
                ("tx_errors", counters.tx_errors),
                ("rx_frames", counters.rx_frames),
                ("rx_bytes", counters.rx_bytes),
                ("rx_missed", counters.rx_missed),
                ("rx_errors", counters.rx_errors),
            ];
            for (name, value) in rows {
                self.note(number, name, [("is", value.to_string())]);
            }
            for counter in more {
                let what = format!("counter {}", counter.name);
                self.note(number, &what, [("is", counter.value.to_string())]);
            }
        }
        Ok(())
    }

    /// Notes whether something was done, and how it was refused if not.
    fn tried(&self, end: usize, what: &str, result: Result<(), PortError>) {
        let said = match result {
            Ok(()) => "done".to_owned(),
            // The port's name is the machine's business.
            Err(error) => {
                let text = error.to_string();
                let said = text
                    .split_once(": ")
                    .map_or(text.as_str(), |(_, said)| said);
                said.to_owned()
            }
        };
        self.note(end, what, [("result", said)]);
    }
}

/// Waits until the sender has everything back and the frame that `is_last` is there: all that
/// came, with its queue.
fn wait_for(
    line: &mut Line,
    from: usize,
    is_last: impl Fn(&Received) -> bool,
) -> Result<Vec<(usize, Received)>, Failure> {
    let mut received = Vec::new();
    let mut last = Instant::now();
    loop {
        let before = (received.len(), line.ends[from].in_flight());
        let is_there = received.iter().any(|(_, got)| is_last(got));
        line.ends[from].reap();
        collect(line, 1 - from, &mut received);
        if is_there && line.ends[from].in_flight() == 0 {
            return Ok(received);
        }
        if before != (received.len(), line.ends[from].in_flight()) {
            last = Instant::now();
        } else {
            line.serve()?;
        }
        require!(
            last.elapsed() < 2 * PATIENCE,
            "{} frames arrived, without the last one; {} are in flight",
            received.len(),
            line.ends[from].in_flight()
        );
    }
}

/// Collects what arrived at end `at`, and arms nothing.
fn collect(line: &mut Line, at: usize, received: &mut Vec<(usize, Received)>) {
    let end = &mut line.ends[at];
    for queue in 0..end.queues.rx.len() {
        let mut out = Vec::new();
        end.receive_unarmed(queue, &mut out);
        received.extend(out.into_iter().map(|got| (queue, got)));
    }
}

/// A frame's bytes in short (FNV-1a, 64 bits).
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A station that is neither end, and one of its kind.
const STRANGER: Mac = [0x02, 0x77, 0x77, 0x77, 0x77, 0x01];
