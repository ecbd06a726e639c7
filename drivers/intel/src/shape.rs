//! What a run asks for, checked against what the device can do, and the memory it takes.

use hugemem::{Dma, Memory, MemoryError};
use port::{Caps, Config, Offloads, Rss, StartError};

use crate::ring::{self, ALIGN, Slot};

/// Bytes of the RSS hash's key.
pub const KEY: usize = 40;

/// A run's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Receive queues, and slots of each.
    pub rx: (usize, usize),
    /// Send queues, and slots of each.
    pub tx: (usize, usize),
    /// Bytes that the device may write to a receive buffer.
    pub buffer: u16,
    /// What the device shall do to frames.
    pub offloads: Offloads,
    /// Key and table, for several receive queues.
    pub rss: Option<Spread>,
}

/// How frames spread over receive queues, as the device wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The Toeplitz key.
    pub key: [u8; KEY],
    /// A queue for each value of the hash's low bits.
    pub table: Box<[u8]>,
}

impl Spread {
    /// In turn, with a key under which both directions of a flow have one hash.
    fn even(queues: usize, entries: usize) -> Self {
        let key = std::array::from_fn(|n| if n % 2 == 0 { 0x6d } else { 0x5a });
        let queue = |n| u8::try_from(n % queues.max(1)).unwrap_or(0);
        Self {
            key,
            table: (0..entries).map(queue).collect(),
        }
    }

    /// As `rss` says, over `queues` queues, in a table of `entries`.
    ///
    /// # Errors
    /// What would be possible instead, in words.
    pub fn new(rss: &Rss, queues: usize, entries: usize) -> Result<Self, String> {
        let key = rss.key.as_slice().try_into();
        let key = key.map_err(|_| format!("a key of {KEY} bytes"))?;
        let asked = &rss.table;
        let fits = match asked.len() {
            0 => false,
            len if len <= entries => entries.is_multiple_of(len),
            // A longer table will do if it repeats itself.
            len => {
                let (first, rest) = asked.split_at(entries);
                len.is_multiple_of(entries) && rest.chunks(entries).all(|part| part == first)
            }
        };
        if !fits {
            return Err(format!(
                "a table of {entries} queues, or a part of it to repeat"
            ));
        }
        let known = |queue: &u16| {
            let known = u8::try_from(*queue).ok();
            let known = known.filter(|&queue| usize::from(queue) < queues);
            known.ok_or_else(|| format!("queues below {queues}"))
        };
        asked.iter().try_for_each(|queue| known(queue).map(drop))?;
        let table = asked.iter().cycle().take(entries).map(known);
        Ok(Self {
            key,
            table: table.collect::<Result<_, _>>()?,
        })
    }
}

/// What a device makes of receive frames and of RSS.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    /// Bytes of a receive frame that the device can use, if it can use it at all.
    pub buffer: Option<u16>,
    /// The smallest frame that it can, in bytes.
    pub least: usize,
    /// Entries of its table of queues (RETA).
    pub table: usize,
}

impl Shape {
    /// The shape that `config` asks for.
    ///
    /// # Errors
    /// The device does not offer it; the message says what it does.
    pub fn new(port: &str, caps: &Caps, config: &Config, fit: &Fit) -> Result<Self, StartError> {
        let unsupported = |what, asked: String, allowed: String| StartError::Unsupported {
            port: port.to_owned(),
            what,
            asked,
            allowed,
        };
        config.check(port, caps)?;
        let (rx, tx) = config.slots(caps);
        let buffer = fit.buffer.ok_or_else(|| {
            let asked = format!("{} bytes", config.rx_capacity);
            unsupported("a receive frame", asked, format!("{} at least", fit.least))
        })?;
        let queues = config.rx_queues;
        let rss = match &config.rss {
            Some(_) if !caps.offloads.contains(Offloads::RSS) => {
                let allowed = "this device has none".into();
                return Err(unsupported("spreading by RSS", "a table".into(), allowed));
            }
            Some(rss) => Some(
                Spread::new(rss, queues, fit.table)
                    .map_err(|allowed| unsupported("RSS", format!("{rss:?}"), allowed))?,
            ),
            // Of a virtual function without RSS, it is its PF that spreads.
            None if caps.offloads.contains(Offloads::RSS)
                && (queues > 1 || config.offloads.contains(Offloads::RSS)) =>
            {
                Some(Spread::even(queues, fit.table))
            }
            None => None,
        };
        Ok(Self {
            rx: (queues, rx),
            tx: (config.tx_queues, tx),
            buffer,
            offloads: config.offloads,
            rss,
        })
    }

