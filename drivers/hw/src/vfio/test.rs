//! VFIO against a kernel that holds its rules.

use std::os::fd::{AsFd, AsRawFd};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use hugemem::{
    Addressing, Area, Iova, IovaRange, MapError, Memory, MemoryRequest, PageSize, Pages,
};

use super::mock::{File, Mock, MockDevice, MockGroup, Window};
use super::*;
use crate::mmio::Bar;
use crate::pci::fake::Tree;

const A: &str = "0000:3b:00.0";
const B: &str = "0000:3b:00.1";
const C: &str = "0000:5e:00.0";
const GIB: u64 = 1 << 30;
const SECRET: &str = "14d63f20-8445-11ea-8900-1f9ce7d5650d";

/// A machine with three devices on `vfio-pci`: A in group 12, B and C in group 13.
struct Machine {
    tree: Tree,
    kernel: Mock,
    vfio: Vfio,
    file: std::fs::File,
}

fn bdf(text: &str) -> Bdf {
    text.parse().expect("an address")
}

impl Machine {
    fn new() -> Self {
        let tree = Tree::new();
        let kernel = Mock::new(tree.root());
        for (n, (name, group)) in [(A, 12), (B, 13), (C, 13)].into_iter().enumerate() {
            tree.driver("vfio-pci");
            tree.device(name, (0x8086, 0x10fb), "vfio-pci");
            tree.group(name, group);
            let mut device = MockDevice::new(group, &format!("vfio{n}"));
            device.windows.push((0, Window::new(0x4000, true)));
            device.bus = vec![name.to_owned()];
            tree.make(&format!("sys/bus/pci/devices/{name}/vfio-dev/vfio{n}"));
            let mut state = kernel.state();
            state.devices.insert(name.into(), device);
            state.groups.entry(group).or_default();
        }
        let vfio = Vfio::with(Arc::new(kernel.clone()), tree.pci(&[]));
        let file = std::fs::File::open("/dev/null").expect("it is always there");
        Self {
            tree,
            kernel,
            vfio,
            file,
        }
    }

    fn open(&self, name: &str) -> VfioFunction {
        self.vfio
            .open(bdf(name), &Options::default())
            .expect("nothing is in the way")
    }

    fn open_error(&self, name: &str, options: &Options) -> OpenError {
        self.vfio
            .open(bdf(name), options)
            .expect_err("something is in the way")
    }

    fn by_iommufd(&self, name: &str) -> VfioFunction {
        let options = Options {
            way: Way::Iommufd,
            ..Options::default()
        };
        let opened = self.vfio.open(bdf(name), &options);
        opened.expect("nothing is in the way")
    }

    fn device<T>(&self, name: &str, look: impl FnOnce(&mut MockDevice) -> T) -> T {
        look(self.kernel.state().devices.get_mut(name).expect("there"))
    }

    /// An area of memory that is nobody's: the mock looks at numbers only.
    #[expect(unsafe_code, reason = "the mock of a kernel maps nothing")]
    fn area(&self, iova: u64, len: u64) -> Area<'_> {
        let iova = Iova::from_device(iova);
        // SAFETY: no device of the mock touches memory.
        unsafe { Area::new(iova, 0x7f00_0000_0000, len, self.file.as_fd(), 0) }
    }

    /// True if the device could write to `iova` now.
    fn can_dma(&self, name: &str, iova: u64) -> bool {
        let state = self.kernel.state();
        let device = &state.devices[name];
        let mapped = |file: &File| match file {
            File::Container(container) => {
                container.groups.contains(&device.group) && container.space.covers(iova, 1)
            }
            _ => false,
        };
        device.is_master() && device.open > 0 && state.files.values().any(mapped)
    }
}

fn request(bytes: usize, spaces: Vec<Arc<dyn DmaSpace>>) -> MemoryRequest {
    MemoryRequest {
        bytes,
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces,
    }
}

#[test]
fn a_device_is_opened_in_the_order_that_the_kernel_wants() {
    let machine = Machine::new();
    let function = machine.open(A);
    assert_eq!((function.name(), function.numa_node()), (A, Some(1)));
    let order = [
        "open vfio/vfio",
        "open vfio/12",
        "joins",
        "set IOMMU 3",
        "open device",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|call| machine.kernel.position(call))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
    assert_eq!(function.config32(0), 0x10fb_8086);
    assert_eq!(function.config8(1), 0x80);
    assert!(!function.is_unprotected());
}

