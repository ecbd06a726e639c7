//! What may differ between QEMU's device and our model, and why.

use super::compare::Difference;

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What others made: QEMU's device, Linux's driver.
    Theirs,
    /// Our own: model or driver.
    Ours,
}

/// A difference that is allowed.
///
/// Patterns are whole words, or begin or end with `*` for whatever stands there.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// The subjects it is about, by name.
    pub subjects: &'static [&'static str],
    /// The step.
    pub step: &'static str,
    /// What the line is about.
    pub what: &'static str,
    /// Which value; empty for a line that one side has not.
    pub field: &'static str,
    /// What theirs has.
    pub theirs: &'static str,
    /// What ours has.
    pub ours: &'static str,
    /// Of two numbers, the bits that may differ; all others are the same.
    pub bits: Option<u64>,
    /// True where it does not show each time.
    pub sometimes: bool,
    /// Why it is no mistake of either: QEMU's file or the data sheet's section that shows it.
    pub because: &'static str,
}

impl Allowed {
    /// True if the rule is about `difference`.
    #[must_use]
    pub fn covers(&self, difference: &Difference) -> bool {
        let nothing = "nothing".to_owned();
        fits(self.step, &difference.step)
            && fits(self.what, &difference.what)
            && fits(self.field, &difference.field)
            && fits(self.theirs, difference.theirs.as_ref().unwrap_or(&nothing))
            && fits(self.ours, difference.ours.as_ref().unwrap_or(&nothing))
            && self.bits.is_none_or(|bits| differ_in(bits, difference))
    }
}

/// True for two numbers that differ in `bits` at most.
fn differ_in(bits: u64, difference: &Difference) -> bool {
    let number = |text: &Option<String>| {
        let digits = text.as_ref()?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    let (theirs, ours) = (number(&difference.theirs), number(&difference.ours));
    theirs
        .zip(ours)
        .is_some_and(|(theirs, ours)| (theirs ^ ours) & !bits == 0)
}

/// True if `text` is what `pattern` says.
fn fits(pattern: &str, text: &str) -> bool {
    let (from_start, to_end) = (pattern.strip_suffix('*'), pattern.strip_prefix('*'));
    match (from_start, to_end) {
        (Some(_), Some("")) => true,
        (Some(_), Some(inner)) => text.contains(inner.trim_end_matches('*')),
        (Some(start), None) => text.starts_with(start),
        (None, Some(end)) => text.ends_with(end),
        (None, None) => pattern == text,
    }
}

/// The rules for the subject of that name.
#[must_use]
pub fn of(subject: &str) -> Vec<&'static Allowed> {
    ALLOWED
        .iter()
        .filter(|rule| rule.subjects.contains(&subject))
        .collect()
}

impl Allowed {
    /// A rule: subjects; step, line and value; theirs and ours; why.
    pub(crate) const fn new(
        subjects: &'static [&'static str],
        (step, what, field): (&'static str, &'static str, &'static str),
        (theirs, ours): (&'static str, &'static str),
        because: &'static str,
    ) -> Self {
        Self {
            subjects,
            step,
            what,
            field,
            theirs,
            ours,
            bits: None,
            sometimes: false,
            because,
        }
    }

    /// Only if the two values are numbers that differ in `bits` at most.
    pub(crate) const fn within(self, bits: u64) -> Self {
        Self {
            bits: Some(bits),
            ..self
        }
    }

    /// It need not show.
    pub(crate) const fn sometimes(self) -> Self {
        Self {
            sometimes: true,
            ..self
        }
    }
}

/// 8254x.
const OLD: &[&str] = &["82540EM", "82545EM"];
/// What the extended status says beside verdicts.
const UNTYPED: &str = "QEMU's 82574L tells the kind of packet and a TCP ACK in the extended status \
                       (hw/net/e1000e_core.c, e1000e_build_rx_metadata); our model leaves them at \
                       zero, and no driver here reads them";
/// 82574 and 82576.
const NEW: &[&str] = &["82574L", "82576"];
/// The e1000 families.
const E1000: &[&str] = &["82540EM", "82545EM", "82574L", "82576"];
/// virtio-net.
const VIRTIO: &[&str] = &["virtio, split", "virtio, packed"];
/// Devices that send frames as short as they are given.
const UNPADDED: &[&str] = &["vmxnet3", "virtio, split", "virtio, packed"];

const ANY: (&str, &str) = ("*", "*");

