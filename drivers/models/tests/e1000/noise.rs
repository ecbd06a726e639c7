//! Drivers that make no sense at all: whatever is written where, the device goes on, objects, and
//! accounts for every frame.

use hw::{Bar, Function};
use models::Sim;
use models::e1000::{Kind, map};

use crate::guest::{CTRL, Guest, LINK_UP, RCTL, TCTL, Wish, frame, low, open_both, stepped};

/// Numbers that are the same at every run (a linear congruence, its upper half).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        low(self.0 >> 32)
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit
    }
}

/// Registers, with those of queues more often than others.
fn places(kind: Kind) -> Vec<u32> {
    let mut all = Vec::new();
    for register in map(kind) {
        let offsets = (0..register.count).map(|n| register.offset + n * register.stride);
        let of_a_ring = ["RD", "TD", "SRR", "RX", "TX"];
        let often = of_a_ring.iter().any(|part| register.name.starts_with(part));
        let times = if often { 8 } else { 1 };
        for offset in offsets {
            all.extend(std::iter::repeat_n(offset, times));
        }
    }
    all
}

fn disturb(guest: &Guest, places: &[u32], noise: &mut Noise) {
    let pick = noise.below(u32::try_from(places.len()).unwrap()) as usize;
    let offset = if noise.below(50) == 0 {
        noise.below(0x2_0000) & !3
    } else {
        places[pick]
    };
    let memory = guest.tx[0].words.iova().get();
    let value = match noise.below(6) {
        0 => noise.next(),
        1 => 1 << noise.below(32),
        2 => noise.below(16),
        3 => 128 * noise.below(4),
        4 => low(memory),
        _ => guest.bar.load32(offset),
    };
    guest.bar.store32(offset, value);
    // A descriptor of nonsense, at times with a buffer that is there.
    let slot = noise.below(guest.wish.slots);
    let address = match noise.below(50) {
        0 => u64::from(noise.next()) << 8,
        _ => guest.tx[0].buffer(slot),
    };
    let sensible = guest.command(60 + noise.below(300) as usize);
    let command = match noise.below(10) {
        0 => u64::from(noise.next()) << 32 | u64::from(noise.next()),
        1..5 => sensible ^ 1 << noise.below(64),
        _ => sensible,
    };
    guest.tx[0].set(slot, [address, command]);
    if noise.below(2) == 0 {
        guest.bar.store32(guest.tx[0].base + 0x18, slot);
        guest.rx[0].set(slot, [guest.rx[0].buffer(slot), 0]);
    }
}

/// Starts a device over as it should be, on the rings that there are.
fn restart(sim: &Sim, guest: &mut Guest) {
    guest.function.reset().unwrap();
    if guest.kind == Kind::IgbVf {
        sim.step();
        guest.look_at_mailbox();
        guest.tell(&[1]);
        sim.step();
        sim.step();
    }
    guest.start_queue(0);
    if guest.kind != Kind::IgbVf {
        guest.bar.store32(CTRL, LINK_UP);
        guest.bar.store32(RCTL, guest.wish.rctl);
        guest.bar.store32(TCTL, 10);
    }
    for slot in 0..guest.wish.slots {
        guest.rx[0].set(slot, [guest.rx[0].buffer(slot), 0]);
    }
    guest.bar.store32(guest.rx[0].base + 0x18, 7);
}

#[test]
fn nonsense_breaks_nothing() {
    for kind in [Kind::E1000, Kind::E1000e, Kind::Igb, Kind::IgbVf] {
        let sim = stepped(kind);
        let (mut a, mut b) = open_both(&sim, kind, &Wish::default());
        let places = places(kind);
        let mut noise = Noise(7);
        for n in 0..60_000 {
            disturb(&b, &places, &mut noise);
            b.bar.load32(CTRL);
            if n % 3 == 0 {
                a.send(&frame(n, 60 + noise.below(200) as usize));
                sim.step();
            }
            // Else what comes would meet a dead device for ever.
            if n % 200 == 199 {
                restart(&sim, &mut b);
            }
        }
        sim.settle();
        assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0), "{kind:?}");
        assert!(!sim.objections().is_empty());
        let counts = sim.counters(1);
        assert!(
            counts.rx_frames > 100 && counts.rx_dma_fault > 0,
            "{counts:?}"
        );
        // A virtual function's frames all count as spoofed.
        let taken = counts.tx_frames + counts.tx_errors;
        assert!(taken > 1000 && counts.tx_errors > 10, "{counts:?}");
    }
}
