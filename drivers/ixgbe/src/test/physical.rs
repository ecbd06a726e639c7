//! A physical function from reset to running, on registers that do what the datasheet says.

use port::{Config, Offloads, PortError, Rss, StartError};

use super::function::{BUS_MASTER, Fake, start};
use super::{Registers, State};
use crate::Options;

const CTRL: u32 = 0x0;
const STATUS: u32 = 0x8;
const GIO_MASTER: u32 = 1 << 19;
const RST: u32 = 1 << 26;
const LNK_RST: u32 = 1 << 3;
const RXEN: u32 = 0x3000;
const TE: u32 = 0x4a80;
const RTTDCS: u32 = 0x4900;
const MTQC: u32 = 0x8120;
const RXDCTL: u32 = 0x1028;
const TXDCTL: u32 = 0x6028;
const ENABLE: u32 = 1 << 25;
const EEC: u32 = 0x1_0010;
const RDRXCTL: u32 = 0x2f00;
const LINKS: u32 = 0x42a4;

/// What a device may do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    ResetStays,
    NoSettings,
    NoDma,
    RxNeverRuns,
    TxNeverRuns,
    TransfersGoOn,
}

/// An 82599 with a flaw.
fn device(flaw: Flaw) -> Fake {
    model(0x10fb, flaw)
}

/// The device with id `id`, with a flaw.
fn model(id: u16, flaw: Flaw) -> Fake {
    let registers = Registers::default();
    registers.state(|state| {
        let own = [
            (STATUS, GIO_MASTER),
            (EEC, u32::from(flaw != Flaw::NoSettings) << 9),
            (RDRXCTL, u32::from(flaw != Flaw::NoDma) << 3),
            (0x5400, 0x3322_1102),
            (0x5404, 1 << 31 | 0x5544),
            (0x8d04, 1),
        ];
        state.values.extend(own);
        let mut looks = 0;
        state.device = Some(Box::new(move |values, offset, written| match offset {
            // A reset clears itself, and what it resets; queues say a while later that they run.
            CTRL => {
                let now = values.get(&CTRL).copied().unwrap_or(0);
                if let Some(value) = written
                    && value & RST != 0
                    && flaw != Flaw::ResetStays
                {
                    values.insert(CTRL, value & !(RST | LNK_RST));
                    values.insert(STATUS, GIO_MASTER);
                }
                let forbids = now & 1 << 2 != 0 && flaw != Flaw::TransfersGoOn;
                if forbids && written.is_some_and(|value| value & RST == 0) {
                    values.insert(STATUS, 0);
                }
            }
            RXDCTL | TXDCTL => {
                let never = match offset {
                    RXDCTL => flaw == Flaw::RxNeverRuns,
                    _ => flaw == Flaw::TxNeverRuns,
                };
                if let Some(value) = written {
                    looks = 0;
                    values.insert(offset | 1, value);
                    values.insert(offset, value & !ENABLE);
                } else {
                    looks += 1;
                    if looks > 3 && !never {
                        let value = values.get(&(offset | 1)).copied().unwrap_or(0);
                        values.insert(offset, value);
                    }
                }
            }
            _ => {}
        }));
    });
    Fake::new(id, registers)
}

