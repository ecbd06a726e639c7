//! Sequences of values, worked out by hand from what TRex's names mean.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use engine::field::{FieldError, Order, Program, Share, Values, Write};
use engine::frame::{Frames, Variant};
use engine::profile::{Macs, Profile};
use rig::{MACS, blank, number, sequence, template, var};

fn step(order: Order, min: u64, max: u64, step: u64) -> Values {
    Values::Step {
        order,
        min,
        max,
        init: None,
        step,
    }
}

/// The values of one variable, written in one byte.
fn bytes_of(values: Values, count: usize) -> Vec<u8> {
    let program = Program {
        vars: vec![var("v", 1, values)],
        writes: vec![Write::new("v", 20, 1)],
        ..Program::default()
    };
    sequence(&blank(program), Share::ALL, count)
        .iter()
        .map(|bytes| bytes[20])
        .collect()
}

#[test]
fn counters_wrap_to_the_end_they_began_at() {
    assert_eq!(
        bytes_of(step(Order::Inc, 0, 3, 1), 9),
        [0, 1, 2, 3, 0, 1, 2, 3, 0]
    );
    assert_eq!(
        bytes_of(step(Order::Inc, 0, 10, 3), 9),
        [0, 3, 6, 9, 0, 3, 6, 9, 0]
    );
    assert_eq!(
        bytes_of(step(Order::Dec, 0, 10, 3), 9),
        [10, 7, 4, 1, 10, 7, 4, 1, 10]
    );
    assert_eq!(bytes_of(step(Order::Dec, 0, 255, 1), 3), [255, 254, 253]);
    assert_eq!(bytes_of(step(Order::Inc, 7, 7, 1), 4), [7, 7, 7, 7]);
    assert_eq!(bytes_of(step(Order::Inc, 5, 9, 100), 4), [5, 5, 5, 5]);
    let all: Vec<u8> = (0..=255).chain(0..=255).chain(0..=255).collect();
    assert_eq!(bytes_of(step(Order::Inc, 0, 255, 1), 768), all);
}

#[test]
fn a_counter_can_begin_in_the_middle() {
    let from = |order, init| Values::Step {
        order,
        min: 0,
        max: 10,
        init: Some(init),
        step: 3,
    };
    assert_eq!(bytes_of(from(Order::Inc, 6), 7), [6, 9, 0, 3, 6, 9, 0]);
    assert_eq!(bytes_of(from(Order::Dec, 4), 7), [4, 1, 10, 7, 4, 1, 10]);
}

#[test]
fn a_list_is_walked_up_down_and_in_strides() {
    let list = |order, step| Values::List {
        values: vec![5, 1, 9],
        order,
        step,
    };
    assert_eq!(bytes_of(list(Order::Inc, 1), 7), [5, 1, 9, 5, 1, 9, 5]);
    assert_eq!(bytes_of(list(Order::Dec, 1), 7), [9, 1, 5, 9, 1, 5, 9]);
    assert_eq!(bytes_of(list(Order::Inc, 2), 7), [5, 9, 1, 5, 9, 1, 5]);
    assert_eq!(bytes_of(list(Order::Inc, 3), 4), [5, 5, 5, 5]);
    let even = Values::List {
        values: vec![1, 2, 3, 4],
        order: Order::Inc,
        step: 2,
    };
    assert_eq!(bytes_of(even, 5), [1, 3, 1, 3, 1]);
}

#[test]
fn a_dependent_variable_steps_when_the_one_before_it_wraps() {
    let mut fast = var("fast", 1, step(Order::Inc, 0, 2, 1));
    fast.next = Some("middle".into());
    let mut middle = var("middle", 1, step(Order::Dec, 10, 11, 1));
    middle.next = Some("slow".into());
    let slow = var(
        "slow",
        1,
        Values::List {
            values: vec![77, 66],
            order: Order::Inc,
            step: 1,
        },
    );
    let program = Program {
        // In any order: what counts is who names whom.
        vars: vec![slow, middle, fast],
        writes: vec![
            Write::new("fast", 1, 1),
            Write::new("middle", 2, 1),
            Write::new("slow", 3, 1),
        ],
        ..Program::default()
    };
    let seen: Vec<_> = sequence(&blank(program), Share::ALL, 14)
        .iter()
        .map(|bytes| (bytes[1], bytes[2], bytes[3]))
        .collect();
    let expected = [
        (0, 11, 77),
        (1, 11, 77),
        (2, 11, 77),
        (0, 10, 77),
        (1, 10, 77),
        (2, 10, 77),
        (0, 11, 66),
        (1, 11, 66),
        (2, 11, 66),
        (0, 10, 66),
        (1, 10, 66),
        (2, 10, 66),
        (0, 11, 77),
        (1, 11, 77),
    ];
    assert_eq!(seen, expected);
}