#[test]
fn windows_are_on_and_bus_mastering_is_off_until_the_driver_says_so() {
    let machine = Machine::new();
    machine.device(A, |device| device.keeps_master = true);
    let function = machine.open(A);
    assert_eq!(function.config16(COMMAND) & 7, 3);
    set_bus_master(&function, true);
    assert_eq!(function.config16(COMMAND) & 7, 7);
    function.reset().unwrap();
    assert_eq!(
        function.config16(COMMAND) & 7,
        3,
        "not after a reset either"
    );
}

#[test]
fn memory_lies_where_the_iommu_translates_and_is_mapped_once_for_both_devices() {
    let machine = Machine::new();
    let (a, b) = (machine.open(A), machine.open(B));
    assert!(
        Arc::ptr_eq(&a.space(), &b.space()),
        "one container for the process"
    );
    let memory = Memory::new(&request(1 << 20, vec![a.space(), b.space()])).unwrap();
    assert_eq!(memory.mappings(), 1);
    let iova = memory
        .carve::<std::sync::atomic::AtomicU64>(8, 64)
        .unwrap()
        .iova();
    assert!(iova.get() < 1 << 39, "39 bits");
    for (device, name) in [(&a, A), (&b, B)] {
        assert!(!machine.can_dma(name, iova.get()));
        set_bus_master(device, true);
        assert!(machine.can_dma(name, iova.get()));
    }
    drop(memory);
    assert!(!machine.can_dma(A, iova.get()));
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
}

#[test]
fn a_group_is_opened_once_for_all_its_devices() {
    let machine = Machine::new();
    let (_b, _c) = (machine.open(B), machine.open(C));
    assert_eq!(machine.kernel.calls_with("open vfio/13").len(), 1);
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
}

#[test]
fn a_group_that_cannot_share_gets_a_container_of_its_own() {
    let machine = Machine::new();
    machine.kernel.state().nothing_shared = true;
    let (a, b) = (machine.open(A), machine.open(B));
    assert!(!Arc::ptr_eq(&a.space(), &b.space()));
    let memory = Memory::new(&request(1 << 20, vec![a.space(), b.space()])).unwrap();
    assert_eq!(memory.mappings(), 2, "mapped in each");
}

#[test]
fn no_dma_happens_once_a_function_is_dropped_whatever_is_kept() {
    let machine = Machine::new();
    machine.device(A, |device| {
        device.windows.push((2, Window::new(64, false)));
    });
    let function = machine.open(A);
    // A window that is reached by calls keeps the device's file open.
    let window = function.bar(2).unwrap();
    let memory = Memory::new(&request(1 << 20, vec![function.space()])).unwrap();
    let ring = memory.carve::<std::sync::atomic::AtomicU64>(8, 64).unwrap();
    set_bus_master(&function, true);
    assert!(machine.can_dma(A, ring.iova().get()));
    drop(function);
    assert_eq!(machine.device(A, |device| device.open), 1, "still open");
    assert!(!machine.can_dma(A, ring.iova().get()));
    drop((window, memory, ring));
    let order = [
        "config 0x4 = [3, 0]",
        "close device",
        "unmap",
        "close group 12",
        "close container",
    ];
    let last = |call: &str| {
        let state = machine.kernel.state();
        state
            .calls
            .iter()
            .rposition(|made| made.contains(call))
            .unwrap()
    };
    let places: Vec<usize> = order.iter().map(|call| last(call)).collect();
    assert!(
        places.is_sorted(),
        "{places:?} {:#?}",
        machine.kernel.state().calls
    );
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
}

#[test]
fn a_device_can_be_opened_again_while_memory_of_the_first_time_is_mapped() {
    let machine = Machine::new();
    let function = machine.open(A);
    let memory = Memory::new(&request(1 << 20, vec![function.space()])).unwrap();
    drop(function);
    let again = machine.open(A);
    let more = Memory::new(&request(1 << 20, vec![again.space()])).unwrap();
    assert_eq!((memory.mappings(), more.mappings()), (1, 1));
    drop((again, memory, more));
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
    assert!(
        machine.kernel.state().files.is_empty(),
        "nothing stays open"
    );
}

