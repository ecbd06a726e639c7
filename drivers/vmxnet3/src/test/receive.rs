//! Receiving.

use hugemem::{Burst, Dma};
use port::{QueueId, QueueState, RxBurst, RxFlags, RxMeta, RxQueue, Signal};

use super::{Rig, Writes, generation, load, store};
use crate::desc::Words;
use crate::rx::{Duties, Rx};

/// The device's end of a receive queue.
struct Far {
    rings: [Dma<Words>; 2],
    completions: Dma<Words>,
    data: Option<u64>,
    /// Slots taken of each ring, ever.
    taken: [usize; 2],
    /// Completions written, ever.
    written: usize,
}

/// An empty buffer as the device finds it.
#[derive(Debug, Clone, Copy)]
struct Empty {
    ring: usize,
    slot: usize,
    address: u64,
    len: usize,
}

/// What a completion says, but for its generation.
#[derive(Debug, Clone, Copy, Default)]
struct Says {
    first: u64,
    second: u64,
}

const EOP: u64 = 1 << 14;
const SOP: u64 = 1 << 15;
const ERR: u64 = 1 << 14;

impl Far {
    fn new(rig: &Rig) -> Self {
        let memory = &rig.parts.rx[0];
        Self {
            rings: [memory.heads.clone(), memory.bodies.clone()],
            completions: memory.completions.clone(),
            data: memory.data.as_ref().map(|data| data.iova().get()),
            taken: [0; 2],
            written: 0,
        }
    }

    /// The next empty buffer of a ring.
    fn take(&mut self, ring: usize) -> Option<Empty> {
        let slots = self.rings[ring].len();
        let slot = self.taken[ring] % slots;
        let (address, rest) = load(&self.rings[ring][slot]);
        if rest >> 31 & 1 != generation(self.taken[ring], slots) {
            return None;
        }
        assert_eq!(
            rest >> 14 & 1,
            ring as u64,
            "heads in one ring, bodies in the other"
        );
        self.taken[ring] += 1;
        let len = usize::try_from(rest & 0x3fff).unwrap();
        Some(Empty {
            ring,
            slot,
            address,
            len,
        })
    }

    fn say(&mut self, says: Says) {
        let slots = self.completions.len();
        let place = self.written % slots;
        let last = says.second | generation(self.written, slots) << 63;
        store(&self.completions[place], says.first, last);
        self.written += 1;
    }

    /// Completes `buffer` with `len` bytes.
    fn complete(&mut self, buffer: Empty, len: usize, says: Says) {
        let first = says.first | buffer.slot as u64 | (buffer.ring as u64) << 16;
        self.say(Says {
            first,
            second: says.second | len as u64,
        });
    }

    /// Puts a frame into buffers; false if they run out, with nothing written.
    fn put(&mut self, rig: &Rig, bytes: &[u8]) -> bool {
        let before = self.taken;
        let mut parts = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(empty) = self.take(usize::from(!parts.is_empty())) else {
                self.taken = before;
                return false;
            };
            let (part, later) = rest.split_at(rest.len().min(empty.len));
            rig.write(empty.address, part);
            parts.push((empty, part.len()));
            rest = later;
        }
        let last = parts.len() - 1;
        for (number, (empty, len)) in parts.into_iter().enumerate() {
            let mut first = 0;
            if number == 0 {
                first |= SOP;
            }
            if number == last {
                first |= EOP;
            }
            self.complete(empty, len, Says { first, second: 0 });
        }
        true
    }
}

fn queue(rig: &Rig, chain: usize) -> Rx<Writes> {
    let duties = Duties {
        queues: 1,
        chain,
        checksums: true,
    };
    let memory = rig.parts.rx[0].clone();
    Rx::new(
        rig.bar.clone(),
        0,
        memory,
        duties,
        rig.follower(QueueId::Rx(0)),
    )
}

/// Arms up to `most` frames; how many.
fn arm(rig: &Rig, rx: &mut Rx<Writes>, most: usize) -> usize {
    let mut empties = Burst::new();
    rig.pool.take_burst(&mut empties, most.min(64));
    rx.arm(&mut empties)
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n * 5 + number * 11).to_le_bytes()[0])
        .collect()
}

