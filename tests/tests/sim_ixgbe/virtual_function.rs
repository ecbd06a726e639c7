//! Virtual functions and what their PF does to them.

use std::sync::Arc;

use models::ixgbe::{Api, IxgbeVfOptions, Kind, Pf, VfMac};
use models::{Device, Fault, Sim};
use port::{Config, LinkState, Offloads, PortError, StartError};
use rig::conformance::{Line, Watch, frame, same};

use super::{
    address, join, offloading, ports, serve_once, serve_until, stop, traffic, virtual_function,
};

/// Two VFs of `kind` whose PFs are as `change` makes them; the first one's.
fn vfs(kind: Kind, change: impl Fn(&mut IxgbeVfOptions)) -> (Arc<Sim>, Pf) {
    let devices = [0, 1].map(|end| virtual_function(kind, end, &change));
    let pf = devices[0].pf();
    let sim = join(devices.map(|device| Box::new(device) as Box<dyn Device>));
    (sim, pf)
}

fn wait_for_link(line: &mut Line) {
    let mut watch = Watch::new();
    while line.ends[0].port.link().unwrap().state != LinkState::Up {
        serve_once(line);
        assert!(watch.is_patient(false), "the link stays down");
    }
}

#[test]
fn an_address_and_a_vlan_that_the_host_has_set_cannot_be_changed_and_the_refusal_says_the_cure() {
    let (sim, _) = vfs(Kind::I82599, |options| {
        options.pf.mac = VfMac::Pinned;
        options.pf.trusted = false;
        options.pf.vlan = 100;
    });
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    assert_eq!(line.macs()[0], address(0));
    let port = &mut line.ends[0].port;
    let errors = [
        port.set_mac([2, 0, 0, 0, 0, 9]).unwrap_err(),
        port.set_vlan_filter(5, true).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
        assert!(error.remedy().unwrap().contains("ip link set"), "{error}");
    }
    assert_eq!(line.macs()[0], address(0), "it is what it was");
    traffic(&mut line, 0);
    stop(line, &sim);
}