/// Address and port of each frame of a tuple generator, in an IPv4 header or in a blank frame.
fn tuples(header: bool, share: Share, count: usize) -> Vec<(u64, u64)> {
    let values = Values::Tuple {
        ip_min: 0x0a00_0001,
        ip_max: 0x0a00_0005,
        port_min: 1025,
        port_max: 1028,
        limit_flows: 10,
    };
    let mut program = Program {
        vars: vec![var("t", 4, values)],
        ..Program::default()
    };
    program.writes = vec![Write::new("t.ip", 26, 4), Write::new("t.port", 34, 2)];
    let template = template("eth / ipv4 / udp(checksum=0)", 64);
    if header {
        program.correct(&template);
    }
    sequence(&Frames::varied(template, program), share, count)
        .iter()
        .map(|bytes| (number::<4>(bytes, 26) - 0x0a00_0000, number::<2>(bytes, 34)))
        .collect()
}

#[test]
fn the_tuple_generator_counts_addresses_first_and_ends_at_its_limit() {
    let round = [
        (1, 1025),
        (2, 1025),
        (3, 1025),
        (4, 1025),
        (5, 1025),
        (1, 1026),
        (2, 1026),
        (3, 1026),
        (4, 1026),
        (5, 1026),
    ];
    let expected: Vec<_> = round.iter().cycle().take(35).copied().collect();
    assert_eq!(tuples(true, Share::ALL, 35), expected);
    assert_eq!(tuples(false, Share::ALL, 35), expected);
    // Three cores take every third pair, round after round.
    for header in [true, false] {
        for index in 0..3 {
            let part: Vec<_> = expected.iter().skip(index).step_by(3).copied().collect();
            let share = Share { index, of: 3 };
            assert_eq!(tuples(header, share, part.len()), part, "core {index}");
        }
    }
}

#[test]
fn a_write_adds_and_turns_bytes_round() {
    let value = var("v", 2, step(Order::Inc, 0x0102, 0x0103, 1));
    let mut backwards = Write::new("v", 10, 2);
    backwards.little_endian = true;
    let program = Program {
        vars: vec![value],
        writes: vec![
            Write::new("v", 0, 2),
            Write::new("v", 2, 2).adding(-0x0102),
            Write::new("v", 4, 4).adding(0x1_0000),
            Write::new("v", 8, 1),
            backwards,
            Write::new("v", 12, 2).adding(0xff00),
            Write::new("v", 14, 3),
        ],
        ..Program::default()
    };
    let frames = sequence(&blank(program), Share::ALL, 2);
    assert_eq!(
        frames[0][..18],
        [1, 2, 0, 0, 0, 1, 1, 2, 2, 0, 2, 1, 0, 2, 0, 1, 2, 0]
    );
    assert_eq!(
        frames[1][..18],
        [1, 3, 0, 1, 0, 1, 1, 3, 3, 0, 3, 1, 0, 3, 0, 1, 3, 0]
    );
}

#[test]
fn a_masked_write_leaves_the_other_bits_alone() {
    let mut frame = vec![0_u8; 60];
    frame[..8].copy_from_slice(&[0xab, 0xcd, 0xab, 0xcd, 0xab, 0xcd, 0xab, 0xcd]);
    let program = Program {
        vars: vec![var("v", 4, step(Order::Inc, 0x234, 0x235, 1))],
        writes: vec![
            // A VLAN id: the low 12 bits of two bytes.
            Write::new("v", 0, 2).masked(0x0fff, 0),
            // The high four bits of a byte.
            Write::new("v", 2, 1).masked(0xf0, 4),
            // Bits 4 to 7 of the variable.
            Write::new("v", 4, 1).masked(0x0f, -4),
            Write::new("v", 6, 2).adding(1).masked(0x00ff, 0),
        ],
        ..Program::default()
    };
    let frames = Frames::varied(engine::frame::Template::raw(frame), program);
    let sent = sequence(&frames, Share::ALL, 8);
    assert_eq!(
        sent[0][..8],
        [0xa2, 0x34, 0x4b, 0xcd, 0xa3, 0xcd, 0xab, 0x35]
    );
    assert_eq!(
        sent[1][..8],
        [0xa2, 0x35, 0x5b, 0xcd, 0xa3, 0xcd, 0xab, 0x36]
    );
    assert_eq!((&sent[2], &sent[7]), (&sent[0], &sent[1]), "lap after lap");
}

