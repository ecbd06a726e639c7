//! A clock for the data path: nanoseconds from the processor's time-stamp counter.
//!
//! Reading the counter is one instruction and turning it into nanoseconds is one multiplication,
//! so a worker can ask once a burst. What the counter is worth was found out before: whether it
//! runs at one rate whatever the core does ([`Evidence`]), and what that rate is, measured
//! against `CLOCK_MONOTONIC_RAW`, which nobody slews.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "reads the time-stamp counter")
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Binary digits behind the point of [`Clock`]'s nanoseconds per tick.
const SHIFT: u32 = 56;
/// Error of the rate that is good enough to stop measuring: a tenth of what rgen promises.
const GOOD_PPM: f64 = 10.0;
/// How far apart the first two readings are.
const FIRST_SPAN: Duration = Duration::from_millis(40);
/// When to stop whatever the error.
const LAST_SPAN: Duration = Duration::from_millis(100);
/// Readings at each end, of which the one with the tightest bracket counts.
const TRIES: usize = 200;

/// What a [`Clock`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The time-stamp counter.
    Tsc,
    /// The kernel's monotonic clock, because the counter cannot be relied on. A tick is a
    /// nanosecond, and asking costs some tens of them.
    Kernel,
}

/// A monotonic clock, the same on every core. All copies of one clock agree.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    first_tick: u64,
    ns_per_tick: u64,
    ticks_per_second: u64,
    error_ppm: f64,
    source: Source,
}

impl Clock {
    /// Finds out what the time-stamp counter is worth, and at which rate it runs. Takes 40 ms,
    /// and up to 100 ms on a machine that is slow to tell the time.
    ///
    /// Call it once and copy the result: two calibrations differ by some parts in a million.
    #[must_use]
    pub fn calibrate() -> Self {
        Self::calibrate_with(&Evidence::gather(Path::new("/")))
    }

    /// As [`Clock::calibrate`], with evidence gathered before.
    #[must_use]
    pub fn calibrate_with(evidence: &Evidence) -> Self {
        if evidence.is_reliable() {
            Self::measure()
        } else {
            Self::from_kernel()
        }
    }

    /// A clock that asks the kernel.
    #[must_use]
    pub fn from_kernel() -> Self {
        Self {
            start: Instant::now(),
            first_tick: 0,
            ns_per_tick: 1 << SHIFT,
            ticks_per_second: 1_000_000_000,
            error_ppm: 0.0,
            source: Source::Kernel,
        }
    }

    fn measure() -> Self {
        let start = Instant::now();
        let first = Reading::tightest();
        let mut span = FIRST_SPAN;
        loop {
            std::thread::sleep(span.saturating_sub(start.elapsed()));
            let Some(rate) = first.rate_until(&Reading::tightest()) else {
                return Self::from_kernel();
            };
            if rate.error_ppm <= GOOD_PPM || span >= LAST_SPAN {
                return Self {
                    start,
                    first_tick: first.ticks,
                    ns_per_tick: rate.ns_per_tick,
                    ticks_per_second: rate.ticks_per_second,
                    error_ppm: rate.error_ppm,
                    source: Source::Tsc,
                };
            }
            span += Duration::from_millis(20);
        }
    }

    /// Nanoseconds since the clock was made.
    #[must_use]
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            Source::Tsc => self.ns_of(tsc()),
            Source::Kernel => self.kernel_ns(),
        }
    }

    /// The counter itself: cheapest, for differences. Its zero means nothing.
    #[must_use]
    #[inline]
    pub fn ticks(&self) -> u64 {
        match self.source {
            Source::Tsc => tsc(),
            Source::Kernel => self.kernel_ns(),
        }
    }

    /// Ticks in a second.
    #[must_use]
    #[inline]
    pub fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }

    /// When `ticks` was, in nanoseconds of [`Clock::now_ns`]. What was before the clock is 0.
    #[must_use]
    #[inline]
    pub fn ns_of(&self, ticks: u64) -> u64 {
        self.ns_in(ticks.saturating_sub(self.first_tick))
    }

    /// How long `ticks` last, in nanoseconds.
    #[must_use]
    #[inline]
    pub fn ns_in(&self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(self.ns_per_tick)) >> SHIFT;
        #[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
        let ns = ns as u64;
        ns
    }

    /// How many ticks `ns` nanoseconds last.
    #[must_use]
    pub fn ticks_in(&self, ns: u64) -> u64 {
        let ticks = u128::from(ns) * u128::from(self.ticks_per_second) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// By how many parts in a million the rate may be wrong.
    #[must_use]
    pub fn error_ppm(&self) -> f64 {
        self.error_ppm
    }

    /// What it counts.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    #[cold]
    fn kernel_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time-stamp counter, on processors that have one.
#[inline]
#[cfg(target_arch = "x86_64")]
fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Not reached: without evidence for a counter the clock asks the kernel.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
fn tsc() -> u64 {
    0
}

/// The counter and the kernel's raw clock at one moment, as near as could be had.
struct Reading {
    ticks: u64,
    raw_ns: u64,
    /// Ticks between the two counter readings that the clock reading lies between.
    bracket: u64,
}

impl Reading {
    fn tightest() -> Self {
        (0..TRIES)
            .map(|_| Self::now())
            .min_by_key(|reading| reading.bracket)
            .expect("there is at least one try")
    }

    fn now() -> Self {
        let before = tsc();
        let raw_ns = raw_ns();
        let bracket = tsc().saturating_sub(before);
        Self {
            ticks: before + bracket / 2,
            raw_ns,
            bracket,
        }
    }

    /// The counter's rate from this reading to a later one, if both clocks went on.
    #[expect(
        clippy::cast_precision_loss,
        reason = "an error in parts in a million needs no 53 digits"
    )]
    fn rate_until(&self, later: &Self) -> Option<Rate> {
        let ticks = later.ticks.checked_sub(self.ticks).filter(|&n| n > 0)?;
        let ns = later.raw_ns.checked_sub(self.raw_ns).filter(|&n| n > 0)?;
        let ns_per_tick = (u128::from(ns) << SHIFT) / u128::from(ticks);
        let hertz = u128::from(ticks) * 1_000_000_000 / u128::from(ns);
        let unsure = (self.bracket + later.bracket) as f64 / 2.0;
        Some(Rate {
            ns_per_tick: u64::try_from(ns_per_tick).ok()?,
            ticks_per_second: u64::try_from(hertz).ok().filter(|&hertz| hertz > 0)?,
            error_ppm: unsure * 1e6 / ticks as f64,
        })
    }
}

