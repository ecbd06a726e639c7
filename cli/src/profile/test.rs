//! Profiles in TOML: what they mean, and how they are refused.

use engine::stream::{Measure, Mode, Rate};

use super::*;

const MACS: Macs = Macs {
    src: [2, 0, 0, 0, 0, 1],
    dst: [2, 0, 0, 0, 0, 2],
};

fn own(text: &str) -> Result<OwnProfile, Error> {
    OwnProfile::parse(Text {
        name: "web.toml".to_owned(),
        text: text.to_owned(),
    })
}

fn refusal(text: &str) -> String {
    own(text).unwrap_err().for_people()
}

#[test]
fn the_whole_grammar_is_understood() {
    let profile = own(r#"
        [ports]
        tx = "sim:virtio/0"
        rx = "sim:virtio/1"

        [[stream]]
        name  = "web"
        frame = "eth / ipv4(dst=48.0.0.1) / udp(dport=80)"
        size  = "imix"
        rate  = "40%"
        vary  = { "ipv4.src" = "16.0.0.0/24 each", "udp.sport" = "1024..65535 random" }

        [[stream]]
        name  = "probe"
        frame = "eth / ipv4 / udp(dport=4000) / stamp"
        size  = 128
        rate  = "1kpps"
        delay = "1ms"

        [[stream]]
        name  = "back"
        frame = "eth / ipv4 / udp"
        size  = "64..128"
        burst = 10
        gap   = "1ms"
        bursts = 3
        direction = 1

        [require]
        loss    = "0"
        latency = { p99 = "50us" }
        "#)
    .unwrap();
    assert_eq!(profile.ports(), Some(("sim:virtio/0", "sim:virtio/1")));
    assert_eq!(profile.criteria().len(), 2);

    let even = profile.streams(0, MACS).unwrap();
    let names: Vec<&str> = even.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["web", "probe"]);
    let web = &even[0];
    assert_eq!(web.rate, Rate::LinePercent(40.0));
    assert_eq!(web.frames.variants().len(), 3);
    assert_eq!(web.frames.variants()[2].template.size(), 1518);
    let program = &web.frames.variants()[0].program;
    assert_eq!((program.vars.len(), program.fixes.len()), (2, 2));
    let probe = &even[1];
    assert_eq!(probe.measure, Measure::Latency);
    assert!(!probe.scaled, "a latency stream keeps its rate");
    assert_eq!(probe.start_delay_ns, 1_000_000);

    let odd = profile.streams(1, MACS).unwrap();
    assert_eq!(odd.len(), 3);
    let bursts = Mode::MultiBurst {
        frames: 10,
        gap_ns: 1_000_000,
        bursts: Some(3),
    };
    assert_eq!(odd[2].mode, bursts);
    assert!(odd[2].frames.variants()[0].program.size.is_some());
    assert_eq!(odd[2].frames.mean_size(), 96.0, "64 to 128, with FCS");
}

/// A profile whose first stream says `first`, and its second one `second`.
fn two(first: &str, second: &str) -> String {
    let stream = |name: &str, more: &str| {
        format!("[[stream]]\nname = \"{name}\"\nframe = \"eth / ipv4 / udp\"\n{more}\n")
    };
    stream("in", first) + &stream("out", second)
}

#[test]
fn streams_that_follow_one_another_are_read() {
    let text = two(
        "burst = 10\nnext = \"out\"\ndelay = \"1ms\"",
        "burst = 5\nnext = \"in\"\nwaits = true\nloops = 3",
    );
    let streams = own(&text).unwrap().streams(0, MACS).unwrap();
    assert_eq!(streams[0].next.as_deref(), Some("out"));
    assert_eq!((streams[1].waits, streams[1].loops), (true, Some(3)));
}