#[test]
fn repeated_random_values_repeat_and_follow_their_seed() {
    let drawn = |seed| Values::RepeatableRandom {
        min: 10,
        max: 20,
        limit: 5,
        seed,
    };
    let own = bytes_of(drawn(Some(7)), 25);
    assert!(own.iter().all(|value| (10..=20).contains(value)));
    assert!(own.chunks(5).all(|round| round == &own[..5]));
    assert_eq!(own, bytes_of(drawn(Some(7)), 25));
    let long = |seed| Values::RepeatableRandom {
        min: 0,
        max: 255,
        limit: 40,
        seed,
    };
    assert_ne!(bytes_of(long(Some(7)), 40), bytes_of(long(Some(8)), 40));
}

#[test]
fn random_values_are_all_of_the_range_and_nothing_else() {
    let mut seen = bytes_of(Values::Random { min: 250, max: 255 }, 400);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [250, 251, 252, 253, 254, 255]);
    let mut seen = bytes_of(Values::RandomOf(vec![3, 1, 200]), 200);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, 3, 200]);
}

#[test]
fn cached_frames_come_again_even_if_they_are_random() {
    let cached = |values, frames| Program {
        vars: vec![var("v", 1, values)],
        writes: vec![Write::new("v", 5, 1)],
        cached: Some(frames),
        ..Program::default()
    };
    let seen = |program: Program, share| -> Vec<u8> {
        sequence(&blank(program), share, 30)
            .iter()
            .map(|bytes| bytes[5])
            .collect()
    };
    let counted = || cached(step(Order::Inc, 0, 6, 1), 9);
    let round = [0, 1, 2, 3, 4, 5, 6, 0, 1];
    let expected: Vec<_> = round.iter().cycle().take(30).copied().collect();
    assert_eq!(seen(counted(), Share::ALL), expected);
    // Two cores share the nine: five of the even places, four of the odd ones.
    let parts = [[0, 2, 4, 6, 1].as_slice(), &[1, 3, 5, 0]];
    for (index, part) in parts.into_iter().enumerate() {
        let expected: Vec<u8> = part.iter().cycle().take(30).copied().collect();
        assert_eq!(seen(counted(), Share { index, of: 2 }), expected);
    }
    let random = seen(cached(Values::Random { min: 0, max: 255 }, 10), Share::ALL);
    assert!(random.chunks(10).all(|round| round == &random[..10]));
}

/// `bench` with a knob or two, as its frames.
fn bench(knobs: &[(&str, &str)], port: usize) -> Frames {
    let streams = Profile::new("bench", knobs).unwrap().streams(port, MACS);
    streams[0].frames.clone()
}

/// The bench frame, byte by byte: 16.0.0.4 to 48.0.0.4, UDP 1025 to 12.
#[rustfmt::skip]
const BENCH: [u8; 42] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
    0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0x3a, 0xb7, 16, 0, 0, 4, 48, 0, 0, 4,
    0x04, 0x01, 0, 12, 0, 26, 0, 0,
];

#[test]
fn the_bench_frame_is_trexs() {
    // The IPv4 checksum by hand: 4500 + 002e + 0001 + 4011 + 1000 + 0004 + 3000 + 0004 = c548,
    // inverted 3ab7.
    let frames = bench(&[], 0);
    let sent = sequence(&frames, Share::ALL, 4);
    for frame in &sent {
        assert_eq!(frame[..42], BENCH);
        assert_eq!(frame[42..], [b'x'; 18]);
    }
    let back = sequence(&bench(&[], 1), Share::ALL, 1);
    assert_eq!(back[0][26..34], [48, 0, 0, 4, 16, 0, 0, 4]);
    assert_eq!(
        back[0][24..26],
        [0x3a, 0xb7],
        "the same words, the same sum"
    );
    assert_eq!(bench(&[("size", "9216")], 0).max_size(), 9216);
}

