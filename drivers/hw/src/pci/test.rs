//! The bus, on a tree of files.

use std::fs;
use std::sync::Mutex;

use super::fake::Tree;
use super::*;

const A: &str = "0000:3b:00.0";

fn bdf(text: &str) -> Bdf {
    text.parse().expect("an address")
}

/// A machine with one 82599 on its kernel driver, an IOMMU, and `vfio-pci` loaded.
fn machine() -> Tree {
    let tree = Tree::new();
    tree.device(A, (0x8086, 0x10fb), "ixgbe");
    tree.group(A, 12);
    tree.driver("vfio-pci");
    tree
}

#[test]
fn a_device_is_seen_with_all_that_sysfs_says_of_it() {
    let tree = machine();
    tree.netdev(A, "enp59s0f0", 1500);
    let dir = format!("sys/bus/pci/devices/{A}");
    for (file, content) in [
        ("current_link_speed", "5.0 GT/s PCIe"),
        ("current_link_width", "4"),
        ("max_link_speed", "5.0 GT/s PCIe"),
        ("max_link_width", "8"),
        ("sriov_totalvfs", "63"),
        ("subsystem_vendor", "0x8086"),
        ("subsystem_device", "0x0003"),
    ] {
        tree.file(&format!("{dir}/{file}"), &format!("{content}\n"));
    }
    tree.device("0000:00:1f.0", (0x8086, 0xa1c1), "");
    tree.file("sys/bus/pci/devices/0000:00:1f.0/class", "0x060100");
    let pci = tree.pci(&[]);

    let all = pci.devices().unwrap();
    assert_eq!(
        all.iter().map(|d| d.bdf).collect::<Vec<_>>(),
        [bdf("0000:00:1f.0"), bdf(A)]
    );
    assert!(all[0].is_bridge() && !all[0].is_network());
    let found = &pci.network_devices().unwrap()[0];
    assert_eq!((found.vendor_id, found.device_id), (0x8086, 0x10fb));
    assert_eq!(found.subsystem, (0x8086, 3));
    assert_eq!(
        (found.class, found.revision, found.node),
        (0x02_0000, 1, Some(1))
    );
    assert_eq!(found.driver.as_deref(), Some("ixgbe"));
    assert_eq!(found.driver_override, None);
    assert_eq!((found.iommu_group, found.no_iommu), (Some(12), false));
    assert_eq!(found.netdevs, ["enp59s0f0"]);
    assert_eq!(found.max_virtfns, 63);
    assert!(found.name().contains("82599"), "{}", found.name());
    let link = found.link.unwrap();
    assert!(link.is_degraded());
    assert!(
        (link.gbps() - 16.0).abs() < 0.01,
        "four lanes of 5 GT/s, 8b/10b"
    );
    assert_eq!(pci.group_members(12), [bdf(A)]);
}

#[test]
fn an_unknown_device_is_named_by_its_numbers() {
    let tree = Tree::new();
    tree.device(A, (0xfffb, 0xfffd), "");
    let name = tree.pci(&[]).device(bdf(A)).unwrap().name();
    assert_eq!(name, "vendor fffb device fffd");
}

#[test]
fn a_device_or_a_bus_that_is_not_there_is_named() {
    let tree = Tree::new();
    let error = tree.pci(&[]).device(bdf(A)).unwrap_err();
    assert!(error.to_string().contains(A) && error.remedy().is_some());
    fs::remove_dir_all(tree.root().join("sys")).unwrap();
    let error = tree.pci(&[]).devices().unwrap_err();
    assert!(matches!(error, PciError::NoBus { .. }) && error.remedy().is_some());
}