/// Everything that has arrived, whole frames joined.
fn receive(rx: &mut Rx<Writes>) -> Vec<(Vec<u8>, RxMeta, usize)> {
    let mut frames = Vec::new();
    let mut burst = RxBurst::default();
    let mut open: Option<(Vec<u8>, RxMeta, usize)> = None;
    while rx.burst(&mut burst) > 0 {
        for (frame, meta) in burst.frames.iter().zip(&burst.meta) {
            let mut whole = open.take().unwrap_or((Vec::new(), *meta, 0));
            whole.0.extend(frame.bytes());
            whole.1.flags |= meta.flags & RxFlags::ERROR;
            whole.2 += 1;
            if meta.flags.contains(RxFlags::MORE) {
                open = Some(whole);
            } else {
                frames.push(whole);
            }
        }
        burst.frames.clear();
    }
    assert!(open.is_none(), "a frame was begun and not ended");
    frames
}

#[test]
fn frames_arrive_in_order_over_laps_at_odd_sizes() {
    let rig = Rig::new(32, 100, 256, false);
    let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
    let (mut sent, mut arrived) = (0, 0);
    for size in [1, 31, 7, 64, 13, 3].into_iter().cycle().take(80) {
        arm(&rig, &mut rx, size);
        for _ in 0..size {
            if !far.put(&rig, &content(sent, 60 + sent % 190)) {
                break;
            }
            sent += 1;
        }
        for (bytes, meta, buffers) in receive(&mut rx) {
            assert_eq!(
                bytes,
                content(arrived, 60 + arrived % 190),
                "frame {arrived}"
            );
            assert_eq!((meta.flags, buffers), (RxFlags::empty(), 1));
            arrived += 1;
        }
    }
    assert!(sent > 6 * 32 && arrived == sent, "{arrived} of {sent}");
    assert_eq!(rx.room(), 31 - (rig.pool.total() - rig.pool.free()));
}

#[test]
fn a_ring_takes_one_frame_less_than_it_has_slots() {
    let rig = Rig::new(32, 100, 256, false);
    let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
    assert_eq!(rx.room(), 31);
    assert_eq!(arm(&rig, &mut rx, 64), 31);
    assert_eq!((rx.room(), arm(&rig, &mut rx, 64)), (0, 0));
    let offered = std::iter::from_fn(|| far.take(0)).count();
    assert_eq!((offered, far.take(1).is_none()), (31, true));
}

#[test]
fn large_frames_lie_in_a_head_and_bodies_over_laps() {
    let rig = Rig::new(32, 100, 128, false);
    let (mut rx, mut far) = (queue(&rig, 4), Far::new(&rig));
    let (mut sent, mut arrived) = (0, 0);
    let len = |number: usize| 60 + number * 37 % 450;
    for _ in 0..200 {
        arm(&rig, &mut rx, 64);
        while far.put(&rig, &content(sent, len(sent))) {
            sent += 1;
        }
        for (bytes, meta, buffers) in receive(&mut rx) {
            assert_eq!(bytes, content(arrived, len(arrived)), "frame {arrived}");
            assert_eq!(buffers, len(arrived).div_ceil(128));
            assert_eq!(meta.flags - RxFlags::MORE, RxFlags::empty());
            arrived += 1;
        }
    }
    assert!(
        far.taken.iter().all(|&taken| taken > 3 * 32),
        "{:?}",
        far.taken
    );
    assert_eq!(arrived, sent);
}

#[test]
fn a_frame_is_handed_up_when_its_last_completion_is_there_and_what_is_said_of_it_is_with_its_first_part()
 {
    let rig = Rig::new(32, 100, 128, false);
    let (mut rx, mut far) = (queue(&rig, 4), Far::new(&rig));
    arm(&rig, &mut rx, 64);
    let (head, body) = (far.take(0).unwrap(), far.take(1).unwrap());
    rig.write(head.address, &[1; 128]);
    rig.write(body.address, &[2; 30]);
    // RSS type 2 and a hash on the first.
    let hash = 2 << 26 | 0xdead_beef << 32;
    far.complete(
        head,
        128,
        Says {
            first: SOP | hash,
            second: 0,
        },
    );
    assert_eq!(receive(&mut rx).len(), 0);
    // A stripped tag (15, 31:16), UDP right (16, 17), IPv4 right (19, 21) on the last.
    let second = 1 << 15 | 0x2064 << 16 | (1 << 16 | 1 << 17 | 1 << 19 | 1 << 21) << 32;
    far.complete(body, 30, Says { first: EOP, second });
    let frames = receive(&mut rx);
    let (bytes, meta, buffers) = &frames[0];
    assert_eq!((bytes.len(), *buffers), (158, 2));
    assert_eq!((meta.hash, meta.vlan), (0xdead_beef, 0x2064));
    let expected = RxFlags::HASH | RxFlags::VLAN | RxFlags::IPV4_GOOD | RxFlags::L4_GOOD;
    assert_eq!(meta.flags, expected | RxFlags::MORE);
}

