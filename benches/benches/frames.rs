//! Time a frame in each layer by itself: field engine, send queues, receive queues, pacing.

use std::hint::black_box;

use benches::{Rings, RxRig, Tsc, TxRig, frames, null, paced, stream};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine::field::{Share, Writer};
use hugemem::BURST;

/// The modes of the bench profile.
const MODES: [&str; 7] = ["none", "var1", "var2", "random", "tuple", "cached", "size"];

/// Writing frames into buffers that come round, nothing else.
fn writers(c: &mut Criterion) {
    let mut group = c.benchmark_group("field engine");
    group.throughput(Throughput::Elements(BURST as u64));
    for vm in MODES {
        let mut writer = Writer::compile(&frames(vm), 1, Share::ALL).expect("it compiles");
        let mut rig = TxRig::on(null(), writer.max_len());
        group.bench_function(vm, |bench| bench.iter(|| black_box(rig.write(&mut writer))));
    }
    group.finish();
}

/// A send queue: reap, post, complete; and the same with frames that stay.
fn sending(c: &mut Criterion) {
    let mut group = c.benchmark_group("tx burst");
    group.throughput(Throughput::Elements(BURST as u64));
    for rings in [Rings::Split, Rings::Packed] {
        let mut rig = TxRig::consumed(rings, 60);
        group.bench_function(BenchmarkId::new("frames", rings), |bench| {
            bench.iter(|| black_box(rig.pass()));
        });
        let mut rig = TxRig::consumed(rings, 60);
        rig.load(255);
        group.bench_function(BenchmarkId::new("resident", rings), |bench| {
            bench.iter(|| black_box(rig.pass_resident()));
        });
    }
    let mut rig = TxRig::ixgbe(60);
    group.bench_function(BenchmarkId::new("frames", "82599"), |bench| {
        bench.iter(|| black_box(rig.pass()));
    });
    let mut rig = TxRig::ixgbe(60);
    rig.load(255);
    group.bench_function(BenchmarkId::new("resident", "82599"), |bench| {
        bench.iter(|| black_box(rig.pass_resident()));
    });
    group.finish();
}

/// A receive queue: take a burst, give the same frames back.
fn receiving(c: &mut Criterion) {
    let mut group = c.benchmark_group("rx burst");
    group.throughput(Throughput::Elements(BURST as u64));
    for (rings, capacity) in [
        (Rings::Split, 192),
        (Rings::Packed, 192),
        (Rings::Split, 2048),
        (Rings::Packed, 2048),
    ] {
        let mut rig = RxRig::new(rings, capacity);
        let id = BenchmarkId::new(rings.to_string(), format!("{capacity} B buffers"));
        group.bench_function(id, |bench| bench.iter(|| black_box(rig.pass())));
    }
    for capacity in [1024, 2048] {
        let mut rig = RxRig::ixgbe(capacity);
        let id = BenchmarkId::new("82599", format!("{capacity} B buffers"));
        group.bench_function(id, |bench| bench.iter(|| black_box(rig.pass())));
    }
    group.finish();
}

/// Whole runs of a million frames on a clock that each reading moves by the same step, so that
/// nothing is waited for: what is left is the engine's own work.
fn pacing(c: &mut Criterion) {
    let mut group = c.benchmark_group("paced run, 1 M frames");
    group.throughput(Throughput::Elements(1_000_000));
    group.sample_size(10);
    for frames_a_visit in [1, 8, 64] {
        group.bench_function(
            BenchmarkId::new("frames a visit", frames_a_visit),
            |bench| {
                bench.iter(|| paced(null(), stream("random"), 1_000_000, frames_a_visit));
            },
        );
    }
    let clock = Tsc::calibrate();
    group.bench_function("as fast as it goes", |bench| {
        bench.iter(|| benches::unpaced(null(), stream("random"), 1_000_000, clock));
    });
    group.finish();
}

criterion_group!(all, writers, sending, receiving, pacing);
criterion_main!(all);
