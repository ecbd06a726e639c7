//! Frames, pools and the simulated IOMMU together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::{
    Burst, DmaSpace, Frame, Iova, Memory, MemoryRequest, PageSize, Pages, Pool, Resident, SimSpace,
    Slots,
};

fn memory(bytes: usize, space: &Arc<SimSpace>) -> Memory {
    let spaces: Vec<Arc<dyn DmaSpace>> = vec![Arc::clone(space) as _];
    Memory::new(&MemoryRequest {
        bytes,
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces,
    })
    .expect("base pages are always there")
}

#[test]
fn a_device_reads_what_the_frame_holds_and_faults_beside_it() {
    let space = SimSpace::new();
    let memory = memory(1 << 20, &space);
    let pool = Pool::new(&memory, 8, 1514).unwrap();
    let mut frame = pool.take().unwrap();
    frame.fill(b"a frame");
    let mut device = space.translator();
    let mut seen = [0; 7];
    device.read(frame.iova(), &mut seen).unwrap();
    assert_eq!(&seen, b"a frame");
    device.write(frame.iova(), b"A").unwrap();
    assert_eq!(frame.bytes(), b"A frame");
    assert!(device.read(Iova::from_device(0x1000), &mut seen).is_err());
    drop((frame, pool, memory));
    assert!(
        device.read(Iova::from_device(1 << 32), &mut seen).is_err(),
        "unmapped at the end"
    );
}

#[test]
fn dropped_frames_go_home_and_a_missing_one_is_named() {
    let space = SimSpace::new();
    let memory = memory(1 << 20, &space);
    let pool = Pool::new(&memory, 100, 60).unwrap();
    let mut burst = Burst::new();
    assert_eq!(pool.take_burst(&mut burst, 99), 64);
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((frames.len(), pool.free()), (36, 0));
    drop(frames);
    burst.clear();
    assert_eq!(pool.free(), 100);
    let out = pool.take();
    assert_eq!(pool.clone().close().unwrap_err().frames, 1);
    drop(out);
    pool.close().unwrap();
}

#[test]
fn a_frame_outlives_its_pool_and_then_frees_the_memory() {
    let space = SimSpace::new();
    let memory = memory(1 << 16, &space);
    let pool = Pool::new(&memory, 2, 60).unwrap();
    let mut frame = pool.take().unwrap();
    let iova = frame.iova();
    drop((pool, memory));
    frame.fill(&[7; 60]);
    assert!(space.translator().covers(iova, 60));
    drop(frame);
    assert!(
        !space.translator().covers(iova, 60),
        "the last frame took the memory with it"
    );
}

#[test]
fn bursts_keep_order_over_many_laps() {
    let space = SimSpace::new();
    let memory = memory(1 << 20, &space);
    let pool = Pool::new(&memory, 128, 60).unwrap();
    let mut burst = Burst::new();
    let (mut put, mut got) = (0, 0);
    for size in [1usize, 63, 7, 64, 13].into_iter().cycle().take(200) {
        for _ in 0..size.min(burst.room()) {
            let mut frame = pool.take().unwrap();
            frame.tag = put;
            put += 1;
            burst.push(frame).unwrap();
        }
        for _ in 0..size.min(burst.len()) / 2 {
            let frame = burst.pop().unwrap();
            assert_eq!(frame.tag, got);
            got += 1;
        }
    }
    assert!(put > 3 * 64);
}

#[test]
fn rings_and_frames_never_share_bytes() {
    let space = SimSpace::new();
    let memory = memory(1 << 18, &space);
    let ring = memory.carve::<[AtomicU64; 2]>(256, 4096).unwrap();
    let pool = Pool::new(&memory, 64, 200).unwrap();
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    for frame in &mut frames {
        frame.set_len(200);
        frame.bytes_mut().fill(0xff);
        frame.headroom_mut().fill(0xff);
    }
    assert!(
        ring.iter()
            .flatten()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    );
    assert_eq!(ring.iova().get() % 4096, 0);
    let mut starts: Vec<u64> = frames.iter().map(|frame| frame.iova().get()).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 264));
    assert!(starts.iter().all(|start| start % 64 == 0));
}

#[test]
fn a_resident_set_gives_its_frames_back() {
    let space = SimSpace::new();
    let memory = memory(1 << 18, &space);
    let pool = Pool::new(&memory, 4, 60).unwrap();
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    frames.iter_mut().for_each(|frame| frame.set_len(60));
    let set = Resident::new(frames);
    assert_eq!(set.slots()[3].iova, set.frames()[3].iova());
    assert_eq!(set.into_frames().len(), 4);
    assert_eq!(pool.free(), 4);
}

#[test]
fn memory_that_is_used_up_says_what_is_left() {
    let space = SimSpace::new();
    let memory = memory(8192, &space);
    let error = Pool::new(&memory, 100, 1514).unwrap_err();
    assert!(
        error.to_string().contains("do not fit in what is left"),
        "{error}"
    );
}

#[test]
fn places_hold_one_frame_each_and_give_it_back_once() {
    let space = SimSpace::new();
    let memory = memory(1 << 20, &space);
    let pool = Pool::new(&memory, 8, 60).unwrap();
    let (mut burst, mut slots) = (Burst::new(), Slots::new(8));
    // Three laps, in an order that no ring keeps.
    for lap in 0..3u32 {
        pool.take_burst(&mut burst, 8);
        for (tag, frame) in (0..).zip(burst.iter_mut()) {
            frame.tag = lap * 8 + tag;
        }
        for number in [3, 1, 7, 0, 2, 6, 5, 4] {
            let frame = slots.put(number, &mut burst).unwrap();
            assert!(frame.tag / 8 == lap);
        }
        for (number, tag) in [(0, 3), (3, 0), (7, 2)] {
            assert!(slots.take(number, &mut burst));
            assert_eq!(burst.pop().unwrap().tag, lap * 8 + tag);
            assert!(!slots.take(number, &mut burst), "it was given back already");
        }
        assert!(!slots.take(8, &mut burst), "there is no such place");
        assert_eq!(slots.drain().len(), 5);
    }
    pool.take_burst(&mut burst, 2);
    slots.put(5, &mut burst);
    drop((slots, burst));
    pool.close().unwrap();
}

#[test]
#[should_panic(expected = "a place holds one frame")]
fn a_place_that_is_taken_takes_no_other() {
    let space = SimSpace::new();
    let memory = memory(1 << 20, &space);
    let pool = Pool::new(&memory, 2, 60).unwrap();
    let (mut burst, mut slots) = (Burst::new(), Slots::new(2));
    pool.take_burst(&mut burst, 2);
    slots.put(0, &mut burst);
    slots.put(0, &mut burst);
}
