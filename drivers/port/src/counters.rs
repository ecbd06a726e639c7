//! What a port counts.

/// The counters that every port has. Bytes include the FCS (4 bytes a frame).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the device took and sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that the device could not send.
    pub tx_errors: u64,
    /// Frames that arrived in memory.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that arrived and found no empty buffer.
    pub rx_missed: u64,
    /// Frames that arrived damaged or with a bad length.
    pub rx_errors: u64,
}

/// One more counter of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extended {
    /// Its datasheet name.
    pub name: String,
    /// Its value since the port was opened.
    pub value: u64,
}