#[test]
fn var1_counts_251_addresses_and_var2_pairs_of_them() {
    let one = sequence(&bench(&[("vm", "var1")], 0), Share::ALL, 600);
    let two = sequence(&bench(&[("vm", "var2")], 0), Share::ALL, 600);
    for (n, (one, two)) in one.iter().zip(&two).enumerate() {
        let last = u8::try_from(4 + n % 251).unwrap();
        let mut expected = BENCH;
        expected[29] = last;
        // One more in the address is one less in the checksum.
        let by = u16::from(last - 4);
        expected[24..26].copy_from_slice(&(0x3ab7 - by).to_be_bytes());
        assert_eq!(one[..42], expected, "frame {n}");
        expected[33] = last;
        expected[24..26].copy_from_slice(&(0x3ab7 - 2 * by).to_be_bytes());
        assert_eq!(two[..42], expected, "frame {n}");
    }
}

#[test]
fn cached_sends_255_frames_of_which_four_addresses_come_twice() {
    let sent = sequence(&bench(&[("vm", "cached")], 0), Share::ALL, 700);
    for (n, frame) in sent.iter().enumerate() {
        assert_eq!(usize::from(frame[29]), 4 + n % 255 % 251, "frame {n}");
    }
}

#[test]
fn the_bench_tuple_is_251_addresses_a_port_and_100_000_flows() {
    let sent = sequence(&bench(&[("vm", "tuple")], 0), Share::ALL, 100_300);
    for (n, frame) in sent.iter().enumerate() {
        let n = n as u64 % 100_000;
        let pair = (number::<4>(frame, 26), number::<2>(frame, 34));
        assert_eq!(pair, (0x1000_0004 + n % 251, 1234 + n / 251), "frame {n}");
    }
}

#[test]
fn vm_size_trims_frames_and_rewrites_both_lengths() {
    let sent = sequence(&bench(&[("vm", "size")], 0), Share::ALL, 2000);
    let (mut least, mut most) = (usize::MAX, 0);
    for frame in &sent {
        let len = frame.len();
        (least, most) = (least.min(len), most.max(len));
        assert_eq!(number::<2>(frame, 16), len as u64 - 14);
        assert_eq!(number::<2>(frame, 38), len as u64 - 34);
        assert!(frame[42..].iter().all(|byte| *byte == b'x'));
    }
    assert!(least >= 60 && most <= 9212, "{least}..{most}");
    assert!(least < 200 && most > 9000, "{least}..{most}");
}

#[test]
fn sizes_of_an_imix_take_turns_and_each_counts_for_itself() {
    let frames = bench(&[("size", "imix"), ("vm", "var1")], 0);
    let sent = sequence(&frames, Share::ALL, 12 * 40);
    let turns = [0, 1, 2, 0, 1, 0, 0, 1, 0, 0, 1, 0];
    let mut counts = [0_usize; 3];
    for (n, frame) in sent.iter().enumerate() {
        let turn = turns[n % 12];
        assert_eq!(frame.len() + 4, [68, 590, 1514][turn], "frame {n}");
        assert_eq!(usize::from(frame[29]), 4 + counts[turn] % 251, "frame {n}");
        assert_eq!(number::<2>(frame, 16), frame.len() as u64 - 14);
        assert_eq!(number::<2>(frame, 38), frame.len() as u64 - 34);
        assert!(frame[42..].iter().all(|byte| *byte == b'x'), "frame {n}");
        counts[turn] += 1;
    }
}

#[test]
fn latency_is_two_streams_of_which_one_keeps_its_rate() {
    let streams = Profile::new("latency", &[("lfsize", "128")])
        .unwrap()
        .streams(0, MACS);
    let [data, probe] = &streams[..] else {
        panic!("{} streams", streams.len())
    };
    assert!(data.scaled && !probe.scaled);
    assert_eq!(probe.rate, engine::stream::Rate::Pps(1000.0));
    assert_eq!(probe.measure, engine::stream::Measure::Latency);
    assert_eq!((data.frames.max_size(), probe.frames.max_size()), (64, 128));
    let sent = sequence(&data.frames, Share::ALL, 600);
    for (n, frame) in sent.iter().enumerate() {
        assert_eq!(number::<4>(frame, 26), 0x0a00_0001 + n as u64 % 255);
        assert_eq!(frame[30..34], [48, 0, 0, 1]);
    }
    let macs = Macs {
        src: MACS.dst,
        dst: MACS.src,
    };
    let back = Profile::new("latency", &[]).unwrap().streams(1, macs);
    let sent = sequence(&back[1].frames, Share::ALL, 1);
    assert_eq!(sent[0][26..34], [48, 0, 0, 1, 16, 0, 0, 1]);
}

