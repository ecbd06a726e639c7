//! `af_packet:` ports.

use port::Port;

use crate::OpenError;
use crate::options::Options;
use crate::spec::Spec;

/// Options of an `af_packet:` port.
const KNOWN: &str = "queues, rx_slots, tx_slots";

/// Opens the interface.
pub(crate) fn open(spec: &Spec, interface: &str) -> Result<Box<dyn Port>, OpenError> {
    let mut options = Options::of(spec);
    let queues = options.number("queues", "1 to 16 queues each way", 1, 16)?;
    let how = kernel::Options {
        queues: queues.and_then(|queues| usize::try_from(queues).ok()),
        rx_slots: options.slots("rx_slots")?,
        tx_slots: options.slots("tx_slots")?,
    };
    options.done(KNOWN)?;
    Ok(kernel::open(&spec.text, interface, &how)?)
}