#[test]
fn the_kernels_refusals_to_map_are_told_apart() {
    let machine = Machine::new();
    let function = machine.open(A);
    let space = function.space();
    space.map(&machine.area(4 * GIB, GIB)).unwrap();

    let overlap = space.map(&machine.area(4 * GIB + 4096, 4096)).unwrap_err();
    assert!(
        matches!(&overlap, MapError::Kernel { source, .. } if source.raw_os_error() == Some(libc::EEXIST))
    );
    let outside = space.map(&machine.area(1 << 39, GIB)).unwrap_err();
    assert!(
        matches!(&outside, MapError::Kernel { source, .. } if source.raw_os_error() == Some(libc::EINVAL))
    );

    machine.kernel.state().entry_limit = 1;
    assert_eq!(space.area_limit(), 0);
    let full = space.map(&machine.area(6 * GIB, GIB)).unwrap_err();
    assert!(
        matches!(full, MapError::Entries) && full.remedy().unwrap().contains("dma_entry_limit")
    );
    machine.kernel.state().entry_limit = 100;

    {
        let mut state = machine.kernel.state();
        (state.lock_limit, state.hard_lock_limit) = (GIB, 2 * GIB);
    }
    space
        .map(&machine.area(6 * GIB, GIB))
        .expect("the limit is raised as far as it goes");
    space.unmap(Iova::from_device(6 * GIB), GIB);
    space.map(&machine.area(6 * GIB, GIB)).unwrap();
    let locked = space.map(&machine.area(8 * GIB, GIB)).unwrap_err();
    assert!(
        matches!(locked, MapError::LockLimit { bytes } if bytes == 3 * GIB),
        "{locked}"
    );
    assert!(
        locked.remedy().unwrap().contains("3145728"),
        "in KiB, all that must be pinned"
    );
}

#[test]
fn windows_are_the_kernels_and_39_bits_where_it_does_not_say() {
    let machine = Machine::new();
    let function = machine.open(A);
    let range = |first, last| IovaRange { first, last };
    let narrow = [range(0, 0xfedf_ffff), range(0xfef0_0000, (1 << 39) - 1)];
    assert_eq!(function.space().windows(), narrow);
    machine
        .kernel
        .state()
        .windows
        .push((1 << 40, (1 << 41) - 1));
    assert_eq!(function.space().windows().len(), 3, "asked anew each time");
    machine.kernel.state().hides_windows = true;
    let assumed = function.space().windows();
    assert_eq!(assumed.last(), Some(&narrow[1]));
    assert_eq!(function.space().area_limit(), usize::MAX);
}

#[test]
fn memory_is_taken_back_when_a_later_space_refuses_it() {
    let machine = Machine::new();
    machine.kernel.state().nothing_shared = true;
    let (a, b) = (machine.open(A), machine.open(B));
    machine.kernel.state().lock_limit = 1 << 20;
    machine.kernel.state().hard_lock_limit = 1 << 20;
    b.space().map(&machine.area(64 * GIB, 4096)).unwrap();
    let error = Memory::new(&request(1 << 20, vec![a.space(), b.space()])).unwrap_err();
    assert!(error.remedy().unwrap().contains("ulimit -l"), "{error}");
    assert_eq!(
        machine.kernel.calls_with("unmap").len(),
        1,
        "what the first had mapped"
    );
    a.space()
        .map(&machine.area(4 * GIB, 1 << 20))
        .expect("and its address is free");
}

#[test]
fn a_device_of_another_driver_is_named_with_the_command_that_binds_it() {
    let machine = Machine::new();
    machine
        .tree
        .device("0000:01:00.0", (0x8086, 0x10fb), "ixgbe");
    machine.tree.group("0000:01:00.0", 3);
    let error = machine.open_error("0000:01:00.0", &Options::default());
    assert_eq!(
        error.to_string(),
        "0000:01:00.0 is bound to ixgbe, not to vfio-pci"
    );
    assert_eq!(error.remedy().unwrap(), "rgen bind 0000:01:00.0");
}