fn refused(program: Program) -> FieldError {
    engine::field::Writer::compile(&blank(program), 1, Share::ALL).unwrap_err()
}

#[test]
fn programs_that_make_no_sense_are_refused_in_words() {
    let one = |values, writes: Vec<Write>| {
        let vars = vec![var("value", 1, values)];
        refused(Program {
            vars,
            writes,
            ..Program::default()
        })
    };
    let fine = || step(Order::Inc, 0, 9, 1);
    let error = one(fine(), vec![Write::new("valeu", 0, 1)]);
    assert_eq!(error.remedy().as_deref(), Some("did you mean value?"));
    assert!(matches!(
        one(fine(), vec![Write::new("value", 59, 2)]),
        FieldError::Outside { .. }
    ));
    assert!(matches!(
        one(fine(), vec![Write::new("value", usize::MAX, 2)]),
        FieldError::Outside { .. }
    ));
    assert!(matches!(
        one(fine(), vec![Write::new("value", 0, 9)]),
        FieldError::WriteWidth { .. }
    ));
    assert!(matches!(
        one(step(Order::Inc, 9, 0, 1), vec![]),
        FieldError::Range { .. }
    ));
    assert!(matches!(
        one(step(Order::Inc, 0, 256, 1), vec![]),
        FieldError::TooWide { .. }
    ));
    assert!(matches!(
        one(step(Order::Inc, 0, 9, 0), vec![]),
        FieldError::Nothing { .. }
    ));
    let from = |init| Values::Step {
        order: Order::Inc,
        min: 0,
        max: 9,
        init: Some(init),
        step: 2,
    };
    assert!(matches!(
        one(from(3), vec![]),
        FieldError::Init { near: 2, .. }
    ));
    assert!(matches!(one(from(30), vec![]), FieldError::Init { .. }));
    let drawn = |limit| Values::RepeatableRandom {
        min: 0,
        max: 9,
        limit,
        seed: None,
    };
    assert!(matches!(one(drawn(0), vec![]), FieldError::Nothing { .. }));
    assert!(matches!(
        one(drawn(u32::MAX), vec![]),
        FieldError::TooMany { .. }
    ));
    assert!(matches!(
        one(Values::RandomOf(vec![]), vec![]),
        FieldError::Nothing { .. }
    ));
}

#[test]
fn dependent_variables_that_make_no_sense_are_refused() {
    let fine = || step(Order::Inc, 0, 9, 1);
    let chained = |a: Values, next: [Option<&str>; 2]| {
        let mut vars = vec![var("a", 1, a), var("b", 1, fine())];
        for (var, next) in vars.iter_mut().zip(next) {
            var.next = next.map(Into::into);
        }
        refused(Program {
            vars,
            ..Program::default()
        })
    };
    let random = Values::Random { min: 0, max: 9 };
    assert!(matches!(
        chained(random, [Some("b"), None]),
        FieldError::NoOrder { .. }
    ));
    assert!(matches!(
        chained(fine(), [Some("b"), Some("a")]),
        FieldError::Loop { .. }
    ));
    assert!(matches!(
        chained(fine(), [Some("a"), None]),
        FieldError::Loop { .. }
    ));
    assert!(matches!(
        chained(fine(), [Some("b"), Some("b")]),
        FieldError::Loop { .. }
    ));
}

