//! What goes wrong when a test wants it to.

use models::Fault;
use models::vmxnet3::Vmxnet3Options;

use crate::guest::{
    ACTIVATE, AT_ECR, Guest, LINK, QUEUE_STATUS, QUIESCE, RESET, Wish, all_is_well, frame, rig,
    stepped,
};

#[test]
fn commands_are_refused_or_met_with_silence() {
    let sim = stepped(&Vmxnet3Options::default());
    let a = Guest::lay_out(sim.function(0), Wish::default());
    sim.faults(0).inject(Fault::CommandRefused, 1);
    assert_eq!(a.activate(), 1);
    assert_eq!(a.activate(), 0);
    let answer = a.command(LINK);
    sim.faults(0).inject(Fault::CommandSilent, 1);
    assert_eq!(a.command(QUIESCE), answer, "the last answer stays");
    sim.faults(0).inject(Fault::StuckReset, 2);
    assert_eq!([a.command(QUIESCE), a.command(RESET)], [1, 1]);
    assert_eq!([a.command(QUIESCE), a.command(RESET)], [0, 0]);
    all_is_well(&sim);
}

#[test]
fn lost_and_lying_completions_are_counted() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    let pass = |a: &mut Guest, sim: &models::Sim| {
        assert!(a.send(&frame(1, 64)));
        sim.settle();
    };
    sim.faults(0).inject(Fault::TxCompletionLost, 1);
    pass(&mut a, &sim);
    a.tx[0].reap();
    assert_eq!(a.tx[0].completed, [0u32; 0]);
    sim.faults(0).inject(Fault::IdOutOfRange, 1);
    pass(&mut a, &sim);
    a.tx[0].reap();
    assert_eq!(a.tx[0].completed, [0xfff]);
    pass(&mut a, &sim);
    a.tx[0].reap();
    assert_eq!((a.tx[0].completed.last(), a.tx[0].held), (Some(&2), 0));
    assert_eq!(b.receive().len(), 3);

    sim.faults(1).inject(Fault::RxCompletionLost, 1);
    pass(&mut a, &sim);
    assert_eq!(b.receive().len(), 0);
    sim.faults(1).inject(Fault::WrongLength, 1);
    pass(&mut a, &sim);
    let words = &b.rx[0].completions.words[3];
    let second = u64::from_le(words[1].load(std::sync::atomic::Ordering::Acquire));
    assert_eq!(second & 0x3fff, 0x3fff);
    sim.faults(1).inject(Fault::IdOutOfRange, 1);
    pass(&mut a, &sim);
    let words = &b.rx[0].completions.words[4];
    let first = u64::from_le(words[0].load(std::sync::atomic::Ordering::Acquire));
    assert_eq!(first & 0xfff, 0xfff);
    all_is_well(&sim);
}

#[test]
fn late_completions_come_later() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    sim.faults(0).inject(Fault::LateCompletions, 3);
    for n in 0..10 {
        assert!(a.send(&frame(n, 64)));
    }
    sim.step();
    a.tx[0].reap();
    assert_eq!(a.tx[0].completed.len(), 0);
    sim.step();
    sim.step();
    sim.step();
    a.tx[0].reap();
    assert_eq!(a.tx[0].completed, (0..10).collect::<Vec<u32>>());
    assert_eq!(b.receive().len(), 10);
    all_is_well(&sim);
}

#[test]
fn a_device_that_stops_says_so_and_comes_back_after_a_reset() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    sim.faults(0).inject(Fault::NeedsReset, 1);
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 0);
    assert_eq!(a.get(AT_ECR), 3);
    assert_eq!(a.status(0), (0, 0), "not before it is asked for");
    a.command(QUEUE_STATUS);
    assert_eq!([a.status(0), a.status(1)], [(1, 0x8000_0005); 2]);
    a.command(QUIESCE);
    a.command(RESET);
    assert_eq!(a.command(LINK) & 1, 1);
    let mut a = Guest::open(sim.function(0), Wish::default());
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(b.receive(), [frame(1, 64)]);
    all_is_well(&sim);
}

#[test]
fn a_removed_device_reads_as_all_ones() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    sim.faults(1).switch_on(Fault::Removed);
    assert_eq!(b.command(ACTIVATE), u32::MAX);
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 0);
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    all_is_well(&sim);
}
