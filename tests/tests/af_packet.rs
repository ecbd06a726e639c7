//! Ports on interfaces that Linux drives, over cables that Linux makes: the suite, and what the
//! kernel does to a port that no device does.

use std::collections::{HashSet, VecDeque};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::time::Duration;

use hugemem::{Burst, Memory, MemoryRequest, PageSize, Pages, Pool};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use port::{Config, LinkState, Port, QueueState, RxBurst};
use rig::conformance::{End, Failure, Pair, Watch, frame, run_all};
use rig::rgen::{start, start_with};
use rig::veth::{Namespace, cable, enter_namespace, ip, mac, sysctl};
use serde_json::Value;

/// A namespace with a cable in it, from r0 to r1.
fn cabled(mtu: usize) {
    enter_namespace().expect("tests run as root");
    cable(["r0", "r1"], mtu).expect("ip makes cables");
}

fn ports(options: &str) -> [Box<dyn Port>; 2] {
    let ends = ["r0", "r1"].map(|name| format!("af_packet:{name}{options}"));
    let ports = catalog::open(&[&ends[0], &ends[1]], &catalog::Options::default());
    ports
        .expect("interfaces of the test can be opened")
        .try_into()
        .ok()
        .expect("there are two")
}

#[track_caller]
fn passes(mtu: usize, options: &str) {
    cabled(mtu);
    let open = || -> Result<Pair, Failure> {
        Ok(Pair {
            ports: ports(options),
            objections: Box::new(Vec::new),
        })
    };
    let lines = run_all(&open).unwrap_or_else(|failures| panic!("{failures}"));
    let passed = lines.iter().filter(|line| line.starts_with("ok: ")).count();
    assert!(passed >= 18, "{}", lines.join("\n"));
}

#[test]
fn a_cable_of_the_kernels_passes_the_suite() {
    passes(1500, "");
}

#[test]
fn jumbo_frames_and_small_rings_pass_the_suite() {
    passes(9000, ",rx_slots=300,tx_slots=33");
}

#[test]
fn several_queues_pass_the_suite() {
    passes(1500, ",queues=4");
}

/// A started pair with frames to send and to receive into.
struct Rig {
    ports: [Box<dyn Port>; 2],
    queues: [port::Queues; 2],
    pool: Pool,
}

impl Rig {
    fn start(options: &str, queues: usize) -> Self {
        let mut ports = ports(options);
        let memory = Memory::new(&MemoryRequest {
            bytes: Pool::footprint(8192, 2048),
            pages: Pages::Only(PageSize::Base4K),
            node: None,
            spaces: ports.iter().map(|port| port.space()).collect(),
        });
        let memory = memory.expect("base pages are always there");
        let pool = Pool::new(&memory, 8192, 2048).expect("the pool fits");
        let config = Config {
            rx_queues: queues,
            tx_queues: 1,
            ..Config::default()
        };
        let queues =
            [0, 1].map(|end: usize| ports[end].start(&config, &memory).expect("the port starts"));
        Self {
            ports,
            queues,
            pool,
        }
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        let mut burst = Burst::new();
        for chunk in frames.chunks(32) {
            self.pool.take_burst(&mut burst, chunk.len());
            for (frame, bytes) in burst.iter_mut().zip(chunk) {
                frame.fill(bytes);
            }
            while !burst.is_empty() {
                self.queues[0].tx[0].burst(&mut burst);
                self.reap();
            }
        }
    }

    fn reap(&mut self) {
        let mut back = Burst::new();
        self.queues[0].tx[0].reap(&mut back);
        self.pool.give_burst(&mut back);
    }

    /// What has arrived at each queue.
    fn receive(&mut self) -> Vec<Vec<Vec<u8>>> {
        let mut arrived = Vec::new();
        for queue in &mut self.queues[1].rx {
            let mut frames = Vec::new();
            let (mut empties, mut burst) = (Burst::new(), RxBurst::default());
            loop {
                self.pool.take_burst(&mut empties, 64);
                queue.arm(&mut empties);
                self.pool.give_burst(&mut empties);
                if queue.burst(&mut burst) == 0 {
                    break;
                }
                frames.extend(burst.frames.iter().map(|frame| frame.bytes().to_vec()));
                self.pool.give_burst(&mut burst.frames);
            }
            arrived.push(frames);
        }
        arrived
    }
}

