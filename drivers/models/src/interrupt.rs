//! Where a device's interrupts go.

use std::sync::Arc;

/// Whoever is interrupted: in this process nobody, behind vfio-user a guest.
pub trait InterruptSink: Send + Sync {
    /// A message of MSI-X, by its number in the function's table.
    fn message(&self, vector: u16);
    /// The line of INTx rises (`true`) or falls. It is told each change once.
    fn line(&self, high: bool);
}

/// A device's end of it: what it sends before anyone listens goes nowhere.
#[derive(Default)]
pub(crate) struct Outlet {
    sink: Option<Arc<dyn InterruptSink>>,
    high: bool,
}

impl Outlet {
    /// From now on `sink` hears of everything, first of a line that is high already.
    pub(crate) fn connect(&mut self, sink: Arc<dyn InterruptSink>) {
        if self.high {
            sink.line(true);
        }
        self.sink = Some(sink);
    }

    /// Sends a message.
    pub(crate) fn message(&self, vector: u16) {
        if let Some(sink) = &self.sink {
            sink.message(vector);
        }
    }

    /// The line shall be so. True if it rises.
    pub(crate) fn set_line(&mut self, high: bool) -> bool {
        let rises = high && !self.high;
        if high != self.high {
            self.high = high;
            if let Some(sink) = &self.sink {
                sink.line(high);
            }
        }
        rises
    }
}

#[cfg(test)]
mod test {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl InterruptSink for Heard {
        fn message(&self, vector: u16) {
            self.0.lock().unwrap().push(format!("vector {vector}"));
        }
        fn line(&self, high: bool) {
            self.0.lock().unwrap().push(format!("line {high}"));
        }
    }

    #[test]
    fn the_line_is_told_by_its_changes_and_a_late_listener_hears_that_it_is_high() {
        let mut outlet = Outlet::default();
        outlet.message(3);
        assert!(outlet.set_line(true));
        let heard = Arc::new(Heard::default());
        outlet.connect(heard.clone());
        assert!(!outlet.set_line(true));
        assert!(!outlet.set_line(false));
        outlet.message(1);
        assert!(outlet.set_line(true));
        let heard = heard.0.lock().unwrap().clone();
        assert_eq!(heard, ["line true", "line false", "vector 1", "line true"]);
    }
}
