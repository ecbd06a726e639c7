use super::Registers;
use crate::stats::Totals;
use intel::Counted;

fn set(registers: &Registers, values: &[(u32, u32)]) {
    registers.state(|state| state.values.extend(values.iter().copied()));
}

#[test]
fn counters_that_clear_themselves_are_added_up() {
    let registers = Registers::default();
    let mut totals = Totals::pf();
    // GPTC, GOTC, MPC1, RUC; QPRC and QBRC of two queues, QPRDC; as the datasheet has them.
    let round = [
        (0x4080, 5),
        (0x4090, 640),
        (0x3fa4, 7),
        (0x40a4, 2),
        (0x1030, 1),
        (0x1034, u32::MAX),
        (0x1038, 1),
        (0x1070, 2),
        (0x1074, 120),
        (0x1430 + 0x40 * 15, 11),
    ];
    set(&registers, &round);
    totals.forget(&registers);
    assert_eq!(
        totals.counters().rx_frames,
        0,
        "what is forgotten counts for nothing"
    );
    for _ in 0..3 {
        totals.sample(&registers, || true);
    }
    let counters = totals.counters();
    assert_eq!((counters.rx_frames, counters.tx_frames), (9, 15));
    let without_fcs = 3 * (0x1_ffff_ffff + 120);
    assert_eq!(
        (counters.rx_bytes, counters.tx_bytes),
        (without_fcs + 9 * 4, 1920)
    );
    assert_eq!((counters.rx_missed, counters.rx_errors), (3 * 18, 6));
    totals.sample(&registers, || false);
    assert_eq!(
        totals.counters(),
        counters,
        "a device that is gone counts nothing"
    );
    let named = totals.extended();
    let value = |name: &str| {
        let row = named.iter().find(|row| row.name == name);
        row.map(|row| row.value)
    };
    assert_eq!((value("MPC1"), value("QPRDC15")), (Some(21), Some(33)));
    assert_eq!((value("MPC8"), value("QPRC16")), (None, None));
}

#[test]
fn the_second_half_of_a_wide_counter_is_read_last() {
    let registers = Registers::default();
    registers.state(|state| {
        state.device = Some(Box::new(|values, offset, written| {
            // Reading the second half clears both.
            if offset == 0x4094 && written.is_none() {
                values.insert(0x4090, 0);
                values.insert(0x4094, 0);
            }
        }));
    });
    set(&registers, &[(0x4090, 100), (0x4094, 2)]);
    let mut totals = Totals::pf();
    totals.sample(&registers, || true);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().tx_bytes, (2 << 32) + 100);
}

#[test]
fn counters_that_run_freely_are_counted_by_how_far_they_went() {
    let registers = Registers::default();
    let mut totals = Totals::vf();
    let bytes = |low, high| set(&registers, &[(0x1020, low), (0x1024, high), (0x101c, low)]);
    bytes(u32::MAX - 63, 0xf);
    totals.forget(&registers);
    bytes(64, 0);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, 128, "round the end of 36 bits");
    assert_eq!(totals.counters().rx_frames, 128, "and of 32");
    totals.sample(&registers, || true);
    bytes(64 + 640, 0);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, 768);
    bytes(64 + 640, 3);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, (3 << 32) + 768);
}