#[test]
fn a_device_goes_to_vfio_and_back_to_what_it_was() {
    let tree = machine();
    let pci = tree.pci(&[]);
    let binding = pci.bind_to_vfio(bdf(A)).unwrap();
    assert_eq!(binding.before.as_deref(), Some("ixgbe"));
    let device = pci.device(bdf(A)).unwrap();
    assert_eq!(device.driver.as_deref(), Some("vfio-pci"));
    assert_eq!(device.driver_override.as_deref(), Some("vfio-pci"));
    let files: Vec<String> = tree
        .writes
        .lock()
        .unwrap()
        .iter()
        .map(|(f, _)| f.clone())
        .collect();
    let position = |end: &str| files.iter().position(|file| file.ends_with(end)).unwrap();
    assert!(
        position("driver_override") < position("unbind"),
        "no other driver may snatch it in between"
    );

    let again = pci.bind_to_vfio(bdf(A)).unwrap();
    assert_eq!(again.before.as_deref(), Some("vfio-pci"), "nothing to do");

    let back = pci.unbind(bdf(A), None).unwrap();
    assert_eq!(
        (back.before.as_deref(), back.now.as_deref()),
        (Some("vfio-pci"), Some("ixgbe"))
    );
    let device = pci.device(bdf(A)).unwrap();
    assert_eq!(device.driver.as_deref(), Some("ixgbe"));
    assert_eq!(device.driver_override, None);
}

#[test]
fn a_device_goes_back_to_a_driver_that_the_kernel_would_not_pick() {
    let tree = machine();
    tree.driver("uio_pci_generic");
    let pci = tree.pci(&[]);
    pci.bind_to_vfio(bdf(A)).unwrap();
    let back = pci.unbind(bdf(A), Some("uio_pci_generic")).unwrap();
    assert_eq!(back.now.as_deref(), Some("uio_pci_generic"));
    let device = pci.device(bdf(A)).unwrap();
    assert_eq!(device.driver.as_deref(), Some("uio_pci_generic"));
    assert_eq!(device.driver_override, None, "no trace is left");
}

#[test]
fn a_binding_is_undone_to_the_driver_before_it_or_to_none() {
    let tree = machine();
    let pci = tree.pci(&[]);
    let driver = || pci.device(bdf(A)).unwrap().driver;
    let binding = pci.bind_to_vfio(bdf(A)).unwrap();
    let nothing = pci.bind_to_vfio(bdf(A)).unwrap();
    pci.undo(&nothing).unwrap();
    assert_eq!(driver().as_deref(), Some("vfio-pci"), "it was there before");
    pci.undo(&binding).unwrap();
    assert_eq!(driver().as_deref(), Some("ixgbe"));

    let dir = tree.root().join("sys/bus/pci/devices").join(A);
    fs::remove_file(dir.join("driver")).unwrap();
    let binding = pci.bind_to_vfio(bdf(A)).unwrap();
    assert_eq!(binding.before, None);
    pci.undo(&binding).unwrap();
    let device = pci.device(bdf(A)).unwrap();
    assert_eq!(device.driver, None, "nobody asked the kernel to pick one");
    assert_eq!(device.driver_override, None);
}

#[test]
fn without_vfio_or_an_iommu_nothing_is_touched() {
    let tree = Tree::new();
    tree.device(A, (0x8086, 0x10fb), "ixgbe");
    let pci = tree.pci(&[]);
    let error = pci.bind_to_vfio(bdf(A)).unwrap_err();
    assert_eq!(error.remedy().unwrap(), "load it: modprobe vfio-pci");

    tree.driver("vfio-pci");
    let error = pci.bind_to_vfio(bdf(A)).unwrap_err();
    assert!(matches!(error, BindError::NoIommu { .. }), "{error}");
    assert!(error.remedy().unwrap().contains("intel_iommu=on"));
    assert!(tree.writes.lock().unwrap().is_empty());
    assert_eq!(pci.device(bdf(A)).unwrap().driver.as_deref(), Some("ixgbe"));

    tree.file(
        "sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
        "Y\n",
    );
    pci.bind_to_vfio(bdf(A)).unwrap();
}

#[test]
fn a_device_that_vfio_refuses_gets_its_driver_back() {
    let tree = machine();
    tree.file(&format!("sys/bus/pci/devices/{A}/.refuses-vfio-pci"), "");
    let pci = tree.pci(&[]);
    let error = pci.bind_to_vfio(bdf(A)).unwrap_err();
    assert!(
        matches!(error, BindError::Elsewhere { found: None, .. }),
        "{error}"
    );
    let device = pci.device(bdf(A)).unwrap();
    assert_eq!(device.driver.as_deref(), Some("ixgbe"));
    assert_eq!(device.driver_override, None);
}

