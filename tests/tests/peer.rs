//! The in-process peer, judged by a driver that others wrote: testpmd's virtio-user.

use std::thread;
use std::time::{Duration, Instant};

use peers::{Forward, Rings, Testpmd, lab_or_skip};
use rig::liar::{Liar, Lie, Plan};
use rig::peer::{Peer, Setup, feature};

const LONG: Duration = Duration::from_secs(20);

#[test]
fn the_peer_counts_what_testpmd_sends_with_every_choice_of_features() {
    let test = "the_peer_counts_what_testpmd_sends_with_every_choice_of_features";
    let Some(lab) = lab_or_skip(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let base = feature::VERSION_1 | feature::PROTOCOL;
    for more in [0, feature::IN_ORDER, feature::MRG_RXBUF | feature::INDIRECT] {
        let path = folder.path().join("peer.sock");
        let setup = Setup {
            features: base | more,
            ..Setup::default()
        };
        let peer = Peer::start(&path, &setup).unwrap();
        let driver = peers::Setup::driver(Forward::TxOnly);
        let sender = Testpmd::virtio_user(&lab, &path, &driver).unwrap();
        peer.wait(LONG, |counts| counts.taken >= 10_000);
        let sent = sender.stop().unwrap();
        let counts = peer.wait(LONG, |counts| counts.taken >= sent.tx_frames);
        assert_eq!(counts.taken, sent.tx_frames, "features {more:#x}");
        assert_eq!(counts.taken_bytes, sent.tx_bytes);
        assert_eq!(peer.objections(), [""; 0]);
    }
}

#[test]
fn a_liar_that_does_not_lie_is_a_peer_like_any_other() {
    let Some(lab) = lab_or_skip("a_liar_that_does_not_lie_is_a_peer_like_any_other") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for rings in [Rings::Split, Rings::Packed] {
        let path = folder.path().join("liar.sock");
        let liar = Liar::start(&path, &Plan::of(Lie::None)).unwrap();
        let driver = peers::Setup {
            rings,
            ..peers::Setup::driver(Forward::TxOnly)
        };
        let sender = Testpmd::virtio_user(&lab, &path, &driver).unwrap();
        let started = Instant::now();
        while liar.taken() < 5000 && started.elapsed() < LONG {
            thread::yield_now();
        }
        let sent = sender.stop().unwrap();
        assert!(sent.tx_frames >= 5000, "{rings:?}: {sent:?}");
        assert_eq!(liar.taken(), sent.tx_frames, "{rings:?}");
        assert_eq!(liar.complaints(), [""; 0]);
    }
}
