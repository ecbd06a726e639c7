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
    // GPRC, GPTC, GORC, GOTC, MPC, RUC, as the datasheets have them.
    let round = [
        (0x4074, 3),
        (0x4080, 5),
        (0x4088, u32::MAX),
        (0x408c, 1),
        (0x4090, 640),
        (0x4010, 7),
        (0x40a4, 2),
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
    assert_eq!(
        (counters.rx_bytes, counters.tx_bytes),
        (3 * 0x1_ffff_ffff, 1920)
    );
    assert_eq!((counters.rx_missed, counters.rx_errors), (21, 6));
    totals.sample(&registers, || false);
    assert_eq!(
        totals.counters(),
        counters,
        "a device that is gone counts nothing"
    );
    let named = totals.extended();
    let value = |name: &str| {
        named
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.value)
    };
    assert_eq!(
        (value("MPC"), value("GORC")),
        (Some(21), Some(3 * 0x1_ffff_ffff))
    );
}

#[test]
fn the_second_half_of_a_wide_counter_is_read_last() {
    let registers = Registers::default();
    registers.state(|state| {
        state.device = Some(Box::new(|values, offset, written| {
            // Reading the second half clears both.
            if offset == 0x408c && written.is_none() {
                values.insert(0x4088, 0);
                values.insert(0x408c, 0);
            }
        }));
    });
    set(&registers, &[(0x4088, 100), (0x408c, 2)]);
    let mut totals = Totals::pf();
    totals.sample(&registers, || true);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, (2 << 32) + 100);
}

#[test]
fn counters_that_run_freely_are_counted_by_how_far_they_went() {
    let registers = Registers::default();
    let mut totals = Totals::vf();
    let bytes = |value| set(&registers, &[(0xf18, value), (0xf10, value / 64)]);
    bytes(u32::MAX - 63);
    totals.forget(&registers);
    bytes(64);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, 128, "round the end of 32 bits");
    totals.sample(&registers, || true);
    bytes(64 + 640);
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, 768);
}

#[test]
fn where_qemu_leaves_the_octets_of_good_frames_at_zero_those_of_all_frames_count() {
    let registers = Registers::default();
    // TOR and TOT.
    set(&registers, &[(0x40c0, 640), (0x40c8, 128)]);
    let mut totals = Totals::qemu();
    totals.sample(&registers, || true);
    let counters = totals.counters();
    assert_eq!((counters.rx_bytes, counters.tx_bytes), (640, 128));
    let mut totals = Totals::pf();
    totals.sample(&registers, || true);
    assert_eq!(totals.counters().rx_bytes, 0, "hardware counts them");
}

#[test]
fn a_virtual_function_s_counters_run_freely_from_where_they_are_found() {
    let registers = Registers::default();
    // VFGPRC, VFGPTC, VFGORC, VFGOTC (82576 §8.18.73).
    let found = [0x0f10, 0x0f14, 0x0f18, 0x0f34].map(|offset| (offset, 1000));
    set(&registers, &found);
    let mut totals = Totals::vf();
    totals.forget(&registers);
    set(
        &registers,
        &[
            (0x0f10, 1003),
            (0x0f14, 1005),
            (0x0f18, 1300),
            (0x0f34, 1500),
        ],
    );
    totals.sample(&registers, || true);
    totals.sample(&registers, || true);
    let counters = totals.counters();
    assert_eq!((counters.rx_frames, counters.tx_frames), (3, 5));
    assert_eq!((counters.rx_bytes, counters.tx_bytes), (300, 500));
}
