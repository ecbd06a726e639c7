//! Parts by themselves: stamps, windows, the calendar.

use std::collections::HashSet;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::schedule::Schedule;
use super::super::sequence::{Arrival, WINDOW, Window};
use super::super::stamp::{Key, STAMP, sum_of_end};
use super::*;

#[test]
fn a_stamp_is_read_back_behind_any_header_and_in_front_of_padding() {
    let key = Key::new(7, 9);
    for len in [60, 61, 100, 1514] {
        let mut bytes = udp_bytes(len);
        let sum = sum_of_end(&bytes);
        key.write(&mut bytes, 5, 0xffff_fff0, 1_000_000, sum);
        let stamp = key.read(&bytes, 1_004_321, 6).unwrap();
        assert_eq!(
            (stamp.lane, stamp.sequence, stamp.age_ns),
            (5, 0xffff_fff0, 4321)
        );
        assert_eq!(sum_of_end(&bytes) % 0xffff, sum % 0xffff);
        // A tag in front, padding behind: the IP header says where it ends.
        let mut tagged = bytes.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(key.read(&tagged, 1_004_321, 6), Some(stamp));
        tagged.extend([0; 9]);
        assert_eq!(key.read(&tagged, 1_004_321, 6), Some(stamp));
        // A new time and nothing else.
        key.retime(&mut bytes, 1_004_000);
        let again = key.read(&bytes, 1_004_321, 6).unwrap();
        assert_eq!(
            (again.lane, again.sequence, again.age_ns),
            (5, 0xffff_fff0, 321)
        );
        assert_eq!(sum_of_end(&bytes) % 0xffff, sum % 0xffff);
    }
}

#[test]
fn frames_that_were_not_stamped_with_the_key_never_match() {
    let (key, other) = (Key::new(1, 2), Key::new(1, 3));
    let mut random = SmallRng::seed_from_u64(4);
    let mut bytes = udp_bytes(60);
    for _ in 0..2_000_000 {
        random.fill_bytes(&mut bytes[60 - STAMP..]);
        assert_eq!(key.read(&bytes, random.random(), 1 << 18), None);
    }
    // Another run's stamps, and ours with any bit changed but those of the balance.
    let now = 1_000_000_000;
    other.write(&mut bytes, 1, 2, now, 0);
    assert_eq!(key.read(&bytes, now, 10), None);
    key.write(&mut bytes, 1, 2, now, 0);
    assert!(key.read(&bytes, now, 10).is_some());
    for bit in (60 - STAMP + 2) * 8..60 * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(key.read(&bytes, now, 10), None, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    // A lane that is not there, and a time long ago.
    assert_eq!(key.read(&bytes, now, 1), None);
    assert_eq!(key.read(&bytes, now + (1 << 36), 10), None);
    assert_eq!(key.read(&bytes[..STAMP - 1], now, 10), None);
}

/// What a window should say, from everything that ever came.
#[derive(Default)]
struct Memory {
    seen: HashSet<u64>,
    next: u64,
}

impl Memory {
    fn note(&mut self, number: u64) -> Arrival {
        if number < self.next && self.next - number > WINDOW {
            return Arrival::TooLate;
        }
        let new = number >= self.next;
        self.next = self.next.max(number + 1);
        match (self.seen.insert(number), new) {
            (false, _) => Arrival::Duplicate,
            (true, true) => Arrival::New,
            (true, false) => Arrival::Reordered,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_window_knows_what_a_perfect_memory_knows(
        steps in prop::collection::vec((-6000i64..6000, 1usize..200), 1..100),
    ) {
        let (mut window, mut memory) = (Window::new(), Memory::default());
        let mut at = 0u64;
        for (jump, run) in steps {
            at = at.saturating_add_signed(jump);
            for _ in 0..run {
                let sequence = u32::try_from(at & 0xffff_ffff).unwrap();
                prop_assert_eq!(window.note(sequence), memory.note(at));
                at += 1;
            }
        }
    }

    #[test]
    fn the_calendar_gives_every_lane_when_it_is_due_and_none_before(
        gaps in prop::collection::vec(1u64..2_000_000, 1..300),
        steps in prop::collection::vec(1u64..300_000, 1..200),
        mean in 1u64..1_000_000,
    ) {
        let mut schedule = Schedule::new(gaps.len(), mean);
        let mut due: Vec<u64> = gaps.clone();
        for (lane, &due) in (0..).zip(&due) {
            schedule.insert(lane, due);
        }
        let mut now = 0;
        for step in steps {
            now += step;
            let mut interrupted = step % 7 == 0;
            while let Some(lane) = schedule.pop_due(now) {
                let lane_due = &mut due[lane as usize];
                prop_assert!(*lane_due <= now);
                if interrupted {
                    // The ring was full: it goes back as it was, and the visit ends.
                    schedule.insert(lane, *lane_due);
                    break;
                }
                *lane_due = now / gaps[lane as usize] * gaps[lane as usize] + gaps[lane as usize];
                schedule.insert(lane, *lane_due);
                interrupted = false;
            }
            if step % 7 != 0 {
                prop_assert!(due.iter().all(|&due| due > now), "nothing due is left behind");
            }
        }
    }
}

#[test]
fn sequence_numbers_go_on_after_four_billion() {
    let mut window = Window::new();
    assert_eq!(window.note(u32::MAX / 2), Arrival::New);
    assert_eq!(window.note(u32::MAX - 1), Arrival::New);
    for sequence in [u32::MAX, 0, 1] {
        assert_eq!(window.note(sequence), Arrival::New);
    }
    assert_eq!(window.note(u32::MAX), Arrival::Duplicate);
    assert_eq!(window.note(u32::MAX - 2), Arrival::Reordered);
}

#[test]
fn overdue_lanes_take_turns_and_one_that_was_refused_keeps_its_own() {
    let mut schedule = Schedule::new(3, 64);
    for lane in 0..3 {
        schedule.insert(lane, 10);
    }
    for now in (100..).take(30) {
        let refused = schedule.pop_due(now).unwrap();
        schedule.put_back(refused, 10);
        let turns: Vec<u32> = (0..3)
            .map(|step| {
                let lane = schedule.pop_due(now + 1000 * step).unwrap();
                schedule.insert(lane, 10);
                lane
            })
            .collect();
        assert_eq!(turns, [0, 1, 2]);
    }
}