/// Every rule there is.
pub const ALLOWED: &[Allowed] = &[
    // Identity and state after a reset.
    Allowed::new(
        &["82540EM", "82545EM", "82576"],
        ("*", "*config:0x2c", "value"),
        ("0x1af4", "0x8086"),
        "QEMU's devices whose class names no subsystem have QEMU's own (hw/pci/pci.c, \
         pci_set_default_subsystem_id)",
    ),
    Allowed::new(
        OLD,
        ("*", "*R32 STATUS", "value"),
        ANY,
        "QEMU's 8254x is made with the status of a PCI Express one: bits 31, 19 and 10:8 are not \
         in the developer's manual (§13.4.2); its link (bit 1) is up from the start \
         (hw/net/e1000.c, mac_reg_init)",
    )
    .within(0x8008_0702),
    Allowed::new(
        &["82574L"],
        ("*", "*R32 STATUS", "value"),
        ANY,
        "detected speed (ASDV, bits 9:8) and link (bit 1) are set at once \
         (hw/net/e1000e_core.c, e1000e_mac_reg_init); bit 19: see MASTER below",
    )
    .within(0x0008_0302),
    Allowed::new(
        &["82576"],
        ("*", "*R32 STATUS", "value"),
        ANY,
        "bit 31 and PHYRA (bit 10) are what hardware shows after power-on, which the model has \
         behind it (hw/net/igb_core.c, igb_mac_reg_init); the link (bit 1) takes its time",
    )
    .within(0x8000_0402),
    Allowed::new(
        OLD,
        ("*", "*CTRL", "value"),
        ANY,
        "QEMU's 8254x resets nothing on CTRL.RST, and so keeps CTRL over it (hw/net/e1000.c, \
         set_ctrl): VME, SLU, ASDE. Bits 20, 18 are pins and SPEED is a forced value that nothing \
         forces (mac_reg_init), and so is FD (§13.4.1)",
    )
    .within(0x4014_0261),
    Allowed::new(
        &["82574L"],
        ("*", "*CTRL", "value"),
        ANY,
        "ADVD3WUC (bit 20), a pin (18), SPEED (9:8) and SLU (6) as an NVM would have set them \
         (hw/net/e1000e_core.c, e1000e_mac_reg_init)",
    )
    .within(0x0014_0240),
    Allowed::new(
        &["82576"],
        ("*", "*CTRL", "value"),
        ANY,
        "ADVD3WUC (bit 20), SPEED (9:8) and bit 3 after reset (hw/net/igb_core.c, \
         igb_mac_reg_init); RFCE and TFCE (27, 28) as negotiated (igb_update_flowctl_status)",
    )
    .within(0x1810_0208),
    Allowed::new(
        &["82574L"],
        ("*open", "*CTRL", ""),
        ANY,
        "QEMU's 82574L is not reset between two acts, and begins one as the driver left it after \
         the last: with CTRL.MASTER_DISABLE, hence without STATUS.MASTER, so that the driver need \
         not turn it off (hw/net/e1000e_core.c, e1000e_get_status); the models of each act are new",
    )
    .sometimes(),
    Allowed::new(
        &["82574L"],
        ("*open", "*R32 STATUS", ""),
        ANY,
        "the same: what the driver polls until MASTER is off",
    )
    .sometimes(),
    Allowed::new(
        E1000,
        ("*", "*R32 ICR", "value"),
        ANY,
        "causes that depend on when the link came up (LSC, bit 2), on when a ring was looked at \
         (TXDW, TXQE, RXDMT0, ACK) and on whether a line is asserted (bit 31, which only PCI \
         Express devices have: igb_core.c, igb_fix_icr_asserted, and e1000e_core.c likewise); no \
         interrupt is enabled",
    )
    .within(0x8002_0017),
    Allowed::new(
        &["82574L"],
        ("*", "*R32 EECD", "value"),
        ("0x300", "0x308"),
        "EE_DO (bit 3) is the pin of a serial EEPROM that nobody drives; QEMU has AUTO_RD and \
         PRES alone (hw/net/e1000e_core.c, e1000e_mac_reg_init)",
    ),
    Allowed::new(
        &["82576"],
        ("*", "*R32 EECD", "value"),
        ("0x1110", "0x308"),
        "QEMU's 82576 never says AUTO_RD, and tells of no flash and of a size (hw/net/igb_core.c, \
         igb_mac_reg_init); 320961 §8.4.1 has it set once the settings are read",
    ),
    Allowed::new(
        OLD,
        ("*", "*RDXDCTL0", "value"),
        ("0x0", "0x1010000"),
        "QEMU's 8254x has no RXDCTL (hw/net/e1000.c, macreg_readops); developer's manual §13.4.30",
    ),
    // What is counted.
    Allowed::new(OLD, ("*counters", "*counter PRC*", "is"), ("0", "*"), ZERO),
    Allowed::new(OLD, ("*counters", "*counter PTC*", "is"), ("0", "*"), ZERO),
    Allowed::new(OLD, ("*counters", "*counter GO*", "is"), ("0", "*"), ZERO),
    Allowed::new(OLD, ("*counters", "*counter M*", "is"), ("0", "*"), ZERO),
    Allowed::new(OLD, ("*counters", "*counter B*", "is"), ("0", "*"), ZERO),
    Allowed::new(OLD, ("*counters", "*counter R*", "is"), ("0", "*"), ZERO).sometimes(),
    Allowed::new(
        NEW,
        ("*counters", "*counter PRC*", "is"),
        ANY,
        "QEMU sorts received frames by what it writes to memory, which is without FCS under \
         RCTL.SECRC, and those of less than 64 bytes nowhere (hw/net/e1000x_common.h, \
         e1000x_fcs_len; e1000x_common.c, e1000x_update_rx_total_stats and \
         e1000x_increase_size_stats); 320961 §8.18 counts from destination address to CRC",
    ),
    Allowed::new(E1000, ("vlan: counters", "1 rx_bytes", "is"), ANY, UNTAGGED),
    Allowed::new(
        E1000,
        ("vlan: counters", "1 counter TOR", "is"),
        ANY,
        UNTAGGED,
    ),
    Allowed::new(
        NEW,
        ("vlan: counters", "1 counter GORC", "is"),
        ANY,
        UNTAGGED,
    ),
    Allowed::new(OLD, ("vlan: counters", "0 tx_bytes", "is"), ANY, UNTAGGED),
    Allowed::new(
        OLD,
        ("vlan: counters", "0 counter TOT", "is"),
        ANY,
        UNTAGGED,
    ),
    Allowed::new(
        &["82576"],
        ("too long: counters", "1 rx_errors", "is"),
        ("0", "*"),
        UNCOUNTED,
    ),
    Allowed::new(
        &["82576"],
        ("too long: counters", "1 counter ROC", "is"),
        ("0", "*"),
        UNCOUNTED,
    ),
    Allowed::new(
        NEW,
        ("short: counters", "0 tx_bytes", "is"),
        ("291", "388"),
        SHORT,
    ),
    Allowed::new(
        NEW,
        ("short: counters", "0 counter GOTC", "is"),
        ("291", "388"),
        SHORT,
    ),
    Allowed::new(
        NEW,
        ("short: counters", "0 counter TOT", "is"),
        ("291", "388"),
        SHORT,
    ),
    Allowed::new(
        NEW,
        ("short: counters", "0 counter PTC64", "is"),
        ("1", "5"),
        SHORT,
    ),
    Allowed::new(
        NEW,
        ("short: counters", "1 rx_errors", "is"),
        ("4", "0"),
        SHORT,
    ),
    Allowed::new(
        NEW,
        ("short: counters", "1 counter RUC", "is"),
        ("4", "0"),
        SHORT,
    ),
    Allowed::new(
        OLD,
        ("too long: counters", "1 rx_errors", "is"),
        ("0", "9"),
        ZERO,
    ),
    // Short frames that no wire pads.
    Allowed::new(UNPADDED, ("short: short frames", "1 rx*", "len"), ANY, HUB),
    Allowed::new(
        UNPADDED,
        ("short: short frames", "1 frame", "len"),
        ANY,
        HUB,
    ),
    Allowed::new(
        UNPADDED,
        ("short: short frames", "1 frame", "bytes"),
        ANY,
        HUB,
    ),
    Allowed::new(
        UNPADDED,
        ("short: counters", "1 rx_bytes", "is"),
        ("291", "388"),
        HUB,
    ),
    Allowed::new(
        VIRTIO,
        ("short: counters", "1 counter rx0_bytes", "is"),
        ("291", "388"),
        HUB,
    ),
    Allowed::new(
        &["vmxnet3"],
        ("short: counters", "1 counter rx0_ucastBytesRxOK", "is"),
        ("267", "364"),
        HUB,
    ),
    // Checksums.
    Allowed::new(
        OLD,
        ("checksums: *", "1 rx0*", "IXSM"),
        ("1", "0"),
        UNCHECKED,
    ),
    Allowed::new(
        OLD,
        ("checksums: *", "1 rx0*", "*CS"),
        ("0", "1"),
        UNCHECKED,
    ),
    Allowed::new(
        OLD,
        ("checksums: *", "1 rx0*", "errors"),
        ("0x0", "*"),
        UNCHECKED,
    ),
    Allowed::new(
        OLD,
        ("checksums: *", "1 frame", "flags"),
        ("0", "*"),
        UNCHECKED,
    ),
    // RSS.
    Allowed::new(
        &["82576"],
        ("spread: v6 TCP*", "1 *", "*"),
        ANY,
        "QEMU's 82576 hashes TCP over IPv6 by TcpIPv6Ex (MRQC bit 18) only, not by TcpIPv6 (bit 21, \
         320961 §8.10.9), and falls back to addresses: another hash, type, queue and slot \
         (hw/net/igb_core.c, igb_rss_get_hash_type)",
    ),
    Allowed::new(
        &["82574L"],
        ("spread: *", "1 rx*", "ack"),
        ("1", "0"),
        UNTYPED,
    ),
    Allowed::new(
        &["82574L"],
        ("spread: *", "1 rx*", "packet_type"),
        ("*", "0"),
        UNTYPED,
    ),
    // vmxnet3's completions.
    Allowed::new(
        &["vmxnet3"],
        ("*", "*rx0*", "type"),
        ("0", "3"),
        "QEMU clears a receive completion and fills no type in (hw/net/vmxnet3.c, \
         vmxnet3_indicate_packet); Linux's vmxnet3_defs.h: VMXNET3_CDTYPE_RXCOMP",
    ),
    Allowed::new(
        &["vmxnet3"],
        ("*", "*rx0*", "fcs"),
        ("0", "1"),
        "QEMU does not say that the FCS is right, as there is none (hw/net/vmxnet3.c, \
         vmxnet3_indicate_packet)",
    ),
    Allowed::new(
        &["vmxnet3"],
        ("*: counters", "*counter rx0_LRO*", "is"),
        ("*", "0"),
        "QEMU counts frames longer than the MTU as merged ones too (hw/net/vmxnet3.c, \
         vmxnet3_on_rx_done_update_stats); nothing was merged",
    ),
    // virtio's queues.
    Allowed::new(
        VIRTIO,
        ("*", "*rx *", "header"),
        ("000000000000000000000000", "000000000000000000000100"),
        "QEMU sets num_buffers in a copy of the header, which reaches the driver only with \
         mergeable buffers (hw/net/virtio-net.c, virtio_net_receive_rcu: extra_hdr); virtio 1.2 \
         §5.1.6.4.1 wants 1 without",
    ),
    Allowed::new(
        VIRTIO,
        ("*", "*W16 notify", ""),
        ("nothing", "value=0x0"),
        HINT,
    ),
    Allowed::new(VIRTIO, ("*counters", "*rx0_kicks", "is"), ANY, HINT),
    Allowed::new(
        &["virtio, split"],
        ("*", "*rx used index*", "flags"),
        ("0x1", "0x0"),
        HINT,
    ),
    Allowed::new(
        &["virtio, packed"],
        ("*", "*rx device event*", ""),
        ("*", "nothing"),
        HINT,
    ),
    Allowed::new(VIRTIO, ("*", "*W16 notify", "*"), ANY, IDLE).sometimes(),
    Allowed::new(VIRTIO, ("*counters", "*tx0_kicks", "is"), ANY, IDLE).sometimes(),
    Allowed::new(
        &["virtio, split"],
        ("*", "*tx used index*", "flags"),
        ANY,
        IDLE,
    )
    .sometimes(),
    Allowed::new(
        &["virtio, packed"],
        ("*", "*tx device event*", "*"),
        ANY,
        IDLE,
    )
    .sometimes(),
    Allowed::new(
        VIRTIO,
        ("*", "*R8 common+0x15", "value"),
        ("0x0", "*"),
        "the generation counts changes from any number on (virtio 1.2 §4.1.4.3.1); in the model \
         the link's first report is one",
    ),
    Allowed::new(
        &["virtio, packed"],
        ("*", "*ring*", "flags"),
        ANY,
        "QEMU leaves WRITE out of a used descriptor (hw/virtio/virtio.c, \
         virtqueue_packed_fill_desc); virtio 1.2 §2.8.4 has it say whether anything was written",
    )
    .within(0x2),
    // Without buffers.
    Allowed::new(E1000, ("starved: *", "1 *", "*"), ANY, HELD),
    Allowed::new(VIRTIO, ("starved: *", "1 *", "*"), ANY, HELD),
    Allowed::new(VIRTIO, ("starved: *", "0 tx *", "*"), ANY, HELD),
    Allowed::new(VIRTIO, ("starved: *", "0 tx_frames", "is"), ANY, HELD),
    Allowed::new(VIRTIO, ("starved: *", "0 counter tx0*", "is"), ANY, HELD),
];

