//! tshark passes a good frame and names what is wrong with a bad one.

use std::fs;

use peers::{lab_or_skip, tshark};

/// An Ethernet frame of 60 bytes: IPv4 from 16.0.0.1 to 48.0.0.1, UDP 1025 to 12, no checksum.
fn frame(ip_checksum: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame.extend(ip_checksum.to_be_bytes());
    frame.extend([16, 0, 0, 1, 48, 0, 0, 1]);
    frame.extend([0x04, 0x01, 0, 12, 0, 26, 0, 0]);
    frame.resize(60, b'x');
    frame
}

/// The sum over the header above, its checksum left out.
fn right_checksum() -> u16 {
    let header = frame(0);
    let words = header[14..34]
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("folded to 16 bits")
}

#[test]
fn a_bad_checksum_and_a_cut_frame_are_objected_to_and_a_good_frame_is_not() {
    let Some(lab) = lab_or_skip("a_bad_checksum_and_a_cut_frame_are_objected_to") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("three.pcap");
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        capture.extend(word.to_le_bytes());
    }
    let cut = frame(right_checksum())[..38].to_vec();
    for frame in [frame(right_checksum()), frame(0x1234), cut] {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [0, 0, length, length] {
            capture.extend(word.to_le_bytes());
        }
        capture.extend(frame);
    }
    fs::write(&file, &capture).unwrap();

    let seen = tshark::judge(&lab, &file).unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(
        (seen[0].bytes, &seen[0].objections),
        (60, &vec![]),
        "{seen:?}"
    );
    assert!(
        seen[0].protocols.starts_with("eth:ethertype:ip:udp"),
        "{seen:?}"
    );
    assert!(
        seen[1].objections.iter().any(|o| o.contains("ip.checksum")),
        "{seen:?}"
    );
    assert!(!seen[2].objections.is_empty(), "{seen:?}");

    fs::write(&file, &capture[..capture.len() - 10]).unwrap();
    assert!(
        tshark::judge(&lab, &file).is_err(),
        "a truncated file is refused"
    );
}
