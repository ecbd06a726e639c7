//! What varies from frame to frame.

/// What varies in a template's frames: variables, then where they are written, then checksums.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The variables. All step once a frame, but those that another one's [`Var::next`] names.
    pub vars: Vec<Var>,
    /// Where they go, in this order.
    pub writes: Vec<Write>,
    /// The variable that is the frame's length in bytes, *without* FCS (TRex's
    /// `trim_pkt_size`). It can only shorten the template.
    pub size: Option<String>,
    /// Checksums to correct after everything else, in this order.
    pub fixes: Vec<Fix>,
    /// Compute so many frames, over all cores, and send those again and again (`cache_size`).
    pub cached: Option<u32>,
    /// Whether several cores share the sequence, each taking its part, or each send all of it.
    pub split: bool,
}

impl Default for Program {
    /// Nothing varies.
    fn default() -> Self {
        Self {
            vars: Vec::new(),
            writes: Vec::new(),
            size: None,
            fixes: Vec::new(),
            cached: None,
            split: true,
        }
    }
}

impl Program {
    /// The variable called `name`.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&Var> {
        self.vars.iter().find(|var| var.name == name)
    }

    /// The mean length of its frames in bytes, without FCS, if that varies.
    #[must_use]
    pub fn mean_len(&self) -> Option<f64> {
        self.var(self.size.as_ref()?).map(|var| var.values.mean())
    }
}

/// A variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Var {
    /// What writes call it. A tuple's are `NAME.ip` and `NAME.port`.
    pub name: String,
    /// Its width in bytes: 1, 2, 4 or 8. Arithmetic wraps there.
    pub width: usize,
    /// Its values.
    pub values: Values,
    /// The variable that steps when this one wraps, and at no other time (`next_var`).
    pub next: Option<String>,
}

/// Up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the smallest or first.
    Inc,
    /// From the largest or last.
    Dec,
}

/// The values of a variable, one a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// From `min` up or from `max` down by `step`. What would pass the other end starts again:
    /// 0..=10 by 3 is 0, 3, 6, 9, 0.
    Step {
        /// Direction.
        order: Order,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// The first; `min` or `max` if none. A whole number of steps from there.
        init: Option<u64>,
        /// From one value to the next.
        step: u64,
    },
    /// Any of `min..=max`, equally likely, by the run's seed.
    Random {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// `limit` random values, and then the same ones again (`flow_var_rand_limit`).
    RepeatableRandom {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// How many are drawn. They may repeat among themselves.
        limit: u32,
        /// What they are drawn by; the run's seed if none.
        seed: Option<u64>,
    },
    /// These, one after the other.
    List {
        /// The values.
        values: Vec<u64>,
        /// Direction.
        order: Order,
        /// How many places further the next one is.
        step: u64,
    },
    /// Any of these, equally likely.
    RandomOf(Vec<u64>),
    /// An address and a port (`tuple_gen`): the address steps each frame, the port when the
    /// address wraps. Width is the address's, 4; ports are 2 wide.
    Tuple {
        /// Smallest address.
        ip_min: u32,
        /// Largest address.
        ip_max: u32,
        /// Smallest port.
        port_min: u16,
        /// Largest port.
        port_max: u16,
        /// After so many pairs it starts again; 0 for no limit but the ranges.
        limit_flows: u64,
    },
}

impl Values {
    /// The smallest and the largest value; of a tuple, its address.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        match self {
            Self::Step { min, max, .. }
            | Self::Random { min, max }
            | Self::RepeatableRandom { min, max, .. } => (*min, *max),
            Self::List { values, .. } | Self::RandomOf(values) => (
                values.iter().copied().min().unwrap_or(0),
                values.iter().copied().max().unwrap_or(0),
            ),
            Self::Tuple { ip_min, ip_max, .. } => ((*ip_min).into(), (*ip_max).into()),
        }
    }

    /// The mean of the values; a tuple's is its address's.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let middle = |min: u64, max: u64| (min as f64 + max as f64) / 2.0;
        match self {
            Self::Step {
                order,
                min,
                max,
                step,
                ..
            } => {
                let span = max.saturating_sub(*min) / step.max(&1) * step;
                match order {
                    Order::Inc => middle(*min, min.saturating_add(span)),
                    Order::Dec => middle(max.saturating_sub(span), *max),
                }
            }
            Self::Random { min, max } | Self::RepeatableRandom { min, max, .. } => {
                middle(*min, *max)
            }
            Self::List { values, .. } | Self::RandomOf(values) => {
                values.iter().map(|&value| value as f64).sum::<f64>() / values.len().max(1) as f64
            }
            Self::Tuple { ip_min, ip_max, .. } => middle((*ip_min).into(), (*ip_max).into()),
        }
    }
}

