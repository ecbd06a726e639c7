//! A virtual function against a PF that answers as Linux's does.

use std::path::Path;
use std::sync::{Arc, Mutex};

use hw::pci::Pci;
use port::{Config, Offloads, Port, PortError, StartError};

use super::Registers;
use super::function::{Fake, memory, start};
use crate::{Options, PfMtu};

const BOX: u32 = 0x2fc;
const MEMORY: u32 = 0x200;
const REQ: u32 = 1;
const ACK: u32 = 2;
const VFU: u32 = 4;
const PFSTS: u32 = 0x10;
const PFACK: u32 = 0x20;
const GRANTED: u32 = 1 << 31 | 1 << 29;
const REFUSED: u32 = 1 << 30 | 1 << 29;
const GIVEN: [u32; 2] = [0x3322_1102, 0x5544];

const RESET: u32 = 1;
const SET_MAC: u32 = 2;
const VLAN: u32 = 4;
const LPE: u32 = 5;
const MACVLAN: u32 = 6;
const NEGOTIATE: u32 = 8;
const QUEUES: u32 = 9;
const XCAST: u32 = 0xc;
const LINK_STATE: u32 = 0x10;

/// What a PF is like.
#[derive(Debug, Clone, Copy)]
struct Pf {
    /// The newest version that it speaks, by its number in messages.
    api: u32,
    /// The longest frame that it grants.
    longest: u32,
    /// The highest mode that it grants; it says the one that it grants.
    mode: u32,
    /// Send and receive queues that it gives.
    queues: [u32; 2],
    /// It refuses other addresses and VLANs.
    pins: bool,
    /// It does not answer.
    silent: bool,
}

const LINUX: Pf = Pf {
    api: 5,
    longest: 9728,
    mode: 1,
    queues: [2, 2],
    pins: false,
    silent: false,
};

/// The first two words of each message that a PF was sent.
type Asked = Arc<Mutex<Vec<[u32; 2]>>>;

fn answer(pf: &Pf, [word, second]: [u32; 2]) -> Vec<u32> {
    let kind = word & 0xffff;
    let says = |granted| kind | if granted { GRANTED } else { REFUSED };
    match kind {
        RESET => vec![RESET | 1 << 31, GIVEN[0], GIVEN[1], 0],
        NEGOTIATE => vec![says(second <= pf.api && second != 1), second],
        QUEUES => vec![says(true), pf.queues[0], pf.queues[1], 0, 0],
        LPE => vec![says(second <= pf.longest), second],
        SET_MAC | VLAN => vec![says(!pf.pins)],
        MACVLAN => vec![says(!pf.pins || word >> 16 == 0)],
        XCAST => vec![says(true), second.min(pf.mode)],
        LINK_STATE => vec![says((3..6).contains(&pf.api)), 1],
        _ => vec![says(true)],
    }
}

/// A virtual function with device id `device` of `pf`, which can be changed.
fn vf(device: u16, pf: Pf) -> (Fake, Arc<Mutex<Pf>>, Asked) {
    let registers = Registers::default();
    let shared = Arc::new(Mutex::new(pf));
    let asked = Asked::default();
    let (of, to) = (Arc::clone(&shared), Arc::clone(&asked));
    registers.state(|state| {
        state.values.insert(8, 0);
        state.device = Some(Box::new(move |values, offset, written| {
            let now = values.get(&BOX).copied().unwrap_or(0);
            let pf = *of.lock().unwrap();
            if offset == BOX {
                let next = match written {
                    Some(value) if value & REQ != 0 => {
                        let word = |place: u32| values.get(&(MEMORY + 4 * place)).copied();
                        let message = [0, 1].map(|place| word(place).unwrap_or(0));
                        let silent = pf.silent;
                        to.lock().unwrap().push(message);
                        for (place, word) in (0..).zip(answer(&pf, message)) {
                            values.insert(MEMORY + 4 * place, word);
                        }
                        if silent {
                            0
                        } else {
                            value & VFU | PFACK | PFSTS
                        }
                    }
                    Some(value) if value & ACK != 0 => 0,
                    Some(value) if value & VFU != 0 => now | VFU,
                    // Given back: what the PF has announced meanwhile stays.
                    Some(_) => now & !VFU,
                    None => now & !(PFSTS | PFACK | 0x80),
                };
                values.insert(BOX, next);
            }
        }));
    });
    (Fake::new(device, registers), shared, asked)
}

