//! The recorder: a function of PCI whose every access is noted, and memory that can be looked at
//! from beside.
//!
//! A driver is generic over its [`Function`], so a [`Traced`] one goes in the place of any. Reads
//! and writes are noted in order; of a register that is polled only the last reading stays, since
//! how often it is read depends on the hour. What the driver writes to memory is not seen as it
//! happens: the DMA space is wrapped too, and maps all that the driver maps a second time for the
//! recorder, which looks at rings when it is told to.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hugemem::{Addressing, Area, DmaSpace, Iova, IovaRange, MapError, SimSpace, Translator};
use hw::function::{COMMAND, command};
use hw::{Bar, BarError, Function};

use super::rings::{Labels, Look, Rings, Slots};
use super::trace::{Line, Trace};

/// Reads that a poll may take in turn: longer cycles are noted as they are.
const LONGEST_CYCLE: usize = 4;

/// What the driver of one end did, and where its rings are.
struct End {
    rings: Box<dyn Rings>,
    /// Each slot as it was when it was last noted.
    seen: BTreeMap<(String, u32), Vec<u8>>,
}

struct State {
    trace: Trace,
    quiet: bool,
    ends: Vec<End>,
    labels: Labels,
    spaces: Vec<Arc<TracedSpace>>,
    memory: Translator,
}

/// Notes what the drivers of the two ends of a wire do. Cloned, it is the same one.
#[derive(Clone)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
    shadow: Arc<SimSpace>,
}