/// A variable's way into the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which variable.
    pub var: String,
    /// First byte that is written.
    pub offset: usize,
    /// How many bytes, 1 to 8.
    pub width: usize,
    /// What is added to the variable first.
    pub add: i64,
    /// Least significant byte first.
    pub little_endian: bool,
    /// Only some bits of those bytes (`write_mask_flow_var`).
    pub mask: Option<Mask>,
}

impl Write {
    /// Writes `var` at `offset`, `width` bytes, in network order.
    #[must_use]
    pub fn new(var: impl Into<String>, offset: usize, width: usize) -> Self {
        Self {
            var: var.into(),
            offset,
            width,
            add: 0,
            little_endian: false,
            mask: None,
        }
    }

    /// The same, with `add` added first.
    #[must_use]
    pub fn adding(self, add: i64) -> Self {
        Self { add, ..self }
    }

    /// The same, into the bits of `mask`, shifted left by `shift` (right if negative) first.
    #[must_use]
    pub fn masked(self, mask: u64, shift: i8) -> Self {
        Self {
            mask: Some(Mask { mask, shift }),
            ..self
        }
    }
}

/// What a masked write changes: `frame = (frame & !mask) | ((variable + add) << shift & mask)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask {
    /// The bits that are written.
    pub mask: u64,
    /// To the left; to the right if negative.
    pub shift: i8,
}

/// A checksum to correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// The IPv4 header at `at`.
    Ipv4 {
        /// First byte of the header.
        at: usize,
    },
    /// The UDP checksum of the header at `at`, in the IP packet (4 or 6) at `ip`. Never 0: that
    /// means "none", so 0 is sent as 0xffff (RFC 768).
    Udp {
        /// First byte of the IP header.
        ip: usize,
        /// First byte of the UDP header.
        at: usize,
    },
    /// The TCP checksum of the header at `at`, in the IP packet at `ip`.
    Tcp {
        /// First byte of the IP header.
        ip: usize,
        /// First byte of the TCP header.
        at: usize,
    },
    /// The ICMP checksum of the message at `at`, in the IPv4 packet at `ip`.
    Icmp {
        /// First byte of the IPv4 header.
        ip: usize,
        /// First byte of the message.
        at: usize,
    },
    /// The ICMPv6 checksum of the message at `at`, in the IPv6 packet at `ip` (RFC 4443 §2.3).
    Icmp6 {
        /// First byte of the IPv6 header.
        ip: usize,
        /// First byte of the message.
        at: usize,
    },
}

impl Fix {
    /// First byte of the header that holds the checksum.
    #[must_use]
    pub const fn at(&self) -> usize {
        match *self {
            Self::Ipv4 { at }
            | Self::Udp { at, .. }
            | Self::Tcp { at, .. }
            | Self::Icmp { at, .. }
            | Self::Icmp6 { at, .. } => at,
        }
    }

    /// The bits that say what the checksum covers, as bytes of the frame and masks: the IP
    /// header's version and lengths.
    pub(crate) fn bounds(&self, frame: &[u8]) -> Vec<(usize, u8)> {
        const VERSION: u8 = 0xf0;
        match *self {
            Self::Ipv4 { at } => vec![(at, 0x0f)],
            Self::Udp { ip, .. }
            | Self::Tcp { ip, .. }
            | Self::Icmp { ip, .. }
            | Self::Icmp6 { ip, .. } => {
                let len = if frame[ip] & VERSION == 0x40 {
                    ip + 2
                } else {
                    ip + 4
                };
                vec![(ip, VERSION), (len, 0xff), (len + 1, 0xff)]
            }
        }
    }
}