#[test]
fn a_large_mtu_that_an_82599_s_pf_refuses_names_the_command_and_an_ordinary_one_works_after_it() {
    let (sim, pf) = vfs(Kind::I82599, |options| options.pf.mtu = 1500);
    let [mut first, second] = ports(&sim);
    first.set_mtu(9000).unwrap();
    let memory = hugemem::Memory::new(&hugemem::MemoryRequest {
        bytes: 1 << 20,
        pages: hugemem::Pages::HugeOrBase,
        node: None,
        spaces: vec![first.space()],
    });
    let memory = memory.unwrap();
    match first.start(&Config::default(), &memory) {
        Err(StartError::Port(error @ PortError::Refused { .. })) => {
            let cure = error.remedy().unwrap();
            assert!(
                cure.contains("on the host") && cure.contains("mtu 9000"),
                "{cure}"
            );
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a PF of 82599 with an MTU of 1500 granted 9000"),
    }
    // What was refused has stopped receiving altogether; the next start has to make that good.
    first.set_mtu(1500).unwrap();
    let mut line = Line::start([first, second], &Config::default()).unwrap();
    traffic(&mut line, 0);
    let [mut first, second] = line.stop().unwrap();
    // The host's administrator does as told, which resets the VF.
    pf.set_mtu(9000);
    first.set_mtu(9000).unwrap();
    let config = offloading(Offloads::RX_SCATTER);
    let mut line = Line::start([first, second], &config).unwrap();
    let macs = line.macs();
    let small = frame(macs[1], macs[0], 200, 1);
    let received = line.transfer(0, std::slice::from_ref(&small), 1).unwrap();
    same(&[small], &received).unwrap();
    stop(line, &sim);
}

#[test]
fn a_pf_whose_mtu_changes_in_mid_run_resets_its_vf_which_comes_back() {
    let (sim, pf) = vfs(Kind::I82599, |options| options.pf.mtu = 1500);
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    traffic(&mut line, 0);
    for (round, mtu) in [9000, 1500, 4000].into_iter().enumerate() {
        pf.set_mtu(mtu);
        serve_until(&mut line, |said| {
            said.iter().any(|event| event.contains("is back"))
        });
        traffic(&mut line, 1000 * (round as u64 + 1));
    }
    line.stop().unwrap();
}

#[test]
fn an_old_pf_with_a_large_mtu_refuses_an_82599_s_vf_everything_and_the_words_say_why() {
    let (sim, _) = vfs(Kind::I82599, |options| options.pf.newest_api = Api::V10);
    let mut first = ports(&sim).into_iter().next().unwrap();
    let memory = hugemem::Memory::new(&hugemem::MemoryRequest {
        bytes: 1 << 20,
        pages: hugemem::Pages::HugeOrBase,
        node: None,
        spaces: vec![first.space()],
    });
    let error = first
        .start(&Config::default(), &memory.unwrap())
        .map(drop)
        .unwrap_err();
    let cure = error.remedy().unwrap();
    assert!(
        cure.contains("API 1.0") && cure.contains("mtu 1500"),
        "{cure}"
    );
}

#[test]
fn each_version_of_the_mailbox_carries_traffic() {
    for api in [Api::V10, Api::V11, Api::V12, Api::V13, Api::V14, Api::V15] {
        let (sim, _) = vfs(Kind::X540, |options| options.pf.newest_api = api);
        let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
        traffic(&mut line, 0);
        stop(line, &sim);
    }
}

#[test]
fn modes_that_the_pf_does_not_grant_are_refused_aloud_and_those_of_82599_not_even_offered() {
    let (sim, _) = vfs(Kind::X540, |options| {
        options.pf.trusted = false;
        options.pf.promiscuous = false;
    });
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    let port = &mut line.ends[0].port;
    for error in [
        port.set_promiscuous(true).unwrap_err(),
        port.set_all_multicast(true).unwrap_err(),
    ] {
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
        assert!(error.remedy().unwrap().contains("trust on"), "{error}");
    }
    traffic(&mut line, 0);
    stop(line, &sim);
    let (sim, _) = vfs(Kind::I82599, |_| {});
    let mut first = ports(&sim).into_iter().next().unwrap();
    assert!(!first.caps().offloads.contains(Offloads::PROMISCUOUS));
    let error = first.set_promiscuous(true).unwrap_err();
    assert!(matches!(error, PortError::NotOffered { .. }), "{error}");
}

#[test]
fn a_pf_that_goes_down_takes_the_vf_s_link_and_gives_it_back_when_it_is_up_again() {
    let (sim, pf) = vfs(Kind::I82599, |_| {});
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    traffic(&mut line, 0);
    for round in 1..3 {
        pf.take_down();
        serve_until(&mut line, |said| {
            said.iter().any(|event| event == "link down")
        });
        assert_eq!(line.ends[0].port.link().unwrap().state, LinkState::Down);
        pf.bring_up();
        wait_for_link(&mut line);
        line.settle(1).unwrap();
        line.ends[0].arm();
        traffic(&mut line, round * 1000);
    }
    line.stop().unwrap();
}

#[test]
fn a_link_that_the_host_keeps_down_is_down_with_the_command_that_cures_it_until_it_is_given_back() {
    let (sim, pf) = vfs(Kind::X540, |_| {});
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    traffic(&mut line, 0);
    for round in 1..4 {
        pf.set_link_enabled(false);
        serve_until(&mut line, |said| {
            let told = "keeps this virtual function's link down";
            let cure = "vf <number> state auto";
            said.iter()
                .any(|event| event.contains(told) && event.contains(cure))
        });
        let link = line.ends[0].port.link().unwrap();
        assert_eq!((link.state, link.speed_bps), (LinkState::Down, None));
        pf.set_link_enabled(true);
        wait_for_link(&mut line);
        traffic(&mut line, 1000 * round);
    }
    stop(line, &sim);
}

#[test]
fn a_request_that_is_refused_or_never_answered_is_an_error_in_words() {
    let (sim, _) = vfs(Kind::I82599, |_| {});
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    sim.faults(0).inject(Fault::CommandRefused, 1);
    let error = line.ends[0].port.set_vlan_filter(9, true).unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error}");
    sim.faults(0).inject(Fault::CommandSilent, 1);
    let error = line.ends[0].port.set_vlan_filter(9, true).unwrap_err();
    assert!(matches!(error, PortError::Stuck { .. }), "{error}");
    line.ends[0].port.set_vlan_filter(9, true).unwrap();
    traffic(&mut line, 0);
    stop(line, &sim);
}

#[test]
fn a_physical_function_that_is_reset_takes_its_vf_down_and_the_driver_starts_it_over() {
    let devices = [0, 1].map(|end| virtual_function(Kind::I82599, end, |_| {}));
    let pf: Pf = devices[0].pf();
    let sim = join(devices.map(|device| Box::new(device) as Box<dyn Device>));
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    traffic(&mut line, 0);
    for round in 1..4 {
        let macs = line.macs();
        let mut flying = (0..40).map(|n| frame(macs[1], macs[0], 70, n)).collect();
        line.ends[0].post(0, &mut flying, 40);
        pf.reset();
        serve_until(&mut line, |said| {
            said.iter().any(|event| event.contains("is back"))
        });
        line.settle(1).unwrap();
        assert_eq!(line.ends[0].in_flight(), 0);
        line.ends[0].arm();
        traffic(&mut line, round * 1000);
        let counted = line.ends[0].port.extended().unwrap();
        let recoveries = counted.iter().find(|row| row.name == "recoveries");
        assert_eq!(recoveries.unwrap().value, round);
        // The PF's reset makes its VFs' counters zero. What they counted between the last look and
        // the reset nobody knows; what is known is never too much.
        let counters = line.ends[0].port.counters().unwrap();
        for frames in [counters.tx_frames, counters.rx_frames] {
            let bounds = 300 * round..=340 * (round + 1);
            assert!(bounds.contains(&frames), "{frames} in round {round}");
        }
    }
    line.stop().unwrap();
    assert_eq!(sim.objections(), [""; 0]);
}