#[test]
fn no_device_no_iommu_no_vfio_and_no_permission_are_told_apart() {
    let machine = Machine::new();
    let options = Options::default();
    let error = machine.open_error("0000:09:00.0", &options);
    assert!(matches!(error, OpenError::Pci(_)) && error.remedy().is_some());

    machine.tree.device("0000:01:00.0", (0x8086, 0x10fb), "");
    let error = machine.open_error("0000:01:00.0", &options);
    assert!(matches!(error, OpenError::NoIommu { .. }));
    assert!(error.remedy().unwrap().contains("intel_iommu=on"));

    machine.kernel.state().denied.push("vfio/12".into());
    let error = machine.open_error(A, &options);
    assert!(matches!(error, OpenError::Denied { .. }) && error.remedy().unwrap().contains("chown"));

    let gone = ["vfio/vfio".into(), "iommu".into()];
    machine.kernel.state().absent.extend(gone);
    let error = machine.open_error(A, &options);
    assert!(matches!(error, OpenError::NoVfio { .. }), "{error}");
    assert_eq!(error.remedy().unwrap(), "load it: modprobe vfio-pci");
}

#[test]
fn a_kernel_of_another_version_or_kind_is_refused() {
    let machine = Machine::new();
    machine.kernel.state().extensions = vec![1];
    let error = machine.open_error(A, &Options::default());
    assert!(error.to_string().contains("type 1 version 2") && error.remedy().is_some());
    machine.kernel.state().version = 1;
    let error = machine.open_error(A, &Options::default());
    assert!(error.to_string().contains("version 0"), "{error}");
}

#[test]
fn a_group_in_use_is_said_with_the_process_that_holds_it() {
    let machine = Machine::new();
    machine.kernel.state().groups.get_mut(&12).unwrap().open = true;
    let error = machine.open_error(A, &Options::default());
    assert!(matches!(&error, OpenError::Busy { holders, .. } if holders.is_empty()));
    assert!(
        error.remedy().unwrap().contains("fuser"),
        "who, only root can see"
    );

    machine.tree.file("proc/4242/comm", "testpmd\n");
    machine.tree.make("proc/4242/fd");
    std::os::unix::fs::symlink(
        machine.tree.root().join("dev/vfio/12"),
        machine.tree.root().join("proc/4242/fd/7"),
    )
    .unwrap();
    let error = machine.open_error(A, &Options::default());
    assert!(
        error
            .to_string()
            .contains("in use by process 4242 (testpmd)"),
        "{error}"
    );
    assert_eq!(error.remedy().unwrap(), "end it: kill 4242");
    assert!(
        machine.kernel.state().files.is_empty(),
        "nothing is left open"
    );
}

#[test]
fn a_group_that_is_not_viable_names_the_devices_in_the_way() {
    let machine = Machine::new();
    machine.kernel.state().groups.get_mut(&12).unwrap().viable = false;
    machine
        .tree
        .device("0000:3b:00.2", (0x8086, 0x10fb), "ixgbe");
    machine.tree.group("0000:3b:00.2", 12);
    machine
        .tree
        .device("0000:3a:00.0", (0x8086, 0x2030), "pcieport");
    machine
        .tree
        .file("sys/bus/pci/devices/0000:3a:00.0/class", "0x060400");
    machine.tree.group("0000:3a:00.0", 12);
    let error = machine.open_error(A, &Options::default());
    assert_eq!(
        error.to_string(),
        format!("{A}: its IOMMU group 12 is shared with 0000:3b:00.2 (held by ixgbe)")
    );
    assert!(error.remedy().unwrap().ends_with("rgen bind 0000:3b:00.2"));
    assert!(!machine.kernel.state().groups[&12].open, "closed again");
}

#[test]
fn a_machine_that_cannot_isolate_interrupts_is_said_as_such() {
    let machine = Machine::new();
    machine.kernel.state().forgeable_interrupts = true;
    let error = machine.open_error(A, &Options::default());
    assert!(
        matches!(error, OpenError::InterruptRemapping { .. }),
        "{error}"
    );
    assert!(error.remedy().unwrap().contains("allow_unsafe_interrupts"));
}

