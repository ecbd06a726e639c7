//! The acts of the scenario, each on ports that are opened for it.

use hugemem::TxFlags;
use port::{Config, Mac, Offloads, Port, Rss};

use super::{Post, SLOTS, STRANGER, Stage, collect};
use crate::conformance::packet::Packet;
use crate::conformance::{Failure, Line, frame};

/// An act: it plays on the stage with two ports that are open.
type Act = fn(Stage, [Box<dyn Port>; 2]) -> Result<(), Failure>;

/// All of them, by name.
pub(super) const ACTS: &[(&str, Act)] = &[
    ("traffic", traffic),
    ("filters", filters),
    ("vlan", vlan),
    ("checksums", checksums),
    ("jumbo", jumbo),
    ("too long", too_long),
    ("short", short),
    ("spread", spread),
    ("starved", starved),
];

/// What both ports offer.
fn offered(ports: &[Box<dyn Port>; 2]) -> Offloads {
    ports[0].caps().offloads & ports[1].caps().offloads
}

fn offloading(offloads: Offloads) -> Config {
    Config {
        offloads,
        ..Config::default()
    }
}

/// A plain frame from end `from` to the other.
fn plain(line: &Line, from: usize, len: usize, number: u64) -> Post {
    let macs = line.macs();
    frame(macs[1 - from], macs[from], len, number).into()
}