#[test]
fn sizes_caches_and_checksums_that_make_no_sense_are_refused() {
    let sized = Program {
        vars: vec![var("len", 2, step(Order::Inc, 60, 61, 1))],
        size: Some("len".into()),
        ..Program::default()
    };
    assert!(matches!(
        refused(sized),
        FieldError::TooLong {
            len: 61,
            most: 60,
            ..
        }
    ));
    let cached = Program {
        cached: Some(10_001),
        ..Program::default()
    };
    assert!(matches!(
        refused(cached),
        FieldError::Cache { most: 10_000, .. }
    ));
    let fixes = vec![engine::field::Fix::Ipv4 { at: 50 }];
    let fixed = Program {
        fixes,
        ..Program::default()
    };
    assert!(matches!(
        refused(fixed),
        FieldError::NoChecksum { at: 50, .. }
    ));
}

#[test]
fn periods_are_known_and_the_shortest() {
    let period = |frames: &Frames, of| {
        let share = Share { index: 0, of };
        engine::field::Writer::compile(frames, 1, share)
            .unwrap()
            .period()
    };
    assert_eq!(period(&bench(&[], 0), 1), Some(1));
    assert_eq!(period(&bench(&[("vm", "var1")], 0), 1), Some(251));
    assert_eq!(period(&bench(&[("vm", "var2")], 0), 2), Some(251));
    assert_eq!(period(&bench(&[("vm", "cached")], 0), 1), Some(255));
    assert_eq!(period(&bench(&[("vm", "cached")], 0), 2), Some(128));
    assert_eq!(period(&bench(&[("vm", "random")], 0), 1), None);
    // 100 000 flows, of which two cores take 50 000 each, and three all, one after the other.
    assert_eq!(period(&bench(&[("vm", "tuple")], 0), 1), Some(100_000));
    assert_eq!(period(&bench(&[("vm", "tuple")], 0), 2), Some(50_000));
    assert_eq!(period(&bench(&[("vm", "tuple")], 0), 3), Some(100_000));
    // 12 turns, and 251 rounds of them: 7, 4 and 1 have no factor in common with 251.
    assert_eq!(
        period(&bench(&[("vm", "var1"), ("size", "imix")], 0), 1),
        Some(12 * 251)
    );
    let counter = |last, cached| {
        let program = Program {
            vars: vec![
                var("v", 1, step(Order::Inc, 0, last, 1)),
                var("unused", 8, RANDOM),
            ],
            writes: vec![Write::new("v", 0, 1)],
            cached,
            ..Program::default()
        };
        blank(program)
    };
    assert_eq!(period(&counter(11, None), 1), Some(12));
    assert_eq!(period(&counter(11, None), 8), Some(3));
    assert_eq!(
        period(&counter(11, Some(36)), 1),
        Some(12),
        "three whole rounds"
    );
    assert_eq!(period(&counter(11, Some(30)), 1), Some(30));
}

const RANDOM: Values = Values::Random {
    min: 0,
    max: u64::MAX,
};

#[test]
fn a_random_value_that_is_written_twice_is_drawn_once() {
    let values = Values::Random {
        min: 0,
        max: u32::MAX.into(),
    };
    let template = template("eth / ipv4 / udp(checksum=0)", 64);
    let mut program = Program {
        vars: vec![var("v", 4, values.clone())],
        writes: vec![Write::new("v", 26, 4), Write::new("v", 30, 4)],
        ..Program::default()
    };
    program.correct(&template);
    for frame in sequence(
        &Frames::varied(template.clone(), program.clone()),
        Share::ALL,
        50,
    ) {
        assert_eq!(frame[26..30], frame[30..34]);
    }
    // Two variables are two draws.
    program.vars.push(var("w", 4, values));
    program.writes[1].var = "w".into();
    let sent = sequence(&Frames::varied(template, program), Share::ALL, 50);
    assert!(sent.iter().any(|frame| frame[26..30] != frame[30..34]));
}

#[test]
fn variants_that_share_nothing_take_turns_all_the_same() {
    let variant = |text: &str, size| Variant {
        template: template(text, size),
        program: Program::default(),
    };
    let variants = vec![
        variant("eth / ipv4 / udp", 128),
        variant("eth / ipv6 / tcp", 96),
        variant("eth / arp", 64),
    ];
    let bytes: Vec<_> = variants
        .iter()
        .map(|variant| variant.template.bytes.clone())
        .collect();
    let frames = Frames::scheduled(variants, vec![0, 2, 1, 1]);
    for (n, frame) in sequence(&frames, Share::ALL, 60).iter().enumerate() {
        assert_eq!(*frame, bytes[[0, 2, 1, 1][n % 4]], "frame {n}");
    }
}
