//! Two testpmds on one socket: what one says it sent, the other says it received.

use std::thread;
use std::time::Duration;

use peers::{Forward, Rings, Setup, Testpmd, lab_or_skip};

const LONG: Duration = Duration::from_secs(20);
const STILL: Duration = Duration::from_millis(200);

#[test]
fn a_sink_receives_what_a_sender_sends_split_and_packed() {
    let Some(lab) = lab_or_skip("a_sink_receives_what_a_sender_sends_split_and_packed") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sink.sock");
    let mut sink = Testpmd::vhost_sink(&lab, &socket, 1).unwrap();
    let mut before = 0;
    for rings in [Rings::Split, Rings::Packed] {
        let setup = Setup {
            rings,
            ..Setup::driver(Forward::FlowGen)
        };
        let mut sender = Testpmd::virtio_user(&lab, &socket, &setup).unwrap();
        sink.received(before + 10_000, LONG).unwrap();
        let sent = sender.pause().unwrap();
        let received = sink.settled(STILL, LONG).unwrap();
        assert_eq!(sender.stop().unwrap().tx_frames, sent.tx_frames);
        assert_eq!(received.rx_frames - before, sent.tx_frames, "{rings:?}");
        before = received.rx_frames;
    }
    assert_eq!(sink.stop().unwrap().rx_frames, before);
}

#[test]
fn a_killed_sink_is_dialled_again_by_a_driver_that_listens() {
    let Some(lab) = lab_or_skip("a_killed_sink_is_dialled_again_by_a_driver_that_listens") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("driver.sock");
    let device = Setup {
        dial: true,
        ..Setup::device(Forward::RxOnly)
    };
    let driver = Setup {
        dial: false,
        ..Setup::driver(Forward::TxOnly)
    };
    // A driver that listens blocks in its start until a device has dialled.
    let (sender, sink) = thread::scope(|scope| {
        let sender = scope.spawn(|| Testpmd::virtio_user(&lab, &socket, &driver));
        let sink = Testpmd::vhost(&lab, &socket, &device);
        (sender.join().unwrap().unwrap(), sink.unwrap())
    });
    let mut first = sink;
    assert!(first.received(1000, LONG).unwrap().rx_frames >= 1000);
    first.kill();
    let mut second = Testpmd::vhost(&lab, &socket, &device).unwrap();
    assert!(
        second.received(1000, LONG).unwrap().rx_frames >= 1000,
        "{}",
        sender.said()
    );
}

#[test]
fn a_reflector_sends_back_what_it_gets() {
    let Some(lab) = lab_or_skip("a_reflector_sends_back_what_it_gets") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("reflector.sock");
    let mut reflector = Testpmd::vhost_macswap(&lab, &socket, 2).unwrap();
    let setup = Setup {
        queues: 2,
        send_bytes: 1514,
        ..Setup::driver(Forward::TxOnly)
    };
    let _sender = Testpmd::virtio_user(&lab, &socket, &setup).unwrap();
    let counted = reflector.received(10_000, LONG).unwrap();
    assert!(counted.tx_frames > 0, "{counted:?}\n{}", reflector.said());
    assert_eq!(counted.rx_bytes, counted.rx_frames * 1514);
}

#[test]
fn a_sink_outlives_a_killed_sender_and_serves_the_next() {
    let Some(lab) = lab_or_skip("a_sink_outlives_a_killed_sender_and_serves_the_next") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sink.sock");
    let mut sink = Testpmd::vhost_sink(&lab, &socket, 2).unwrap();
    let setup = Setup {
        queues: 2,
        ..Setup::driver(Forward::FlowGen)
    };
    let sender = Testpmd::virtio_user(&lab, &socket, &setup).unwrap();
    sink.received(1000, LONG).unwrap();
    sender.kill();
    let before = sink.settled(STILL, LONG).unwrap().rx_frames;
    assert!(before >= 1000);

    let mut sender = Testpmd::virtio_user(&lab, &socket, &setup).unwrap();
    sink.received(before + 1000, LONG).unwrap();
    let sent = sender.pause().unwrap().tx_frames;
    let received = sink.settled(STILL, LONG).unwrap().rx_frames - before;
    assert_eq!(received, sent);
    assert!(sink.xstats().unwrap().is_object() && sink.stats().unwrap().is_object());
}