#[test]
fn a_flow_stays_in_one_queue_and_flows_spread_over_all() {
    cabled(1500);
    let mut rig = Rig::start(",queues=4", 4);
    let macs = [0, 1].map(|end: usize| rig.ports[end].info().mac);
    let mut frames = Vec::new();
    for n in 0..640_u16 {
        // Of 64 flows, told apart by the source port.
        let mut bytes = frame(macs[1], macs[0], 90, n.into());
        let flow = 1000 + n % 64;
        bytes[12..38].copy_from_slice(&[
            8,
            0,
            0x45,
            0,
            0,
            76,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            16,
            0,
            0,
            1,
            48,
            0,
            0,
            1,
            flow.to_be_bytes()[0],
            flow.to_be_bytes()[1],
            0,
            9,
        ]);
        bytes[38..42].copy_from_slice(&[0, 56, 0, 0]);
        frames.push(bytes);
    }
    rig.send(&frames);
    let arrived = rig.receive();
    assert_eq!(arrived.iter().map(Vec::len).sum::<usize>(), frames.len());
    let flows: Vec<HashSet<&[u8]>> = arrived
        .iter()
        .map(|frames| frames.iter().map(|bytes| &bytes[34..36]).collect())
        .collect();
    assert!(flows.iter().all(|flows| !flows.is_empty()), "{flows:?}");
    // 64 flows in all queues together: none is in two.
    assert_eq!(flows.iter().map(HashSet::len).sum::<usize>(), 64);
}

#[test]
fn what_finds_every_slot_full_is_counted_and_the_rest_comes() {
    cabled(1500);
    let mut rig = Rig::start(",rx_slots=64", 1);
    let macs = [0, 1].map(|end: usize| rig.ports[end].info().mac);
    let frames: Vec<_> = (0..300).map(|n| frame(macs[1], macs[0], 80, n)).collect();
    rig.send(&frames);
    let arrived = rig.receive().remove(0);
    assert_eq!(arrived, frames[..64]);
    let counters = rig.ports[1].counters().unwrap();
    assert_eq!((counters.rx_missed, counters.rx_frames), (236, 64));
}

#[test]
fn a_link_that_goes_pauses_the_queues_and_what_waits_is_sent_when_it_is_back() {
    cabled(1500);
    let mut rig = Rig::start("", 1);
    let macs = [0, 1].map(|end: usize| rig.ports[end].info().mac);
    let frames: Vec<_> = (0..90).map(|n| frame(macs[1], macs[0], 80, n)).collect();
    let wait_for = |rig: &mut Rig, link: LinkState| {
        let mut events = Vec::new();
        while rig.ports[0].link().unwrap().state != link || events.is_empty() {
            events.extend(rig.ports[0].service().unwrap());
        }
        events
    };
    rig.ports[0].service().unwrap();
    for round in 0..3 {
        rig.send(&frames[round * 30..][..30]);
        ip("link set r0 down").unwrap();
        assert_eq!(wait_for(&mut rig, LinkState::Down), ["link down"]);
        assert_eq!(rig.queues[0].tx[0].state(), QueueState::Paused);
        ip("link set r0 up").unwrap();
        assert_eq!(wait_for(&mut rig, LinkState::Up), ["link up"]);
        rig.reap();
        assert_eq!(rig.queues[0].tx[0].state(), QueueState::Running);
    }
    rig.reap();
    let arrived = rig.receive().remove(0);
    assert_eq!(arrived, frames);
    let counts = rig.queues[0].tx[0].counts();
    assert_eq!((counts.completed, counts.in_flight()), (90, 0));
}

