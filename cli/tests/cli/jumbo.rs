//! Large frames through a virtual function of 82599, whose physical function has to be prepared.

use crate::common::{left, number, rgen, run, sum};

/// Frames of 9000 bytes from one port to the other.
fn send(port: &str) -> Vec<String> {
    let words = "run bench -t size=9000 -m 2kpps -d 500ms";
    let ports = ["-p", port, "-p", port];
    let words = words.split(' ').chain(ports);
    words.map(str::to_owned).collect()
}

#[test]
fn large_frames_pass_where_the_physical_function_has_the_mtu() {
    for port in [
        "sim:ixgbevf,mtu=9000,host_mtu=9000",
        "sim:ixgbevf,mtu=9000,host_mtu=9000,pf_mtu=raise",
        // X540 needs nobody's consent. Its host does not trust it, which only costs it the frames
        // of others.
        "sim:ixgbevf,device=x540,mtu=9000",
        "sim:ixgbe",
        "sim:igbvf,mtu=9000",
    ] {
        let document = left(rgen().args(send(port)).arg("--json")).document();
        let frames = number(&document, "/ports/0/tx_frames");
        assert!(frames > 0, "{port}");
        for key in ["tx_errors", "rx_errors", "rx_missed"] {
            assert_eq!(sum(&document, key), 0, "{port}: {key}");
        }
        assert_eq!(sum(&document, "rx_frames"), sum(&document, "tx_frames"));
        let bytes = number(&document, "/ports/0/tx_bytes");
        assert_eq!(bytes, frames * 9000, "{port}");
    }
}

/// What `rgen` says of large frames on `port`: exit code, what is wrong, and the cure.
fn refusal(port: &str) -> (i32, String, String) {
    let words = send(port);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let left = run(&words);
    assert_eq!(left.stdout, "", "a refusal is no result");
    let line = |start: &str| {
        let found = left.stderr.lines().find(|line| line.contains(start));
        found.unwrap_or_default().to_owned()
    };
    (left.code, line("error["), line("cure: "))
}

#[test]
fn where_it_has_not_the_refusal_says_what_to_write_and_writing_it_helps() {
    let (code, error, _) = refusal("sim:ixgbevf");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("mtu=8982"), "{error}");

    for choice in ["", ",pf_mtu=raise"] {
        let (code, error, cure) = refusal(&format!("sim:ixgbevf,mtu=8982{choice}"));
        assert_eq!(code, 4, "{error}");
        assert!(error.contains("frames of 9000 bytes"), "{error}");
        assert!(error.contains("has an MTU of 1500"), "{error}");
        assert!(cure.contains("host_mtu=8982"), "{cure}");
    }
    let (_, error, cure) = refusal("sim:ixgbevf,mtu=8982,pf_mtu=keep");
    assert!(error.contains("frames of 9000 bytes"), "{error}");
    assert!(
        cure.contains("ip link set dev <PF interface> mtu 8982"),
        "{cure}"
    );

    let document = left(
        rgen()
            .args(send("sim:ixgbevf,mtu=8982,host_mtu=8982"))
            .arg("--json"),
    )
    .document();
    assert!(sum(&document, "rx_frames") > 0);
}

#[test]
fn one_word_never_means_two_things() {
    for (port, cure) in [
        ("sim:ixgbevf,pf_mtu=9710", "host_mtu=BYTES"),
        ("sim:ixgbe,pf_mtu=raise", "options are: "),
        ("sim:igb,pf_mtu=raise", "options are: "),
        ("sim:ixgbevf,mtu=60", "68 to 65521"),
        ("sim:ixgbe,host_mtu=9000", "options are: "),
    ] {
        let (code, error, said) = refusal(port);
        assert_eq!(code, 2, "{port}: {error}");
        assert!(said.contains(cure), "{port}: {said}");
    }
}
