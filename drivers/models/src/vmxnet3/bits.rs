//! Numbers of the vmxnet3 interface, as a device needs them.
//!
//! VMware publishes no data sheet; its headers are the definition, as Linux carries them
//! (`drivers/net/vmxnet3/vmxnet3_defs.h` and `upt1_defs.h`). Names here are theirs. Transcribed
//! for the model alone: no driver shares them.

/// BAR 1, "VD": configuration and commands.
pub(super) mod register {
    pub(crate) const VRRS: u32 = 0x00;
    pub(crate) const UVRS: u32 = 0x08;
    pub(crate) const DSAL: u32 = 0x10;
    pub(crate) const DSAH: u32 = 0x18;
    pub(crate) const CMD: u32 = 0x20;
    pub(crate) const MACL: u32 = 0x28;
    pub(crate) const MACH: u32 = 0x30;
    pub(crate) const ICR: u32 = 0x38;
    pub(crate) const ECR: u32 = 0x40;
    /// Capabilities that the driver may switch on, since revision 7.
    pub(crate) const DCR: u32 = 0x48;
    /// Capabilities of passthrough, since revision 7.
    pub(crate) const PTCR: u32 = 0x88;
}

/// BAR 0, "PT": masks of interrupts, and doorbells.
pub(super) mod doorbell {
    pub(crate) const IMR: u32 = 0x000;
    pub(crate) const TXPROD: u32 = 0x600;
    pub(crate) const RXPROD: u32 = 0x800;
    pub(crate) const RXPROD2: u32 = 0xa00;
    /// The same with the large BAR switched on.
    pub(crate) const LARGE_TXPROD: u32 = 0x1000;
    pub(crate) const LARGE_RXPROD: u32 = 0x1400;
    pub(crate) const LARGE_RXPROD2: u32 = 0x1800;
    /// Bytes from one queue's register to the next one's.
    pub(crate) const STRIDE: u32 = 8;
}

/// Commands, by the number that is written to `CMD`.
pub(super) mod command {
    pub(crate) const ACTIVATE_DEV: u32 = 0xcafe_0000;
    pub(crate) const QUIESCE_DEV: u32 = 0xcafe_0001;
    pub(crate) const RESET_DEV: u32 = 0xcafe_0002;
    pub(crate) const UPDATE_RX_MODE: u32 = 0xcafe_0003;
    pub(crate) const UPDATE_MAC_FILTERS: u32 = 0xcafe_0004;
    pub(crate) const UPDATE_VLAN_FILTERS: u32 = 0xcafe_0005;
    pub(crate) const UPDATE_RSSIDT: u32 = 0xcafe_0006;
    pub(crate) const UPDATE_FEATURE: u32 = 0xcafe_0009;
    pub(crate) const SET_COALESCE: u32 = 0xcafe_000e;
    pub(crate) const REGISTER_MEMREGS: u32 = 0xcafe_000f;
    pub(crate) const SET_RSS_FIELDS: u32 = 0xcafe_0010;
    pub(crate) const SET_RING_BUFFER_SIZE: u32 = 0xcafe_0013;
    pub(crate) const GET_QUEUE_STATUS: u32 = 0xf00d_0000;
    pub(crate) const GET_STATS: u32 = 0xf00d_0001;
    pub(crate) const GET_LINK: u32 = 0xf00d_0002;
    pub(crate) const GET_PERM_MAC_LO: u32 = 0xf00d_0003;
    pub(crate) const GET_PERM_MAC_HI: u32 = 0xf00d_0004;
    pub(crate) const GET_DID_LO: u32 = 0xf00d_0005;
    pub(crate) const GET_DID_HI: u32 = 0xf00d_0006;
    pub(crate) const GET_ADAPTIVE_RING_INFO: u32 = 0xf00d_0009;
    pub(crate) const GET_TXDATA_DESC_SIZE: u32 = 0xf00d_000a;
    pub(crate) const GET_COALESCE: u32 = 0xf00d_000b;
    pub(crate) const GET_RSS_FIELDS: u32 = 0xf00d_000c;
    pub(crate) const GET_MAX_QUEUES_CONF: u32 = 0xf00d_000f;
    pub(crate) const GET_RSS_HASH_FUNC: u32 = 0xf00d_0010;
    pub(crate) const GET_MAX_CAPABILITIES: u32 = 0xf00d_0011;
    pub(crate) const GET_DCR0_REG: u32 = 0xf00d_0012;