#[test]
fn a_vf_token_is_needed_right_and_only_where_asked_for() {
    let machine = Machine::new();
    let with = |token: &str| Options {
        token: Some(token.parse().expect("a UUID")),
        ..Options::default()
    };
    let error = machine.open_error(A, &with(SECRET));
    assert!(matches!(error, OpenError::TokenUnwanted { .. }) && error.remedy().is_some());

    let secret: Token = SECRET.parse().unwrap();
    machine.device(A, |device| device.token = Some(secret.0));
    let error = machine.open_error(A, &Options::default());
    assert!(
        matches!(error, OpenError::Token { given: false, .. }),
        "{error}"
    );
    assert!(error.remedy().unwrap().contains("token=UUID"));
    let error = machine.open_error(A, &with("00000000-0000-0000-0000-000000000000"));
    assert!(
        matches!(error, OpenError::Token { given: true, .. }),
        "{error}"
    );
    assert!(machine.vfio.open(bdf(A), &with(SECRET)).is_ok());
}

#[test]
fn a_physical_function_is_given_its_token() {
    let machine = Machine::new();
    let function = machine.open(A);
    function.set_vf_token(SECRET.parse().unwrap()).unwrap();
    assert_eq!(machine.kernel.calls_with("token [14, d6, 3f, 20,").len(), 1);
}

#[test]
fn without_an_iommu_addresses_are_physical_and_nothing_is_mapped() {
    let machine = Machine::new();
    let group = MockGroup {
        no_iommu: true,
        ..MockGroup::default()
    };
    machine.kernel.state().groups.insert(12, group);
    machine
        .tree
        .file("sys/kernel/iommu_groups/12/name", "vfio-noiommu\n");
    let function = machine.open(A);
    assert!(function.is_unprotected());
    assert_eq!(function.space().addressing(), Addressing::Physical);
    function
        .space()
        .map(&machine.area(0x1234_5000, 4096))
        .unwrap();
    function.space().unmap(Iova::from_device(0x1234_5000), 4096);
    assert_eq!(machine.kernel.calls_with("open vfio/noiommu-12").len(), 1);
    assert_eq!(machine.kernel.calls_with("map 0x"), [""; 0]);
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
    // A device that has an IOMMU does not join it there.
    let other = machine.open(B);
    assert!(!Arc::ptr_eq(&function.space(), &other.space()));
    let moving = Memory::new(&request(4096, vec![function.space()])).unwrap_err();
    assert!(moving.to_string().contains("may move"), "{moving}");
}

#[test]
fn by_iommufd_a_device_is_bound_before_it_is_asked_anything() {
    let machine = Machine::new();
    let (a, b) = (machine.by_iommufd(A), machine.by_iommufd(B));
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
    assert!(Arc::ptr_eq(&a.space(), &b.space()));
    assert_eq!(
        machine.kernel.calls_with("open iommu").len(),
        1,
        "one for the process"
    );
    assert_eq!(a.config16(0), 0x8086);
    let memory = Memory::new(&request(1 << 20, vec![a.space(), b.space()])).unwrap();
    assert_eq!(machine.kernel.calls_with("map 0x").len(), 1);
    drop((a, b, memory));
    assert_eq!(machine.kernel.calls_with("refused"), [""; 0]);
    assert_eq!(machine.kernel.calls_with("destroy").len(), 1);
    assert!(machine.kernel.state().files.is_empty());
}

#[test]
fn iommufd_is_the_way_where_there_are_no_containers() {
    let machine = Machine::new();
    machine.kernel.state().absent.push("vfio/vfio".into());
    let _function = machine.open(A);
    assert_eq!(
        machine.kernel.calls_with("open vfio/devices/vfio0").len(),
        1
    );
}

#[test]
fn devices_of_an_iommufd_that_cannot_share_get_address_spaces_of_their_own() {
    let machine = Machine::new();
    machine.kernel.state().nothing_shared = true;
    let (a, b) = (machine.by_iommufd(A), machine.by_iommufd(B));
    assert!(!Arc::ptr_eq(&a.space(), &b.space()));
    assert_eq!(machine.kernel.calls_with("open iommu").len(), 1);
}

