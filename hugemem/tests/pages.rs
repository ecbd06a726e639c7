//! Counting, reserving and finding hugepages, on trees of files; regions of real pages.

use std::fs;
use std::path::Path;

use hugemem::{PageCount, PageSize, Region, ReserveError, page_holders, reserve, survey};

fn file(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("in a folder")).expect("ours");
    fs::write(path, content).expect("ours");
}

fn pages(root: &Path, base: &str, kib: u64, total: u64, free: u64) {
    let dir = format!("{base}/hugepages/hugepages-{kib}kB");
    file(root, &format!("{dir}/nr_hugepages"), &format!("{total}\n"));
    file(root, &format!("{dir}/free_hugepages"), &format!("{free}\n"));
    file(root, &format!("{dir}/surplus_hugepages"), "1\n");
}

#[test]
fn pages_are_counted_by_node_and_size() {
    let sys = tempfile::tempdir().unwrap();
    pages(sys.path(), "devices/system/node/node1", 2048, 8, 5);
    pages(sys.path(), "devices/system/node/node0", 1_048_576, 2, 1);
    fs::create_dir_all(sys.path().join("devices/system/node/power")).unwrap();
    let expected = |node, size, total, free| PageCount {
        node,
        size,
        total,
        free,
        surplus: 1,
    };
    assert_eq!(
        survey(sys.path()),
        [
            expected(0, PageSize::Huge1G, 2, 1),
            expected(1, PageSize::Huge2M, 8, 5)
        ]
    );
}

#[test]
fn a_kernel_without_numa_has_one_node() {
    let sys = tempfile::tempdir().unwrap();
    assert_eq!(survey(sys.path()), []);
    pages(sys.path(), "kernel/mm", 2048, 4, 4);
    assert_eq!(survey(sys.path()).len(), 1);
    assert_eq!(survey(sys.path())[0].node, 0);
}

#[test]
fn reserved_pages_are_written_where_they_belong_and_counted() {
    let root = tempfile::tempdir().unwrap();
    pages(root.path(), "sys/devices/system/node/node1", 2048, 0, 0);
    pages(root.path(), "sys/kernel/mm", 2048, 0, 0);
    let read = |base: &str| {
        let path = format!("sys/{base}/hugepages/hugepages-2048kB/nr_hugepages");
        fs::read_to_string(root.path().join(path)).unwrap()
    };
    assert_eq!(
        reserve(root.path(), PageSize::Huge2M, Some(1), 16).unwrap(),
        16
    );
    assert_eq!(
        (
            read("devices/system/node/node1").as_str(),
            read("kernel/mm").as_str()
        ),
        ("16", "0\n")
    );
    assert_eq!(reserve(root.path(), PageSize::Huge2M, None, 3).unwrap(), 3);
    assert_eq!(read("kernel/mm"), "3");
}

#[test]
fn pages_that_do_not_exist_or_do_not_come_are_said_as_such() {
    let root = tempfile::tempdir().unwrap();
    pages(root.path(), "sys/kernel/mm", 1_048_576, 0, 0);
    let error = reserve(root.path(), PageSize::Huge2M, None, 1).unwrap_err();
    assert!(
        matches!(error, ReserveError::Unsupported { node: None, .. }),
        "{error}"
    );
    let error = reserve(root.path(), PageSize::Huge1G, Some(7), 1).unwrap_err();
    assert!(error.to_string().contains("on NUMA node 7"), "{error}");
    assert!(reserve(root.path(), PageSize::Base4K, None, 1).is_err());

    // A file that forgets what is written to it: none come.
    let number = root
        .path()
        .join("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages");
    fs::remove_file(&number).unwrap();
    std::os::unix::fs::symlink("/dev/null", &number).unwrap();
    file(root.path(), "proc/sys/vm/compact_memory", "");
    let error = reserve(root.path(), PageSize::Huge1G, None, 4).unwrap_err();
    assert_eq!(error.to_string(), "0 of 4 pages of 1 GiB could be had");
    assert!(
        error
            .remedy()
            .unwrap()
            .contains("hugepagesz=1G hugepages=4")
    );
    let compacted = fs::read_to_string(root.path().join("proc/sys/vm/compact_memory")).unwrap();
    assert_eq!(compacted, "1", "memory in pieces is put together first");
}

