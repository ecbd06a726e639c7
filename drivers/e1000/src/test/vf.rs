//! A virtual function whose physical function has a small MTU: a bus made of files beside
//! scripted registers.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hugemem::{DmaSpace, Memory, MemoryRequest, Pages, SimSpace};
use hw::function::{BarError, Function};
use hw::pci::{Bdf, MtuError, Pci, RaisedMtu};
use port::{Config, Port, PortError, StartError};
use tempfile::TempDir;

use super::Registers;
use crate::mailbox::request;
use crate::{Options, PfMtu};

const BOX: u32 = 0xc40;
const MEMORY: u32 = 0x800;
const REQ: u32 = 1;
const VFU: u32 = 4;
const PFSTS: u32 = 0x10;
const PFACK: u32 = 0x20;
const ACK: u32 = 1 << 31;
const NACK: u32 = 1 << 30;
const CTS: u32 = 1 << 29;

const VF: &str = "0000:3b:10.0";
const PF: &str = "0000:3b:00.0";

/// Longest frame with FCS and a tag for an MTU.
const fn longest(mtu: u32) -> u32 {
    mtu + 22
}

/// A machine with a PF, and its VF.
struct Host {
    tree: TempDir,
    registers: Registers,
    /// First word and second of each request.
    asked: Arc<Mutex<Vec<(u32, u32)>>>,
}

/// What a PF makes of a frame length that is asked for, at its own MTU.
type Judge = fn(longest: u32, mtu: u32) -> bool;

/// 82599's: up to its own MTU.
fn strict(wanted: u32, mtu: u32) -> bool {
    wanted <= longest(mtu)
}

impl Host {
    fn new(judge: Judge) -> Self {
        let host = Self {
            tree: TempDir::new().unwrap(),
            registers: Registers::default(),
            asked: Arc::default(),
        };
        let devices = host.tree.path().join("sys/bus/pci/devices");
        fs::create_dir_all(devices.join(PF).join("net/eth0")).unwrap();
        fs::create_dir_all(devices.join(VF)).unwrap();
        fs::write(host.mtu_file(), "1500\n").unwrap();
        symlink(devices.join(PF), devices.join(VF).join("physfn")).unwrap();
        host.plug_in(judge);
        host
    }

    fn mtu_file(&self) -> PathBuf {
        let file = format!("sys/bus/pci/devices/{PF}/net/eth0/mtu");
        self.tree.path().join(file)
    }

    fn mtu(&self) -> u32 {
        let text = fs::read_to_string(self.mtu_file()).unwrap();
        text.trim().parse().unwrap()
    }

    /// The PF's end of the mailbox.
    fn plug_in(&self, judge: Judge) {
        let (file, asked) = (self.mtu_file(), Arc::clone(&self.asked));
        self.registers.state(|state| {
            state.device = Some(Box::new(move |values, offset, written| {
                if offset != BOX {
                    return;
                }
                let now = values.get(&BOX).copied().unwrap_or(0);
                let next = match written {
                    Some(VFU) => now | VFU,
                    Some(value) if value & REQ != 0 => {
                        let word = |place: u32| values.get(&(MEMORY + 4 * place)).copied();
                        let (first, second) = (word(0).unwrap_or(0), word(1).unwrap_or(0));
                        asked.lock().unwrap().push((first, second));
                        let text = fs::read_to_string(&file).unwrap();
                        let mtu = text.trim().parse().unwrap();
                        let granted = first != request::LPE || judge(second, mtu);
                        let verdict = if granted { ACK } else { NACK };
                        let cts = if first == request::RESET { 0 } else { CTS };
                        values.insert(MEMORY, first | verdict | cts);
                        values.insert(MEMORY + 4, 0x3322_1102);
                        values.insert(MEMORY + 8, 0x5544);
                        PFACK | PFSTS
                    }
                    Some(_) => 0,
                    // Reading clears what the PF has set.
                    None => now & VFU,
                };
                values.insert(BOX, next);
            }));
        });
    }

    fn pci(&self) -> Pci {
        Pci::at(self.tree.path(), Vec::new())
    }

    fn open(&self, pci: Pci, pf_mtu: PfMtu) -> Box<dyn Port> {
        let options = Options {
            mtu: Some(9000),
            pf_mtu: Some(pf_mtu),
            ..Options::default()
        };
        let function = Vf {
            registers: self.registers.clone(),
            pci,
        };
        crate::open_pci(function, &options).unwrap()
    }

    /// How often the PF was asked for what begins with `word`.
    fn asked(&self, word: u32) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(first, _)| *first == word).count()
    }
}

struct Vf {
    registers: Registers,
    pci: Pci,
}

impl Function for Vf {
    type Bar = Registers;

    fn name(&self) -> &str {
        VF
    }
    fn config8(&self, _offset: u16) -> u8 {
        0
    }
    fn config16(&self, offset: u16) -> u16 {
        match offset {
            0 => 0x8086,
            2 => 0x10ca,
            _ => 0,
        }
    }
    fn config32(&self, _offset: u16) -> u32 {
        0
    }
    fn set_config16(&self, _offset: u16, _value: u16) {}
    fn bar(&self, _index: u8) -> Result<Registers, BarError> {
        Ok(self.registers.clone())
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        SimSpace::new()
    }
    fn reset(&self) -> io::Result<()> {
        Ok(())
    }
    fn raise_pf_mtu(&self, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        let bdf: Bdf = VF.parse().unwrap();
        self.pci.raise_pf_mtu(bdf, mtu)
    }
}