#[test]
fn iommufds_refusals_and_windows_are_told_as_the_containers_are() {
    let machine = Machine::new();
    machine.kernel.state().windows = (1..40).map(|n| (n * GIB, n * GIB + GIB / 2 - 1)).collect();
    let function = machine.by_iommufd(A);
    let space = function.space();
    assert_eq!(space.windows().len(), 39, "asked again with room for all");
    assert_eq!(
        space.windows()[38],
        IovaRange {
            first: 39 * GIB,
            last: 39 * GIB + GIB / 2 - 1
        }
    );
    space.map(&machine.area(4 * GIB, 4096)).unwrap();
    assert!(
        space.map(&machine.area(4 * GIB, 4096)).is_err(),
        "there already"
    );
    machine.kernel.state().lock_limit = 4096;
    machine.kernel.state().hard_lock_limit = 4096;
    let locked = space.map(&machine.area(5 * GIB, 4096)).unwrap_err();
    assert!(
        matches!(locked, MapError::LockLimit { bytes: 8192 }),
        "{locked}"
    );

    let busy = Options {
        way: Way::Iommufd,
        ..Options::default()
    };
    let with_token = Options {
        token: Some(SECRET.parse().unwrap()),
        ..busy
    };
    let error = machine.open_error(B, &with_token);
    assert!(matches!(error, OpenError::TokenUnwanted { .. }), "{error}");
    std::fs::remove_dir_all(
        machine
            .tree
            .root()
            .join(format!("sys/bus/pci/devices/{B}/vfio-dev")),
    )
    .unwrap();
    let error = machine.open_error(B, &busy);
    assert!(error.to_string().contains("file of its own"), "{error}");
}

/// Lets process 4242, `testpmd`, have the file `node` of `/dev/vfio` open.
fn hold(machine: &Machine, node: &str) {
    machine.tree.file("proc/4242/comm", "testpmd\n");
    machine.tree.make("proc/4242/fd");
    let root = machine.tree.root();
    std::os::unix::fs::symlink(
        root.join("dev/vfio").join(node),
        root.join("proc/4242/fd/7"),
    )
    .unwrap();
}

#[test]
fn a_device_that_is_open_by_its_own_file_is_said_with_its_holder_whichever_way_it_is_asked_for() {
    let machine = Machine::new();
    let first = machine.by_iommufd(A);
    hold(&machine, "devices/vfio0");
    for way in [Way::Iommufd, Way::Container] {
        let options = Options {
            way,
            ..Options::default()
        };
        let error = machine.open_error(A, &options);
        let text = error.to_string();
        assert!(text.contains("in use by process 4242 (testpmd)"), "{text}");
    }
    assert_eq!(first.config16(0), 0x8086, "the first one is as it was");
    assert_eq!(machine.device(A, |device| device.open), 1);
}

#[test]
fn a_device_whose_group_is_open_is_said_with_its_holder_by_iommufd() {
    let machine = Machine::new();
    let _first = machine.open(A);
    hold(&machine, "12");
    let options = Options {
        way: Way::Iommufd,
        ..Options::default()
    };
    let error = machine.open_error(A, &options);
    let text = error.to_string();
    assert!(
        text.contains("devices/vfio0 is in use by process 4242"),
        "{text}"
    );
}

#[test]
fn by_iommufd_too_forgeable_interrupts_and_groups_in_use_are_told_apart() {
    let options = Options {
        way: Way::Iommufd,
        ..Options::default()
    };
    let machine = Machine::new();
    machine.kernel.state().forgeable_interrupts = true;
    let error = machine.open_error(A, &options);
    assert!(
        matches!(error, OpenError::InterruptRemapping { .. }),
        "{error}"
    );

    let machine = Machine::new();
    machine.kernel.state().groups.get_mut(&12).unwrap().viable = false;
    machine
        .tree
        .device("0000:3b:00.2", (0x8086, 0x10fb), "ixgbe");
    machine.tree.group("0000:3b:00.2", 12);
    let error = machine.open_error(A, &options);
    assert!(matches!(error, OpenError::NotViable { .. }), "{error}");
    assert!(machine.kernel.state().files.is_empty(), "all closed again");
}

