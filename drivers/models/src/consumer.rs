//! The least a device can do.