const ZERO: &str = "reads as zero in QEMU: a register that needs a flag of old machines \
                    (hw/net/e1000.c, mac_reg_access: MAC_ACCESS_FLAG_NEEDED). The flag and its \
                    option, extra_mac_registers, went with those machines (11.1 has neither), and \
                    the need stayed, so that nothing satisfies it; developer's manual §13.7 counts";
const UNTAGGED: &str = "QEMU counts octets without the tag that was stripped, and on 8254x without \
                        the one that is inserted (hw/net/e1000.c, e1000_receive_iov and xmit_seg; \
                        igb_core.c, igb_write_packet_to_guest; e1000e_core.c likewise); 320961 \
                        §8.18 counts what is on the wire";
const UNCOUNTED: &str = "QEMU's 82576 drops what is longer than RLPML and does not count it \
                         (hw/net/igb_core.c, igb_receive_assign: only VMDq counts); ROC counts \
                         such frames (§8.18)";
const SHORT: &str = "QEMU does not pad short frames on sending, whatever TCTL.PSP says, and counts \
                     them as undersize on receiving, where it pads them (hw/net/igb_core.c, \
                     igb_receive_internal; e1000e_core.c likewise); 317694 §10.2.6.1: PSP pads";
const HUB: &str = "QEMU's hub carries frames as they are (net/hub.c); a wire has none shorter than \
                   60 bytes without FCS (IEEE 802.3 §4A.4.2)";
