//! Bursts and stacks of frames: nothing is lost, doubled or put out of order.

use std::collections::VecDeque;

use hugemem::{BURST, Burst, Fifo, Frames, Memory, MemoryRequest, PageSize, Pages, Pool};
use proptest::prelude::*;

/// A pool whose frames carry their number in `tag`.
fn numbered(frames: u32) -> (Pool, Vec<hugemem::Frame>) {
    let request = MemoryRequest {
        bytes: Pool::footprint(frames as usize, 64),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: Vec::new(),
    };
    let memory = Memory::new(&request).expect("base pages are always there");
    let pool = Pool::new(&memory, frames as usize, 64).expect("the memory was sized for it");
    let mut all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for (number, frame) in (0..).zip(&mut all) {
        frame.tag = number;
    }
    (pool, all)
}

fn tags<'a>(frames: impl IntoIterator<Item = &'a hugemem::Frame>) -> Vec<u32> {
    frames.into_iter().map(|frame| frame.tag).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Push,
    Pop,
    PopLast,
    MoveAcross(usize),
    MoveBack(usize),
    Put(usize),
    Take(usize),
    StackPush,
    StackPop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Push),
        2 => Just(Step::Pop),
        1 => Just(Step::PopLast),
        1 => (0..80usize).prop_map(Step::MoveAcross),
        1 => (0..80usize).prop_map(Step::MoveBack),
        1 => (0..80usize).prop_map(Step::Put),
        1 => (0..80usize).prop_map(Step::Take),
        1 => Just(Step::StackPush),
        1 => Just(Step::StackPop),
    ]
}

/// The real containers beside what the standard library says they should hold.
struct Beside {
    bursts: [Burst; 2],
    stack: Frames,
    spare: Vec<hugemem::Frame>,
    model: [VecDeque<u32>; 2],
    model_stack: Vec<u32>,
}

impl Beside {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Push => self.push(),
            Step::Pop => {
                let frame = self.bursts[0].pop();
                assert_eq!(frame.as_ref().map(|f| f.tag), self.model[0].pop_front());
                self.spare.extend(frame);
            }
            Step::PopLast => {
                let frame = self.bursts[0].pop_last();
                assert_eq!(frame.as_ref().map(|f| f.tag), self.model[0].pop_back());
                self.spare.extend(frame);
            }
            Step::MoveAcross(count) => self.carry(0, 1, count),
            Step::MoveBack(count) => self.carry(1, 0, count),
            Step::Put(count) => {
                let moved = self.stack.put(&mut self.bursts[0], count);
                let room = self.stack.capacity() - self.model_stack.len();
                assert_eq!(moved, count.min(self.model[0].len()).min(room));
                self.model_stack.extend(self.model[0].drain(..moved));
            }
            Step::Take(count) => {
                let moved = self.stack.take(&mut self.bursts[1], count);
                let room = BURST - self.model[1].len();
                assert_eq!(moved, count.min(self.model_stack.len()).min(room));
                let bottom = self.model_stack.len() - moved;
                self.model[1].extend(self.model_stack.drain(bottom..));
            }
            Step::StackPush => {
                let Some(frame) = self.spare.pop() else {
                    return;
                };
                let tag = frame.tag;
                match self.stack.push(frame) {
                    Ok(()) => self.model_stack.push(tag),
                    Err(frame) => self.spare.push(frame),
                }
            }
            Step::StackPop => {
                let frame = self.stack.pop();
                assert_eq!(frame.as_ref().map(|f| f.tag), self.model_stack.pop());
                self.spare.extend(frame);
            }
        }
    }

    fn push(&mut self) {
        let Some(frame) = self.spare.pop() else {
            return;
        };
        let tag = frame.tag;
        match self.bursts[0].push(frame) {
            Ok(()) => self.model[0].push_back(tag),
            Err(frame) => {
                assert_eq!(self.model[0].len(), BURST, "refused only when full");
                self.spare.push(frame);
            }
        }
    }

    fn carry(&mut self, from: usize, to: usize, count: usize) {
        let [a, b] = &mut self.bursts;
        let moved = if from == 0 {
            a.move_to(b, count)
        } else {
            b.move_to(a, count)
        };
        let room = BURST - self.model[to].len();
        assert_eq!(moved, count.min(self.model[from].len()).min(room));
        let tags: Vec<u32> = self.model[from].drain(..moved).collect();
        self.model[to].extend(tags);
    }

    fn check(&self) {
        for (burst, model) in self.bursts.iter().zip(&self.model) {
            assert_eq!(tags(burst), Vec::from(model.clone()));
            assert_eq!(
                (burst.len(), burst.room()),
                (model.len(), BURST - model.len())
            );
            assert_eq!(burst.get(model.len()).map(|f| f.tag), None);
        }
        assert_eq!(tags(self.stack.as_slice()), self.model_stack);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn frames_move_as_in_the_standard_containers(steps in prop::collection::vec(step(), 1..600)) {
        let (pool, spare) = numbered(200);
        let mut beside = Beside {
            bursts: [Burst::new(), Burst::new()],
            stack: Frames::with_capacity(50),
            spare,
            model: Default::default(),
            model_stack: Vec::new(),
        };
        for step in &steps {
            beside.apply(step);
            beside.check();
        }
        drop(beside);
        prop_assert_eq!(pool.free(), 200, "dropped containers send their frames home");
        prop_assert!(pool.close().is_ok());
    }
}