/// Asserts that binding is refused with words that hold each of `words`, and changes nothing.
fn refused(tree: &Tree, pci: &Pci, words: &[&str]) {
    let error = pci.bind_to_vfio(bdf(A)).unwrap_err();
    let said = format!("{error}. {}", error.remedy().unwrap_or_default());
    for word in words {
        assert!(said.contains(word), "{said:?} does not say {word:?}");
    }
    assert!(tree.writes.lock().unwrap().is_empty());
}

#[test]
fn a_nic_with_the_default_route_is_refused() {
    let tree = machine();
    tree.netdev(A, "eth0", 1500);
    tree.file(
        "proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\n\
         eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n",
    );
    refused(
        &tree,
        &tree.pci(&[]),
        &["eth0 carries the IPv4 default route", "ip -4 route del"],
    );
}

#[test]
fn a_nic_under_the_bond_with_the_ipv6_default_route_is_refused() {
    let tree = machine();
    tree.netdev(A, "eth0", 1500);
    tree.make("sys/class/net/eth0/upper_bond0");
    tree.make("sys/class/net/bond0/upper_bond0.100");
    let zero = "0".repeat(32);
    tree.file(
        "proc/net/ipv6_route",
        &format!("{zero} 00 {zero} 00 {zero} 00000400 1 0 00000003 bond0.100\n"),
    );
    refused(
        &tree,
        &tree.pci(&[]),
        &["bond0.100 carries the IPv6 default route"],
    );
}

#[test]
fn a_nic_with_an_address_and_a_session_is_refused_with_both_reasons() {
    let tree = machine();
    tree.netdev(A, "eth0", 1500);
    tree.file(
        "proc/net/tcp",
        "sl local_address rem_address st\n 0: 0500000A:0016 0700000A:C350 01 0\n",
    );
    let pci = tree.pci(&[("eth0", "10.0.0.5"), ("lo", "127.0.0.1")]);
    refused(
        &tree,
        &pci,
        &[
            "eth0 has the address 10.0.0.5",
            "10.0.0.5:22 to 10.0.0.7:50000",
        ],
    );
}

#[test]
fn a_link_local_address_or_another_nics_is_no_reason() {
    let tree = machine();
    tree.netdev(A, "eth0", 1500);
    tree.file(
        "proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\n\
         eth1 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n",
    );
    let pci = tree.pci(&[("eth0", "fe80::1"), ("eth1", "10.0.0.5")]);
    pci.bind_to_vfio(bdf(A)).unwrap();
}

#[test]
fn a_nic_whose_virtual_functions_would_vanish_is_refused() {
    let tree = machine();
    tree.device("0000:3b:10.0", (0x8086, 0x10ed), "");
    tree.virtfn(A, 0, "0000:3b:10.0");
    refused(
        &tree,
        &tree.pci(&[]),
        &["1 virtual functions", "sriov_numvfs"],
    );
}

#[test]
fn a_device_that_a_process_drives_is_not_taken_away() {
    let tree = machine();
    let pci = tree.pci(&[]);
    pci.bind_to_vfio(bdf(A)).unwrap();
    tree.writes.lock().unwrap().clear();
    tree.file("dev/vfio/12", "");
    tree.file("proc/4242/comm", "testpmd\n");
    tree.make("proc/4242/fd");
    std::os::unix::fs::symlink(
        tree.root().join("dev/vfio/12"),
        tree.root().join("proc/4242/fd/7"),
    )
    .unwrap();
    let error = pci.unbind(bdf(A), None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("process 4242 (testpmd) drives it"),
        "{error}"
    );
    assert!(tree.writes.lock().unwrap().is_empty());
}