/// Frames of all ordinary sizes, three laps of every ring, short frames, several buffers; then
/// the ports are stopped, and started again.
fn traffic(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    for (end, port) in ports.iter().enumerate() {
        let info = port.info();
        let fields = [
            ("driver", info.driver.to_owned()),
            ("device", info.device.clone()),
            ("pci", format!("{:04x?}", info.pci)),
            ("mac", format!("{:02x?}", info.mac)),
        ];
        stage.note(end, "info", fields);
        let caps = port.caps();
        let fields = [
            (
                "queues",
                format!("{:?}", (&caps.rx_queues.range, &caps.tx_queues.range)),
            ),
            ("slots", format!("{:?}", (&caps.rx_slots, &caps.tx_slots))),
            ("max_frame", caps.max_frame.to_string()),
            ("offloads", format!("{:?}", caps.offloads)),
        ];
        stage.note(end, "caps", fields);
    }
    let mut line = stage.start(ports, &Config::default())?;
    for from in [0, 1] {
        stage.begin(&format!("sizes from {from}"));
        let sizes = (60..=1514).step_by(61).chain([1513, 1514]);
        let posts: Vec<_> = (0..)
            .zip(sizes)
            .map(|(n, len)| plain(&line, from, len, n))
            .collect();
        stage.carry(&mut line, from, &posts)?;
        stage.begin(&format!("three laps from {from}"));
        let posts: Vec<_> = (0..3 * SLOTS)
            .map(|n| plain(&line, from, 60 + n % 7, 1000 + n as u64))
            .collect();
        stage.carry(&mut line, from, &posts)?;
    }
    stage.begin("frames in several buffers");
    let posts = in_pieces(&line);
    stage.carry_in(&mut line, 0, &posts, posts.len())?;
    stage.counters(&mut line)?;
    let ports = stage.stop(line)?;
    let mut line = stage.start(ports, &Config::default())?;
    stage.begin("after a restart");
    let posts: Vec<_> = (0..10).map(|n| plain(&line, 1, 99, n)).collect();
    stage.carry(&mut line, 1, &posts)?;
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// Frames shorter than any on a wire: 60 bytes without FCS (IEEE 802.3 §4A.4.2).
fn short(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    let mut line = stage.start(ports, &Config::default())?;
    stage.begin("short frames");
    let posts: Vec<_> = [18, 20, 46, 59, 60]
        .into_iter()
        .map(|len| plain(&line, 0, len, 7))
        .collect();
    stage.carry(&mut line, 0, &posts)?;
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// Three frames that lie in one, two and three buffers.
fn in_pieces(line: &Line) -> Vec<Post> {
    let mut posts = Vec::new();
    for pieces in 1..=3_usize {
        let whole = plain(line, 0, 300 * pieces, pieces as u64);
        let chunks = whole.bytes.chunks(300);
        let last = chunks.len() - 1;
        for (number, chunk) in chunks.enumerate() {
            let mut post = Post::from(chunk.to_vec());
            post.flags.set(TxFlags::MORE, number < last);
            posts.push(post);
        }
    }
    posts
}

const GROUPS: [Mac; 2] = [
    [0x01, 0x00, 0x5e, 0x11, 0x22, 0x33],
    [0x01, 0x00, 0x5e, 0x11, 0x22, 0x32],
];
const FURTHER: [Mac; 2] = [
    [0x02, 0x66, 0x77, 0x77, 0x77, 0x01],
    [0x02, 0x66, 0x77, 0x77, 0x77, 0x02],
];
const ANOTHER: Mac = [0x02, 0x55, 0x77, 0x77, 0x77, 0x0a];

/// More groups than a device of Intel's has exact filters, and than QEMU's virtio-net has entries.
const MANY: [u8; 2] = [40, 80];
/// More addresses than a device of Intel's has exact filters.
const HOSTS: u8 = 33;

/// The group of that number.
fn group(number: u8) -> Mac {
    [0x01, 0, 0x5e, 1, number, number.wrapping_mul(3)]
}

/// A group that nobody asks for, and whose hash is that of one that is asked for: an inexact
/// filter looks at bits 47:36, 46:35, 45:34 or 43:32 (320961 §8.10.18), none of which differs.
fn alias(number: u8) -> Mac {
    let mut mac = group(number);
    mac[3] ^= 1;
    mac
}

/// The station of that number.
fn host(number: u8) -> Mac {
    [0x02, 0x66, 0x77, 0x77, 0x78, number]
}

/// Frames for everybody whom the filters tell apart.
fn to_all(line: &Line) -> Vec<Post> {
    let macs = line.macs();
    let stations = [STRANGER, [0xff; 6], ANOTHER, macs[0]]
        .into_iter()
        .chain(GROUPS)
        .chain(FURTHER)
        .chain([0, MANY[0] - 1, MANY[0], MANY[1] - 1, MANY[1]].map(group))
        .chain([0, MANY[0] - 1].map(alias))
        .chain([0, HOSTS - 1, HOSTS].map(host));
    (0..)
        .zip(stations)
        .map(|(n, to)| frame(to, macs[0], 80, n).into())
        .collect()
}

/// Which frames are accepted, whatever is asked for.
fn filters(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    let mut line = stage.start(ports, &Config::default())?;
    let own = line.macs()[1];
    let ask = |stage: &mut Stage,
               line: &mut Line,
               what: &str,
               change: &dyn Fn(&mut dyn Port) -> Result<(), port::PortError>|
     -> Result<(), Failure> {
        stage.begin(what);
        let result = change(line.ends[1].port.as_mut());
        stage.tried(1, what, result);
        let posts = to_all(line);
        stage.carry(line, 0, &posts)
    };
    let mut play = |what: &str, change: &dyn Fn(&mut dyn Port) -> Result<(), port::PortError>| {
        ask(&mut stage, &mut line, what, change)
    };
    play("nothing asked for", &|_| Ok(()))?;
    play("promiscuous", &|port| port.set_promiscuous(true))?;
    play("not promiscuous", &|port| port.set_promiscuous(false))?;
    play("all multicast", &|port| port.set_all_multicast(true))?;
    play("not all multicast", &|port| port.set_all_multicast(false))?;
    play("a group", &|port| port.set_mac_filter(&GROUPS[..1]))?;
    play("two addresses and a group", &|port| {
        port.set_mac_filter(&[FURTHER[0], FURTHER[1], GROUPS[1]])
    })?;
    play("no filter", &|port| port.set_mac_filter(&[]))?;
    for many in MANY {
        play(&format!("{many} groups"), &|port| {
            let groups: Vec<Mac> = (0..many).map(group).collect();
            port.set_mac_filter(&groups)
        })?;
        play(&format!("a group after {many}"), &|port| {
            port.set_mac_filter(&[group(0)])
        })?;
    }
    play("many addresses", &|port| {
        let hosts: Vec<Mac> = (0..HOSTS).map(host).collect();
        port.set_mac_filter(&hosts)
    })?;
    play("no filter again", &|port| port.set_mac_filter(&[]))?;
    play("another address", &|port| port.set_mac(ANOTHER))?;
    // Not every device forgets it when it is reset.
    play("its own address", &|port| port.set_mac(own))?;
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// A frame with a tag in its bytes.
fn tagged(line: &Line, tags: &[[u8; 4]], number: u64) -> Post {
    let macs = line.macs();
    let bytes = frame(macs[1], macs[0], 90, number);
    let tags = tags.concat();
    [&bytes[..12], &tags, &bytes[12..]].concat().into()
}

/// Tags that the device puts in, takes off, and filters by.
fn vlan(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    let can = offered(&ports);
    let all = can & (Offloads::TX_VLAN | Offloads::RX_VLAN | Offloads::VLAN_FILTER);
    let mut ports = ports;
    for wanted in [all, all - Offloads::RX_VLAN, all & Offloads::VLAN_FILTER] {
        let mut line = stage.start(ports, &offloading(wanted))?;
        for step in 0..3 {
            stage.begin(&format!("{wanted:?}, step {step}"));
            for (id, on) in [(5, step == 1), (0x123, step > 0)] {
                let result = line.ends[1].port.set_vlan_filter(id, on);
                stage.tried(1, &format!("VLAN {id:#x} {on}"), result);
            }
            let mut posts = Vec::new();
            for (number, tag) in (0..).zip([5_u16, 0x123, 0x6123, 0xa005, 0x777, 0]) {
                let [high, low] = tag.to_be_bytes();
                posts.push(tagged(&line, &[[0x81, 0, high, low]], number));
                if wanted.contains(Offloads::TX_VLAN) {
                    let mut post = plain(&line, 0, 70, number);
                    (post.flags, post.vlan) = (TxFlags::VLAN, tag);
                    posts.push(post);
                }
            }
            posts.push(tagged(&line, &[[0x88, 0xa8, 0, 5], [0x81, 0, 0, 5]], 50));
            posts.push(tagged(&line, &[[0x81, 0, 0, 5], [0x81, 0, 1, 0x23]], 51));
            stage.carry(&mut line, 0, &posts)?;
        }
        stage.counters(&mut line)?;
        ports = stage.stop(line)?;
    }
    drop(ports);
    Ok(())
}

/// Packets whose checksums are right, wrong, absent, or to be filled in.
fn checksums(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    let can = offered(&ports);
    let wanted =
        can & (Offloads::TX_IPV4_CHECKSUM | Offloads::TX_L4_CHECKSUM | Offloads::RX_CHECKSUM);
    let mut line = stage.start(ports, &offloading(wanted))?;
    for payload in [18, 33, 1400] {
        stage.begin(&format!("packets of {payload}"));
        let posts = packets(&line, payload);
        stage.carry(&mut line, 0, &posts)?;
    }
    stage.begin("filled in");
    let posts = unfinished(&line, wanted);
    stage.carry(&mut line, 0, &posts)?;
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// Where the parts of a packet of IPv4 are, in its frame.
const IPV4_SUM: usize = 24;
const IPV4_FRAGMENT: usize = 20;

/// Good packets of every kind, and ones with something wrong.
fn packets(line: &Line, payload: usize) -> Vec<Post> {
    let macs = line.macs();
    let mut posts: Vec<Post> = Vec::new();
    for packet in Packet::kinds(payload) {
        let good = packet.frame(macs[1], macs[0]);
        posts.push(good.bytes.clone().into());
        let mut bad = good.bytes.clone();
        bad[good.checksum_at] ^= 0x40;
        posts.push(bad.into());
        let mut none = good.bytes.clone();
        none[good.checksum_at..good.checksum_at + 2].fill(0);
        posts.push(none.into());
        if !packet.v6 {
            let mut header = good.bytes.clone();
            header[IPV4_SUM] ^= 0x08;
            posts.push(header.into());
            // More fragments follow; the sum is made up for it.
            let mut fragment = good.bytes.clone();
            fragment[IPV4_FRAGMENT] |= 0x20;
            fragment[IPV4_SUM] = fragment[IPV4_SUM].wrapping_sub(0x20);
            posts.push(fragment.into());
        }
    }
    posts
}

/// Packets whose checksums the device shall fill in.
fn unfinished(line: &Line, can: Offloads) -> Vec<Post> {
    let macs = line.macs();
    let mut posts = Vec::new();
    for payload in [18, 19, 33, 700] {
        for packet in Packet::kinds(payload) {
            let whole = packet.frame(macs[1], macs[0]);
            let mut post = Post::from(whole.bytes);
            if can.contains(Offloads::TX_L4_CHECKSUM) {
                post.flags |= TxFlags::L4_CHECKSUM;
                post.bytes[whole.checksum_at..whole.checksum_at + 2].copy_from_slice(&whole.begun);
            }
            if can.contains(Offloads::TX_IPV4_CHECKSUM) && !packet.v6 {
                post.flags |= TxFlags::IPV4_CHECKSUM;
                post.bytes[IPV4_SUM..IPV4_SUM + 2].fill(0);
            }
            posts.push(post);
        }
    }
    posts
}

/// Frames that lie in several receive buffers.
fn jumbo(mut stage: Stage, mut ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    let can = offered(&ports);
    if !can.contains(Offloads::SET_MTU | Offloads::RX_SCATTER) {
        return Ok(());
    }
    stage.begin("MTU");
    for (end, port) in ports.iter_mut().enumerate() {
        let result = port.set_mtu(9000);
        stage.tried(end, "MTU of 9000", result);
    }
    let mut line = stage.start(ports, &offloading(Offloads::RX_SCATTER))?;
    stage.begin("sizes");
    let sizes = [
        1514, 1515, 1518, 1519, 1522, 1523, 2044, 2045, 2047, 2048, 2049, 4092, 4096, 4097, 6144,
        8999, 9014, 60,
    ];
    let posts: Vec<_> = (0..)
        .zip(sizes)
        .map(|(n, len)| plain(&line, 0, len, n))
        .collect();
    // As many as the ring of buffers holds.
    stage.carry_in(&mut line, 0, &posts, 5)?;
    stage.begin("the other way");
    let posts: Vec<_> = (0..40)
        .zip([9014, 3000, 60].into_iter().cycle())
        .map(|(n, len)| plain(&line, 1, len, n))
        .collect();
    stage.carry_in(&mut line, 1, &posts, 5)?;
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// Frames that are longer than the receiver takes.
fn too_long(mut stage: Stage, mut ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    if !offered(&ports).contains(Offloads::SET_MTU) {
        return Ok(());
    }
    stage.begin("MTU");
    for (end, mtu) in [(0, 9000), (1, 1500)] {
        let result = ports[end].set_mtu(mtu);
        stage.tried(end, &format!("MTU of {mtu}"), result);
    }
    let mut line = stage.start(ports, &Config::default())?;
    for len in [
        1514, 1518, 1519, 1522, 1523, 2000, 2044, 2048, 2049, 4000, 9014,
    ] {
        stage.begin(&format!("{len} bytes"));
        let post = plain(&line, 0, len, 1);
        stage.carry(&mut line, 0, &[post])?;
    }
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// Flows over several queues.
fn spread(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    if !offered(&ports).contains(Offloads::RSS) {
        return Ok(());
    }
    // The 82574 has two, the others more than are needed.
    let most = |port: &dyn Port| {
        let caps = port.caps();
        *caps.rx_queues.range.end().min(caps.tx_queues.range.end())
    };
    let queues = most(&*ports[0]).min(most(&*ports[1])).min(4);
    let config = Config {
        rx_queues: queues,
        tx_queues: queues,
        offloads: Offloads::RX_CHECKSUM,
        rss: Some(Rss {
            key: (1..=40).collect(),
            table: (0..u16::try_from(queues).unwrap_or(4))
                .cycle()
                .take(4)
                .collect(),
        }),
        ..Config::default()
    };
    let mut line = stage.start(ports, &config)?;
    let macs = line.macs();
    let [udp, tcp, udp_v6, tcp_v6] = Packet::kinds(40);
    // What devices disagree about comes last, as it moves what follows to other slots.
    for (name, kinds) in [("flow", &[udp, tcp, udp_v6][..]), ("v6 TCP", &[tcp_v6])] {
        for flow in 0..8 {
            stage.begin(&format!("{name} {flow}"));
            let packets = kinds.iter().map(|packet| Packet { flow, ..*packet });
            let posts: Vec<_> = packets
                .map(|packet| Post::from(packet.frame(macs[1], macs[0]).bytes))
                .collect();
            stage.carry(&mut line, 0, &posts)?;
        }
    }
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}

/// More frames than there are buffers; then there are some again.
fn starved(mut stage: Stage, ports: [Box<dyn Port>; 2]) -> Result<(), Failure> {
    let mut line = stage.start_unarmed(ports, &Config::default())?;
    stage.begin("no buffer");
    let mut burst = hugemem::Burst::new();
    line.ends[1].to_arm.take_burst(&mut burst, 10);
    line.ends[1].queues.rx[0].arm(&mut burst);
    let posts: Vec<_> = (0..20).map(|n| plain(&line, 0, 100, n)).collect();
    stage.post(&mut line, 0, &posts)?;
    // Some devices hold back what finds no buffer, and then their sender is not done.
    let received = stage.recorder.quietly(|| -> Result<_, Failure> {
        let mut received = Vec::new();
        for _ in 0..2 {
            line.settle_unarmed(1)?;
            line.ends[0].reap();
        }
        collect(&mut line, 1, &mut received);
        Ok(received)
    })?;
    stage.recorder.note_rings();
    for (queue, got) in &received {
        stage.arrived(1, *queue, got);
    }
    stage.counters(&mut line)?;
    stage.begin("buffers again");
    line.ends.iter_mut().for_each(|end| end.arm());
    let posts: Vec<_> = (0..5).map(|n| plain(&line, 0, 110, n)).collect();
    stage.carry(&mut line, 0, &posts)?;
    stage.counters(&mut line)?;
    drop(stage.stop(line)?);
    Ok(())
}