    /// Bytes of memory that its rings take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let ring = |slots: usize| slots * size_of::<Slot>() + ALIGN;
        self.rx.0 * ring(self.rx.1) + self.tx.0 * ring(self.tx.1)
    }

    /// Carves the memory that it takes.
    ///
    /// # Errors
    /// There is less.
    pub fn carve(&self, memory: &Memory) -> Result<Rings, MemoryError> {
        let carve = |(count, slots): (usize, usize)| {
            (0..count)
                .map(|_| memory.carve(slots, ALIGN))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Rings {
            rx: carve(self.rx)?,
            tx: carve(self.tx)?,
            shape: (self.rx, self.tx),
        })
    }
}

/// The rings of a run, kept from one start to the next, as memory is carved for good.
#[derive(Debug, Clone)]
pub struct Rings {
    /// Receive rings, by queue.
    pub rx: Vec<Dma<Slot>>,
    /// Send rings, by queue.
    pub tx: Vec<Dma<Slot>>,
    shape: ((usize, usize), (usize, usize)),
}

impl Rings {
    fn all(&self) -> impl Iterator<Item = &Dma<Slot>> {
        self.rx.iter().chain(&self.tx)
    }

    /// Makes every ring empty.
    pub fn clear(&self) {
        self.all().for_each(ring::clear);
    }

    /// True if they are part of `memory` and as many and as long as `shape` says.
    #[must_use]
    pub fn serve(&self, memory: &Memory, shape: &Shape) -> bool {
        self.shape == (shape.rx, shape.tx) && self.all().all(|ring| ring.is_in(memory))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn rss(table: Vec<u16>) -> Rss {
        Rss {
            key: vec![0; KEY],
            table,
        }
    }

    #[test]
    fn a_table_is_repeated_and_names_only_queues_that_run() {
        let good = Spread::new(&rss(vec![0, 2]), 3, 128).unwrap();
        assert_eq!(good.table.len(), 128);
        assert!(good.table.chunks(2).all(|pair| pair == [0, 2]));
        for bad in [vec![0, 3], vec![], vec![0; 3], vec![0; 129]] {
            assert!(Spread::new(&rss(bad), 3, 128).is_err());
        }
        let short_key = Rss {
            key: vec![0; 39],
            table: vec![0],
        };
        assert!(Spread::new(&short_key, 1, 128).is_err());
    }

    #[test]
    fn a_table_longer_than_the_devices_must_repeat_itself() {
        let table = |last: u16| {
            let mut table: Vec<u16> = (0..128).map(|n| n % 2).collect();
            table[127] = last;
            rss(table)
        };
        let short = Spread::new(&table(1), 2, 64).unwrap();
        assert_eq!(short.table.len(), 64);
        assert!(Spread::new(&table(0), 2, 64).is_err());
    }

    #[test]
    fn queues_have_even_shares_under_a_key_that_both_directions_agree_on() {
        let even = Spread::even(3, 128);
        let count = |queue| even.table.iter().filter(|&&of| of == queue).count();
        assert_eq!([count(0), count(1), count(2)], [43, 43, 42]);
        assert!(even.key.chunks(2).all(|pair| pair == [0x6d, 0x5a]));
    }
}
