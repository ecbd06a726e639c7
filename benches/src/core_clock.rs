//! How fast the core runs.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Cycles of the core a nanosecond, measured now: a chain of multiply and add, each of which
/// waits for the one before it, takes four cycles a link on every x86 core since 2011 (three for
/// `imul`, one for `add`; Agner Fog, Instruction tables).
///
/// The time stamp counter will not do: it runs at a fixed rate whatever the core does.
#[must_use]
pub fn core_ghz() -> f64 {
    const LINKS: u32 = 2_000_000;
    const CYCLES_A_LINK: f64 = 4.0;
    let fastest = (0..5).map(|_| chain(LINKS)).min().unwrap_or(Duration::MAX);
    f64::from(LINKS) * CYCLES_A_LINK / 1e9 / fastest.as_secs_f64()
}

fn chain(links: u32) -> Duration {
    let (multiplier, addend) = (
        black_box(0x5851_f42d_4c95_7f2d_u64),
        black_box(0x1405_7b7e_u64),
    );
    let start = Instant::now();
    let mut value = black_box(1u64);
    for _ in 0..links {
        value = value.wrapping_mul(multiplier).wrapping_add(addend);
    }
    black_box(value);
    start.elapsed()
}