#[test]
fn a_phy_that_could_not_be_woken_is_told() {
    const SWSM: u32 = 0x1_0140;
    const SW_FW_SYNC: u32 = 0x1_0160;
    const PHY0: u32 = 1 << 1;
    // Somebody keeps the semaphore, for good; then nobody does, but no PHY answers.
    for (semaphore, said) in [(1, "keeps its bus"), (0, "none answers")] {
        let fake = model(0x1528, Flaw::None);
        fake.registers
            .state(|state| state.values.insert(SWSM, semaphore));
        let mut port = crate::open_pci(fake.clone(), &Options::default()).unwrap();
        let (_memory, queues) = start(port.as_mut(), &Config::default());
        let queues = queues.unwrap();
        let news = port.service().unwrap();
        let told = news.iter().filter(|event| event.contains("not woken"));
        let told: Vec<_> = told.collect();
        assert!(told.len() == 1 && told[0].contains(said), "{news:?}");
        assert!(port.service().unwrap().is_empty(), "it is said once");
        // Who was let onto the bus has left it again.
        let on_bus = fake.registers.state(|state| {
            let writes = state.written.iter();
            let at_sync = writes.filter(|(at, _)| *at == SW_FW_SYNC);
            at_sync.map(|(_, value)| value & PHY0).collect::<Vec<_>>()
        });
        assert_eq!(on_bus.contains(&PHY0), semaphore == 0);
        assert!(on_bus.last().is_none_or(|last| *last == 0), "{on_bus:x?}");
        port.stop(queues).unwrap();
    }
    // A link that is up needs nobody.
    let fake = model(0x1528, Flaw::None);
    fake.registers.state(|state| {
        state.values.insert(SWSM, 1);
        state.values.insert(LINKS, 1 << 30 | 3 << 28);
    });
    let mut port = crate::open_pci(fake, &Options::default()).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    assert_eq!(port.service().unwrap(), [""; 0]);
    port.stop(queues.unwrap()).unwrap();
}

#[test]
fn a_table_of_512_entries_fills_both_of_its_places() {
    const RETA: u32 = 0x5c00;
    const ERETA: u32 = 0xee80;
    let fake = model(0x1563, Flaw::None);
    let mut port = crate::open_pci(fake.clone(), &Options::default()).unwrap();
    let table: Vec<u16> = (0..512).map(|entry| entry / 64).collect();
    let config = Config {
        rx_queues: 8,
        offloads: Offloads::RSS,
        rss: Some(Rss {
            key: vec![0x6d; 40],
            table: table.clone(),
        }),
        ..Config::default()
    };
    let (_memory, queues) = start(port.as_mut(), &config);
    fake.registers.state(|state| {
        for (word, entries) in (0..).zip(table.chunks(4)) {
            // X550's datasheet: entries 0 to 127 in RETA, the others in ERETA.
            let at = if word < 32 {
                RETA + 4 * word
            } else {
                ERETA + 4 * (word - 32)
            };
            let bytes = [entries[0], entries[1], entries[2], entries[3]];
            let value = u32::from_le_bytes(bytes.map(|queue| queue.to_le_bytes()[0]));
            assert_eq!(state.values.get(&at), Some(&value), "word {word}");
        }
    });
    port.stop(queues.unwrap()).unwrap();
}

/// Where in the list of writes the last one to `offset` is that `is`.
fn place(state: &State, offset: u32, is: impl Fn(u32) -> bool) -> usize {
    let mut writes = state.written.iter();
    let found = writes.rposition(|&(at, value)| at == offset && is(value));
    found.unwrap_or_else(|| panic!("{offset:#x} was never written so"))
}