#[test]
fn a_chain_that_is_none_is_shown_where_it_breaks() {
    insta::assert_snapshot!(refusal(&two("burst = 10\nnext = \"ont\"", "")), @r#"
    error[profile]: it is followed by "ont", and there is no such stream
     --> web.toml:5:8
      |
    5 | next = "ont"
      |        ^^^^^ did you mean `out`?
    "#);
    insta::assert_snapshot!(refusal(&two("next = \"out\"", "waits = true")), @r#"
    error[profile]: it never ends, so nothing can follow it
     --> web.toml:2:8
      |
    2 | name = "in"
      |        ^^^^ give it a burst = FRAMES, and bursts = N with a gap
    "#);
    insta::assert_snapshot!(refusal(&two("burst = 10", "waits = true")), @r#"
    error[profile]: it waits for another stream to end, and none names it as its next
     --> web.toml:6:8
      |
    6 | name = "out"
      |        ^^^^^ write next = "out" with the one before it
    "#);
    insta::assert_snapshot!(refusal(&two("burst = 10\nnext = \"out\"", "")), @r#"
    error[profile]: it would be started from two sides
     --> web.toml:7:8
      |
    7 | name = "out"
      |        ^^^^^ write waits = true with what follows another, and name it once
    "#);
    insta::assert_snapshot!(refusal(&two("burst = 10\nloops = 2", "")), @r#"
    error[profile]: a number of loops says how often the next stream is started, and there is none
     --> web.toml:5:9
      |
    5 | loops = 2
      |         ^
    "#);
    insta::assert_snapshot!(refusal(&two("burst = 10\nnext = \"out\"\nloops = 0", "waits = true")), @r#"
    error[profile]: no loops: leave it out for any number of them
     --> web.toml:6:9
      |
    6 | loops = 0
      |         ^
    "#);
}

#[test]
fn a_wrong_key_is_shown_where_it_stands_with_what_was_meant() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv4 / udp\"\nrats = \"5mpps\"\n"
    ), @r#"
    error[profile]: unknown field `rats`, expected one of `name`, `frame`, `size`, `rate`, `vary`, `measure`, `fixed_rate`, `delay`, `burst`, `gap`, `bursts`, `next`, `waits`, `loops`, `direction`, `cached`
     --> web.toml:4:1
      |
    4 | rats = "5mpps"
      | ^^^^ did you mean `rate`?
    "#);
}

#[test]
fn toml_that_is_none_is_shown_where_it_stops() {
    insta::assert_snapshot!(refusal("[[stream]\nname = 1\n"), @r#"
    error[profile]: unclosed array table, expected `]`
     --> web.toml:1:10
      |
    1 | [[stream]
      |          ^
    "#);
}

#[test]
fn a_value_of_the_wrong_type_says_what_was_expected() {
    insta::assert_snapshot!(refusal("[[stream]]\nname = 7\nframe = \"eth\"\n"), @r#"
    error[profile]: invalid type: integer `7`, expected a string
     --> web.toml:2:8
      |
    2 | name = 7
      |        ^
    "#);
}

#[test]
fn a_missing_key_is_named() {
    insta::assert_snapshot!(refusal("[[stream]]\nname = \"a\"\n"), @r#"
    error[profile]: missing field `frame`
     --> web.toml:1:1
      |
    1 | [[stream]]
      | ^^^^^^^^^^
    "#);
}

#[test]
fn a_wrong_header_is_pointed_at_inside_the_frame() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv5 / udp\"\n"
    ), @r#"
    error[profile]: there is no header called "ipv5"
     --> web.toml:3:16
      |
    3 | frame = "eth / ipv5 / udp"
      |                ^^^^ did you mean ipv6?
    "#);
}

#[test]
fn a_wrong_field_to_vary_names_those_that_there_are() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv4 / udp\"\nvary = { \"udp.port\" = \"1..9\" }\n"
    ), @r#"
    error[profile]: udp has no field "port"
     --> web.toml:4:10
      |
    4 | vary = { "udp.port" = "1..9" }
      |          ^^^^^^^^^^ did you mean dport? It has: sport, dport, len, checksum
    "#);
}

#[test]
fn wrong_values_to_vary_are_pointed_at() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv4 / udp\"\nvary = { \"ipv4.src\" = \"16.0.0.0/24 up\" }\n"
    ), @r#"
    error[profile]: `up` is no order: each (or inc), dec and random are
     --> web.toml:4:23
      |
    4 | vary = { "ipv4.src" = "16.0.0.0/24 up" }
      |                       ^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_wrong_unit_is_pointed_at() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv4 / udp\"\nrate = \"5mbs\"\n"
    ), @r#"
    error[profile]: `5mbs` is not a rate: `bs` is no unit of rate
     --> web.toml:4:8
      |
    4 | rate = "5mbs"
      |        ^^^^^^ write a number with k, m or g and pps, bps or bpsl1 (`5mpps`, `10gbps`, `10gbpsl1`), per cent (`30%`), or `max`
    "#);
}

#[test]
fn a_size_that_does_not_hold_the_headers_is_pointed_at() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv6 / tcp\"\nsize = 64\n"
    ), @r#"
    error[profile]: a frame of 64 bytes with FCS: the headers take 78, and 9216 is the most
     --> web.toml:4:8
      |
    4 | size = 64
      |        ^^
    "#);
}