#[test]
fn frames_that_no_interface_takes_are_errors_and_the_others_are_sent() {
    cabled(1500);
    let mut rig = Rig::start("", 1);
    let macs = [0, 1].map(|end: usize| rig.ports[end].info().mac);
    let good = frame(macs[1], macs[0], 1514, 1);
    let long = frame(macs[1], macs[0], 1515, 2);
    let short = vec![0; 13];
    rig.send(&[good.clone(), long, good.clone(), short, good.clone()]);
    rig.reap();
    assert_eq!(rig.receive().remove(0), vec![good; 3]);
    let counters = rig.ports[0].counters().unwrap();
    assert_eq!((counters.tx_frames, counters.tx_errors), (3, 2));
    assert_eq!(counters.tx_bytes, 3 * 1518);
}

fn json(arguments: &[&str], code: i32) -> Value {
    let ran = start(arguments).wait();
    ran.ended(code).json()
}

#[test]
fn rgen_counts_over_an_interface_to_the_frame() {
    cabled(1500);
    let result = json(
        &[
            "run",
            "bench",
            "-t",
            "size=64,vm=var1",
            "-m",
            "5kpps",
            "-d",
            "1s",
            "--json",
            "--catch-up",
            "60s",
            "-p",
            "af_packet:r0",
            "-p",
            "af_packet:r1",
        ],
        0,
    );
    for port in result["ports"].as_array().unwrap() {
        assert_eq!(port["driver"], "af_packet");
        assert_eq!(port["tx_frames"], 5000, "{result:#}");
        assert_eq!(port["rx_frames"], 5000, "{result:#}");
        assert_eq!(port["rx_bytes"], 5000 * 64);
    }
}

/// Linux as the device under test: routes between two cables whose far ends are ours.
fn router() -> Namespace {
    enter_namespace().expect("tests run as root");
    let router = Namespace::new().expect("tests run as root");
    for ends in [["a0", "a1"], ["b0", "b1"]] {
        cable(ends, 1500).expect("ip makes cables");
        router.adopt(ends[1]).expect("it is there");
    }
    router
        .inside(|| {
            ip("addr add 16.0.0.1/8 dev a1")?;
            ip("addr add 48.0.0.254/8 dev b1")?;
            sysctl("ipv4/ip_forward", "1")
        })
        .expect("the router is set up");
    router
}

/// Tells the router the station of the hosts behind it, so that it need not ask.
fn tell_stations(router: &Namespace) {
    let far = mac("b0").expect("it has an address");
    router
        .inside(move || {
            (1..=50)
                .try_for_each(|host| ip(&format!("neigh add 48.0.0.{host} lladdr {far} dev b1")))
        })
        .expect("the router is set up");
}

/// Frames for fifty hosts behind the router, whose station `eth` names or leaves open.
fn profile(eth: &str) -> tempfile::NamedTempFile {
    let text = format!(
        r#"
        [[stream]]
        name = "routed"
        frame = "{eth} / ipv4(src=16.0.0.2, dst=48.0.0.1) / udp(sport=1025, dport=12)"
        size = "128B"
        rate = "3kpps"
        measure = "count"
        direction = 0
        vary = {{ "ipv4.dst" = "48.0.0.1..48.0.0.50 each" }}
        "#
    );
    let mut file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("there is room");
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("it can be written");
    file
}

#[test]
fn linux_routes_what_rgen_sends_and_every_frame_is_accounted_for() {
    let router = router();
    tell_stations(&router);
    let near = router.inside(|| mac("a1")).unwrap();
    let profile = profile(&format!("eth(dst={near})"));
    let path = profile.path().to_str().unwrap();
    let run = |code| {
        json(
            &[
                "run",
                path,
                "-d",
                "1s",
                "--json",
                "--catch-up",
                "60s",
                "-p",
                "af_packet:a0",
                "-p",
                "af_packet:b0",
                "--require",
                "loss=0",
            ],
            code,
        )
    };
    let result = run(0);
    let stream = &result["streams"][0];
    assert_eq!(stream["tx_frames"], 3000, "{result:#}");
    assert_eq!(stream["rx_frames"], 3000);
    assert_eq!(stream["lost"], 0);
    // One of fifty stations is cut off: one frame of fifty is lost, and known to be.
    router
        .inside(|| ip("route add blackhole 48.0.0.7/32"))
        .unwrap();
    let result = run(5);
    let stream = &result["streams"][0];
    assert_eq!(stream["tx_frames"], 3000, "{result:#}");
    assert_eq!(stream["lost"], 60);
}