#[test]
fn a_device_is_reset_and_started_in_the_datasheet_s_order() {
    let fake = device(Flaw::None);
    let mut port = crate::open_pci(fake.clone(), &Options::default()).unwrap();
    assert_eq!(port.info().mac, [0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
    assert!(!fake.is_master(), "an open device does no DMA yet");
    fake.registers.state(|state| state.written.clear());
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let queues = queues.unwrap();
    assert!(fake.is_master());
    fake.registers.state(|state| {
        let set = |bits: u32| move |value: u32| value & bits == bits;
        let reset = place(state, CTRL, set(RST));
        let master = place(state, BUS_MASTER, set(4));
        let halted = place(state, RTTDCS, set(1 << 6));
        let mtqc = place(state, MTQC, |value| value == 0);
        let on = place(state, RTTDCS, |value| value & 1 << 6 == 0);
        let te = place(state, TE, set(1));
        let tx = place(state, TXDCTL, set(ENABLE));
        let rx = place(state, RXDCTL, set(ENABLE));
        let rxen = place(state, RXEN, set(1));
        assert!(reset < master && master < halted);
        assert!(halted < mtqc && mtqc < on && on < te && te < tx);
        assert!(tx < rx && rx < rxen, "receiving begins last");
        // The device takes the FCS off in both places, or in none.
        let strips = place(state, 0x4240, set(2)) < rxen && place(state, 0x2f00, set(2)) < rxen;
        assert!(strips);
        let longest = place(state, 0x4268, |value| value >> 16 == 9728);
        assert!(longest < rxen && place(state, 0x4240, set(4)) < rxen);
    });
    port.stop(queues).unwrap();
    assert!(!fake.is_master());
    fake.registers.state(|state| {
        assert_eq!(state.values[&RXEN] & 1, 0);
        assert_eq!(state.values[&(RXDCTL | 1)] & ENABLE, 0);
        assert_eq!(state.values[&(TXDCTL | 1)], 1 << 26, "flushed, not enabled");
    });
}

#[test]
fn the_link_is_reset_only_while_it_is_down() {
    for up in [false, true] {
        let fake = device(Flaw::None);
        fake.registers
            .state(|state| state.values.insert(LINKS, u32::from(up) << 30));
        drop(crate::open_pci(fake.clone(), &Options::default()).unwrap());
        let written = fake.registers.written(CTRL);
        let resets: Vec<_> = written.iter().filter(|&&value| value & RST != 0).collect();
        assert_eq!(resets.len(), 1);
        assert_eq!(resets[0] & LNK_RST != 0, !up);
    }
}

#[test]
fn a_device_whose_transfers_do_not_end_is_reset_twice() {
    let fake = device(Flaw::TransfersGoOn);
    drop(crate::open_pci(fake.clone(), &Options::default()).unwrap());
    let written = fake.registers.written(CTRL);
    assert_eq!(written.iter().filter(|&&value| value & RST != 0).count(), 2);
}

#[test]
fn what_a_device_does_not_do_in_its_time_is_told_in_words() {
    for (flaw, word) in [
        (Flaw::ResetStays, "reset"),
        (Flaw::NoSettings, "EEC.ARD"),
        (Flaw::NoDma, "DMAIDONE"),
    ] {
        let error = crate::open_pci(device(flaw), &Options::default()).err();
        let said = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains(word), "{flaw:?}: {said}");
    }
    for (flaw, word) in [
        (Flaw::RxNeverRuns, "receive queue"),
        (Flaw::TxNeverRuns, "send queue"),
    ] {
        let fake = device(flaw);
        let mut port = crate::open_pci(fake.clone(), &Options::default()).unwrap();
        let (_memory, queues) = start(port.as_mut(), &Config::default());
        match queues.err() {
            Some(StartError::Port(PortError::Stuck { what, .. })) => {
                assert!(what.contains(word), "{flaw:?}: {what}");
            }
            other => panic!("{flaw:?}: {other:?}"),
        }
        assert!(!fake.is_master(), "a port that did not start does no DMA");
    }
}

#[test]
fn a_device_that_is_gone_is_an_error_at_once() {
    let fake = device(Flaw::None);
    let mut port = crate::open_pci(fake.clone(), &Options::default()).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let queues = queues.unwrap();
    fake.registers.state(|state| {
        state.device = Some(Box::new(|values, _, _| {
            values.values_mut().for_each(|value| *value = u32::MAX);
        }));
    });
    // The first access is still of before.
    let _ = port.link();
    assert!(matches!(port.service(), Err(PortError::Gone { .. })));
    assert!(matches!(port.counters(), Err(PortError::Gone { .. })));
    assert!(matches!(port.stop(queues), Err(PortError::Gone { .. })));
}

#[test]
fn a_device_that_forgot_its_settings_is_started_over() {
    let fake = device(Flaw::None);
    let mut port = crate::open_pci(fake.clone(), &Options::default()).unwrap();
    let (_memory, queues) = start(port.as_mut(), &Config::default());
    let mut queues = queues.unwrap();
    fake.registers.state(|state| state.values.insert(RXEN, 0));
    let mut said = Vec::new();
    while !said.iter().any(|event: &String| event.contains("is back")) {
        said.extend(port.service().unwrap());
        queues.tx[0].poll();
        queues.rx[0].burst(&mut port::RxBurst::default());
    }
    assert!(said[0].contains("reset"), "{said:?}");
    assert_eq!(fake.registers.state(|state| state.values[&RXEN]) & 1, 1);
    port.stop(queues).unwrap();
}