#[test]
fn virtual_functions_come_and_go_by_way_of_none() {
    let tree = machine();
    let dir = format!("sys/bus/pci/devices/{A}");
    tree.file(&format!("{dir}/sriov_totalvfs"), "63");
    tree.file(&format!("{dir}/sriov_numvfs"), "0");
    let pci = tree.pci(&[]);
    let made = pci.set_virtfns(bdf(A), 2).unwrap();
    assert_eq!(made, [bdf("0000:3c:00.0"), bdf("0000:3c:00.1")]);
    assert_eq!(pci.virtfn_count(bdf(A)), 2);
    assert_eq!(pci.device(made[1]).unwrap().physfn, Some(bdf(A)));
    assert_eq!(pci.device(bdf(A)).unwrap().virtfns, made);
    assert_eq!(pci.set_virtfns(bdf(A), 3).unwrap().len(), 3);
    assert_eq!(pci.set_virtfns(bdf(A), 0).unwrap(), []);

    let error = pci.set_virtfns(bdf(A), 64).unwrap_err();
    assert!(error.to_string().contains("63") && error.remedy().is_some());
    let error = pci.set_virtfns(made[0], 1).unwrap_err();
    assert!(matches!(error, SriovError::None { .. }));
}

#[test]
fn a_driver_that_makes_no_virtual_functions_is_named() {
    let tree = machine();
    let dir = format!("sys/bus/pci/devices/{A}");
    tree.file(&format!("{dir}/sriov_totalvfs"), "63");
    let pci = tree.pci(&[]);
    pci.bind_to_vfio(bdf(A)).unwrap();
    let error = pci.set_virtfns(bdf(A), 1).unwrap_err();
    assert!(error.to_string().contains("vfio-pci"), "{error}");
    assert!(error.remedy().unwrap().contains("enable_sriov"));
}

/// The machine with a VF whose PF has an interface; the file of its MTU.
fn with_vf(mtu: u32) -> (Tree, Bdf, std::path::PathBuf) {
    let tree = machine();
    tree.netdev(A, "eth0", mtu);
    tree.device("0000:3b:10.0", (0x8086, 0x10ed), "");
    tree.virtfn(A, 0, "0000:3b:10.0");
    let file = tree
        .root()
        .join(format!("sys/bus/pci/devices/{A}/net/eth0/mtu"));
    (tree, bdf("0000:3b:10.0"), file)
}

#[test]
fn a_vf_is_named_as_the_commands_of_its_host_name_it() {
    let (tree, first, _) = with_vf(1500);
    tree.device("0000:3b:10.2", (0x8086, 0x10ed), "");
    tree.virtfn(A, 7, "0000:3b:10.2");
    let pci = tree.pci(&[]);
    let place = |number| VfPlace {
        interface: "eth0".to_owned(),
        number,
    };
    assert_eq!(pci.vf_place(first), Some(place(0)));
    assert_eq!(pci.vf_place(bdf("0000:3b:10.2")), Some(place(7)));
    assert_eq!(pci.vf_place(bdf(A)), None, "no virtual function");
    fs::remove_dir_all(tree.root().join(format!("sys/bus/pci/devices/{A}/net"))).unwrap();
    assert_eq!(pci.vf_place(first), None, "its PF has no interface here");
}

#[test]
fn a_pfs_mtu_is_raised_while_anybody_needs_it_and_then_restored() {
    let (tree, vf, file) = with_vf(1500);
    let pci = tree.pci(&[]);
    let mtu = || text(&file).unwrap();
    assert_eq!(pci.pf_mtu(vf, 9000).unwrap(), ("eth0".to_owned(), 1500));
    let first = pci.raise_pf_mtu(vf, 9000).unwrap().unwrap();
    assert_eq!(
        (mtu().as_str(), first.before, first.now),
        ("9000", 1500, 9000)
    );
    let second = pci.raise_pf_mtu(vf, 4000).unwrap().unwrap();
    let third = pci.raise_pf_mtu(vf, 9710).unwrap().unwrap();
    assert_eq!((mtu().as_str(), third.before), ("9710", 1500));
    drop(first);
    drop(third);
    assert_eq!(mtu(), "9710", "the second still needs it");
    drop(second);
    assert_eq!(mtu(), "1500");
}

