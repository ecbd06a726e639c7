//! Memory against tables, spaces and shortages of the tests' own making.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64};

use proptest::prelude::*;

use super::*;
use crate::{Frame, Pool, SimSpace};

/// A space that writes down what it is asked, and refuses when it is told to.
struct Recorder {
    addressing: Addressing,
    windows: Vec<IovaRange>,
    refuses_after: usize,
    limit: usize,
    /// First address and bytes of what is mapped.
    mapped: Mutex<Vec<(u64, u64)>>,
    /// Where the areas are in this process: still memory when they are unmapped.
    addresses: Mutex<Vec<(u64, u64)>>,
}

impl Recorder {
    fn new(addressing: Addressing) -> Self {
        Self {
            addressing,
            windows: vec![IovaRange::ALL],
            refuses_after: usize::MAX,
            limit: usize::MAX,
            mapped: Mutex::default(),
            addresses: Mutex::default(),
        }
    }

    fn mapped(&self) -> Vec<(u64, u64)> {
        self.mapped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// True if this process has memory at `address`.
fn has_memory_at(address: u64) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("the kernel shows them");
    maps.lines()
        .filter_map(|line| line.split_once('-'))
        .any(|(first, rest)| {
            let last = rest.split(' ').next().unwrap_or_default();
            let parse = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            (parse(first)..parse(last)).contains(&address)
        })
}

impl DmaSpace for Recorder {
    fn windows(&self) -> Vec<IovaRange> {
        self.windows.clone()
    }

    fn addressing(&self) -> Addressing {
        self.addressing
    }

    fn area_limit(&self) -> usize {
        self.limit
    }

    fn map(&self, area: &Area<'_>) -> Result<(), MapError> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if mapped.len() == self.refuses_after {
            return Err(MapError::LockLimit { bytes: area.len });
        }
        mapped.push((area.iova.get(), area.len));
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.push((area.iova.get(), area.address));
        Ok(())
    }

    fn unmap(&self, iova: Iova, len: u64) {
        let addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let address = addresses.iter().find(|(first, _)| *first == iova.get());
        assert!(
            address.is_some_and(|&(_, address)| has_memory_at(address)),
            "unmapped too late"
        );
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let at = mapped.iter().position(|&map| map == (iova.get(), len));
        mapped.remove(at.expect("only what was mapped is unmapped, whole"));
    }
}

fn request(bytes: usize, spaces: &[&Arc<Recorder>]) -> MemoryRequest {
    let spaces = spaces
        .iter()
        .map(|&space| Arc::clone(space) as Arc<dyn DmaSpace>);
    MemoryRequest {
        bytes,
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: spaces.collect(),
    }
}

/// Memory of as many small pages as `numbers`, which are where the pages physically are.
fn at_pages(numbers: &[u64], spaces: &[&Arc<Recorder>]) -> Result<Memory, MemoryError> {
    let first = Mutex::new(None);
    let entry = |page: u64| {
        let first = *first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(page);
        let index = usize::try_from(page - first).expect("few pages");
        Ok(1 << 63 | numbers[index])
    };
    let tables = Tables {
        sys: Path::new("/sys"),
        page_map: &entry,
        small_pages_move: false,
    };
    Memory::build(&request(numbers.len() * 4096, spaces), &tables)
}