/// Asks for an echo from inside the router; true if it comes.
fn pings(router: &Namespace, to: Ipv4Addr) -> bool {
    let ping = move || {
        sysctl("ipv4/ping_group_range", "0 0")?;
        let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
        let socket = socket(family, kind, SockFlag::empty(), SockProtocol::Icmp);
        let socket = UdpSocket::from(socket.map_err(|error| error.to_string())?);
        let words = |error: std::io::Error| error.to_string();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .map_err(words)?;
        socket.connect((to, 0)).map_err(words)?;
        let request = *b"\x08\0\0\0\0\0\0\x01whoever is there";
        socket.send(&request).map_err(words)?;
        let mut answer = [0; 64];
        let len = socket.recv(&mut answer).map_err(words)?;
        Ok(answer[0] == 0 && answer[6..len] == request[6..])
    };
    router.inside(ping) == Ok(true)
}

#[test]
fn linux_finds_the_ports_by_asking_and_is_answered_while_they_send() {
    let router = router();
    let profile = profile("eth");
    let running = start(&[
        "run",
        profile.path().to_str().unwrap(),
        "-d",
        "3s",
        "--json",
        "--catch-up",
        "60s",
        "-p",
        "af_packet:a0",
        "--ip",
        "16.0.0.2@16.0.0.1",
        "-p",
        "af_packet:b0",
        "--ip",
        "48.0.0.1..48.0.0.50,48.0.0.77",
        "--require",
        "loss=0",
    ]);
    wait_for_frames("b0");
    assert!(pings(&router, Ipv4Addr::new(48, 0, 0, 77)));
    assert!(pings(&router, Ipv4Addr::new(16, 0, 0, 2)));
    let result = running.wait().ended(0).json();
    let stream = &result["streams"][0];
    assert_eq!(stream["tx_frames"], 9000, "{result:#}");
    assert_eq!(stream["lost"], 0);
    let answered = |port: usize| result["ports"][port]["answered"].as_u64().unwrap();
    // At a port that sends, and at one that only receives: fifty hosts, one more, and its ping.
    assert!(answered(0) >= 1 && answered(1) >= 52, "{result:#}");
    assert_eq!(result["ports"][1]["tx_frames"], 0);
    assert_eq!(result["config"]["ips"][0], "16.0.0.2@16.0.0.1");
}

/// A router by hand: stations of its own for `16.0.0.1` and, in VLAN 7, for `17.0.0.1`.
const STATIONS: [(&[u8], [u8; 4], [u8; 6]); 2] = [
    (&[], [16, 0, 0, 1], [2, 0, 0, 0, 0, 0x76]),
    (&[0x81, 0, 0, 7], [17, 0, 0, 1], [2, 0, 0, 0, 0, 0x77]),
];

/// An ARP message of `operation` from `from` in the VLAN of `tag`.
fn arp(operation: u8, tag: &[u8], from: (&[u8; 6], [u8; 4]), to: (&[u8], [u8; 4])) -> Vec<u8> {
    let head = [to.0, from.0, tag, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    let mut message = [&head[..], from.0, &from.1, to.0, &to.1].concat();
    message.resize(60, 0);
    message
}

/// What follows the addresses and the `tag`.
fn behind<'a>(frame: &'a [u8], tag: &[u8]) -> Option<&'a [u8]> {
    let rest = frame.get(12..)?.strip_prefix(tag)?;
    (rest[..2] != [0x81, 0]).then_some(rest)
}