    /// The revision that brought a command; 0 for one that there is not.
    pub(crate) const fn since(command: u32) -> u8 {
        match command {
            ACTIVATE_DEV..=UPDATE_FEATURE
            | REGISTER_MEMREGS
            | GET_QUEUE_STATUS..=GET_ADAPTIVE_RING_INFO => 1,
            GET_TXDATA_DESC_SIZE | GET_COALESCE | SET_COALESCE => 3,
            SET_RSS_FIELDS | GET_RSS_FIELDS => 4,
            GET_MAX_QUEUES_CONF | GET_RSS_HASH_FUNC => 6,
            SET_RING_BUFFER_SIZE | GET_MAX_CAPABILITIES | GET_DCR0_REG => 7,
            _ => 0,
        }
    }
}

/// The area that driver and device share (`Vmxnet3_DriverShared`), by offset in bytes.
pub(super) mod shared {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const MAGIC_VALUE: u32 = 0xbabe_fee1;
    pub(crate) const REVISIONS: usize = 16;
    pub(crate) const UPT_VERSIONS: usize = 20;
    pub(crate) const FEATURES: usize = 24;
    pub(crate) const QUEUE_DESC_PA: usize = 40;
    pub(crate) const QUEUE_DESC_LEN: usize = 52;
    pub(crate) const MTU: usize = 56;
    pub(crate) const MAX_RX_SG: usize = 60;
    pub(crate) const TX_QUEUES: usize = 62;
    pub(crate) const RX_QUEUES: usize = 63;
    /// `Vmxnet3_IntrConf`.
    pub(crate) const AUTO_MASK: usize = 80;
    pub(crate) const INTERRUPTS: usize = 81;
    pub(crate) const EVENT_INTERRUPT: usize = 82;
    pub(crate) const INTR_CTRL: usize = 108;
    /// `Vmxnet3_RxFilterConf`.
    pub(crate) const RX_MODE: usize = 120;
    pub(crate) const MF_TABLE_LEN: usize = 124;
    pub(crate) const MF_TABLE_PA: usize = 128;
    pub(crate) const VF_TABLE: usize = 136;
    pub(crate) const VF_TABLE_BYTES: usize = 512;
    /// Version, length, address.
    pub(crate) const RSS_CONF: usize = 648;
    pub(crate) const ECR: usize = 696;
    /// What a command that needs more than its number says.
    pub(crate) const CMD_INFO: usize = 704;
    /// Bytes up to there: what every revision reads.
    pub(crate) const BYTES: usize = CMD_INFO;
    /// `Vmxnet3_IntrConfExt`, for more queues than the first revisions had.
    pub(crate) const EXT_AUTO_MASK: usize = 720;
    pub(crate) const EXT_INTERRUPTS: usize = 721;
    pub(crate) const EXT_EVENT_INTERRUPT: usize = 722;
    pub(crate) const EXT_INTR_CTRL: usize = 724;
    /// Bytes with that.
    pub(crate) const EXT_BYTES: usize = 800;

    /// `intrCtrl`: no interrupt at all.
    pub(crate) const DISABLE_ALL: u32 = 1;
    /// Where it must lie: its fields are read as words of 64 bits.
    pub(crate) const ALIGN: u64 = 8;
}

/// `uptFeatures`.
pub(super) mod feature {
    pub(crate) const RXCSUM: u64 = 1;
    pub(crate) const RSS: u64 = 2;
    pub(crate) const RXVLAN: u64 = 4;
    pub(crate) const LRO: u64 = 8;
    /// Inner offloads of tunnels: accepted and left alone.
    pub(crate) const RXINNEROFLD: u64 = 0x10;
    pub(crate) const ALL: u64 = RXCSUM | RSS | RXVLAN | LRO | RXINNEROFLD;
}

