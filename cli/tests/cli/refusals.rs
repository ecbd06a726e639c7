//! Bad input: each a clear error with a cure and the right exit code, and no panic.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::{fs, process, thread};

use crate::common::{left, rgen, run};

/// Words, the exit code, the error's code, and a part of its cure.
type Case<'a> = (&'a [&'a str], i32, &'a str, &'a str);

fn check(&(words, code, name, cure): &Case) {
    let people = run(words);
    assert_eq!(people.code, code, "{words:?}: {people:?}");
    assert_eq!(people.stdout, "", "{words:?}: a refusal is no result");
    let head = format!("error[{name}]: ");
    assert!(people.stderr.contains(&head), "{words:?}: {people:?}");
    let last = people
        .stderr
        .lines()
        .rfind(|line| line.starts_with("  cure: "));
    assert!(
        last.is_some_and(|line| line.contains(cure)),
        "{words:?}: {people:?}"
    );
    assert!(!people.stderr.contains("panicked"), "{words:?}: {people:?}");

    let machine = left(rgen().args(words).arg("--json"));
    let document = machine.document();
    assert_eq!(machine.code, code, "{words:?}");
    assert_eq!(document["schema"], "rgen/error/1");
    assert_eq!(document["error"]["code"], name, "{words:?}");
    assert!(
        document["error"]["cure"]
            .as_str()
            .is_some_and(|text| text.contains(cure)),
        "{words:?}"
    );
}

#[test]
fn a_wrong_profile_or_knob_is_a_usage_error_with_a_cure() {
    let cases: &[Case] = &[
        (
            &["run", "bnech"],
            2,
            "unknown-profile",
            "did you mean `bench`?",
        ),
        (
            &["show", "bnech"],
            2,
            "unknown-profile",
            "did you mean `bench`?",
        ),
        (
            &["show", "bench", "-t", "sise=64"],
            2,
            "unknown-knob",
            "did you mean `size`?",
        ),
        (
            &["show", "bench", "-t", "size=63"],
            2,
            "knob-value",
            "rgen show bench",
        ),
        (
            &["show", "bench", "-t", "vm=some"],
            2,
            "knob-value",
            "rgen show bench",
        ),
        (&["show", "bench", "-t", "size"], 2, "usage", "size=VALUE"),
        (
            &["run", "./not-there.toml", "-p", "null:"],
            2,
            "file",
            "path",
        ),
        (&["show", "/", "--count", "1"], 2, "file", "path"),
    ];
    cases.iter().for_each(check);
}

#[test]
fn a_wrong_port_is_a_usage_error_with_a_cure() {
    let cases: &[Case] = &[
        (&["run", "bench"], 2, "usage", "-p sim:virtio"),
        (&["fwd"], 2, "usage", "-p sim:virtio"),
        (&["run", "bench", "-p", "eth0"], 2, "port-string", "null:"),
        (&["run", "bench", "-p", ""], 2, "port-string", "null:"),
        (
            &["run", "bench", "-p", "sim:ixgbe9"],
            2,
            "port-driver",
            "virtio",
        ),
        (
            &["run", "bench", "-p", "sim:virtio,colour=red"],
            2,
            "port-option",
            "packed",
        ),
        (
            &["run", "bench", "-p", "sim:virtio,packed=perhaps"],
            2,
            "port-option",
            "on",
        ),
        (&["bind", "here"], 2, "usage", "0000:3b:00.0"),
        (
            &["bind", "ffff:ff:1f.7", "--dry-run"],
            2,
            "usage",
            "rgen ports",
        ),
    ];
    cases.iter().for_each(check);
}

#[test]
fn a_wrong_quantity_is_a_usage_error_with_a_cure() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["-m", "5mbs"], "quantity", "5mpps"),
        (&["-m", "0pps"], "quantity", "5mpps"),
        (&["-m", "30%"], "usage", "pps"),
        (&["-d", "10parsecs"], "quantity", "10s"),
        (&["-d", "0"], "usage", "forever"),
        (&["--catch-up", "soon"], "quantity", "500ms"),
        (&["--drain", "later"], "quantity", "500ms"),
        (&["--cores", "9999"], "usage", "cores are"),
        (&["--cores", "x"], "usage", "2,3"),
        (&["--require", "los=0"], "usage", "did you mean `loss`?"),
        (&["--require", "p99<50"], "usage", "50us"),
        (&["--dst-mac", "2:3"], "usage", "02:00:00:00:00:01"),
    ];
    for (words, name, cure) in cases {
        let words = [&["run", "bench", "-p", "null:"], *words].concat();
        check(&(&words, 2, name, cure));
    }
}