#[test]
fn verdicts_are_only_those_that_the_device_came_to() {
    let rig = Rig::new(32, 100, 128, false);
    let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
    arm(&rig, &mut rx, 64);
    let (udp, v4, fragment, cnc) = (1 << 49, 1 << 53, 1 << 54, 1 << 30);
    for (first, second, flags) in [
        (cnc, udp | v4, RxFlags::empty()),
        (0, udp | v4, RxFlags::IPV4_BAD | RxFlags::L4_BAD),
        (0, udp | v4 | fragment | 1 << 51, RxFlags::IPV4_GOOD),
        (0, 1 << 48, RxFlags::empty()),
        (0, udp | 1 << 48, RxFlags::L4_GOOD),
    ] {
        let head = far.take(0).unwrap();
        let first = first | SOP | EOP;
        far.complete(head, 60, Says { first, second });
        assert_eq!(receive(&mut rx)[0].1.flags, flags, "{first:x} {second:x}");
    }
}

#[test]
fn a_damaged_frame_is_marked_in_its_first_part_and_its_last() {
    let rig = Rig::new(32, 100, 128, false);
    let (mut rx, mut far) = (queue(&rig, 4), Far::new(&rig));
    arm(&rig, &mut rx, 64);
    let (head, body) = (far.take(0).unwrap(), far.take(1).unwrap());
    far.complete(
        head,
        128,
        Says {
            first: SOP,
            second: 0,
        },
    );
    far.complete(
        body,
        128,
        Says {
            first: EOP,
            second: ERR,
        },
    );
    let single = far.take(0).unwrap();
    far.complete(
        single,
        128,
        Says {
            first: SOP | EOP,
            second: ERR,
        },
    );
    let mut burst = RxBurst::default();
    assert_eq!(rx.burst(&mut burst), 3);
    let flags: Vec<_> = burst.meta[..3].iter().map(|meta| meta.flags).collect();
    let error = RxFlags::ERROR;
    assert_eq!(flags, [RxFlags::MORE | error, error, error]);
}

#[test]
fn buffers_that_the_device_passes_over_are_armed_again_and_none_is_lost() {
    let rig = Rig::new(32, 100, 256, false);
    let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
    for round in 0..100 {
        arm(&rig, &mut rx, 64);
        for _ in 0..round % 4 {
            far.take(0).expect("it is armed");
        }
        if round % 5 == 0 {
            // Used, and nothing in it.
            let empty = far.take(0).expect("it is armed");
            far.complete(
                empty,
                0,
                Says {
                    first: SOP | EOP,
                    second: 0,
                },
            );
        }
        assert!(far.put(&rig, &content(round, 100)));
        let frames = receive(&mut rx);
        assert_eq!(frames.len(), 1, "round {round}");
        assert_eq!(frames[0].0, content(round, 100));
        arm(&rig, &mut rx, 64);
        assert_eq!((rx.room(), rig.pool.free()), (0, 100 - 31));
    }
}

#[test]
fn small_frames_are_taken_from_the_data_ring_and_their_heads_with_them() {
    let rig = Rig::new(32, 100, 256, true);
    let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
    let data = far.data.expect("there is a data ring");
    let mut arrived = 0;
    for number in 0..120 {
        arm(&rig, &mut rx, 64);
        let len = 1 + number % 128;
        let head = far.take(0).expect("it is armed");
        if number % 3 == 0 {
            rig.write(head.address, &content(number, len));
            far.complete(
                head,
                len,
                Says {
                    first: SOP | EOP,
                    second: 0,
                },
            );
        } else {
            rig.write(data + head.slot as u64 * 128, &content(number, len));
            far.complete(
                head,
                len,
                Says {
                    first: SOP | EOP | 2 << 16,
                    second: 0,
                },
            );
        }
        for (bytes, _, _) in receive(&mut rx) {
            assert_eq!(bytes, content(arrived, 1 + arrived % 128));
            arrived += 1;
        }
    }
    assert_eq!(arrived, 120);
}

