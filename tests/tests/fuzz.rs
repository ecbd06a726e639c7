//! Parsers, port strings and the vhost peer's side, with input that nobody meant.
//!
//! Nothing here may panic or hang; what is refused is refused in words.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use engine::frame::{Macs, build, text};
use engine::load::Load;
use engine::profile::{self, Profile};
use port::{Config, QueueState};
use rig::conformance::{End, frame};
use rig::liar::{Answer, Liar, Lie, Plan, RingLie};
use rig::mutate::{Mutator, seeds};
use rig::peer::feature;
use rig::rgen;
use virtio::VhostOptions;

const FRAMES: [&str; 8] = [
    "eth / ipv4 / udp",
    "eth(dst=02:00:00:00:00:01, src=02:00:00:00:00:02) / ipv4(src=16.0.0.1) / udp(dport=12)",
    "eth / vlan(id=100, pcp=3) / ipv6(src=2001:db8::1, dst=2001:db8::2) / tcp(dport=80)",
    "eth / ipv4(ttl=64) / icmp",
    "eth / arp",
    "eth / vlan(id=1) / vlan(id=2) / ipv4 / udp / payload(0x00ff)",
    "eth / ipv6 / icmpv6",
    "eth / ipv4 / udp / stamp",
];
const FRAME_WORDS: [&str; 16] = [
    "eth",
    "ipv4",
    "ipv6",
    "udp",
    "tcp",
    "vlan",
    " / ",
    "(",
    ")",
    "=",
    "src",
    "dst",
    "18446744073709551616",
    "-1",
    "0x",
    "::",
];

#[test]
fn a_frame_in_text_is_parsed_or_refused_with_the_place() {
    seeds(20_000, |seed| {
        let mut mutator = Mutator::new(seed);
        let written = mutator.text(&FRAMES, &FRAME_WORDS);
        match text::parse(&written) {
            Ok(spec) => {
                let size = mutator.below(20_000);
                let macs = Macs {
                    src: [2; 6],
                    dst: [4; 6],
                };
                match build(&spec.sized(size), macs) {
                    Ok(template) => assert_eq!(template.size(), size, "seed {seed}: {written:?}"),
                    Err(refused) => assert!(!refused.to_string().is_empty()),
                }
            }
            Err(refused) => {
                assert!(!refused.to_string().is_empty(), "seed {seed}");
                let _ = (refused.remedy(), refused.point(&written));
            }
        }
    });
}

#[test]
fn knobs_and_loads_are_parsed_or_refused_in_words() {
    let sets = [
        "size=64",
        "vm=var1",
        "size=imix",
        "vm=random",
        "size=9216",
        "vm=tuple",
        "port=1",
    ];
    let words = [
        "size",
        "vm",
        "=",
        "-1",
        "64",
        "4294967296",
        "imix",
        "e9",
        ".5",
        "NaN",
    ];
    let loads = [
        "10mpps", "30%", "10gbps", "10gbpsl1", "1", "0.5kpps", "1_000pps", "1e3",
    ];
    let load_words = [
        "pps", "bps", "l1", "%", "m", "k", "g", "inf", "nan", "-", ".",
    ];
    seeds(20_000, |seed| {
        let mut mutator = Mutator::new(seed);
        let about = &profile::list()[mutator.below(profile::list().len())];
        let [first, second] = [0, 1].map(|_| mutator.text(&sets, &words));
        let pairs: Vec<_> = [&first, &second]
            .into_iter()
            .filter_map(|text| text.split_once('='))
            .collect();
        match Profile::new(about.name, &pairs) {
            Ok(profile) => {
                let macs = Macs {
                    src: [2; 6],
                    dst: [4; 6],
                };
                for port in [0, 1] {
                    assert!(
                        !profile.streams(port, macs).is_empty(),
                        "seed {seed}: {pairs:?}"
                    );
                }
            }
            Err(refused) => assert!(!refused.to_string().is_empty(), "seed {seed}"),
        }
        let load = mutator.text(&loads, &load_words);
        if let Err(refused) = load.parse::<Load>() {
            assert!(!refused.to_string().is_empty(), "seed {seed}: {load:?}");
        }
    });
}

#[test]
fn a_port_string_opens_a_port_or_is_refused_with_a_cure() {
    let good = [
        "null:",
        "sim:virtio",
        "sim:virtio/1",
        "sim:virtio,packed=on,queues=2",
        "sim:virtio,loss=0.1%,dup=1%,seed=7",
        "sim:virtio,mtu=9000,legacy=on",
        "sim:virtio,speed=10gbps,delay=5us,mac=02:00:00:00:00:09",
        "af_packet:lo",
    ];
    let words = [
        "sim:",
        "virtio",
        "null:",
        ",",
        "=",
        "/0",
        "packed",
        "on",
        "off",
        "queues",
        "mtu",
        "-1",
        "65536",
        "99999999999999999999",
        "loss",
        "100%",
        "flap",
    ];
    seeds(3000, |seed| {
        let mut mutator = Mutator::new(seed);
        let [first, second] = [0, 1].map(|_| mutator.text(&good, &words));
        let harmless = |text: &str| {
            // A socket is waited for, and a function may be somebody's NIC.
            !text.contains("vhost") && !text.contains('.')
        };
        if !(harmless(&first) && harmless(&second)) {
            return;
        }
        match catalog::open(&[&first, &second], &catalog::Options::default()) {
            Ok(ports) => assert_eq!(ports.len(), 2),
            Err(refused) => {
                assert!(!refused.code().is_empty() && !refused.to_string().is_empty());
                assert!(
                    refused.remedy().is_some(),
                    "seed {seed}: {refused}: no cure"
                );
            }
        }
    });
}