#[test]
fn a_number_that_cannot_be_written_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("sys/kernel/mm/hugepages/hugepages-2048kB");
    fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.join("nr_hugepages")).unwrap();
    let error = reserve(root.path(), PageSize::Huge2M, None, 4).unwrap_err();
    assert!(matches!(error, ReserveError::Kernel { .. }), "{error}");
}

#[test]
fn processes_that_have_hugepages_are_found_with_how_many_of_which_size() {
    let root = tempfile::tempdir().unwrap();
    let status = |pid: u32, name: &str, kib: u64| {
        let text =
            format!("Name:\t{name}\nVmRSS:\t 10 kB\nHugetlbPages:\t {kib} kB\nThreads:\t1\n");
        file(root.path(), &format!("proc/{pid}/status"), &text);
    };
    status(12, "idle", 0);
    status(40, "testpmd", 1_048_576 + 4096);
    status(8, "qemu", 2048);
    file(
        root.path(),
        "proc/self-not-a-number/status",
        "Name:\tx\nHugetlbPages:\t 1 kB\n",
    );
    file(
        root.path(),
        "proc/40/smaps",
        "7f00-7f10 rw-s 0 00:0f 1 /memfd:rgen (deleted)\n\
         Size: 1048576 kB\nKernelPageSize:  1048576 kB\nShared_Hugetlb:  1048576 kB\nPrivate_Hugetlb: 0 kB\n\
         7f20-7f30 rw-s 0 00:0f 2 /dev/hugepages/a\n\
         KernelPageSize:     2048 kB\nShared_Hugetlb:     2048 kB\nPrivate_Hugetlb:    2048 kB\n\
         7f40-7f50 rw-p 0 00:00 0\n\
         KernelPageSize:        4 kB\nShared_Hugetlb:        0 kB\nPrivate_Hugetlb:       0 kB\n",
    );
    let found = page_holders(root.path());
    assert_eq!(found.iter().map(|h| h.pid).collect::<Vec<_>>(), [8, 40]);
    assert_eq!(found[1].command, "testpmd");
    assert_eq!(found[1].bytes, (1 << 30) + (4 << 20));
    assert_eq!(
        found[1].pages,
        [(PageSize::Huge2M, 2), (PageSize::Huge1G, 1)]
    );
    assert_eq!(found[0].pages, [], "its maps are not ours to see");
}

#[test]
fn a_region_is_resident_zero_and_cannot_be_shortened_by_who_gets_its_file() {
    let region = Region::new(5000, PageSize::Base4K, None).unwrap();
    assert_eq!((region.len(), region.is_empty()), (8192, false));
    let peer = fs::File::from(region.file().try_clone_to_owned().unwrap());
    assert!(
        peer.set_len(4096).is_err(),
        "a peer must not turn our next access into a signal"
    );
    assert!(peer.set_len(16384).is_err());
    assert_eq!(peer.metadata().unwrap().len(), 8192);
}

#[test]
fn a_node_that_does_not_exist_is_no_reason_to_fail_with_small_pages() {
    for node in [0, 63, 64, 1000, u32::MAX] {
        Region::new(4096, PageSize::Base4K, Some(node)).unwrap();
    }
}

#[test]
fn a_region_beyond_all_memory_is_an_error() {
    for len in [usize::MAX, usize::MAX - 4096, 1 << 62] {
        let error = Region::new(len, PageSize::Base4K, None).unwrap_err();
        assert!(error.to_string().contains("not free"), "{error}");
    }
}