/// A note that another process holds, or that it left when it was killed.
fn noted(tree: &Tree, words: &str) -> std::path::PathBuf {
    let name = format!("run/rgen/pf-mtu-{A}");
    tree.file(&name, words);
    tree.root().join(name)
}

#[test]
fn an_mtu_that_a_killed_process_left_raised_goes_back_to_what_it_was_before_that_one() {
    let (tree, vf, file) = with_vf(9000);
    let note = noted(&tree, "1500 9000");
    let raised = tree.pci(&[]).raise_pf_mtu(vf, 9000).unwrap().unwrap();
    assert!(raised.was_left && raised.before == 1500, "{raised:?}");
    assert!(tree.writes.lock().unwrap().is_empty(), "it suffices");
    drop(raised);
    assert_eq!(text(&file).unwrap(), "1500");
    assert!(!note.exists());

    // Somebody changed it since: the note is about nothing any more.
    let (tree, vf, file) = with_vf(4000);
    let note = noted(&tree, "1500 9000");
    let raised = tree.pci(&[]).raise_pf_mtu(vf, 9000).unwrap().unwrap();
    assert!(!raised.was_left && raised.before == 4000, "{raised:?}");
    drop(raised);
    assert_eq!(text(&file).unwrap(), "4000");
    assert!(!note.exists());
}