#[test]
fn the_device_is_told_of_armed_slots_on_the_first_lap_and_later_if_it_asks() {
    let rig = Rig::new(32, 100, 256, false);
    let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
    arm(&rig, &mut rx, 20);
    assert_eq!(rig.bar.take(), [(0x800, 20)]);
    arm(&rig, &mut rx, 64);
    assert_eq!(rig.bar.take(), [(0x800, 31)]);
    assert!(far.put(&rig, &[1; 60]) && far.put(&rig, &[2; 60]));
    assert_eq!(receive(&mut rx).len(), 2);
    assert_eq!(arm(&rig, &mut rx, 64), 2);
    assert_eq!(rig.bar.take(), []);
    // It asks after the frames were armed: the next empty-handed look tells it, once.
    rig.parts.rx[0].area.put(0, 1);
    assert_eq!(receive(&mut rx).len(), 0);
    assert_eq!(rig.bar.take(), [(0x800, 1)]);
    assert_eq!(receive(&mut rx).len(), 0);
    assert_eq!(rig.bar.take(), []);
}

#[test]
fn a_device_that_lies_fails_the_port_in_words() {
    let says = |first| Says { first, second: 0 };
    let one = |first| vec![says(first)];
    let cases: [(Vec<Says>, &str); 8] = [
        (one(SOP | EOP | 20), "slot 20, which it does not have"),
        (one(SOP | EOP | 4095), "slot 4095, which it does not have"),
        (one(SOP | EOP | 3 << 16), "ring 3"),
        (one(SOP | EOP | 2 << 16), "ring 2"),
        (one(EOP), "within another"),
        (vec![says(SOP), says(SOP | EOP | 1)], "within another"),
        (
            vec![
                says(SOP),
                says(1 << 16),
                says(1 << 16 | 1),
                says(1 << 16 | 2),
            ],
            "more than 4 buffers",
        ),
        (one(SOP | EOP | 31), "slot 31, which it does not have"),
    ];
    for (lies, words) in cases {
        let rig = Rig::new(32, 100, 256, false);
        let (mut rx, mut far) = (queue(&rig, 4), Far::new(&rig));
        arm(&rig, &mut rx, 20);
        for lie in lies {
            far.say(Says { second: 60, ..lie });
        }
        let _ = rx.burst(&mut RxBurst::default());
        assert_eq!(rx.state(), QueueState::Failed, "{words}");
        let failure = rig.shared.failure().expect("it has failed");
        assert!(
            failure.contains(words) && failure.contains("receive queue 0"),
            "{failure}"
        );
        assert_eq!(rx.burst(&mut RxBurst::default()), 0);
    }
}

#[test]
fn a_length_beyond_the_buffer_fails_the_port_and_no_byte_is_handed_up() {
    for ring in [0, 2 << 16] {
        let rig = Rig::new(32, 100, 256, true);
        let (mut rx, mut far) = (queue(&rig, 1), Far::new(&rig));
        arm(&rig, &mut rx, 20);
        let head = far.take(0).expect("it is armed");
        far.complete(
            head,
            257,
            Says {
                first: SOP | EOP | ring,
                second: 0,
            },
        );
        let mut burst = RxBurst::default();
        assert_eq!(rx.burst(&mut burst), 1);
        assert_eq!(burst.frames.as_slice()[0].len(), 0);
        assert!(burst.meta[0].flags.contains(RxFlags::ERROR));
        assert_eq!(rx.state(), QueueState::Failed);
        assert!(
            rig.shared
                .failure()
                .expect("it has failed")
                .contains("257 bytes")
        );
    }
}

#[test]
fn after_a_reset_every_frame_is_armed_again_from_the_first_slot_on() {
    let rig = Rig::new(32, 100, 128, false);
    let (mut rx, mut far) = (queue(&rig, 4), Far::new(&rig));
    arm(&rig, &mut rx, 64);
    for number in 0..12 {
        assert!(far.put(&rig, &content(number, 200)));
    }
    assert_eq!(receive(&mut rx).len(), 12);
    arm(&rig, &mut rx, 7);
    let held = 31 - rx.room();
    rig.shared.set(Signal::pause(2));
    assert_eq!(
        (rx.burst(&mut RxBurst::default()), arm(&rig, &mut rx, 7)),
        (0, 0)
    );
    rig.shared.set(Signal::run(2));
    let mut far = Far::new(&rig);
    assert_eq!(receive(&mut rx).len(), 0);
    let mut sent = 0;
    while far.put(&rig, &content(sent, 200)) {
        sent += 1;
    }
    let offered = far.taken[0] + far.taken[1];
    let left = [0, 1].map(|ring| std::iter::from_fn(|| far.take(ring)).count());
    assert_eq!(offered + left[0] + left[1], held);
    let frames = receive(&mut rx);
    assert_eq!(frames.len(), sent);
    for (number, (bytes, _, _)) in frames.iter().enumerate() {
        assert_eq!(*bytes, content(number, 200));
    }
    drop(rx);
    rig.shared.halt();
    assert_eq!(rig.pool.free(), 100);
}