struct Rate {
    ns_per_tick: u64,
    ticks_per_second: u64,
    error_ppm: f64,
}

/// `CLOCK_MONOTONIC_RAW`: the hardware's rate as the kernel knows it, without NTP's corrections.
fn raw_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).map_or(Duration::ZERO, |now| {
        Duration::new(to_u64(now.tv_sec()), 0) + nanos(now.tv_nsec())
    });
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos(ns: i64) -> Duration {
    Duration::from_nanos(to_u64(ns))
}

fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// What speaks for and against the time-stamp counter on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The counter's rate does not follow the core's frequency (`constant_tsc`).
    pub constant: bool,
    /// The counter goes on while the core sleeps (`nonstop_tsc`).
    pub nonstop: bool,
    /// The clock that the kernel itself goes by: `tsc`, `kvm-clock`, `hpet`.
    pub kernel_clock: String,
    /// The clocks that the kernel would accept. It strikes `tsc` out when it sees the counters
    /// of two cores disagree.
    pub kernel_accepts: Vec<String>,
    /// The rate that the processor itself states, if it does: CPUID leaf 15h, else the base
    /// frequency of leaf 16h (rounded to MHz). For comparison; the clock is measured.
    pub stated_hz: Option<u64>,
}

impl Evidence {
    /// Looks at this machine, whose file system begins at `root` (`/`).
    #[must_use]
    pub fn gather(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let cpuinfo = text("proc/cpuinfo");
        let flags = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("flags"))
            .unwrap_or_default();
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let clocks = "sys/devices/system/clocksource/clocksource0";
        let accepts = text(&format!("{clocks}/available_clocksource"));
        Self {
            constant: has("constant_tsc"),
            nonstop: has("nonstop_tsc"),
            kernel_clock: text(&format!("{clocks}/current_clocksource")).trim().into(),
            kernel_accepts: accepts.split_whitespace().map(Into::into).collect(),
            stated_hz: stated_hz(),
        }
    }

    /// True if the counter can serve as a clock: one rate, never stopping, and not struck out by
    /// the kernel.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        // Paravirtual clocks are themselves made of the counter.
        let made_of_it = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
        let trusted = self.kernel_accepts.iter().any(|clock| clock == "tsc")
            || made_of_it.contains(&self.kernel_clock.as_str());
        self.constant && self.nonstop && trusted && cfg!(target_arch = "x86_64")
    }
}

/// CPUID leaf 15h: crystal (ECX, Hz) × EBX / EAX; leaf 16h: base frequency in MHz (EAX).
#[cfg(target_arch = "x86_64")]
fn stated_hz() -> Option<u64> {
    use core::arch::x86_64::{__cpuid, __get_cpuid_max};
    let (last, _) = __get_cpuid_max(0);
    if last >= 0x15 {
        let leaf = __cpuid(0x15);
        let hz = u64::from(leaf.ecx) * u64::from(leaf.ebx);
        if let Some(hz) = hz.checked_div(leaf.eax.into()).filter(|&hz| hz > 0) {
            return Some(hz);
        }
    }
    let mhz = if last >= 0x16 {
        __cpuid(0x16).eax & 0xffff
    } else {
        0
    };
    (mhz > 0).then(|| u64::from(mhz) * 1_000_000)
}

#[cfg(not(target_arch = "x86_64"))]
fn stated_hz() -> Option<u64> {
    None
}

#[cfg(test)]
mod test {
    use super::*;