#[test]
fn a_window_is_mapped_once_and_reaches_the_device() {
    let machine = Machine::new();
    let function = machine.open(A);
    let window = function.bar(0).unwrap();
    assert!(window.is_mapped());
    assert_eq!(window.len(), 0x4000);
    window.store32(0x100, 0xdead_beef);
    assert_eq!(function.bar(0).unwrap().load16(0x102), 0xdead);
    assert_eq!(machine.kernel.calls_with(" map ").len(), 1);
    assert!(matches!(
        function.bar(1),
        Err(BarError::Absent { index: 1 })
    ));
    assert!(matches!(
        function.bar(6),
        Err(BarError::Absent { index: 6 })
    ));
}

#[test]
fn a_window_that_cannot_be_mapped_is_reached_by_calls_of_exact_width() {
    let machine = Machine::new();
    machine.device(A, |device| device.windows.push((2, Window::new(64, false))));
    let function = machine.open(A);
    let window = function.bar(2).unwrap();
    assert!(!window.is_mapped());
    assert_eq!(window.len(), 64);
    window.store8(1, 0x11);
    window.store16(2, 0x3322);
    window.store32(4, 0x7766_5544);
    assert_eq!(window.load32(0), 0x3322_1100);
    assert_eq!((window.load8(7), window.load16(4)), (0x77, 0x5544));
    let writes = machine.kernel.calls_with("window 2");
    assert_eq!(
        writes,
        [
            format!("{A} window 2 0x1 = [11]"),
            format!("{A} window 2 0x2 = [22, 33]"),
            format!("{A} window 2 0x4 = [44, 55, 66, 77]"),
        ]
    );
    let past = std::panic::catch_unwind(AssertUnwindSafe(|| window.load32(64)));
    assert!(past.is_err(), "past the window");
}

#[test]
fn a_window_with_a_hole_is_mapped_around_it_and_the_hole_is_reached_by_calls() {
    let machine = Machine::new();
    let mut sparse = Window::new(0x4000, true);
    sparse.sparse = vec![(0, 0x1000), (0x2000, 0x2000)];
    machine.device(A, |device| device.windows.push((3, sparse)));
    let function = machine.open(A);
    let window = function.bar(3).unwrap();
    for offset in [0, 0xffc, 0x1000, 0x1ffc, 0x2000, 0x3ffc] {
        window.store32(offset, offset + 1);
        assert_eq!(window.load32(offset), offset + 1);
    }
    let by_calls = machine.kernel.calls_with("window 3");
    assert_eq!(by_calls.len(), 2, "those in the hole: {by_calls:?}");
    assert_eq!(machine.kernel.calls_with(" map ").len(), 2);
}

#[test]
fn a_device_that_is_gone_reads_as_ones_and_swallows_writes() {
    let machine = Machine::new();
    machine.device(A, |device| device.windows.push((2, Window::new(64, false))));
    let function = machine.open(A);
    let window = function.bar(2).unwrap();
    machine.device(A, |device| device.gone = true);
    assert_eq!(function.config32(0), u32::MAX);
    assert_eq!(window.load16(0), u16::MAX);
    window.store32(0, 1);
    function.set_config16(COMMAND, 7);
    assert!(function.reset().is_err());
    assert!(function.interrupt_count(InterruptKind::Msix).is_err());
    assert_eq!(function.config16(0xff), u16::MAX, "past the end");
}