#[test]
fn a_negative_quantity_is_called_negative() {
    for words in [["-m", "-5%"], ["-d", "-1s"], ["--drain", "-1s"]] {
        let left = run(&[&["run", "bench", "-p", "null:"], &words[..]].concat());
        assert_eq!(left.code, 2, "{words:?}: {left:?}");
        assert!(
            left.stderr.contains("it is negative"),
            "{words:?}: {left:?}"
        );
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    for words in [
        &["run", "bench", "-p", "eth\u{1b}[2J"][..],
        &["run", "bench", "-p", "null:\n"],
        &["show", "bench", "-t", "si\u{1b}ze=64"],
        &["sh\u{1b}ow"],
    ] {
        let left = run(words);
        assert_eq!((left.code, left.stdout.as_str()), (2, ""), "{left:?}");
        assert!(left.stderr.contains("control character"), "{left:?}");
        let is_raw = |letter: char| letter.is_control() && letter != '\n';
        assert!(!left.stderr.contains(is_raw), "{left:?}");
    }
    let profile = "# \u{1b}[2J\n[[stream]]\nname = \"a\" \u{1b}\n";
    let left = left(rgen().args(["show", "-"]).write_stdin(profile));
    assert_eq!(left.code, 2);
    assert!(!left.stderr.contains('\u{1b}'), "{left:?}");
}

#[test]
fn clap_refuses_what_is_no_option_and_says_what_is() {
    for words in [
        &["bogus"][..],
        &[],
        &["run"],
        &["run", "bench", "--prot", "null:"],
        &["fwd", "-p", "null:", "--mode", "sideways"],
        &["bind"],
        &["hugepages", "--size", "2M"],
        &["doctor", "-q", "-v"],
    ] {
        let left = run(words);
        assert_eq!(
            (left.code, left.stdout.as_str()),
            (2, ""),
            "{words:?}: {left:?}"
        );
        assert!(left.stderr.contains("--help"), "{words:?}: {left:?}");
    }
    let machine = run(&["bogus", "--json"]);
    assert_eq!(machine.document()["error"]["code"], "usage");
    assert_eq!(run(&["--help"]).code, 0);
    assert_eq!(run(&["--version"]).code, 0);
}

#[test]
fn a_profile_from_stdin_is_refused_with_its_place() {
    let refused = left(
        rgen()
            .args(["show", "-"])
            .write_stdin("[[stream]]\nname = \"a\"\nframe = \"eth / ipv4\"\nrats = 1\n"),
    );
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--> -:4:1"), "{refused:?}");
    assert!(
        refused.stderr.contains("did you mean `rate`?"),
        "{refused:?}"
    );
    let empty = left(rgen().args(["show", "-"]).write_stdin(""));
    assert_eq!(empty.code, 2);
    let binary = left(
        rgen()
            .args(["show", "-"])
            .write_stdin(vec![0xff, 0x00, 0xfe]),
    );
    assert_eq!(binary.code, 2, "{binary:?}");
}

#[test]
fn a_socket_that_is_not_there_or_not_a_peer_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let absent = format!("vhost-user:{}", path("absent.sock"));
    check(&(
        &["run", "bench", "-p", &absent],
        3,
        "no-peer",
        "start the peer first",
    ));

    // A peer that hangs up, and one that talks nonsense; each is asked twice.
    let hangs_up = UnixListener::bind(path("hangs-up.sock")).unwrap();
    let raves = UnixListener::bind(path("raves.sock")).unwrap();
    let peers = thread::spawn(move || {
        for _ in 0..2 {
            drop(hangs_up.accept().unwrap());
        }
        for _ in 0..2 {
            let (mut stream, _) = raves.accept().unwrap();
            // It may hang up on us before all of it is written.
            let _ = stream.write_all(&[0x5a; 4096]);
        }
    });
    let port = format!("vhost-user:{}", path("hangs-up.sock"));
    check(&(
        &["run", "bench", "-p", &port],
        4,
        "peer-broken",
        "vhost-user",
    ));
    let port = format!("vhost-user:{}", path("raves.sock"));
    check(&(
        &["run", "bench", "-p", &port],
        4,
        "peer-broken",
        "vhost-user",
    ));
    peers.join().unwrap();
}

#[test]
fn a_socket_without_permission_says_so() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mine.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o000)).unwrap();
    // An ordinary user must reach both; where tests run as one, this changes nothing.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.path().join("rgen");
    fs::copy(env!("CARGO_BIN_EXE_rgen"), &binary).unwrap();
    let mut command = process::Command::new(&binary);
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| {
        use std::os::unix::fs::MetadataExt;
        me.uid() == 0
    });
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.args([
        "run",
        "bench",
        "-p",
        &format!("vhost-user:{}", socket.display()),
    ]);
    let left = left(&mut assert_cmd::Command::from_std(command));
    assert_eq!(left.code, 3, "{left:?}");
    assert!(left.stderr.contains("error[no-peer]"), "{left:?}");
    assert!(left.stderr.contains("write to it"), "{left:?}");
}