/// Events in `ecr`.
pub(super) mod event {
    pub(crate) const RQERR: u32 = 1;
    pub(crate) const TQERR: u32 = 2;
    pub(crate) const LINK: u32 = 4;
    pub(crate) const ALL: u32 = 0x1f;
}

/// Receive modes.
pub(super) mod mode {
    pub(crate) const UCAST: u32 = 1;
    pub(crate) const MCAST: u32 = 2;
    pub(crate) const BCAST: u32 = 4;
    pub(crate) const ALL_MULTI: u32 = 8;
    pub(crate) const PROMISC: u32 = 0x10;
    pub(crate) const ALL: u32 = 0x1f;
}

/// A queue's descriptor (`Vmxnet3_TxQueueDesc`, `Vmxnet3_RxQueueDesc`), by offset in bytes.
pub(super) mod queue {
    pub(crate) const BYTES: usize = 256;
    pub(crate) const ALIGN: u64 = 128;
    pub(crate) const TX_THRESHOLD: u64 = 4;
    pub(crate) const UPDATE_RX_PROD: u64 = 0;
    pub(crate) const TX_RING_PA: usize = 16;
    pub(crate) const TX_DATA_PA: usize = 24;
    pub(crate) const TX_COMP_PA: usize = 32;
    pub(crate) const TX_RING_SIZE: usize = 56;
    pub(crate) const TX_DATA_SIZE: usize = 60;
    pub(crate) const TX_COMP_SIZE: usize = 64;
    pub(crate) const RX_RING_PA: usize = 16;
    pub(crate) const RX_COMP_PA: usize = 32;
    pub(crate) const RX_DATA_PA: usize = 48;
    pub(crate) const RX_RING_SIZE: usize = 56;
    pub(crate) const RX_COMP_SIZE: usize = 64;
    pub(crate) const INTERRUPT: usize = 72;
    pub(crate) const DATA_DESC_SIZE: usize = 74;
    pub(crate) const STATUS: u64 = 80;
    pub(crate) const STATS: u64 = 88;
}

/// Counters of a transmit queue (`UPT1_TxStats`), by their place.
pub(super) mod tx_stat {
    pub(crate) const TSO_PACKETS: usize = 0;
    pub(crate) const UCAST_PACKETS: usize = 2;
    pub(crate) const MCAST_PACKETS: usize = 4;
    pub(crate) const BCAST_PACKETS: usize = 6;
    pub(crate) const ERROR: usize = 8;
    pub(crate) const COUNT: usize = 10;
}

/// Counters of a receive queue (`UPT1_RxStats`), by their place.
pub(super) mod rx_stat {
    pub(crate) const UCAST_PACKETS: usize = 2;
    pub(crate) const MCAST_PACKETS: usize = 4;
    pub(crate) const BCAST_PACKETS: usize = 6;
    pub(crate) const OUT_OF_BUF: usize = 8;
    pub(crate) const ERROR: usize = 9;
    pub(crate) const COUNT: usize = 10;
}

/// Why a queue stands still (`error` in its status).
pub(super) mod error {
    pub(crate) const NOEOP: u32 = 0x8000_0000;
    pub(crate) const TXD_REUSE: u32 = 0x8000_0001;
    pub(crate) const BIG_PKT: u32 = 0x8000_0002;
    pub(crate) const DESC_NOT_SPT: u32 = 0x8000_0003;
    pub(crate) const SMALL_BUF: u32 = 0x8000_0004;
    pub(crate) const STRESS: u32 = 0x8000_0005;
    pub(crate) const TXD_INVALID: u32 = 0x8000_0007;
}

