//! Queues for a run: one type for each format, order and offload, chosen here.

use port::{RxQueue, TxQueue};

use crate::doorbell::Notifier;
use crate::features::Features;
use crate::plan::Parts;
use crate::rx::packed::PackedRx;
use crate::rx::split::SplitRx;
use crate::rx::{Fit, Rx, RxEngine, Told};
use crate::shared::Follower;
use crate::tx::packed::PackedTx;
use crate::tx::split::SplitTx;
use crate::tx::tables::Tables;
use crate::tx::{Tx, TxEngine};

/// What a queue needs besides its ring.
pub(crate) struct Site {
    /// Its side of what it shares with the port.
    pub(crate) follower: Follower,
    /// How to tell the device.
    pub(crate) notifier: Notifier,
}

/// The send queue of pair `pair`.
pub(crate) fn send(parts: &Parts, pair: usize, site: Site) -> Box<dyn TxQueue> {
    let features = parts.shape.features;
    let header = features.header_bytes();
    let memory = parts.rings[pair * 2 + 1].clone();
    let tables = parts.tables.get(pair).cloned().map(Tables::new);
    let packed = features.contains(Features::RING_PACKED);
    let ordered = features.contains(Features::IN_ORDER);
    match (packed, ordered) {
        (false, false) => wrap(
            SplitTx::<false>::new(memory, header, tables),
            header,
            features,
            site,
        ),
        (false, true) => wrap(
            SplitTx::<true>::new(memory, header, tables),
            header,
            features,
            site,
        ),
        (true, false) => wrap(
            PackedTx::<false>::new(memory, header, tables),
            header,
            features,
            site,
        ),
        (true, true) => wrap(
            PackedTx::<true>::new(memory, header, tables),
            header,
            features,
            site,
        ),
    }
}

fn wrap<E: TxEngine + 'static>(
    engine: E,
    header: usize,
    features: Features,
    site: Site,
) -> Box<dyn TxQueue> {
    let Site { follower, notifier } = site;
    if features.contains(Features::CSUM) {
        Box::new(Tx::<E, true>::new(engine, header, follower, notifier))
    } else {
        Box::new(Tx::<E, false>::new(engine, header, follower, notifier))
    }
}

/// The receive queue of pair `pair`.
pub(crate) fn receive(parts: &Parts, pair: usize, site: Site) -> Box<dyn RxQueue> {
    let features = parts.shape.features;
    let fit = Fit {
        header: features.header_bytes(),
        mergeable: features.contains(Features::MRG_RXBUF),
    };
    let memory = parts.rings[pair * 2].clone();
    let packed = features.contains(Features::RING_PACKED);
    let ordered = features.contains(Features::IN_ORDER);
    match (packed, ordered) {
        (false, false) => open(SplitRx::<false>::new(memory, fit), fit, features, site),
        (false, true) => open(SplitRx::<true>::new(memory, fit), fit, features, site),
        (true, false) => open(PackedRx::<false>::new(memory, fit), fit, features, site),
        (true, true) => open(PackedRx::<true>::new(memory, fit), fit, features, site),
    }
}

fn open<E: RxEngine + 'static>(
    engine: E,
    fit: Fit,
    features: Features,
    site: Site,
) -> Box<dyn RxQueue> {
    let Site { follower, notifier } = site;
    let told = Told {
        checksums: features.contains(Features::GUEST_CSUM),
        hash: features.contains(Features::HASH_REPORT),
    };
    let said = (fit, told);
    match (fit.mergeable, told.checksums || told.hash) {
        (false, false) => Box::new(Rx::<E, false, false>::new(engine, said, follower, notifier)),
        (false, true) => Box::new(Rx::<E, false, true>::new(engine, said, follower, notifier)),
        (true, false) => Box::new(Rx::<E, true, false>::new(engine, said, follower, notifier)),
        (true, true) => Box::new(Rx::<E, true, true>::new(engine, said, follower, notifier)),
    }
}
