//! `rgen ndr` on a peer that goes away for good in the midst of the search: what was measured
//! before is told, and the exit code says that a port failed.

use std::time::Duration;

use rig::peer::{Peer, Role, Setup};
use rig::rgen::{self, number};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn trials_before_a_peer_went_away_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let setup = Setup {
        role: Role::Reflector,
        ..Setup::default()
    };
    let peer = Peer::start(&path, &setup).unwrap();
    let port = format!("vhost-user:{}", path.display());
    // At 10 000 frames a second a load is looked at for half a minute before it is decided.
    let words = [
        "ndr",
        "udp64",
        "-p",
        &port,
        "--json",
        "--no-huge",
        "--max",
        "10kpps",
        "--trial",
        "100ms",
        "--sum",
        "60s",
        "--warm-up",
        "0s",
    ];
    let running = rgen::start(&words);
    // Some trials are over for sure: each has a thousand frames.
    let counts = peer.wait(LONG, |counts| counts.taken >= 4000);
    assert!(counts.taken >= 4000, "{counts:?}");
    let _ = peer.vanish();
    let ran = running.wait();
    let found = ran.ended(4).json();
    assert_eq!(found["complete"], false, "{found:#}");
    let trials = found["trials"].as_array().unwrap();
    assert!(trials.len() >= 3, "{found:#}");
    for trial in &trials[..3] {
        assert!(number(trial, "/asked_frames") > 0, "{trial:#}");
    }
    let [last, goal] = [trials.last().unwrap(), &found["goals"][0]];
    assert_eq!(
        (&goal["end"], &goal["regular"]),
        (&"searching".into(), &false.into())
    );
    for bound in ["lower_pps", "upper_pps"] {
        assert_eq!(goal[bound], last[bound], "{found:#}");
    }
    let error = found["failures"][0]["error"].as_str().unwrap();
    assert!(error.contains("link is down"), "{error}");
    assert_eq!(found["failures"][0]["port"], port, "{found:#}");
    assert!(ran.stderr.contains("error[port-failed]"), "{ran:#?}");
}