/// A profile of one's own with a bit of everything.
const PROFILES: [&str; 3] = [
    r#"
[[stream]]
name = "web"
frame = "eth / ipv4(dst=48.0.0.1) / udp(dport=80)"
size = "imix"
rate = "40%"
vary = { "ipv4.src" = "16.0.0.0/24 each", "udp.sport" = "1024..65535 random" }

[[stream]]
name = "probe"
frame = "eth / ipv4 / udp(dport=4000)"
size = "128"
rate = "1kpps"

[require]
loss = "0"
latency = { p99 = "50us" }
"#,
    r#"
[ports]
tx = "sim:virtio/0"
rx = "sim:virtio/1"

[[stream]]
name = "tagged"
frame = "eth / vlan(id=7) / ipv6 / tcp"
size = "82..1518"
"#,
    "[[stream]]\nname = 'a'\nframe = 'eth / ipv4 / udp'\nsize = '64'\nrate = '1mpps'\n",
];
const PROFILE_WORDS: [&str; 20] = [
    "[[stream]]",
    "[require]",
    "name",
    "frame",
    "size",
    "rate",
    "vary",
    " = ",
    "\"",
    "'",
    "{",
    "}",
    "imix",
    "64..1518",
    "random",
    "each",
    "\n",
    "[",
    "]",
    "99999999999999999999999",
];

/// `rgen show -` with `text` on its standard input.
fn show(text: &str) -> (Option<i32>, String) {
    let mut child = Command::new(rgen::path())
        .args(["show", "-", "--count", "2"])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told)
}

#[test]
fn a_profile_in_toml_is_shown_or_refused_with_the_place() {
    for profile in PROFILES {
        let (code, told) = show(profile);
        assert_eq!(code, Some(0), "{profile}\n{told}");
    }
    let mut refused = 0;
    seeds(400, |seed| {
        let text = Mutator::new(seed).text(&PROFILES, &PROFILE_WORDS);
        let (code, told) = show(&text);
        assert!(
            matches!(code, Some(0 | 2)),
            "seed {seed}: {code:?} {told}\n{text}"
        );
        assert!(!told.contains("panicked"), "seed {seed}: {told}\n{text}");
        if code == Some(2) {
            refused += 1;
            assert!(told.contains("error["), "seed {seed}: {told}\n{text}");
        }
    });
    assert!(
        refused > 50,
        "the mutations are too gentle: {refused} refused"
    );
}

/// How long `meet` may take, a busy machine's delays included.
const BOUND: Duration = Duration::from_secs(20);

/// One port against one liar, for a moment: it may fail, in its own words, but not hang, panic or
/// keep a frame.
fn meet(path: &Path, plan: &Plan, seed: u64) {
    const REPLY: Duration = Duration::from_millis(200);
    let started = Instant::now();
    let _liar = Liar::start(path, plan).unwrap();
    let options = VhostOptions {
        connect_timeout: REPLY,
        reply_timeout: REPLY,
        rx_slots: 64,
        tx_slots: 64,
        ..VhostOptions::default()
    };
    let end = virtio::open_vhost_user(path, &options).ok();
    let end = end.and_then(|port| End::alone(port, &Config::default()).ok());
    if let Some(mut end) = end {
        let mut arrived = Vec::new();
        let moving = Instant::now();
        while moving.elapsed() < Duration::from_millis(20) {
            let mut frames = (0..16).map(|n| frame([2; 6], [2; 6], 60, n)).collect();
            end.post(0, &mut frames, 16);
            end.reap();
            end.receive(0, &mut arrived);
            let failed = end.port.service().is_err();
            if failed || end.queues.rx[0].state() == QueueState::Failed {
                break;
            }
        }
        let End {
            mut port,
            queues,
            to_send,
            to_arm,
            ..
        } = end;
        let _ = port.stop(queues);
        let home = to_send.close().and(to_arm.close());
        assert!(home.is_ok(), "seed {seed}: {home:?}");
    }
    let took = started.elapsed();
    assert!(took < BOUND, "seed {seed}: {took:?}, {plan:?}");
}

#[test]
fn answers_with_bytes_changed_never_hang_or_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    seeds(60, |seed| {
        let at = usize::try_from(seed % 23).unwrap();
        let lie = Lie::AnswerAt(at, Answer::Mutated { seed });
        meet(&path, &Plan::of(lie), seed);
    });
}

#[test]
fn rings_with_noise_in_them_never_hang_or_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    seeds(120, |seed| {
        let lie = RingLie::Scribble { seed: seed << 20 };
        let lie = if seed & 1 == 0 {
            Lie::SendRing(lie)
        } else {
            Lie::ReceiveRing(lie)
        };
        let mut less = 0;
        for (bit, what) in [
            (2, feature::PACKED),
            (4, feature::IN_ORDER),
            (8, feature::MRG_RXBUF),
        ] {
            if seed & bit != 0 {
                less |= what;
            }
        }
        meet(&path, &Plan::of(lie).without(less), seed);
    });
}
