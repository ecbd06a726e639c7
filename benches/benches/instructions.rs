//! Instructions a burst of 64 frames: they do not move with the machine's load or clock.
#![expect(
    missing_docs,
    reason = "gungraun's macros make public items of every benchmark"
)]

use std::hint::black_box;

use benches::{Rings, RxRig, TxRig, frames, null};
use engine::field::{Share, Writer};
use gungraun::{library_benchmark, library_benchmark_group, main};

/// A writer and its frames, all of which hold its bytes already.
fn writer(vm: &str) -> (Writer, TxRig) {
    let mut writer = Writer::compile(&frames(vm), 1, Share::ALL).expect("it compiles");
    let mut rig = TxRig::on(null(), writer.max_len());
    rig.write(&mut writer);
    (writer, rig)
}

/// A send queue after three laps of its ring.
fn sending(rings: Rings) -> TxRig {
    let mut rig = TxRig::consumed(rings, 60);
    for _ in 0..48 {
        rig.pass();
    }
    rig
}

fn resident(rings: Rings) -> TxRig {
    let mut rig = TxRig::consumed(rings, 60);
    rig.load(255);
    for _ in 0..48 {
        rig.pass_resident();
    }
    rig
}

fn receiving(rings: Rings) -> RxRig {
    let mut rig = RxRig::new(rings, 2048);
    // Three laps, and one burst of a ring that the device has filled: the next burst is the
    // driver's alone.
    for _ in 0..49 {
        rig.pass();
    }
    rig
}

/// The same of an 82599.
fn sending_ixgbe() -> TxRig {
    let mut rig = TxRig::ixgbe(60);
    for _ in 0..48 {
        rig.pass();
    }
    rig
}

fn resident_ixgbe() -> TxRig {
    let mut rig = TxRig::ixgbe(60);
    rig.load(255);
    for _ in 0..48 {
        rig.pass_resident();
    }
    rig
}

fn receiving_ixgbe() -> RxRig {
    let mut rig = RxRig::ixgbe(2048);
    for _ in 0..49 {
        rig.pass();
    }
    rig
}

#[library_benchmark]
#[bench::none(args = ("none",), setup = writer)]
#[bench::var1(args = ("var1",), setup = writer)]
#[bench::var2(args = ("var2",), setup = writer)]
#[bench::random(args = ("random",), setup = writer)]
#[bench::tuple(args = ("tuple",), setup = writer)]
#[bench::cached(args = ("cached",), setup = writer)]
#[bench::size(args = ("size",), setup = writer)]
fn field_engine((mut writer, mut rig): (Writer, TxRig)) -> (Writer, TxRig) {
    black_box(rig.write(&mut writer));
    (writer, rig)
}

#[library_benchmark]
#[bench::split(args = (Rings::Split,), setup = sending)]
#[bench::packed(args = (Rings::Packed,), setup = sending)]
#[bench::ixgbe(args = (), setup = sending_ixgbe)]
fn tx_frames(mut rig: TxRig) -> TxRig {
    black_box(rig.pass());
    rig
}

#[library_benchmark]
#[bench::split(args = (Rings::Split,), setup = resident)]
#[bench::packed(args = (Rings::Packed,), setup = resident)]
#[bench::ixgbe(args = (), setup = resident_ixgbe)]
fn tx_resident(mut rig: TxRig) -> TxRig {
    black_box(rig.pass_resident());
    rig
}

#[library_benchmark]
#[bench::split(args = (Rings::Split,), setup = receiving)]
#[bench::packed(args = (Rings::Packed,), setup = receiving)]
#[bench::ixgbe(args = (), setup = receiving_ixgbe)]
fn rx(mut rig: RxRig) -> RxRig {
    black_box(rig.pass());
    rig
}

library_benchmark_group!(
    name = data_path;
    benchmarks = field_engine, tx_frames, tx_resident, rx
);
main!(library_benchmark_groups = data_path);