#[test]
fn a_full_stack_gives_the_frame_back() {
    let (pool, mut frames) = numbered(3);
    let mut stack = Frames::with_capacity(2);
    stack.push(frames.pop().unwrap()).unwrap();
    stack.push(frames.pop().unwrap()).unwrap();
    let refused = stack.push(frames.pop().unwrap()).unwrap_err();
    assert_eq!(refused.tag, 0);
    assert_eq!(stack.room(), 0);
    drop((stack, refused));
    assert_eq!(pool.free(), 3);
}

#[test]
fn frames_that_do_not_fit_a_stack_go_home() {
    let (pool, frames) = numbered(5);
    let mut stack = Frames::with_capacity(2);
    stack.extend(frames);
    assert_eq!((stack.len(), pool.free()), (2, 3));
    stack.clear();
    assert_eq!((stack.len(), pool.free()), (0, 5));
}

#[test]
fn a_burst_of_frames_can_be_changed_in_place() {
    let (_pool, frames) = numbered(4);
    let mut burst = Burst::new();
    for frame in frames {
        burst.push(frame).unwrap();
    }
    for frame in &mut burst {
        frame.set_len(60);
    }
    burst.as_mut_slice().swap(0, 3);
    assert_eq!(tags(&burst), [3, 1, 2, 0]);
    assert!(burst.iter().all(|frame| frame.len() == 60));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_fifo_keeps_the_order_over_many_laps(
        capacity in 1usize..100,
        steps in prop::collection::vec((0usize..70, 0usize..70, any::<bool>()), 1..200),
    ) {
        let (pool, mut spare) = numbered(200);
        let mut fifo = Fifo::with_capacity(capacity);
        let capacity = capacity.next_power_of_two();
        let (mut before, mut after) = (Burst::new(), Burst::new());
        let mut model = VecDeque::new();
        for (put, take, single) in steps {
            while before.room() > 0 && let Some(frame) = spare.pop() {
                before.push(frame).unwrap();
            }
            let given = tags(&before);
            if single && let Some(frame) = before.pop() {
                match fifo.push(frame) {
                    Ok(()) => model.push_back(given[0]),
                    Err(frame) => {
                        prop_assert_eq!(model.len(), capacity, "refused only when full");
                        spare.push(frame);
                    }
                }
            } else {
                let moved = fifo.put(&mut before, put);
                prop_assert_eq!(moved, put.min(given.len()).min(capacity - model.len()));
                model.extend(&given[..moved]);
            }
            prop_assert_eq!(tags(fifo.iter()), Vec::from(model.clone()));
            let moved = fifo.take(&mut after, take);
            prop_assert_eq!(moved, take.min(model.len()).min(BURST));
            let taken: Vec<u32> = model.drain(..moved).collect();
            prop_assert_eq!(tags(&after), taken);
            spare.extend(std::iter::from_fn(|| after.pop()));
            if single {
                let frame = fifo.pop();
                prop_assert_eq!(frame.as_ref().map(|frame| frame.tag), model.pop_front());
                spare.extend(frame);
            }
            prop_assert_eq!((fifo.len(), fifo.room()), (model.len(), capacity - model.len()));
        }
        drop((fifo, before, spare));
        prop_assert_eq!(pool.free(), 200);
    }
}

#[test]
fn headroom_is_known_to_be_zero_until_somebody_may_have_written_it() {
    let (pool, mut frames) = numbered(2);
    let mut frame = frames.pop().unwrap();
    assert!(frame.has_clean_headroom());
    frame.headroom_mut()[63] = 1;
    assert!(!frame.has_clean_headroom());
    drop(frame);
    let mut frame = pool.take().unwrap();
    assert!(!frame.has_clean_headroom(), "a pool does not clean");
    frame.clean_headroom();
    assert_eq!(
        (frame.has_clean_headroom(), frame.headroom()),
        (true, &[0; 64])
    );
    frame.lend_headroom();
    frames.push(frame);
    let set = hugemem::Resident::new(frames);
    assert!(set.frames().iter().all(hugemem::Frame::has_clean_headroom));
}