#[test]
fn vectors_fire_grow_and_go_off_at_the_end() {
    for fixed in [true, false] {
        let machine = Machine::new();
        machine.device(A, |device| device.fixed_vectors = fixed);
        let function = machine.open(A);
        assert_eq!(function.interrupt_count(InterruptKind::Msix).unwrap(), 4);
        let mut vectors = function.interrupts(InterruptKind::Msix, 2).unwrap();
        let files = |vectors: &Interrupts| -> Vec<i32> {
            let file = |n| vectors.file(n).map(|file| file.as_raw_fd());
            (0..).map_while(file).collect()
        };
        assert_eq!(
            machine.device(A, |device| device.enabled.clone()),
            files(&vectors)
        );
        assert!(!vectors.wait(1, Duration::ZERO).unwrap());
        let fired = vectors.file(1).unwrap();
        nix::unistd::write(fired, &1u64.to_ne_bytes()).unwrap();
        assert!(vectors.wait(1, Duration::from_secs(5)).unwrap());
        assert!(!vectors.wait(1, Duration::ZERO).unwrap(), "once");
        assert!(!vectors.wait(0, Duration::ZERO).unwrap(), "and no other");

        vectors.grow(4).unwrap();
        assert_eq!(
            machine.device(A, |device| device.enabled.clone()),
            files(&vectors)
        );
        assert_eq!(vectors.count(), 4);
        let offs = machine.kernel.calls_with("interrupts 2 off").len();
        assert_eq!(
            offs,
            usize::from(fixed),
            "off in between only where it must be"
        );
        assert!(vectors.grow(5).is_err());
        assert!(function.interrupts(InterruptKind::Msix, 5).is_err());
        drop(vectors);
        assert!(machine.device(A, |device| device.enabled.is_empty()));
    }
}

#[test]
fn the_line_is_unmasked_after_each_event() {
    let machine = Machine::new();
    let function = machine.open(A);
    let line = function.interrupts(InterruptKind::Intx, 1).unwrap();
    nix::unistd::write(line.file(0).unwrap(), &1u64.to_ne_bytes()).unwrap();
    assert!(line.wait(0, Duration::from_secs(5)).unwrap());
    line.unmask().unwrap();
    assert_eq!(machine.kernel.calls_with("unmask").len(), 1);
    assert!(line.wait(9, Duration::ZERO).is_err());
}

#[test]
fn a_device_without_a_reset_of_its_own_is_reset_with_its_bus_if_all_of_it_is_ours() {
    let machine = Machine::new();
    machine.device(A, |device| {
        device.can_reset = false;
        device.bus = vec![A.into(), B.into(), C.into()];
    });
    let a = machine.open(A);
    let error = a.reset().unwrap_err();
    assert!(error.to_string().contains(B), "{error}");
    assert_eq!(machine.kernel.calls_with("hot reset"), [""; 0]);
    let _b = machine.open(B);
    a.reset().unwrap();
    assert_eq!(
        machine.kernel.calls_with("hot reset with 2 groups").len(),
        1
    );
}

#[test]
fn a_bus_of_many_devices_is_counted_before_it_is_reset() {
    let machine = Machine::new();
    machine.device(A, |device| device.bus = vec![A.into(); 40]);
    machine.open(A).hot_reset().unwrap();
    assert_eq!(
        machine.kernel.calls_with("hot reset with 1 groups").len(),
        1
    );
    let machine = Machine::new();
    machine.by_iommufd(A).hot_reset().unwrap();
    assert_eq!(
        machine.kernel.calls_with("hot reset with 0 groups").len(),
        1
    );
}

#[test]
fn what_a_machine_has_of_vfio_is_seen_without_opening_anything() {
    let tree = Tree::new();
    let bare = Support::gather(tree.root());
    assert_eq!(bare.remedy().unwrap(), "modprobe vfio-pci");
    tree.driver("vfio-pci");
    assert_eq!(
        Support::gather(tree.root()).remedy().unwrap(),
        "modprobe vfio"
    );
    tree.file("dev/vfio/vfio", "");
    assert!(
        Support::gather(tree.root())
            .remedy()
            .unwrap()
            .contains("IOMMU")
    );
    // A stand-in of VFIO's is no IOMMU.
    tree.file("sys/kernel/iommu_groups/3/name", "vfio-noiommu\n");
    assert_eq!(Support::gather(tree.root()).iommu_groups, 0);
    tree.make("sys/kernel/iommu_groups/0");
    assert_eq!(Support::gather(tree.root()).iommu_groups, 1);
    tree.file(
        "sys/module/vfio_iommu_type1/parameters/dma_entry_limit",
        "65535\n",
    );
    tree.file(
        "sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
        "N\n",
    );
    let support = Support::gather(tree.root());
    assert_eq!(support.remedy(), None);
    assert_eq!(
        (support.entry_limit, support.no_iommu),
        (Some(65535), Some(false))
    );
}