impl Recorder {
    /// A recorder for two devices, of whose rings `rings` know.
    pub fn new(rings: [Box<dyn Rings>; 2]) -> Self {
        let shadow = SimSpace::with_windows(vec![IovaRange::ALL]);
        let ends = rings.map(|rings| End {
            rings,
            seen: BTreeMap::new(),
        });
        let state = State {
            trace: Trace::default(),
            quiet: false,
            ends: ends.into(),
            labels: Labels::default(),
            spaces: Vec::new(),
            memory: shadow.translator(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            shadow,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step of the trace.
    pub fn begin(&self, name: &str) {
        self.state().trace.begin(name);
    }

    /// Adds a line to the step.
    pub fn note(&self, line: Line) {
        self.state().trace.push(line);
    }

    /// Does something that is not noted: waiting, which looks different each time. Where rings
    /// are is followed all the same.
    pub fn quietly<T>(&self, work: impl FnOnce() -> T) -> T {
        let was = std::mem::replace(&mut self.state().quiet, true);
        let result = work();
        self.state().quiet = was;
        result
    }

    /// Notes each slot of every ring that is not what it was when it was noted last.
    pub fn note_rings(&self) {
        let State {
            trace,
            ends,
            labels,
            memory,
            ..
        } = &mut *self.state();
        for (number, end) in ends.iter_mut().enumerate() {
            for ring in end.rings.list(memory) {
                let mut look = Look { labels, memory };
                note_ring(number, &ring, &mut end.seen, trace, &mut look);
            }
        }
    }

    /// What was noted so far.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut self.state().trace)
    }

    /// The function of end `end`, noted.
    pub fn trace<F: Function>(&self, end: usize, inner: F) -> Traced<F> {
        let config = |at| inner.config32(at);
        self.state().ends[end].rings.met(&config);
        Traced {
            inner,
            recorder: self.clone(),
            end,
        }
    }

    fn read(&self, end: usize, place: &str, width: u8, value: u64) {
        let mut state = self.state();
        if state.quiet {
            return;
        }
        let Some(step) = state.trace.steps.last_mut() else {
            return;
        };
        let line = Line::new(
            format!("{end} R{width} {place}"),
            [("value", format!("{value:#x}"))],
        );
        step.lines.push(line);
        fold(&mut step.lines);
    }

    fn written(&self, end: usize, place: &str, width: u8, value: String) {
        let mut state = self.state();
        if !state.quiet {
            let line = Line::new(format!("{end} W{width} {place}"), [("value", value)]);
            state.trace.push(line);
            if let Some(step) = state.trace.steps.last_mut() {
                fold_array(&mut step.lines);
            }
        }
    }

    /// The one wrapper of `inner`, which several functions may share.
    fn space(&self, inner: Arc<dyn DmaSpace>) -> Arc<TracedSpace> {
        let mut state = self.state();
        let same = |known: &&Arc<TracedSpace>| {
            std::ptr::addr_eq(Arc::as_ptr(&known.inner), Arc::as_ptr(&inner))
        };
        if let Some(known) = state.spaces.iter().find(same) {
            return Arc::clone(known);
        }
        let space = Arc::new(TracedSpace {
            inner,
            shadow: Arc::clone(&self.shadow),
        });
        state.spaces.push(Arc::clone(&space));
        space
    }

    /// Memory of a run came or went: rings that are looked at next are new ones.
    pub fn forget_rings(&self) {
        let mut state = self.state();
        state.labels = Labels::default();
        for end in &mut state.ends {
            end.seen.clear();
        }
    }
}

/// Notes what is new in `ring`.
fn note_ring(
    number: usize,
    ring: &Slots,
    seen: &mut BTreeMap<(String, u32), Vec<u8>>,
    trace: &mut Trace,
    look: &mut Look<'_>,
) {
    let mut slot = vec![0; ring.bytes];
    for index in 0..ring.count {
        let at = ring.base + u64::from(index) * ring.bytes as u64;
        if look.memory.read(Iova::from_device(at), &mut slot).is_err() {
            return;
        }
        let key = (ring.name.clone(), index);
        let is_same = match seen.get(&key) {
            Some(before) => *before == slot,
            None => slot.iter().all(|byte| *byte == 0),
        };
        if is_same {
            continue;
        }
        seen.insert(key, slot.clone());
        let fields = (ring.say)(ring, &slot, look);
        if !fields.is_empty() {
            let what = format!("{number} {}[{index}]", ring.name);
            trace.push(Line::new(what, fields));
        }
    }
}

/// Takes readings away that others of the same registers follow: a poll.
fn fold(lines: &mut Vec<Line>) {
    for cycle in 1..=LONGEST_CYCLE {
        let Some(start) = lines.len().checked_sub(2 * cycle) else {
            return;
        };
        let (before, after) = lines[start..].split_at(cycle);
        let is_read = |line: &Line| line.what.as_bytes().get(2) == Some(&b'R');
        let same = before.iter().zip(after).all(|(a, b)| a.what == b.what);
        if same && after.iter().all(is_read) {
            lines.drain(start..start + cycle);
            return;
        }
    }
}

/// Makes one line of the same value written to one more element of an array (`MTA+0x4`).
fn fold_array(lines: &mut Vec<Line>) {
    let [.., before, after] = &mut lines[..] else {
        return;
    };
    let array = |line: &Line| line.what.split_once('+').map(|(array, _)| array.to_owned());
    let Some((_, place)) = after.what.split_once('+') else {
        return;
    };
    if array(before) != array(after) || before.fields[0] != after.fields[0] {
        return;
    }
    before.fields.truncate(1);
    before.fields.push(("to".to_owned(), place.to_owned()));
    lines.pop();
}

/// A function whose accesses are noted.
pub struct Traced<F> {
    inner: F,
    recorder: Recorder,
    end: usize,
}

/// Of a word of configuration space, what the driver is about: in the command register not the
/// bits that firmware and kernel set (PCI 3.0 §6.2.2: I/O windows, SERR#).
fn ours(offset: u16, value: u32) -> u32 {
    if offset == COMMAND {
        value & u32::from(command::MEMORY | command::MASTER | command::INTX_OFF)
    } else {
        value
    }
}

impl<F: Function> Traced<F> {
    fn config(&self, offset: u16, width: u8, value: u32) -> u32 {
        // What lies behind the header, and where the list begins, is the device's own (PCI 3.0
        // §6.7).
        if offset >= 0x34 {
            return value;
        }
        let place = format!("config:{offset:#04x}");
        let noted = ours(offset, value);
        self.recorder.read(self.end, &place, width, noted.into());
        value
    }
}

impl<F: Function> Function for Traced<F> {
    type Bar = TracedBar<F::Bar>;

    fn name(&self) -> &str {
        self.inner.name()
    }
    fn config8(&self, offset: u16) -> u8 {
        let value = self.inner.config8(offset);
        self.config(offset, 8, value.into());
        value
    }
    fn config16(&self, offset: u16) -> u16 {
        let value = self.inner.config16(offset);
        self.config(offset, 16, value.into());
        value
    }
    fn config32(&self, offset: u16) -> u32 {
        self.config(offset, 32, self.inner.config32(offset))
    }
    fn set_config16(&self, offset: u16, value: u16) {
        let place = format!("config:{offset:#04x}");
        let noted = ours(offset, value.into());
        self.recorder
            .written(self.end, &place, 16, format!("{noted:#x}"));
        self.inner.set_config16(offset, value);
    }
    fn bar(&self, index: u8) -> Result<Self::Bar, BarError> {
        Ok(TracedBar {
            inner: self.inner.bar(index)?,
            recorder: self.recorder.clone(),
            end: self.end,
            index,
        })
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        self.recorder.space(self.inner.space())
    }
    fn reset(&self) -> io::Result<()> {
        self.inner.reset()
    }
    fn is_behind_iommu(&self) -> bool {
        self.inner.is_behind_iommu()
    }
    fn numa_node(&self) -> Option<u32> {
        self.inner.numa_node()
    }
}

/// A register window whose accesses are noted.
#[derive(Clone)]
pub struct TracedBar<B> {
    inner: B,
    recorder: Recorder,
    end: usize,
    index: u8,
}

impl<B> TracedBar<B> {
    fn read(&self, offset: u32, width: u8, value: u32) {
        let place = {
            let state = self.recorder.state();
            let rings = &state.ends[self.end].rings;
            if rings.is_counter(self.index, offset) {
                return;
            }
            rings.place(self.index, offset)
        };
        self.recorder.read(self.end, &place, width, value.into());
    }

    fn write(&self, offset: u32, width: u8, value: u32) {
        let (place, is_address) = {
            let mut state = self.recorder.state();
            let rings = &mut state.ends[self.end].rings;
            rings.written(self.index, offset, value);
            let place = rings.place(self.index, offset);
            (place, rings.is_address(self.index, offset))
        };
        // Where memory lies is the machine's business.
        let value = if is_address {
            "an address".to_owned()
        } else {
            format!("{value:#x}")
        };
        self.recorder.written(self.end, &place, width, value);
    }
}

macro_rules! access {
    ($($load:ident $store:ident $int:ty: $width:literal),*) => { $(
        fn $load(&self, offset: u32) -> $int {
            let value = self.inner.$load(offset);
            self.read(offset, $width, value.into());
            value
        }
        fn $store(&self, offset: u32, value: $int) {
            self.write(offset, $width, value.into());
            self.inner.$store(offset, value);
        }
    )* };
}

impl<B: Bar> Bar for TracedBar<B> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    access!(load8 store8 u8: 8, load16 store16 u16: 16, load32 store32 u32: 32);
}

/// A DMA space that the recorder sees into.
struct TracedSpace {
    inner: Arc<dyn DmaSpace>,
    shadow: Arc<SimSpace>,
}

impl DmaSpace for TracedSpace {
    fn windows(&self) -> Vec<IovaRange> {
        self.inner.windows()
    }
    fn addressing(&self) -> Addressing {
        self.inner.addressing()
    }
    fn area_limit(&self) -> usize {
        self.inner.area_limit()
    }
    fn map(&self, area: &Area<'_>) -> Result<(), MapError> {
        self.inner.map(area)?;
        self.shadow.map(area).inspect_err(|_| {
            self.inner.unmap(area.iova(), area.bytes());
        })
    }
    fn unmap(&self, iova: Iova, len: u64) {
        self.shadow.unmap(iova, len);
        self.inner.unmap(iova, len);
    }
}
