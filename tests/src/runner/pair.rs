//! A pair of ports for the suite, opened by port strings.

use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{DmaSpace, Memory};
use port::{
    Caps, Config, Counters, Extended, Info, Link, Mac, Port, PortError, Queues, Rss, StartError,
};

use crate::conformance::{Failure, Pair};

/// How the catalog begins what a model objects to.
const OBJECTION: &str = "the model objects: ";

/// Opens both ports.
///
/// # Errors
/// One can't be opened; the failure has the cure.
pub fn open(ports: &[String; 2]) -> Result<Pair, Failure> {
    let options = catalog::Options::default();
    let opened = catalog::open(&[&ports[0], &ports[1]], &options).map_err(|error| {
        let cure = error.remedy().map(|cure| format!(" ({cure})"));
        Failure::Found(format!(
            "open: {}{}",
            with_causes(&error),
            cure.unwrap_or_default()
        ))
    })?;
    let objections = Arc::new(Mutex::new(Vec::new()));
    let mut ports = opened.into_iter().map(|inner| -> Box<dyn Port> {
        Box::new(Heard {
            inner,
            objections: Arc::clone(&objections),
        })
    });
    let (Some(first), Some(second)) = (ports.next(), ports.next()) else {
        return Err(Failure::Found("the catalog opened fewer than two".into()));
    };
    Ok(Pair {
        ports: [first, second],
        objections: Box::new(move || {
            let heard = objections.lock().unwrap_or_else(PoisonError::into_inner);
            heard.clone()
        }),
    })
}

/// An error with all that lies behind it.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}

/// A port whose model is heard when it objects, up to its end.
struct Heard {
    inner: Box<dyn Port>,
    objections: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    fn hear(&self, events: &[String]) {
        let mut heard = self
            .objections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fresh = events
            .iter()
            .filter_map(|event| event.strip_prefix(OBJECTION));
        heard.extend(fresh.map(str::to_owned));
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Ok(events) = self.inner.service() {
            self.hear(&events);
        }
    }
}

impl Port for Heard {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        self.inner.space()
    }

    fn ring_bytes(&self, config: &Config) -> usize {
        self.inner.ring_bytes(config)
    }

    fn start(&mut self, config: &Config, memory: &Memory) -> Result<Queues, StartError> {
        self.inner.start(config, memory)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.inner.stop(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        self.inner.link()
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        self.inner.counters()
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        self.inner.extended()
    }

    fn service(&mut self) -> Result<Vec<String>, PortError> {
        let events = self.inner.service()?;
        self.hear(&events);
        Ok(events)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        self.inner.set_promiscuous(on)
    }

    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError> {
        self.inner.set_all_multicast(on)
    }

    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError> {
        self.inner.set_mac(mac)
    }

    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError> {
        self.inner.set_mac_filter(macs)
    }

    fn set_vlan_filter(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        self.inner.set_vlan_filter(id, on)
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError> {
        self.inner.set_mtu(mtu)
    }

    fn set_rss(&mut self, rss: &Rss) -> Result<(), PortError> {
        self.inner.set_rss(rss)
    }
}