/// Starts the port on nothing but its control side.
fn start(port: &mut dyn Port) -> Result<Memory, StartError> {
    let memory = Memory::new(&MemoryRequest {
        bytes: 1 << 16,
        pages: Pages::HugeOrBase,
        node: None,
        spaces: vec![port.space()],
    })?;
    let config = Config {
        rx_queues: 0,
        tx_queues: 0,
        ..Config::default()
    };
    drop(port.start(&config, &memory)?);
    Ok(memory)
}

fn refusal(result: Result<Memory, StartError>) -> PortError {
    match result {
        Err(StartError::Port(error @ PortError::Refused { .. })) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn a_pf_that_refuses_jumbo_frames_has_its_mtu_raised_is_asked_again_and_gets_it_back() {
    let host = Host::new(strict);
    let mut port = host.open(host.pci(), PfMtu::Auto);
    assert_eq!(host.mtu(), 1500, "an open port needs nothing yet");
    start(port.as_mut()).unwrap();
    assert_eq!(host.mtu(), 9000);
    let lengths = host.asked.lock().unwrap().clone();
    let lengths = lengths.iter().filter(|(first, _)| *first == request::LPE);
    let lengths: Vec<u32> = lengths.map(|(_, second)| *second).collect();
    assert_eq!(lengths, [longest(9000); 2]);
    // Open, start, and again after the PF was reset by the change of its MTU.
    assert_eq!(host.asked(request::RESET), 3);
    let events = port.service().unwrap();
    let told = events.iter().find(|event| event.contains("eth0"));
    let told = told.expect("it is said");
    assert!(told.contains("9000") && told.contains("1500"), "{told}");
    port.stop(port::Queues::default()).unwrap();
    start(port.as_mut()).unwrap();
    assert_eq!(host.mtu(), 9000, "kept from run to run");
    drop(port);
    assert_eq!(host.mtu(), 1500);
}

#[test]
fn an_address_that_the_pf_gave_is_not_asked_for_again_but_another_is() {
    let host = Host::new(|_, _| true);
    let mut port = host.open(host.pci(), PfMtu::Keep);
    assert_eq!(port.info().mac, [0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
    start(port.as_mut()).unwrap();
    // igb refuses that where the address is the host's, even if it is the same one.
    assert_eq!(host.asked(request::SET_MAC), 0);
    port.set_mac([0x02, 0, 0, 0, 0, 9]).unwrap();
    assert_eq!(host.asked(request::SET_MAC), 1);
}

#[test]
fn groups_are_told_by_their_hashes_two_in_a_word_the_first_in_the_low_half() {
    let host = Host::new(|_, _| true);
    let mut port = host.open(host.pci(), PfMtu::Keep);
    start(port.as_mut()).unwrap();
    let groups = [
        [0x01, 0x00, 0x5e, 0x00, 0x00, 0x01],
        [0x01, 0x00, 0x5e, 0x00, 0x10, 0x02],
    ];
    port.set_mac_filter(&groups).unwrap();
    let told = host.asked.lock().unwrap().clone();
    let list = request::MULTICAST | 2 << request::COUNT_SHIFT;
    // Bits 47:36 of an address (82576 §7.1.1.2, RCTL.MO 0).
    assert!(told.contains(&(list, 0x0021_0010)), "{told:x?}");
}

#[test]
fn a_pf_that_takes_every_length_keeps_its_mtu_unless_the_user_wants_it_raised() {
    let host = Host::new(|_, _| true);
    let mut port = host.open(host.pci(), PfMtu::Auto);
    start(port.as_mut()).unwrap();
    assert_eq!((host.mtu(), host.asked(request::LPE)), (1500, 1));
    drop(port);
    let mut port = host.open(host.pci(), PfMtu::Raise);
    start(port.as_mut()).unwrap();
    assert_eq!(host.mtu(), 9000);
    assert_eq!(host.asked(request::LPE), 2, "raised before it was asked");
    drop(port);
    assert_eq!(host.mtu(), 1500);
}

#[test]
fn where_the_mtu_may_not_be_raised_the_refusal_has_the_command() {
    let host = Host::new(strict);
    let denied = |_: &std::path::Path, _: &str| Err(io::ErrorKind::PermissionDenied.into());
    for pf_mtu in [PfMtu::Auto, PfMtu::Raise] {
        let mut port = host.open(host.pci().with_kernel(denied), pf_mtu);
        let error = refusal(start(port.as_mut()));
        assert!(error.to_string().contains("no permission"), "{error}");
        let cure = error.remedy().unwrap();
        assert!(cure.contains("ip link set dev eth0 mtu 9000"), "{cure}");
    }
    let mut port = host.open(host.pci(), PfMtu::Keep);
    let error = refusal(start(port.as_mut()));
    assert!(error.remedy().unwrap().contains("ip link set"), "{error}");
    // In a VM there is no link to the PF.
    let link = host.tree.path().join("sys/bus/pci/devices").join(VF);
    fs::remove_file(link.join("physfn")).unwrap();
    let mut port = host.open(host.pci(), PfMtu::Auto);
    let error = refusal(start(port.as_mut()));
    assert!(error.to_string().contains("not visible here"), "{error}");
    let cure = error.remedy().unwrap();
    assert!(
        cure.contains("on the host") && cure.contains("mtu 9000"),
        "{cure}"
    );
    assert_eq!(host.mtu(), 1500);
}

#[test]
fn a_pf_that_goes_on_refusing_is_believed_and_gets_its_mtu_back() {
    let host = Host::new(|_, _| false);
    let mut port = host.open(host.pci(), PfMtu::Auto);
    let error = refusal(start(port.as_mut()));
    assert!(error.remedy().is_some(), "{error}");
    assert_eq!(host.asked(request::LPE), 2);
    drop(port);
    assert_eq!(host.mtu(), 1500);
}