const UNCHECKED: &str = "QEMU's 8254x looks at no checksum, and says so by IXSM (hw/net/e1000.c, \
                         e1000_receive_iov); developer's manual §3.2.3.1 has the device look";
const HINT: &str = "QEMU's receive queue wants no notification while it has buffers \
                    (hw/net/virtio-net.c, virtio_net_has_buffers); the model does. Either is \
                    allowed, being a hint (virtio 1.2 §2.7.10)";
const IDLE: &str = "whether a device that was idle for a moment wants a notification already depends \
                    on the moment; a hint too (virtio 1.2 §2.7.10)";
const HELD: &str = "QEMU's wire holds back what finds no buffer and delivers it later \
                    (net/queue.c, qemu_net_queue_append); hardware drops and counts it";

#[cfg(test)]
mod test {
    use super::*;

    fn difference(theirs: &str, ours: &str) -> Difference {
        Difference {
            step: "vlan: start".into(),
            what: "1 R32 STATUS".into(),
            field: "value".into(),
            theirs: Some(theirs.into()),
            ours: Some(ours.into()),
        }
    }

    #[test]
    fn a_rule_covers_what_it_says_and_nothing_else() {
        let place = ("vlan: *", "*STATUS", "value");
        let exactly = Allowed::new(OLD, place, ("0x1", "0x2"), "");
        assert!(exactly.covers(&difference("0x1", "0x2")));
        assert!(!exactly.covers(&difference("0x2", "0x1")));
        let bits = Allowed::new(OLD, place, ANY, "").within(0x6);
        assert!(bits.covers(&difference("0x12", "0x14")));
        assert!(!bits.covers(&difference("0x12", "0x15")));
        assert!(!bits.covers(&difference("ready", "0x15")));
        let elsewhere = Allowed::new(OLD, ("open", "*", "*"), ANY, "");
        assert!(!elsewhere.covers(&difference("0x1", "0x2")));
        let lost = Allowed::new(OLD, ("*", "*", ""), ("*", "nothing"), "");
        assert!(!lost.covers(&difference("0x1", "0x2")));
    }

    #[test]
    fn every_rule_is_about_a_subject_and_has_a_reason() {
        for rule in ALLOWED {
            for name in rule.subjects {
                assert!(crate::differential::Subject::find(name).is_some(), "{name}");
            }
            assert!(rule.because.len() > 30, "{rule:?}");
        }
    }
}