#[test]
fn frames_in_a_vlan_go_to_the_gateway_that_answers_in_it_and_others_to_theirs() {
    cabled(1500);
    let [_, second] = ports("");
    let mut router = End::alone(second, &Config::default()).unwrap();
    // It has two stations, neither of them the interface's.
    router.port.set_promiscuous(true).unwrap();
    let stream = |name: &str, tag: &str| {
        format!(
            r#"
            [[stream]]
            name = "{name}"
            frame = "eth / {tag}ipv4(src=16.0.0.2, dst=48.0.0.1) / udp(dport=12)"
            size = "128B"
            rate = "1kpps"
            "#
        )
    };
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = stream("untagged", "") + &stream("tagged", "vlan(id=7) / ");
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let ips = "16.0.0.2@16.0.0.1+vlan7=17.0.0.2@17.0.0.1";
    let ends = ["-p", "af_packet:r0", "--ip", ips, "--catch-up", "60s"];
    let running = start(&[&["run", path, "-d", "2s", "--json"], &ends[..]].concat());
    let (mut arrived, mut answers) = ([0; 2], Vec::new());
    let mut watch = Watch::new();
    while arrived != [2000; 2] {
        let mut frames = Vec::new();
        router.receive(0, &mut frames);
        router.arm();
        router.reap();
        router.service().unwrap();
        assert!(watch.is_patient(!frames.is_empty()), "{arrived:?} came");
        let mut out = VecDeque::new();
        for received in &frames {
            for (n, (tag, ip, station)) in STATIONS.iter().enumerate() {
                let Some(rest) = behind(&received.bytes, tag) else {
                    continue;
                };
                let own = [16 + u8::try_from(n).unwrap(), 0, 0, 2];
                match (&rest[..2], rest[9]) {
                    ([8, 6], 1) if rest[26..30] == *ip => {
                        let asker = (&rest[10..16], own);
                        out.push_back(arp(2, tag, (station, *ip), asker));
                    }
                    ([8, 6], 2) => answers.push((n, rest[16])),
                    ([8, 6], _) => assert_eq!(rest[16..20], own, "it asks for itself"),
                    ([8, 0], _) => {
                        assert_eq!(received.bytes[..6], *station, "through its own gateway");
                        arrived[n] += 1;
                        // Both addresses are asked for, in the VLAN and outside.
                        if arrived[n] == 100 {
                            for asked in [16, 17] {
                                let from = (station, *ip);
                                out.push_back(arp(1, tag, from, (&[0xff; 6], [asked, 0, 0, 2])));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        router.post(0, &mut out, 64);
    }
    let result = running.wait().ended(0).json();
    // The tagged address is there in its VLAN alone, the untagged one for anybody.
    answers.sort_unstable();
    assert_eq!(answers, [(0, 16), (1, 16), (1, 17)], "{result:#}");
    assert_eq!(result["ports"][0]["answered"], 3);
}

#[test]
fn a_gateway_is_found_by_neighbour_discovery() {
    let router = router();
    router
        .inside(|| {
            sysctl("ipv6/conf/a1/disable_ipv6", "0")?;
            ip("addr add fd00::1/64 dev a1 nodad")
        })
        .unwrap();
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = r#"
        [[stream]]
        name = "six"
        frame = "eth / ipv6(src=fd00::2, dst=fd00::1) / udp(dport=9)"
        rate = "1kpps"
        direction = 0
        "#;
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let result = json(
        &[
            "run",
            file.path().to_str().unwrap(),
            "-d",
            "1s",
            "--json",
            "--catch-up",
            "60s",
            "-p",
            "af_packet:a0",
            "--ip",
            "fd00::2@fd00::1",
        ],
        0,
    );
    assert_eq!(result["ports"][0]["tx_frames"], 1000, "{result:#}");
    // They went to the router, and not past it: it has nobody at that port, and says so.
    assert!(result["ports"][0]["rx_frames"].as_u64().unwrap() > 0);
}

#[test]
fn a_gateway_that_nobody_answers_for_is_said_so() {
    let _router = router();
    let profile = profile("eth");
    let path = profile.path().to_str().unwrap();
    let run = ["run", path, "-d", "1s", "-p", "af_packet:a0"];
    let ran = start(&[&run[..], &["--ip", "16.0.0.2@16.0.0.99"]].concat()).wait();
    ran.ended(3);
    for words in ["nobody answers for 16.0.0.99", "--dst-mac"] {
        assert!(ran.stderr.contains(words), "{ran:#?}");
    }
    for (ip, words) in [
        (&["--ip", "16.0.0.2/8"][..], "no address of a host"),
        (&["--ip", "16.0.0.2@fd00::1"], "kind"),
        (&["--ip", "-", "--ip", "16.0.0.2"], "2 times for 1 ports"),
    ] {
        let ran = start(&[&run[..], ip].concat()).wait();
        ran.ended(2);
        assert!(ran.stderr.contains(words), "{ran:#?}");
    }
}

#[test]
fn an_interface_that_is_taken_away_ends_the_run_in_words_and_keeps_the_result() {
    cabled(1500);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result.json");
    let running = start(&[
        "run",
        "bench",
        "-m",
        "2kpps",
        "-d",
        "60s",
        "-p",
        "af_packet:r0",
        "-p",
        "af_packet:r1",
        "-o",
        out.to_str().unwrap(),
    ]);
    // Once something has arrived, it is under way.
    wait_for_frames("r1");
    ip("link del r0").unwrap();
    let ran = running.wait();
    ran.ended(4);
    assert!(ran.stderr.contains("gone"), "{ran:#?}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert!(
        result["ports"][0]["tx_frames"].as_u64().unwrap() > 0,
        "{result:#}"
    );
}

/// Waits until `interface` has received frames: what sends them is under way.
fn wait_for_frames(interface: &str) {
    let name = format!("af_packet:{interface}");
    let ports = catalog::open(&[&name], &catalog::Options::default());
    let mut port = ports
        .expect("interfaces of the test can be opened")
        .remove(0);
    let mut received = || {
        let counters = port.extended().expect("it counts");
        let found = counters
            .into_iter()
            .find(|counter| counter.name == "if_rx_packets");
        found.expect("every interface has it").value
    };
    while received() <= 100 {}
}

#[test]
fn an_mtu_lowered_in_mid_run_ends_it_in_words() {
    cabled(1500);
    let running = start(&[
        "run",
        "bench",
        "-t",
        "size=1400",
        "-m",
        "2kpps",
        "-d",
        "60s",
        "-p",
        "af_packet:r0",
        "-p",
        "af_packet:r1",
    ]);
    wait_for_frames("r1");
    ip("link set r0 mtu 600").unwrap();
    let ran = running.wait();
    ran.ended(4);
    assert!(ran.stderr.contains("MTU"), "{ran:#?}");
}

#[test]
fn what_is_no_interface_or_not_allowed_is_refused_with_a_cure() {
    cabled(1500);
    let run = |port: &str| {
        ["run", "bench", "-d", "1s", "-p", "af_packet:r1", "-p"]
            .map(str::to_owned)
            .into_iter()
            .chain([port.to_owned()])
            .collect::<Vec<_>>()
    };
    for (port, code, words) in [
        ("af_packet:r7", 3, &["no interface 'r7'", "r0, r1"][..]),
        ("af_packet:a-name-that-is-too-long", 3, &["no interface"]),
        ("af_packet:lo", 3, &["no Ethernet"]),
        ("af_packet:", 2, &["names no port", "af_packet:eth0"]),
        ("af_packet:r0,queues=17", 2, &["1 to 16"]),
        (
            "af_packet:r0,depth=3",
            2,
            &["no option 'depth'", "rx_slots"],
        ),
        ("af_packet:r0,rx_slots=9", 2, &["16 to"]),
    ] {
        let arguments = run(port);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = start(&arguments).wait();
        ran.ended(code);
        for word in words {
            assert!(ran.stderr.contains(word), "{word}: {ran:#?}");
        }
    }
    // Nobody's user: no packet sockets.
    let ran = start_with(
        &[
            "run",
            "bench",
            "-d",
            "1s",
            "-p",
            "af_packet:r0",
            "-p",
            "af_packet:r1",
        ],
        |command| {
            command.uid(65_534).gid(65_534);
        },
    );
    let ran = ran.wait();
    ran.ended(3);
    assert!(ran.stderr.contains("CAP_NET_RAW"), "{ran:#?}");
}
