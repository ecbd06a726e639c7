//! What `rgen show --pcap` writes, read by tshark.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use peers::tshark::{Seen, judge};
use peers::{Lab, lab_or_skip};
use rig::rgen;

/// Writes `count` frames of what `words` name as pcap, and has every one judged.
fn judged(lab: &Lab, words: &[&str], count: usize) -> Vec<Seen> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("show.pcap");
    let count_text = count.to_string();
    let tail = [
        "--count",
        count_text.as_str(),
        "--pcap",
        file.to_str().unwrap(),
    ];
    let words: Vec<&str> = ["show"].iter().chain(words).chain(&tail).copied().collect();
    rgen::run(&words).ended(0);
    let frames = judge(lab, &file).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        assert!(
            frame.objections.is_empty(),
            "{words:?}: frame {number}: {frame:?}"
        );
    }
    assert_eq!(frames.len(), count, "{words:?}");
    frames
}

#[test]
fn every_builtin_profile_is_read_without_a_complaint() {
    let Some(lab) = lab_or_skip("every_builtin_profile_is_read_without_a_complaint") else {
        return;
    };
    for about in engine::profile::list() {
        for direction in ["0", "1"] {
            judged(&lab, &[about.name, "--direction", direction], 200);
        }
    }
}

#[test]
fn every_knob_of_bench_is_read_without_a_complaint() {
    let Some(lab) = lab_or_skip("every_knob_of_bench_is_read_without_a_complaint") else {
        return;
    };
    for vm in ["none", "var1", "var2", "random", "tuple", "size", "cached"] {
        for size in ["64", "128", "1518", "9216", "imix"] {
            if vm == "size" && size == "imix" {
                continue;
            }
            let knobs = format!("size={size},vm={vm}");
            let frames = judged(&lab, &["bench", "-t", &knobs], 300);
            if let Ok(size) = size.parse::<usize>()
                && vm != "size"
            {
                let right = frames.iter().all(|frame| frame.bytes == size - 4);
                assert!(right, "{knobs}: {:?}", frames[0]);
            }
        }
    }
}

#[test]
fn a_profile_of_every_layer_is_read_as_what_it_is() {
    let Some(lab) = lab_or_skip("a_profile_of_every_layer_is_read_as_what_it_is") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (frame, protocols) in [
        ("eth / ipv4 / udp", "eth:ethertype:ip:udp"),
        (
            "eth / vlan(id=7) / ipv4 / udp",
            "eth:ethertype:vlan:ethertype:ip:udp",
        ),
        ("eth / ipv4 / tcp", "eth:ethertype:ip:tcp"),
        ("eth / ipv6 / udp", "eth:ethertype:ipv6:udp"),
        ("eth / ipv6 / tcp", "eth:ethertype:ipv6:tcp"),
        ("eth / ipv4 / icmp", "eth:ethertype:ip:icmp"),
        ("eth / arp", "eth:ethertype:arp"),
    ] {
        let path = folder.path().join("layers.toml");
        let text = format!("[[stream]]\nname = \"a\"\nframe = \"{frame}\"\nsize = \"128\"\n");
        std::fs::write(&path, text).unwrap();
        let frames = judged(&lab, &[path.to_str().unwrap()], 3);
        for read in frames {
            assert!(read.protocols.starts_with(protocols), "{frame}: {read:?}");
        }
    }
}

#[test]
fn a_truncated_or_bad_checksum_frame_would_have_been_found() {
    let Some(lab) = lab_or_skip("a_truncated_or_bad_checksum_frame_would_have_been_found") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("show.pcap");
    let path = file.to_str().unwrap();
    rgen::run(&["show", "bench", "--count", "1", "--pcap", path]).ended(0);
    let good = std::fs::read(&file).unwrap();
    // One bit of the IPv4 header, wherever the frame lies in the file.
    let at = good
        .windows(4)
        .position(|bytes| bytes == [0x08, 0x00, 0x45, 0x00])
        .unwrap();
    let mut bad = good;
    bad[at + 10] ^= 1;
    std::fs::write(&file, bad).unwrap();
    let frames = judge(&lab, &file).unwrap();
    assert!(!frames[0].objections.is_empty(), "{frames:?}");
}