#[test]
fn the_note_is_written_before_the_mtu_is_raised_as_a_kill_may_come_in_between() {
    let (tree, vf, _) = with_vf(1500);
    let note = tree.root().join(format!("run/rgen/pf-mtu-{A}"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let kernel = move |file: &std::path::Path, words: &str| {
        noted.lock().unwrap().push(text(&note).unwrap_or_default());
        fs::write(file, words)
    };
    let pci = tree.pci(&[]).with_kernel(kernel);
    let first = pci.raise_pf_mtu(vf, 9000).unwrap().unwrap();
    let second = pci.raise_pf_mtu(vf, 9200).unwrap().unwrap();
    assert_eq!(*seen.lock().unwrap(), ["1500 9000", "1500 9200"]);
    drop((first, second));
}

#[test]
fn an_mtu_that_another_process_needs_still_is_lowered_by_that_one() {
    let (tree, vf, file) = with_vf(9000);
    let note = noted(&tree, "1500 9000");
    // An open file of its own, as another process has.
    let other = fs::File::open(&note).unwrap();
    other.lock_shared().unwrap();
    let raised = tree.pci(&[]).raise_pf_mtu(vf, 9200).unwrap().unwrap();
    assert!(!raised.was_left && raised.before == 1500, "{raised:?}");
    drop(raised);
    assert_eq!(text(&file).unwrap(), "9200", "the other needs 9000 of it");
    assert_eq!(text(&note).unwrap(), "1500 9200");
    drop(other);
    drop(tree.pci(&[]).raise_pf_mtu(vf, 9000).unwrap().unwrap());
    assert_eq!(text(&file).unwrap(), "1500");
    assert!(!note.exists());
}

#[test]
fn where_no_note_can_be_left_a_process_restores_what_it_raised_itself() {
    let (tree, vf, file) = with_vf(1500);
    tree.file("run", "no folder");
    let raised = tree.pci(&[]).raise_pf_mtu(vf, 9000).unwrap().unwrap();
    assert_eq!(text(&file).unwrap(), "9000");
    drop(raised);
    assert_eq!(text(&file).unwrap(), "1500");
}

#[test]
fn a_pfs_mtu_that_suffices_or_was_changed_by_others_is_left_alone() {
    let (tree, vf, file) = with_vf(9000);
    let pci = tree.pci(&[]);
    assert!(pci.raise_pf_mtu(vf, 9000).unwrap().is_none());
    assert!(tree.writes.lock().unwrap().is_empty());
    let notes = fs::read_dir(tree.root().join("run/rgen")).unwrap();
    let names = notes.map(|note| note.unwrap().file_name());
    assert!(
        names.into_iter().all(|name| name == "desk"),
        "nothing to note"
    );
    let raised = pci.raise_pf_mtu(vf, 9500).unwrap().unwrap();
    fs::write(&file, "4000").unwrap();
    drop(raised);
    assert_eq!(text(&file).unwrap(), "4000", "theirs now");
}

#[test]
fn a_pf_out_of_sight_is_said_with_the_command_for_its_host() {
    let tree = machine();
    let pci = tree.pci(&[]);
    let error = pci.raise_pf_mtu(bdf(A), 9000).unwrap_err();
    assert!(error.remedy().unwrap().contains("mtu 9000"), "{error}");
    let (tree, vf, _) = with_vf(1500);
    fs::remove_dir_all(tree.root().join(format!("sys/bus/pci/devices/{A}/net"))).unwrap();
    let remedy = |tree: &Tree| {
        let error = tree.pci(&[]).raise_pf_mtu(vf, 9000).unwrap_err();
        error.remedy().unwrap()
    };
    let elsewhere = remedy(&tree);
    assert!(
        elsewhere.contains("namespace") && elsewhere.contains("mtu 9000"),
        "{elsewhere}"
    );
    fs::remove_file(tree.root().join(format!("sys/bus/pci/devices/{A}/driver"))).unwrap();
    assert!(remedy(&tree).contains(&format!("rgen unbind {A}")));
}

#[test]
fn no_permission_is_said_as_such() {
    let (tree, vf, _) = with_vf(1500);
    let dir = format!("sys/bus/pci/devices/{A}");
    tree.file(&format!("{dir}/sriov_totalvfs"), "63");
    let denied =
        |_: &std::path::Path, _: &str| Err(std::io::Error::from_raw_os_error(libc::EACCES));
    let pci = tree.pci(&[]).with_kernel(denied);
    let error = pci.raise_pf_mtu(vf, 9000).unwrap_err();
    assert!(matches!(error, MtuError::Denied { .. }));
    let cure = error.remedy().unwrap();
    assert!(cure.contains("ip link set dev eth0 mtu 9000"), "{cure}");
    assert!(!tree.root().join(format!("run/rgen/pf-mtu-{A}")).exists());
    assert!(matches!(
        pci.set_virtfns(bdf(A), 1),
        Err(SriovError::Denied { .. })
    ));
    fs::remove_file(tree.root().join(format!("{dir}/virtfn0"))).unwrap();
    let error = pci.bind_to_vfio(bdf(A)).unwrap_err();
    assert!(
        matches!(error, BindError::Denied { .. }) && error.remedy().is_some(),
        "{error}"
    );
}

#[test]
fn configuration_space_is_read_and_written_as_far_as_it_goes() {
    let tree = machine();
    let mut config = [0u8; 64];
    config[..4].copy_from_slice(&[0x86, 0x80, 0xfb, 0x10]);
    fs::write(
        tree.root().join(format!("sys/bus/pci/devices/{A}/config")),
        config,
    )
    .unwrap();
    let space = tree.pci(&[]).config(bdf(A)).unwrap();
    assert_eq!(space.read16(0).unwrap(), 0x8086);
    assert_eq!(space.read32(0).unwrap(), 0x10fb_8086);
    space.write16(4, 0x0406).unwrap();
    assert_eq!((space.read8(4).unwrap(), space.read8(5).unwrap()), (6, 4));
    space.write32(8, 0x0102_0304).unwrap();
    assert_eq!(space.read32(8).unwrap(), 0x0102_0304);
    assert!(space.read32(62).is_err(), "an ordinary user sees 64 bytes");
}

#[test]
fn a_reset_is_asked_for_by_its_file() {
    let tree = machine();
    tree.pci(&[]).reset(bdf(A)).unwrap();
    let writes = tree.writes.lock().unwrap();
    assert!(writes[0].0.ends_with(&format!("{A}/reset")) && writes[0].1 == "1");
}

#[test]
fn this_machines_own_addresses_can_be_asked_for() {
    let addresses = interface_addresses().unwrap();
    let all_named = addresses.iter().all(|(name, _)| !name.is_empty());
    assert!(all_named);
}