#[test]
fn a_criterion_that_is_none_is_pointed_at() {
    insta::assert_snapshot!(refusal(
        "[[stream]]\nname = \"a\"\nframe = \"eth / ipv4 / udp\"\n[require]\nlatency = { p98 = \"50us\" }\n"
    ), @r#"
    error[profile]: criterion `p98<=50us`: nothing is called `p98`
     --> web.toml:5:11
      |
    5 | latency = { p98 = "50us" }
      |           ^^^^^^^^^^^^^^^^ did you mean `p99`? there are loss, duplicated, reordered, shortfall, tx_pps, rx_pps, min, mean, p50, p99, p999, max, jitter
    "#);
}

#[test]
fn no_stream_at_all_is_refused() {
    insta::assert_snapshot!(
        refusal("# nothing\n"),
        @"error[profile]: web.toml: there is no stream in it: write [[stream]] with name, frame and rate"
    );
}

#[test]
fn modes_that_say_half_of_it_are_refused() {
    let stream = "[[stream]]\nname = \"a\"\nframe = \"eth / ipv4 / udp\"\n";
    for half in [
        "gap = \"1ms\"",
        "bursts = 3",
        "burst = 0",
        "burst = 3\nbursts = 2",
        "direction = 2",
        "rate = \"max\"",
        "rate = \"0pps\"",
        "size = \"60..128\"",
        "measure = \"some\"",
        "delay = \"soon\"",
    ] {
        let refusal = refusal(&format!("{stream}{half}\n"));
        assert!(refusal.contains("--> web.toml:"), "{half}: {refusal}");
    }
}

#[test]
fn a_name_of_nothing_says_what_there_is() {
    let refused = |name: &str, tunables: &[&str]| {
        let tunables: Vec<String> = tunables.iter().map(|text| (*text).to_owned()).collect();
        match Profile::load(name, &tunables) {
            Ok(_) => panic!("{name} is no profile"),
            Err(error) => (error.code(), error.cure().unwrap_or_default()),
        }
    };
    let (code, cure) = refused("bnech", &[]);
    assert_eq!(code, "unknown-profile");
    assert!(cure.contains("did you mean `bench`?"), "{cure}");
    let (code, cure) = refused("bench", &["sise=64"]);
    assert_eq!(code, "unknown-knob");
    assert!(cure.contains("`size`"), "{cure}");
    assert_eq!(refused("bench", &["size=63"]).0, "knob-value");
    assert_eq!(refused("bench", &["vm=some"]).0, "knob-value");
    assert_eq!(refused("bench", &["size"]).0, "usage");
    assert_eq!(refused("./not-there.toml", &[]).0, "file");
}

#[test]
fn a_frame_shorter_than_ethernets_shortest_is_refused_with_the_range() {
    for size in ["63", "\"63B\"", "[[64, 1], [63, 1]]"] {
        let text = format!("[[stream]]\nname = \"a\"\nframe = \"eth / ipv4\"\nsize = {size}\n");
        let refused = refusal(&text);
        assert!(refused.contains("a frame has 64 to "), "{refused}");
        assert!(refused.contains("--> web.toml:4:8"), "{refused}");
    }
}

#[test]
fn each_stream_has_a_printable_name_of_its_own() {
    let stream = |name: &str| format!("[[stream]]\nname = \"{name}\"\nframe = \"eth / ipv4\"\n");
    assert!(own(&(stream("a") + &stream("b"))).is_ok());
    for (text, what, place) in [
        (stream("a") + &stream("a"), "another stream", ":5:8"),
        (stream(" "), "without a name", ":2:8"),
        (stream("a\\u001b[2J"), "control character", ":2:8"),
        (stream("a\\nb"), "control character", ":2:8"),
        (
            "[ports]\ntx = \"null:\\u0000\"\n".to_owned() + &stream("a"),
            "control",
            ":2:6",
        ),
    ] {
        let refused = refusal(&text);
        assert!(refused.contains(what), "{refused}");
        assert!(refused.contains(&format!("web.toml{place}")), "{refused}");
    }
}