#[test]
fn neighbouring_physical_pages_are_one_area_and_nothing_crosses_a_seam() {
    let space = Arc::new(Recorder::new(Addressing::Physical));
    let memory = at_pages(&[0x10, 0x11, 0x20, 0x21, 0x22, 0x50], &[&space]).unwrap();
    assert_eq!(
        space.mapped(),
        [(0x1_0000, 0x2000), (0x2_0000, 0x3000), (0x5_0000, 0x1000)]
    );
    let take = |bytes| {
        memory
            .carve::<AtomicU8>(bytes, 64)
            .map(|words| words.iova().get())
    };
    assert_eq!(take(0x1800).unwrap(), 0x1_0000);
    assert_eq!(
        take(0x2801).unwrap(),
        0x2_0000,
        "no room for it before the seam"
    );
    assert_eq!(take(0x700).unwrap(), 0x2_2840);
    assert_eq!(take(0x1000).unwrap(), 0x5_0000);
    let full = take(1).unwrap_err();
    assert!(
        matches!(full, MemoryError::Full { bytes: 1, left: 0 }),
        "{full}"
    );
    drop(memory);
    assert_eq!(space.mapped(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn frames_and_rings_lie_in_one_piece_on_the_bus(
        joins in prop::collection::vec(any::<bool>(), 4..40),
        sizes in prop::collection::vec((1usize..9000, 0u32..8), 1..30),
    ) {
        // Pages in runs: each follows its neighbour or lies elsewhere.
        let mut numbers = vec![0x100u64];
        for join in joins {
            let last = numbers[numbers.len() - 1];
            numbers.push(if join { last + 1 } else { last + 0x10 });
        }
        let space = Arc::new(Recorder::new(Addressing::Physical));
        let memory = at_pages(&numbers, &[&space]).unwrap();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (bytes, align) in sizes {
            let Ok(words) = memory.carve::<AtomicU8>(bytes, 1 << align) else { continue };
            let (first, len) = (words.iova().get(), bytes as u64);
            prop_assert!(first.is_multiple_of(1 << align));
            let inside = |&(at, size): &(u64, u64)| at <= first && first + len <= at + size;
            prop_assert!(space.mapped().iter().any(inside), "{first:#x} and {len} bytes");
            for &(at, size) in &taken {
                prop_assert!(first + len <= at || at + size <= first, "shared with {at:#x}");
            }
            taken.push((first, len));
            // What the device finds at the last address is what was written to the last byte.
            prop_assert_eq!(words.part(bytes - 1..bytes).iova().get(), first + len - 1);
        }
    }
}

#[test]
fn hidden_absent_or_unreadable_physical_pages_are_no_addresses() {
    let space = Arc::new(Recorder::new(Addressing::Physical));
    let absent = |_: u64| Ok(5);
    let hidden = |_: u64| Ok(1 << 63);
    let unreadable = |_: u64| Err(std::io::Error::from_raw_os_error(libc::EACCES));
    let maps: [&PageMap<'_>; 3] = [&absent, &hidden, &unreadable];
    for page_map in maps {
        let tables = Tables {
            sys: Path::new("/sys"),
            page_map,
            small_pages_move: false,
        };
        let error = Memory::build(&request(8192, &[&space]), &tables).unwrap_err();
        assert!(
            matches!(error, MemoryError::Map(MapError::NoPhysical)),
            "{error}"
        );
        assert!(error.remedy().unwrap().contains("root"));
    }
    assert_eq!(space.mapped(), []);
}

#[test]
fn small_pages_are_refused_to_a_device_without_an_iommu() {
    let space = Arc::new(Recorder::new(Addressing::Physical));
    let error = Memory::new(&request(8192, &[&space])).unwrap_err();
    assert!(matches!(error, MemoryError::Map(MapError::Movable)));
    assert!(error.remedy().unwrap().contains("hugepages"));
}

#[test]
fn physical_addresses_that_another_space_cannot_translate_are_refused() {
    let physical = Arc::new(Recorder::new(Addressing::Physical));
    let mut narrow = Recorder::new(Addressing::Translated);
    narrow.windows = vec![IovaRange {
        first: 0,
        last: 0x10_fff,
    }];
    let narrow = Arc::new(narrow);
    let error = at_pages(&[0x10, 0x11], &[&physical, &narrow]).unwrap_err();
    assert!(
        matches!(
            error,
            MemoryError::Map(MapError::NoAddresses { bytes: 8192 })
        ),
        "{error}"
    );
    assert!(at_pages(&[0x10], &[&physical, &narrow]).is_ok());
}

#[test]
fn too_many_areas_for_a_space_are_refused_before_any_is_mapped() {
    let mut few = Recorder::new(Addressing::Physical);
    few.limit = 2;
    let few = Arc::new(few);
    let error = at_pages(&[0x10, 0x20, 0x30], &[&few]).unwrap_err();
    assert!(
        matches!(error, MemoryError::Map(MapError::Scattered { areas: 3 })),
        "{error}"
    );
    assert!(error.remedy().unwrap().contains("1 GiB"));
    assert_eq!(few.mapped(), []);
}

#[test]
fn what_was_mapped_goes_again_when_a_later_map_is_refused() {
    let first = Arc::new(Recorder::new(Addressing::Physical));
    let mut second = Recorder::new(Addressing::Physical);
    second.refuses_after = 1;
    let second = Arc::new(second);
    let error = at_pages(&[0x10, 0x20, 0x30], &[&first, &second]).unwrap_err();
    assert!(error.remedy().unwrap().contains("ulimit -l"), "{error}");
    assert_eq!((first.mapped(), second.mapped()), (vec![], vec![]));
}

#[test]
fn a_space_that_two_ports_share_is_mapped_once() {
    let space = Arc::new(Recorder::new(Addressing::Translated));
    let memory = Memory::new(&request(8192, &[&space, &space])).unwrap();
    assert_eq!((memory.mappings(), space.mapped().len()), (1, 1));
    let again = memory.clone();
    drop(memory);
    assert_eq!(space.mapped().len(), 1, "as long as anything needs it");
    drop(again);
    assert_eq!(space.mapped(), []);
}

#[test]
fn what_would_lie_across_two_hugepages_begins_with_the_second() {
    const PAGE: usize = 2 << 20;
    let next = |start, bytes| next_page(start..start + bytes, PageSize::Huge2M);
    assert_eq!(next(PAGE - 2048, 2048), None, "it ends with the page");
    assert_eq!(next(PAGE - 2048, 2049), Some(PAGE));
    assert_eq!(next(3 * PAGE - 1, 2), Some(3 * PAGE));
    assert_eq!(next(PAGE, PAGE), None);
    assert_eq!(next(PAGE + 64, PAGE), Some(2 * PAGE));
    assert_eq!(next(PAGE + 64, PAGE + 1), None, "no page holds it");
    assert_eq!(next_page(0..8192, PageSize::Base4K), None);
}

#[test]
fn a_pools_footprint_is_enough_wherever_it_begins_and_whatever_the_pages() {
    for frames in [1, 7, 40, 900, 3000] {
        for capacity in [60, 2048, 9728, 60_000] {
            let stride = Pool::footprint(2, capacity) - Pool::footprint(1, capacity);
            for page in [PageSize::Base4K, PageSize::Huge2M, PageSize::Huge1G] {
                for start in [0, 64, (2 << 20) - 64, (2 << 20) - stride + 64] {
                    let end = (0..frames).fold(start, |end, _| {
                        next_page(end..end + stride, page).unwrap_or(end) + stride
                    });
                    let taken = end - start;
                    let footprint = Pool::footprint(frames, capacity);
                    assert!(
                        taken <= footprint,
                        "{frames} of {capacity}: {taken} of {footprint}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_size_is_too_absurd_to_be_refused() {
    let memory = Memory::new(&request(1 << 20, &[])).unwrap();
    for count in [
        usize::MAX,
        usize::MAX / 8,
        usize::MAX / 8 + 1,
        (1 << 20) / 8 + 1,
    ] {
        assert!(memory.carve::<AtomicU64>(count, 64).is_err(), "{count}");
    }
    assert!(
        memory.carve::<AtomicU64>(1, 1 << 63).is_ok(),
        "the first byte is on any boundary"
    );
    assert!(memory.carve::<AtomicU64>(1, 1 << 63).is_err());
    assert_eq!(memory.left(), (1 << 20) - 8);
}

#[test]
fn a_pool_that_does_not_fit_takes_nothing() {
    let memory = Memory::new(&request(1 << 20, &[])).unwrap();
    let error = Pool::new(&memory, 1000, 1514).unwrap_err();
    assert!(error.to_string().contains("1048576 bytes"), "{error}");
    assert_eq!(memory.left(), 1 << 20);
    assert!(Pool::new(&memory, usize::MAX, 1514).is_err());
    assert!(Pool::new(&memory, 1, 70_000).is_err());
    assert!(Pool::new(&memory, 100, 1514).is_ok());
}

#[test]
#[should_panic(expected = "a view lies inside")]
fn a_view_past_the_end_is_refused_whatever_the_arithmetic() {
    let memory = Memory::new(&request(1 << 20, &[])).unwrap();
    let words = memory.carve::<AtomicU64>(64, 64).unwrap();
    let _ = words.view::<AtomicU64>(usize::MAX - 7, 1);
}

/// A tree with hugepage counts: node, size in KiB, reserved, free.
fn counts(rows: &[(u32, u64, u64, u64)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    for (node, kib, total, free) in rows {
        let at = dir.path().join(format!(
            "devices/system/node/node{node}/hugepages/hugepages-{kib}kB"
        ));
        fs::create_dir_all(&at).expect("ours");
        fs::write(at.join("nr_hugepages"), format!("{total}\n")).expect("ours");
        fs::write(at.join("free_hugepages"), format!("{free}\n")).expect("ours");
    }
    dir
}

/// The error of a request for more hugepages than any machine has.
fn short_of(sys: &Path, pages: Pages, node: Option<u32>) -> MemoryError {
    let request = MemoryRequest {
        bytes: 1 << 45,
        pages,
        node,
        spaces: Vec::new(),
    };
    let tables = Tables {
        sys,
        page_map: &crate::space::page_entry,
        small_pages_move: true,
    };
    Memory::build(&request, &tables).expect_err("32 TiB are nowhere")
}

#[test]
fn a_shortage_says_how_many_pages_are_missing_where_and_how_to_get_them() {
    let sys = counts(&[(0, 2048, 10, 10), (1, 2048, 8, 5), (1, 1_048_576, 2, 1)]);
    let error = short_of(sys.path(), Pages::Only(PageSize::Huge1G), Some(1));
    assert_eq!(
        error.to_string(),
        "32767 more free hugepages of 1 GiB are needed on NUMA node 1 (32768 in all)"
    );
    let remedy = error.remedy().unwrap();
    assert!(remedy.contains("--reserve 32769 --size 1G"), "{remedy}");
    assert!(
        remedy
            .contains("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages"),
        "{remedy}"
    );

    let error = short_of(sys.path(), Pages::Huge, None);
    let needed = 1u64 << 24;
    assert_eq!(
        error.to_string(),
        format!(
            "{} more free hugepages of 2 MiB are needed ({needed} in all)",
            needed - 15
        )
    );
    assert!(
        error
            .remedy()
            .unwrap()
            .contains(&format!("echo {} > /sys/kernel/mm/", 18 + needed - 15))
    );
}

#[test]
fn pages_that_are_promised_to_others_are_not_free() {
    let sys = counts(&[(0, 2048, 10, 10)]);
    let pool = sys.path().join("kernel/mm/hugepages/hugepages-2048kB");
    fs::create_dir_all(&pool).unwrap();
    fs::write(pool.join("resv_hugepages"), "4\n").unwrap();
    let error = short_of(sys.path(), Pages::Only(PageSize::Huge2M), None);
    assert!(
        error
            .to_string()
            .starts_with(&format!("{} more", (1u64 << 24) - 6)),
        "{error}"
    );
}

#[test]
fn a_shortage_that_no_count_explains_is_the_kernels_own_error() {
    let sys = counts(&[(0, 2048, 1 << 40, 1 << 40)]);
    let error = short_of(sys.path(), Pages::Only(PageSize::Huge2M), None);
    assert!(matches!(error, MemoryError::Region(_)), "{error}");
}

/// Drops what it is given, all threads at the same moment.
fn drop_together(rounds: usize, make: impl Fn() -> (Arc<Recorder>, [Box<dyn Send>; 3])) {
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|threads| {
        let hands: [_; 3] = std::array::from_fn(|_| {
            let (send, receive) = std::sync::mpsc::channel::<Box<dyn Send>>();
            let barrier = &barrier;
            threads.spawn(move || {
                for held in receive {
                    barrier.wait();
                    drop(held);
                    barrier.wait();
                }
            });
            send
        });
        for round in 0..rounds {
            let (space, parts) = make();
            assert_eq!(space.mapped().len(), 1);
            for (hand, part) in hands.iter().zip(parts) {
                hand.send(part).expect("the thread waits for it");
            }
            barrier.wait();
            barrier.wait();
            assert_eq!(
                space.mapped(),
                [],
                "round {round}: the memory is still mapped"
            );
        }
    });
}

fn small_pool() -> (Arc<Recorder>, Pool) {
    let space = Arc::new(Recorder::new(Addressing::Translated));
    let memory = Memory::new(&request(4 * 4096, &[&space])).expect("base pages are there");
    let pool = Pool::new(&memory, 8, 60).expect("they fit");
    (space, pool)
}

#[test]
fn a_pool_ends_with_its_last_handle_on_whatever_thread() {
    drop_together(3_000, || {
        let (space, pool) = small_pool();
        let parts = [(); 3].map(|()| Box::new(pool.clone()) as Box<dyn Send>);
        (space, parts)
    });
}

#[test]
fn a_pool_ends_with_its_last_frame_or_handle_whichever_is_later() {
    drop_together(3_000, || {
        let (space, pool) = small_pool();
        let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        let others = frames.split_off(7);
        (space, [Box::new(frames), Box::new(others), Box::new(pool)])
    });
}

#[test]
fn many_threads_take_give_and_drop_and_nothing_is_lost_or_shared() {
    let space = SimSpace::new();
    let spaces: Vec<Arc<dyn DmaSpace>> = vec![space];
    let memory = Memory::new(&MemoryRequest {
        spaces,
        ..request(1 << 20, &[])
    })
    .unwrap();
    let pool = Pool::new(&memory, 64, 60).unwrap();
    std::thread::scope(|threads| {
        for id in 0..4u8 {
            let pool = pool.clone();
            threads.spawn(move || {
                for lap in 0..3_000u32 {
                    let mut held: Vec<Frame> = (0..=lap % 20).filter_map(|_| pool.take()).collect();
                    for frame in &mut held {
                        frame.fill(&[id; 60]);
                    }
                    std::thread::yield_now();
                    for frame in held {
                        assert_eq!(frame.bytes(), [id; 60], "a frame has one owner");
                        if lap % 3 == 0 {
                            drop(frame);
                        } else {
                            pool.give(frame);
                        }
                    }
                }
            });
        }
    });
    assert_eq!(pool.free(), 64);
    pool.close().unwrap();
}
