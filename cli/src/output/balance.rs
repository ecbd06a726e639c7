//! What was sent against what was received.

use engine::run::{Figures, PortFigures, StreamFigures};

/// Frames that are missing, and frames that are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Frames lost, where that can be known.
    pub(crate) lost: Option<u64>,
    /// Frames that ports received beyond those that their peers sent.
    pub(crate) surplus: u64,
}

impl Balance {
    /// The balance of `figures`. Where ports are the two ends of wires of this run and nothing
    /// else is on them (`closed`), what was sent and not received is lost; otherwise only what
    /// measured streams miss. Totals hide as many lost frames as there are duplicates and frames
    /// of somebody else, so that measured streams, where there are any, have the word.
    pub(crate) fn new(figures: &Figures, closed: bool) -> Self {
        let ports = &figures.ports;
        let mut surplus = 0;
        let mut lost = None;
        for (number, port) in ports.iter().enumerate() {
            let streams = || figures.streams.iter().filter(|row| row.port == number);
            let missing = of_measured(streams());
            let other = ports.get(number ^ 1).unwrap_or(port);
            surplus += if closed {
                other.rx_frames.saturating_sub(port.tx_frames)
            } else {
                port.extra
            };
            let of_port = if closed && !is_all_measured(streams()) {
                Some(total(port, other).max(missing.unwrap_or(0)))
            } else {
                missing
            };
            if let Some(frames) = of_port {
                lost = Some(lost.unwrap_or(0) + frames);
            }
        }
        if surplus > 0 && !is_all_measured(figures.streams.iter()) {
            lost = None;
        }
        Self { lost, surplus }
    }
}

/// What one end of a wire sent and the other did not receive.
fn total(sent: &PortFigures, received: &PortFigures) -> u64 {
    sent.tx_frames.saturating_sub(received.rx_frames)
}

/// What measured streams miss, if there is one.
fn of_measured<'a>(streams: impl Iterator<Item = &'a StreamFigures>) -> Option<u64> {
    streams
        .filter(|stream| stream.measured)
        .filter_map(|stream| stream.lost)
        .reduce(|sum, lost| sum + lost)
}

fn is_all_measured<'a>(streams: impl Iterator<Item = &'a StreamFigures>) -> bool {
    let mut streams = streams.peekable();
    streams.peek().is_some() && streams.all(|stream| stream.measured)
}

#[cfg(test)]
mod test {
    use super::*;

    /// Port 0 sends 100 frames in two streams of 50; port 1 receives `received`.
    fn figures(received: u64, measured: [bool; 2], lost: u64) -> Figures {
        let port = |tx_frames, rx_frames| PortFigures {
            tx_frames,
            rx_frames,
            extra: received.saturating_sub(100).min(tx_frames),
            ..PortFigures::default()
        };
        let stream = |measured| StreamFigures {
            measured,
            tx_frames: 50,
            lost: measured.then_some(lost),
            ..StreamFigures::default()
        };
        Figures {
            ports: vec![port(100, 0), port(0, received)],
            streams: measured.map(stream).to_vec(),
            ..Figures::default()
        }
    }

    fn balance(figures: &Figures, closed: bool) -> (Option<u64>, u64) {
        let balance = Balance::new(figures, closed);
        (balance.lost, balance.surplus)
    }

    #[test]
    fn duplicates_do_not_make_up_for_what_measured_streams_lost() {
        // Two frames lost a stream, and four received twice: the totals agree.
        assert_eq!(balance(&figures(100, [true, true], 2), true), (Some(4), 0));
        assert_eq!(balance(&figures(100, [true, false], 2), true), (Some(2), 0));
        assert_eq!(balance(&figures(90, [true, false], 2), true), (Some(10), 0));
        assert_eq!(
            balance(&figures(90, [false, false], 0), true),
            (Some(10), 0)
        );
    }

    #[test]
    fn what_was_lost_is_not_known_where_more_was_received_than_sent() {
        assert_eq!(balance(&figures(103, [false, false], 0), true), (None, 3));
        assert_eq!(balance(&figures(103, [true, false], 1), true), (None, 3));
        assert_eq!(balance(&figures(103, [true, true], 1), true), (Some(2), 3));
        assert_eq!(balance(&figures(103, [true, false], 1), false), (None, 3));
    }

    #[test]
    fn only_measured_streams_tell_where_others_may_be_on_the_wire() {
        assert_eq!(balance(&figures(90, [false, false], 0), false), (None, 0));
        assert_eq!(balance(&figures(90, [true, false], 1), false), (Some(1), 0));
    }
}