fn open(fake: &Fake) -> Box<dyn Port> {
    match crate::open_pci(fake.clone(), &Options::default()) {
        Ok(port) => port,
        Err(error) => panic!("{error}"),
    }
}

/// The kinds of what was asked, and the second word where that is the point.
fn kinds(asked: &Asked) -> Vec<u32> {
    let asked = asked.lock().unwrap();
    asked.iter().map(|[word, _]| word & 0xffff).collect()
}

fn second(asked: &Asked, kind: u32) -> Vec<u32> {
    let asked = asked.lock().unwrap();
    let of = asked.iter().filter(|[word, _]| word & 0xffff == kind);
    of.map(|[_, second]| *second).collect()
}

#[test]
fn the_longest_frame_is_told_always_after_the_version_and_before_the_queues_run() {
    let (fake, _, asked) = vf(0x10ed, LINUX);
    let mut port = open(&fake);
    assert_eq!(port.info().mac, [0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
    asked.lock().unwrap().clear();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let queues = queues.unwrap();
    let said = kinds(&asked);
    let at = |kind| said.iter().position(|&one| one == kind);
    assert_eq!(at(RESET), Some(0));
    assert!(
        at(NEGOTIATE) < at(QUEUES) && at(QUEUES) < at(LPE),
        "{said:?}"
    );
    assert_eq!(second(&asked, LPE), [1518], "though that is ordinary");
    assert_eq!(second(&asked, NEGOTIATE), [6, 5]);
    assert!(fake.raised.lock().unwrap().is_empty());
    port.stop(queues).unwrap();
}

#[test]
fn a_virtual_function_has_the_queues_that_its_pf_gives_and_no_more_than_there_are() {
    for (given, has) in [
        ([2, 2], [2, 2]),
        ([0, 0], [1, 1]),
        ([1000, 1000], [8, 8]),
        ([4, 2], [4, 2]),
    ] {
        let (fake, _, _) = vf(
            0x10ed,
            Pf {
                queues: given,
                ..LINUX
            },
        );
        let port = open(&fake);
        let caps = port.caps();
        let most = [&caps.tx_queues, &caps.rx_queues].map(|queues| *queues.range.end());
        assert_eq!(most, has);
    }
    let (fake, _, _) = vf(0x10ed, Pf { api: 0, ..LINUX });
    assert_eq!(
        *open(&fake).caps().tx_queues.range.end(),
        1,
        "API 1.0 says nothing"
    );
}

#[test]
fn promiscuous_mode_is_offered_where_hardware_and_version_have_it() {
    for (device, api, promiscuous, all_groups, rss) in [
        (0x10ed, 5, false, true, false),
        (0x1515, 5, true, true, false),
        (0x1515, 3, false, true, false),
        (0x1515, 2, false, false, false),
        (0x1565, 5, true, true, true),
    ] {
        let (fake, _, _) = vf(device, Pf { api, ..LINUX });
        let offloads = open(&fake).caps().offloads;
        let has = |what| offloads.contains(what);
        assert_eq!(has(Offloads::PROMISCUOUS), promiscuous, "{device:x} {api}");
        assert_eq!(has(Offloads::ALL_MULTICAST), all_groups, "{device:x} {api}");
        assert_eq!(has(Offloads::RSS), rss, "{device:x}");
    }
}

#[test]
fn a_mode_that_is_granted_only_in_part_is_refused_aloud() {
    let (fake, pf, asked) = vf(0x1515, LINUX);
    let mut port = open(&fake);
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let queues = queues.unwrap();
    let error = port.set_all_multicast(true).unwrap_err();
    assert!(error.remedy().unwrap().contains("trust on"), "{error}");
    pf.lock().unwrap().mode = 2;
    port.set_all_multicast(true).unwrap();
    let error = port.set_promiscuous(true).unwrap_err();
    assert!(error.remedy().unwrap().contains("promisc on"), "{error}");
    assert_eq!(second(&asked, XCAST), [0, 2, 2, 3]);
    port.stop(queues).unwrap();
}

#[test]
fn a_refused_length_is_an_error_with_the_command_and_an_ordinary_one_starts_after_it() {
    let (fake, _, asked) = vf(
        0x10ed,
        Pf {
            longest: 1518,
            ..LINUX
        },
    );
    let mut port = open(&fake);
    port.set_mtu(9000).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    match queues.err() {
        Some(StartError::Port(error @ PortError::Refused { .. })) => {
            let cure = error.remedy().unwrap();
            assert!(
                cure.contains("on the host") && cure.contains("mtu 9000"),
                "{cure}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(!fake.is_master(), "a port that did not start does no DMA");
    port.set_mtu(1500).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    port.stop(queues.unwrap()).unwrap();
    assert_eq!(second(&asked, LPE), [9018, 1518]);
    assert_eq!(*fake.raised.lock().unwrap(), [9000]);
}

/// A bus with the VF `0000:03:10.0` of `0000:03:00.0`, whose interface `eth7` has MTU 1500.
fn bus(root: &Path) -> Pci {
    let devices = root.join("sys/bus/pci/devices");
    let net = devices.join("0000:03:00.0/net/eth7");
    std::fs::create_dir_all(&net).unwrap();
    std::fs::write(net.join("mtu"), "1500\n").unwrap();
    let vf = devices.join("0000:03:10.0");
    std::fs::create_dir_all(&vf).unwrap();
    let link = std::os::unix::fs::symlink;
    link("../0000:03:00.0", vf.join("physfn")).unwrap();
    link("../0000:03:10.0", devices.join("0000:03:00.0/virtfn5")).unwrap();
    Pci::at(root, Vec::new())
}

#[test]
fn the_mtu_of_a_pf_in_sight_is_raised_for_large_frames_and_goes_back_afterwards() {
    let root = tempfile::tempdir().unwrap();
    let mtu = root
        .path()
        .join("sys/bus/pci/devices/0000:03:00.0/net/eth7/mtu");
    let now = || std::fs::read_to_string(&mtu).unwrap().trim().to_owned();
    let (mut fake, _, asked) = vf(0x10ed, LINUX);
    fake.pci = Some((bus(root.path()), "0000:03:10.0".parse().unwrap()));
    let mut port = open(&fake);
    let mut news = port.service().unwrap();
    port.set_mtu(9000).unwrap();
    asked.lock().unwrap().clear();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    assert_eq!(now(), "9000");
    news.extend(port.service().unwrap());
    assert!(
        news.iter().any(|event| event.contains("API 1.4")),
        "{news:?}"
    );
    assert!(
        news.iter()
            .any(|event| event.contains("eth7") && event.contains("1500")),
        "{news:?}"
    );
    assert_eq!(kinds(&asked)[0], RESET, "raised before the reset");
    port.stop(queues.unwrap()).unwrap();
    assert_eq!(now(), "9000", "as long as the port is open");
    port.set_mtu(1500).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    assert_eq!(now(), "1500");
    port.stop(queues.unwrap()).unwrap();
    port.set_mtu(4000).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    assert_eq!(now(), "4000");
    port.stop(queues.unwrap()).unwrap();
    drop(port);
    assert_eq!(now(), "1500");
}

#[test]
fn a_start_that_fails_keeps_no_memory_and_leaves_the_pfs_mtu_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let mtu = root
        .path()
        .join("sys/bus/pci/devices/0000:03:00.0/net/eth7/mtu");
    let now = || std::fs::read_to_string(&mtu).unwrap().trim().to_owned();
    let stubborn = Pf {
        longest: 1518,
        ..LINUX
    };
    let (mut fake, pf, _) = vf(0x10ed, stubborn);
    fake.pci = Some((bus(root.path()), "0000:03:10.0".parse().unwrap()));
    let mut port = open(&fake);
    port.set_mtu(9000).unwrap();
    let config = Config::default();
    // Room for the rings once, and not twice.
    let memory = memory(port.as_ref(), port.ring_bytes(&config));
    for _ in 0..3 {
        let error = port.start(&config, &memory).err().unwrap();
        assert!(matches!(error, StartError::Port(_)), "{error}");
        assert_eq!(now(), "1500", "nobody needs it");
        assert!(!fake.is_master());
    }
    pf.lock().unwrap().longest = 9728;
    for _ in 0..3 {
        let queues = port.start(&config, &memory).unwrap();
        assert_eq!(now(), "9000");
        port.stop(queues).unwrap();
    }
}

#[test]
fn what_becomes_of_the_pfs_mtu_is_the_users_choice() {
    // PCI id, choice, and what the PF was asked to raise its MTU to.
    let up: &[u32] = &[9000];
    for (device, choice, raised) in [
        (0x10ed, PfMtu::Auto, up),
        (0x10ed, PfMtu::Raise, up),
        (0x10ed, PfMtu::Keep, &[]),
        (0x1515, PfMtu::Auto, &[]),
        (0x1515, PfMtu::Raise, up),
        (0x1515, PfMtu::Keep, &[]),
    ] {
        let (fake, _, asked) = vf(device, LINUX);
        let options = Options {
            mtu: Some(9000),
            pf_mtu: Some(choice),
            ..Options::default()
        };
        let mut port = crate::open_pci(fake.clone(), &options).unwrap();
        assert_eq!(port.longest(), 9022);
        let (_memory, queues) = start(port.as_mut(), &Config::default());
        port.stop(queues.unwrap()).unwrap();
        assert_eq!(
            *fake.raised.lock().unwrap(),
            raised,
            "{device:x} {choice:?}"
        );
        assert_eq!(second(&asked, LPE), [9018]);
    }
    let (fake, _, _) = vf(0x10fb, LINUX);
    let options = Options {
        pf_mtu: Some(PfMtu::Keep),
        ..Options::default()
    };
    let error = crate::open_pci(fake, &options).err().unwrap();
    assert!(
        error.to_string().contains("physical function itself"),
        "{error}"
    );
}

#[test]
fn a_pf_that_is_kept_or_may_not_be_raised_refuses_with_the_command_for_its_interface() {
    let root = tempfile::tempdir().unwrap();
    let stubborn = Pf {
        longest: 1518,
        pins: true,
        ..LINUX
    };
    let (mut fake, _, _) = vf(0x10ed, stubborn);
    fake.pci = Some((bus(root.path()), "0000:03:10.0".parse().unwrap()));
    let options = Options {
        mtu: Some(9000),
        pf_mtu: Some(PfMtu::Keep),
        ..Options::default()
    };
    let mut port = crate::open_pci(fake, &options).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let cure = queues.err().unwrap().remedy().unwrap();
    assert_eq!(cure, "as root: ip link set dev eth7 mtu 9000");
    port.set_mtu(1500).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let error = port.set_vlan_filter(7, true).unwrap_err();
    let cure = error.remedy().unwrap();
    assert!(cure.ends_with("ip link set dev eth7 vf 5 vlan 0"), "{cure}");
    let error = port.set_mac([2, 0, 0, 0, 0, 9]).unwrap_err();
    let cure = error.remedy().unwrap();
    assert!(
        cure.contains("ip link set dev eth7 vf 5 trust on;")
            && cure.ends_with("ip link set dev eth7 vf 5 mac 02:00:00:00:00:09"),
        "{cure}"
    );
    port.stop(queues.unwrap()).unwrap();
}

#[test]
fn later_devices_need_no_pf_with_a_large_mtu() {
    let (fake, _, asked) = vf(0x1515, LINUX);
    let mut port = open(&fake);
    port.set_mtu(9710).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    port.stop(queues.unwrap()).unwrap();
    assert_eq!(second(&asked, LPE), [9728]);
    assert!(fake.raised.lock().unwrap().is_empty());
}

#[test]
fn what_the_host_has_pinned_is_refused_with_the_command_and_nothing_changes() {
    let (fake, _, _) = vf(
        0x10ed,
        Pf {
            pins: true,
            ..LINUX
        },
    );
    let mut port = open(&fake);
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let queues = queues.unwrap();
    let own = port.info().mac;
    let errors = [
        port.set_mac([2, 0, 0, 0, 0, 9]).unwrap_err(),
        port.set_vlan_filter(7, true).unwrap_err(),
        port.set_mac_filter(&[[2, 0, 0, 0, 0, 8]]).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
        assert!(
            error.remedy().unwrap().contains("ip link set dev"),
            "{error}"
        );
    }
    assert_eq!(port.info().mac, own);
    port.set_mac_filter(&[]).unwrap();
    port.stop(queues).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    port.stop(queues.unwrap()).unwrap();
}

#[test]
fn a_pf_that_falls_silent_is_waited_for_and_the_virtual_function_comes_back() {
    let (fake, pf, asked) = vf(0x10ed, LINUX);
    let mut port = open(&fake);
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let mut queues = queues.unwrap();
    pf.lock().unwrap().silent = true;
    // Its link goes down: a ping without leave to send.
    fake.registers.state(|state| {
        state.values.insert(MEMORY, 0x100);
        state.values.insert(BOX, PFSTS);
    });
    let mut said = Vec::new();
    let mut serve = |said: &mut Vec<String>, queues: &mut port::Queues| {
        said.extend(port.service().unwrap());
        queues.tx[0].poll();
        queues.rx[0].burst(&mut port::RxBurst::default());
    };
    // More often than a device that depends on nobody would be given.
    asked.lock().unwrap().clear();
    while kinds(&asked).len() < 22 {
        serve(&mut said, &mut queues);
        std::thread::yield_now();
    }
    let tried = said.iter().filter(|event| event.contains("tried again"));
    assert_eq!(tried.count(), 1, "{said:?}");
    assert!(!fake.is_master(), "meanwhile it does no DMA");
    pf.lock().unwrap().silent = false;
    while !said.iter().any(|event| event.contains("is back")) {
        serve(&mut said, &mut queues);
    }
    assert!(fake.is_master());
    port.stop(queues).unwrap();
}

#[test]
fn a_pf_that_never_answers_is_an_error_in_words() {
    let (fake, _, _) = vf(
        0x10ed,
        Pf {
            silent: true,
            ..LINUX
        },
    );
    let error = crate::open_pci(fake, &Options::default()).err();
    let said = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("physical function"), "{said}");
}

#[test]
fn a_virtual_function_whose_queues_stopped_by_themselves_is_started_over() {
    let (fake, _, asked) = vf(0x10ed, LINUX);
    let mut port = open(&fake);
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let mut queues = queues.unwrap();
    assert!(port.service().unwrap().len() <= 1, "nothing happened yet");
    asked.lock().unwrap().clear();
    fake.registers.state(|state| state.values.insert(0x2028, 0));
    let mut said = Vec::new();
    while !said.iter().any(|event: &String| event.contains("is back")) {
        said.extend(port.service().unwrap());
        queues.tx[0].poll();
        queues.rx[0].burst(&mut port::RxBurst::default());
    }
    assert_eq!(kinds(&asked)[0], RESET);
    port.stop(queues).unwrap();
}