    /// The machine's other clock agrees: whatever the scheduler does between the readings, the
    /// counted time lies between what passed inside and what passed outside of them.
    fn agrees_with_the_kernel(clock: Clock) {
        let (outer, first, inner) = (raw_ns(), clock.now_ns(), raw_ns());
        std::thread::sleep(Duration::from_millis(60));
        let (inner_end, last, outer_end) = (raw_ns(), clock.now_ns(), raw_ns());
        let counted = last - first;
        let slack = counted / 5_000 + 1_000;
        assert!(
            counted + slack >= inner_end - inner,
            "{counted} ns is too little"
        );
        assert!(
            counted <= outer_end - outer + slack,
            "{counted} ns is too much"
        );
    }

    #[test]
    fn the_clock_runs_at_the_rate_of_the_kernels_own() {
        let clock = Clock::calibrate();
        assert!(clock.source() == Source::Kernel || clock.error_ppm() < 50.0);
        agrees_with_the_kernel(clock);
    }

    #[test]
    fn without_a_counter_to_rely_on_the_kernel_tells_the_time() {
        let clock = Clock::calibrate_with(&Evidence::default());
        assert_eq!(clock.source(), Source::Kernel);
        assert_eq!(clock.ticks_per_second(), 1_000_000_000);
        assert_eq!(clock.ns_in(123_456_789_123), 123_456_789_123);
        agrees_with_the_kernel(clock);
    }

    #[test]
    fn time_never_goes_back() {
        let clock = Clock::calibrate();
        let mut last = 0;
        for _ in 0..100_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn ticks_and_nanoseconds_are_converted_both_ways() {
        let rate = Reading {
            ticks: 1_000,
            raw_ns: 5_000,
            bracket: 20,
        }
        .rate_until(&Reading {
            ticks: 1_000 + 260_000_000,
            raw_ns: 5_000 + 100_000_000,
            bracket: 32,
        })
        .unwrap();
        assert_eq!(rate.ticks_per_second, 2_600_000_000);
        assert!(
            (rate.error_ppm - 0.1).abs() < 1e-6,
            "26 ticks of 260 million"
        );
        let clock = Clock {
            first_tick: 7_000,
            ns_per_tick: rate.ns_per_tick,
            ticks_per_second: rate.ticks_per_second,
            source: Source::Tsc,
            ..Clock::from_kernel()
        };
        assert_eq!(clock.ticks_in(1_000_000_000), 2_600_000_000);
        // A day, and not a microsecond lost to rounding.
        let day = 86_400_000_000_000;
        assert!(clock.ns_in(clock.ticks_in(day)).abs_diff(day) < 1_000);
        assert_eq!(clock.ns_of(7_000 + 2_600), 999);
        assert_eq!(clock.ns_of(10), 0, "before the clock was made");
    }

    #[test]
    fn clocks_that_stand_still_give_no_rate() {
        let at = |ticks, raw_ns| Reading {
            ticks,
            raw_ns,
            bracket: 1,
        };
        assert!(at(5, 5).rate_until(&at(5, 9)).is_none());
        assert!(at(5, 5).rate_until(&at(9, 5)).is_none());
        assert!(at(5, 5).rate_until(&at(3, 9)).is_none());
    }

    #[test]
    fn a_counter_that_the_kernel_struck_out_is_not_relied_on() {
        let good = Evidence {
            constant: true,
            nonstop: true,
            kernel_clock: "tsc".into(),
            kernel_accepts: vec!["tsc".into(), "hpet".into()],
            stated_hz: None,
        };
        let on_x86 = cfg!(target_arch = "x86_64");
        assert_eq!(good.is_reliable(), on_x86);
        let hpet = Evidence {
            kernel_clock: "hpet".into(),
            kernel_accepts: vec!["hpet".into()],
            ..good.clone()
        };
        assert!(!hpet.is_reliable());
        let kvm = Evidence {
            kernel_clock: "kvm-clock".into(),
            ..hpet
        };
        assert_eq!(kvm.is_reliable(), on_x86, "it is made of the counter");
        assert!(
            !Evidence {
                nonstop: false,
                ..good.clone()
            }
            .is_reliable()
        );
        assert!(
            !Evidence {
                constant: false,
                ..good
            }
            .is_reliable()
        );
    }

    #[test]
    fn evidence_is_read_where_the_kernel_keeps_it() {
        let root = tempfile::tempdir().unwrap();
        let clocks = root
            .path()
            .join("sys/devices/system/clocksource/clocksource0");
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::create_dir_all(&clocks).unwrap();
        fs::write(
            root.path().join("proc/cpuinfo"),
            "model\t: 1\nflags\t\t: fpu constant_tsc\n",
        )
        .unwrap();
        fs::write(clocks.join("current_clocksource"), "hpet\n").unwrap();
        fs::write(clocks.join("available_clocksource"), "hpet acpi_pm \n").unwrap();
        let evidence = Evidence::gather(root.path());
        assert!(evidence.constant && !evidence.nonstop);
        assert_eq!(evidence.kernel_clock, "hpet");
        assert_eq!(evidence.kernel_accepts, ["hpet", "acpi_pm"]);
    }
}