/// Bits of descriptors, in their second 64-bit word unless it says otherwise.
pub(super) mod desc {
    /// Length in both kinds of descriptor and in receive completions.
    pub(crate) const LEN: u64 = 0x3fff;
    /// What a transmit length of 0 means.
    pub(crate) const TX_WHOLE: u32 = 1 << 14;
    pub(crate) const TX_GEN: u64 = 1 << 14;
    pub(crate) const TX_OCO: u64 = 1 << 15;
    pub(crate) const TX_DTYPE: u64 = 1 << 16;
    pub(crate) const TX_EXT1: u64 = 1 << 17;
    /// MSS, or where the checksum goes: 14 bits.
    pub(crate) const TX_MSSCOF: u32 = 18;
    /// Length of headers, or where the checksum begins: 10 bits.
    pub(crate) const TX_HLEN: u32 = 32;
    pub(crate) const TX_OM: u32 = 42;
    pub(crate) const TX_EOP: u64 = 1 << 44;
    pub(crate) const TX_CQ: u64 = 1 << 45;
    pub(crate) const TX_EXT2: u64 = 1 << 46;
    pub(crate) const TX_TI: u64 = 1 << 47;
    pub(crate) const TX_TCI: u32 = 48;
    pub(crate) const OM_NONE: u64 = 0;
    pub(crate) const OM_CSUM: u64 = 2;
    pub(crate) const OM_TSO: u64 = 3;

    pub(crate) const RX_BODY: u64 = 1 << 14;
    pub(crate) const RX_DTYPE: u64 = 1 << 15;
    pub(crate) const RX_RESERVED: u64 = 0x7fff << 16;
    pub(crate) const RX_GEN: u64 = 1 << 31;

    /// Generation of a completion of either kind.
    pub(crate) const COMP_GEN: u64 = 1 << 63;
    /// In the first word of a receive completion.
    pub(crate) const COMP_EOP: u64 = 1 << 14;
    pub(crate) const COMP_SOP: u64 = 1 << 15;
    pub(crate) const COMP_QUEUE: u32 = 16;
    pub(crate) const COMP_RSS_TYPE: u32 = 26;
    pub(crate) const COMP_CNC: u64 = 1 << 30;
    pub(crate) const COMP_RSS_HASH: u32 = 32;
    /// In the second.
    pub(crate) const COMP_ERR: u64 = 1 << 14;
    pub(crate) const COMP_TS: u64 = 1 << 15;
    pub(crate) const COMP_TCI: u32 = 16;
    pub(crate) const COMP_TUC: u64 = 1 << 48;
    pub(crate) const COMP_UDP: u64 = 1 << 49;
    pub(crate) const COMP_TCP: u64 = 1 << 50;
    pub(crate) const COMP_IPC: u64 = 1 << 51;
    pub(crate) const COMP_V6: u64 = 1 << 52;
    pub(crate) const COMP_V4: u64 = 1 << 53;
    pub(crate) const COMP_FRG: u64 = 1 << 54;
    pub(crate) const COMP_FCS: u64 = 1 << 55;
    pub(crate) const COMP_TYPE: u32 = 56;
    pub(crate) const TYPE_RX: u64 = 3;
}

/// Limits.
pub(super) mod limit {
    pub(crate) const RING_ALIGN: u64 = 512;
    pub(crate) const RING_STEP: u32 = 32;
    pub(crate) const RING: u32 = 4096;
    pub(crate) const RX_COMP: u32 = 8192;
    pub(crate) const DATA_STEP: u16 = 64;
    pub(crate) const TX_DATA_MIN: u16 = 128;
    pub(crate) const DATA_MAX: u16 = 2048;
    pub(crate) const SLOTS_PER_FRAME: u32 = 16;
    pub(crate) const SLOTS_PER_TSO: u32 = 24;
    pub(crate) const HEAD_BUFFER: u32 = 128;
    pub(crate) const CSUM_OFFSET: usize = 1024;
    pub(crate) const MTU_MIN: u32 = 60;
    /// Queues and interrupts before revision 6, and since.
    pub(crate) const TX_QUEUES: u8 = 8;
    pub(crate) const RX_QUEUES: u8 = 16;
    pub(crate) const INTERRUPTS: u8 = 25;
    pub(crate) const EXT_QUEUES: u8 = 32;
    pub(crate) const EXT_INTERRUPTS: u8 = 65;

    /// Largest MTU of a revision.
    pub(crate) const fn mtu(revision: u8) -> u32 {
        if revision >= 6 { 9190 } else { 9000 }
    }
}

/// Capability registers (bits of DCR 0).
pub(super) mod cap {
    pub(crate) const UDP_RSS: u32 = 1;
    pub(crate) const LARGE_BAR: u32 = 1 << 16;
    /// Reads of a capability register that has nothing to say.
    pub(crate) const ERROR: u32 = 1 << 31;
}
