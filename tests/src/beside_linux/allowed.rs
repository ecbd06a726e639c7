//! What our driver may do otherwise than Linux's, and why.
//!
//! §: 82599 data sheet (331520). A rule that no device needs any more fails the test, as a difference
//! does that has none; so do devices that a rule names and that do not need it.

use crate::differential::allowed::Allowed;

/// Physical functions.
const PHYSICAL: &[&str] = &["82599", "x540", "x550"];
/// 82599.
const N82599: &[&str] = &["82599"];
/// Those with a PHY of their own.
const COPPER: &[&str] = &["x540", "x550"];
/// X550.
const X550: &[&str] = &["x550"];
/// Those with direct cache access.
const OLDER: &[&str] = &["82599", "x540"];
/// Virtual functions.
const VIRTUAL: &[&str] = &["82599-vf", "x540-vf", "x550-vf"];
/// X550's virtual function.
const X550_VF: &[&str] = &["x550-vf"];
/// Virtual functions whose queues have a limit of their own.
const LATER_VF: &[&str] = &["x540-vf", "x550-vf"];

const ANY: (&str, &str) = ("*", "*");
/// Linux's has a line that ours has not.
const LINUX: (&str, &str) = ("*", "nothing");
/// Ours has a line that Linux's has not.
const OURS: (&str, &str) = ("nothing", "*");

/// Every rule there is: order of settings, then values, of physical functions and of virtual ones.
#[rustfmt::skip]
pub const ALLOWED: &[Allowed] = &[
    Allowed::new(PHYSICAL, ("up: reset", "*", ""), OURS, RESETS),
    Allowed::new(PHYSICAL, ("*: reset", "R EEC.ARD", ""), ANY, WAITS),
    Allowed::new(PHYSICAL, ("*: reset", "R RDRXCTL.DMAIDONE", ""), ANY, WAITS),
    Allowed::new(PHYSICAL, ("*: reset", "R STATUS.GIO_MASTER", "*"), ANY, MASTER),
    Allowed::new(PHYSICAL, ("load: reset", "W CTRL.GIO_DIS", ""), ANY, MASTER),
    Allowed::new(PHYSICAL, ("*: reset", "W TXDCTL.SWFLSH", ""), LINUX, FLUSH),
    Allowed::new(PHYSICAL, ("*: reset", "W EIMC", ""), ANY, MASKS),
    Allowed::new(PHYSICAL, ("*: reset", "W CTRL_EXT.DRV_LOAD", ""), ANY, LOADED),
    Allowed::new(PHYSICAL, ("*: reset", "W RXCTRL.RXEN", ""), ANY, ORDER),
    Allowed::new(PHYSICAL, ("*: reset", "W RXDCTL.ENABLE", ""), ANY, ORDER),
    Allowed::new(PHYSICAL, ("*: reset", "W TXDCTL.ENABLE", ""), ANY, ORDER),
    Allowed::new(PHYSICAL, ("down: reset", "*CTRL.RST", ""), LINUX, DOWN),
    Allowed::new(PHYSICAL, ("load: receive", "*", ""), LINUX, PROBE),
    Allowed::new(PHYSICAL, ("*: receive", "W MHADD", ""), ANY, FREE),
    Allowed::new(PHYSICAL, ("*: receive", "W HLREG0.JUMBOEN", ""), ANY, FREE),
    Allowed::new(PHYSICAL, ("*: receive", "W RSSRK", ""), ANY, FREE),
    Allowed::new(PHYSICAL, ("*: receive", "R RXDCTL.ENABLE", "*"), ANY, RMW),
    Allowed::new(PHYSICAL, ("*: receive", "W SECRXCTRL.RX_DIS", ""), ANY, SECRX),
    Allowed::new(PHYSICAL, ("*: receive", "R SECRXSTAT.RDY", ""), ANY, SECRX),
    Allowed::new(PHYSICAL, ("*: receive", "W RDT", ""), ANY, RDT),
    Allowed::new(PHYSICAL, ("*: receive", "W PSRTYPE", ""), LINUX, SPLIT),
    Allowed::new(PHYSICAL, ("*: receive", "W SRRCTL", ""), LINUX, DROP),
    Allowed::new(X550, ("*: receive", "W RXCTRL.RXEN", ""), ANY, FIRMWARE),
    Allowed::new(COPPER, ("down: receive", "W RXPBSIZE", ""), LINUX, BUFFERS),
    Allowed::new(PHYSICAL, ("*: send", "*", ""), LINUX, SENDS),
    Allowed::new(N82599, ("*: link", "W *", ""), LINUX, LASER),
    Allowed::new(COPPER, ("*: link", "R LINKS.UP", "*"), ANY, LINK),
    Allowed::new(PHYSICAL, ("*: filters", "W RA*", "*"), ANY, ALL),
    Allowed::new(PHYSICAL, ("*: filters", "W VFTA", "*"), ANY, VLAN0),
    Allowed::new(PHYSICAL, ("*promiscuous: filters", "W VLNCTRL.VFE", ""), LINUX, PROMISC),
    Allowed::new(PHYSICAL, ("*: filters", "W MCSTCTRL.MFE", ""), LINUX, TABLE),
    Allowed::new(PHYSICAL, ("*: semaphores", "*", ""), LINUX, SHARED),
    Allowed::new(PHYSICAL, ("*: values", "CTRL_EXT", "PFRSTD"), ANY, PFVF),
    Allowed::new(PHYSICAL, ("*: values", "GPIE", "*"), ANY, INTERRUPTS),
    Allowed::new(PHYSICAL, ("*: values", "EIAC", "*"), ANY, INTERRUPTS),
    Allowed::new(PHYSICAL, ("*: values", "EIMS", "*"), ANY, INTERRUPTS),
    Allowed::new(PHYSICAL, ("*: values", "IVAR[0]", "*"), ANY, INTERRUPTS),
    Allowed::new(PHYSICAL, ("*: values", "IVAR_MISC", "*"), ANY, INTERRUPTS),
    Allowed::new(PHYSICAL, ("*: values", "RFCTL", "NFS*"), ANY, NFS),
    Allowed::new(PHYSICAL, ("*: values", "RXPBSIZE[0]", "rest"), ANY, FDIR),
    Allowed::new(PHYSICAL, ("*: values", "FDIRCTRL", "rest"), ANY, FDIR),
    Allowed::new(N82599, ("*: values", "FCCFG", "TFCE"), ANY, PAUSE),
    Allowed::new(PHYSICAL, ("*: values", "MFLCN", "*"), ANY, PAUSE),
    Allowed::new(PHYSICAL, ("*: values", "FCRTH[0]", "rest"), ANY, PAUSE),
    Allowed::new(N82599, ("*: values", "FCRTL[0]", "rest"), ANY, PAUSE),
    Allowed::new(PHYSICAL, ("up: values", "HLREG0", "JUMBOEN"), ANY, JUMBOEN),
    Allowed::new(N82599, ("*: values", "ESDP", "rest"), ANY, PINS),
    Allowed::new(PHYSICAL, ("*: values", "FCTRL", "rest"), ANY, RESERVED),
    Allowed::new(PHYSICAL, ("*: values", "MRQC", "UDP*"), ANY, UDP),
    Allowed::new(PHYSICAL, ("*: values", "PSRTYPE[0]", "*"), ANY, SPLIT),
    Allowed::new(PHYSICAL, ("*: values", "RAH[1]", "rest"), ANY, EXACT),
    Allowed::new(PHYSICAL, ("*: values", "MTA[0]", "rest"), ANY, EXACT),
    Allowed::new(PHYSICAL, ("*: values", "VFTA[0]", "rest"), ANY, VLAN0),
    Allowed::new(PHYSICAL, ("*: values", "SRRCTL[0]", "BSIZEHEADER"), ANY, HEADERS),
    Allowed::new(N82599, ("*: values", "SRRCTL[0]", "DROP_EN"), ANY, DROP),
    Allowed::new(PHYSICAL, ("jumbo: values", "SRRCTL[0]", "BSIZEPACKET"), ANY, BUFFER),
    Allowed::new(OLDER, ("*: values", "DCA_*", "*"), ANY, DCA),
    Allowed::new(PHYSICAL, ("*: values", "RQSMR[0]", "rest"), ANY, COUNTERS),
    Allowed::new(PHYSICAL, ("*: values", "TQSM[0]", "rest"), ANY, COUNTERS),
    Allowed::new(PHYSICAL, ("*: values", "TXDCTL[0]", "WTHRESH"), ANY, WTHRESH),
    Allowed::new(COPPER, ("*: values", "RXDCTL[0]", "RLPML*"), ANY, RLPML),
    Allowed::new(VIRTUAL, ("up: receive", "W VFCTRL.RST", ""), OURS, RESETS),
    Allowed::new(VIRTUAL, ("up: send", "W VFCTRL.RST", ""), OURS, RESETS),
    Allowed::new(VIRTUAL, ("down: receive", "W VFCTRL.RST", ""), LINUX, DOWN),
    Allowed::new(VIRTUAL, ("down: send", "W VFCTRL.RST", ""), LINUX, DOWN),
    Allowed::new(VIRTUAL, ("*: receive", "W VTEIMC", ""), ANY, MASKS),
    Allowed::new(VIRTUAL, ("*: receive", "R RXDCTL.ENABLE", "*"), ANY, RMW),
    Allowed::new(VIRTUAL, ("*: send", "R TXDCTL.ENABLE", "*"), LINUX, STOPS),
    Allowed::new(VIRTUAL, ("*: send", "W TXDCTL.*", ""), LINUX, STOPS),
    Allowed::new(VIRTUAL, ("up: messages", "*reset", ""), OURS, RESETS),
    Allowed::new(VIRTUAL, ("up: messages", "*negotiate", "*"), OURS, RESETS),
    Allowed::new(VIRTUAL, ("down: messages", "*reset", ""), LINUX, DOWN),
    Allowed::new(VIRTUAL, ("down: messages", "*negotiate", "*"), LINUX, DOWN),
    Allowed::new(VIRTUAL, ("down: messages", "*set a VLAN", ""), LINUX, DOWN),
    Allowed::new(VIRTUAL, ("*: messages", "*negotiate", "*"), ANY, API),
    Allowed::new(VIRTUAL, ("*: messages", "*set the mode", ""), ANY, AGAIN),
    Allowed::new(VIRTUAL, ("*: messages", "*set groups", ""), ANY, AGAIN),
    Allowed::new(VIRTUAL, ("up: messages", "*ask for the link", ""), ANY, LAST),
    Allowed::new(VIRTUAL, ("*: messages", "*set groups", "w*"), ANY, HASHES),
    Allowed::new(VIRTUAL, ("*: messages", "*set a further address", ""), LINUX, AGAIN),
    Allowed::new(VIRTUAL, ("*: messages", "*set the address", ""), LINUX, OWN),
    Allowed::new(VIRTUAL, ("jumbo: messages", "asks: set the address", "w*"), ANY, OWN),
    Allowed::new(VIRTUAL, ("*: messages", "*set a VLAN", "*"), ANY, VLAN0),
    Allowed::new(VIRTUAL, ("jumbo: messages", "*set the longest frame", ""), ANY, LPE),
    Allowed::new(VIRTUAL, ("*: mailbox", "*", ""), LINUX, SYNC),
    Allowed::new(VIRTUAL, ("*: values", "VTEI*", "rest"), ANY, INTERRUPTS),
    Allowed::new(VIRTUAL, ("*: values", "VTIVAR*", "rest"), ANY, INTERRUPTS),
    Allowed::new(VIRTUAL, ("*: values", "SRRCTL[0]", "BSIZEHEADER"), ANY, HEADERS),
    Allowed::new(VIRTUAL, ("*: values", "DCA_*", "*"), ANY, DCA),
    Allowed::new(VIRTUAL, ("*: values", "TXDCTL[0]", "WTHRESH"), ANY, WTHRESH),
    Allowed::new(VIRTUAL, ("jumbo: values", "SRRCTL[0]", "BSIZEPACKET"), ANY, BUFFER),
    Allowed::new(X550_VF, ("*: values", "VFMRQC", "UDP*"), ANY, UDP),
    Allowed::new(LATER_VF, ("*: values", "RXDCTL[0]", "RLPML*"), ANY, RLPML),
];

const RESETS: &str = "our driver resets a device each time it starts it, since others may have had it; \
    Linux's when it is loaded and when it goes down, and finds it as it left it";
const WAITS: &str = "after a reset, ours waits for the EEPROM to be read and for the DMA engine (EEC.ARD, \
    RDRXCTL.DMAIDONE: §4.6.3); Linux's sleeps, and looks at both for other reasons";
const MASTER: &str = "STATUS is read to flush writes too, so when GIO_MASTER shows first is by chance; that \
    it is 0 before CTRL.RST is written is compared";
const FLUSH: &str = "Linux's flushes send queues before a reset that never ran";
const ORDER: &str = "interrupts are masked, then sending stops, then receiving in ours, the other way round \
    in Linux's: all of it before GIO_DIS, as §5.2.5.3.2 has it";
const MASKS: &str = "ours masks interrupts before and after each reset (§4.6.3.1) and at its end, as it \
    uses none; Linux's where it uses them";
const LOADED: &str = "CTRL_EXT.DRV_LOAD tells firmware of a driver: before the queues are set up in ours, \
    afterwards in Linux's; §8.2.3.1.3 wants no order";
const DOWN: &str = "Linux's resets the device as it goes down; ours cuts it off from memory instead \
    (GIO_DIS, bus mastering), and resets it when it starts again";
const PROBE: &str = "Linux's reset takes the receive path down though nothing ran; ours does so where RXEN \
    is set";
const FREE: &str =
    "where in the order of settings it is written is free as long as RXEN is off (§4.6.7)";
const RMW: &str = "the register is read to change it; that ENABLE was seen set before the tail is written \
    is compared";
const SECRX: &str = "ours holds the security block back around every change of RXEN (§4.6.7); Linux's \
    around switching on in 82599 (an erratum), and once where nothing is on yet";
const RDT: &str = "a port of ours gets its buffers once it was started, so RXEN is on by then: a queue \
    that runs may be handed slots at any time (§4.6.7.1)";
const SPLIT: &str = "Linux's sets header split up, and leaves it off; ours has one buffer for everything \
    (SRRCTL.DESCTYPE)";
const DROP: &str = "Linux's lets a queue drop frames, or not, once flow control is negotiated: not, where \
    its far end pauses; ours, with several queues, always, so that none holds up the \
    others";
const FIRMWARE: &str = "Linux's has an X550's firmware switch RXEN off (FW_DISABLE_RXEN), for loop-back \
    between pools, which ours never uses";
const BUFFERS: &str =
    "Linux's gives the packet buffers out again after each reset, ours as it starts";
const SENDS: &str = "Linux's polls send queues until they have stopped and switches DMATXCTL.TE off; in \
    ours they are flushed, and GIO_DIS, which is waited for, ends what is under way \
    (§5.2.5.3.2)";
const LASER: &str = "Linux's switches the laser off and tries 10G, then 1G, each with a restart of AUTOC; \
    ours leaves the mode of one lane that the NVM chose, and a link that is up";
const LINK: &str =
    "ours looks at the link before it decides whether to reset that too, Linux's later";
const ALL: &str = "ours writes the whole table of addresses, each invalid while it changes; Linux's those \
    that change, and after a reset all";
const VLAN0: &str = "Linux's accepts VLAN 0, which is no VLAN but a priority; ours what it was told, so a \
    user of its filter asks for 0 too";
const PROMISC: &str = "Linux's switches the VLAN filter off in promiscuous mode; ours is two filters to its \
    user, who can switch off either";
const TABLE: &str = "Linux's switches the hash filter off while it forgets addresses; ours leaves it on, \
    with an empty table";
const SHARED: &str = "Linux's reads EEPROM and module through buses that it takes first (or EERD, without); \
    ours needs none of it while the link is up. Its own taking is `ixgbe::semaphore`'s, \
    tested with it";
const INTERRUPTS: &str = "Linux's is driven by interrupts (MSI-X: GPIE, EIAC, IVAR); ours polls, and has all of \
    them masked";
const PFVF: &str =
    "Linux's tells virtual functions that it is back (CTRL_EXT.PFRSTD); ours has none";
const NFS: &str = "Linux's keeps the device from looking for NFS (RFCTL), which only matters to header \
    split";
const FDIR: &str = "Linux's gives 64 KiB of the receive buffer to flow director, and spreads by it; ours \
    spreads by RSS alone";
const PAUSE: &str = "Linux's negotiates flow control, and has water marks for it; a generator neither sends \
    pauses nor obeys them";
const JUMBOEN: &str = "Linux's sets JUMBOEN always, ours beyond 1518 bytes: MAXFRS is the same and decides \
    (§8.2.3.22.13)";
const PINS: &str = "Linux's has pins of the cage's as interrupts and outputs";
const RESERVED: &str = "bits 12 and 13 of FCTRL are 82598's; reserved on the others";
const UDP: &str = "Linux's leaves UDP's ports out of the hash, as fragments have none; ours has them in, \
    as a generator's flows differ in them";
const EXACT: &str =
    "groups have exact places in ours as long as there are any, in Linux's the hash table";
const BUFFER: &str =
    "buffers are 2 KiB in ours whatever the MTU, 3 KiB in Linux's with jumbo frames";
const HEADERS: &str = "a size of header buffers (256) means nothing without header split";
const DCA: &str = "Linux's allows relaxed ordering of reads, and direct cache access where the platform \
    has it; ours leaves both as they are after a reset";
const COUNTERS: &str =
    "ours gives each queue counters of its own; in Linux's all queues count in the first";
const WTHRESH: &str = "Linux's has descriptors written back 8 at a time; ours asks for one report every 32 \
    (RS), for which WTHRESH must be 0 (§7.2.3.4.1)";
const RLPML: &str = "Linux's limits a queue's frames to what its buffer holds behind headroom, where a \
    frame has to lie in one; ours goes on in the next";
const API: &str = "Linux's begins at version 1.7, ours at 1.5, and needs none of the later requests; both \
    end at what the PF speaks";
const AGAIN: &str = "Linux's says mode, groups and further addresses whenever one of them changes; ours \
    what has changed";
const LAST: &str = "both ask as the last thing; Linux's is told of one more group after it, which is \
    where a comparison line by line finds ours";
const OWN: &str = "Linux's says its address when it comes up, though it is the PF's; ours only another \
    one";
const HASHES: &str = "Linux's list has the group of each VLAN interface, and of its own twice";
const SYNC: &str = "exchanges are the same; Linux's has some where ours has nothing to say, and reads the \
    mailbox again without having been spoken to, when its watchdog looks for news";
const HEARD: &str = "an answer is read before or after what else the driver says meanwhile";
const STOPS: &str = "Linux's stops a send queue by switching ENABLE off and a flush, ours by the flush \
    alone (TXDCTL.SWFLSH, which clears ENABLE)";
const LPE: &str = "Linux's asks for the longest frame as the MTU changes, and again when it is up; ours \
    as it starts";

/// What differs between two runs of Linux's own driver, which go by the hour: what is read meanwhile,
/// and what a watchdog reads.
#[rustfmt::skip]
pub const BY_CHANCE: &[&Allowed] = &[
    &Allowed::new(PHYSICAL, ("*: reset", "R STATUS.GIO_MASTER", "*"), ANY, MASTER),
    &Allowed::new(COPPER, ("*: link", "R LINKS.UP", "*"), ANY, LINK),
    &Allowed::new(PHYSICAL, ("*: receive", "R RXDCTL.ENABLE", "*"), ANY, RMW),
    &Allowed::new(VIRTUAL, ("*: mailbox", "*", ""), ANY, SYNC),
    &Allowed::new(VIRTUAL, ("*: messages", "hears: *", ""), ANY, HEARD),
];

/// The rules for the subject of that name.
#[must_use]
pub fn of(subject: &str) -> Vec<&'static Allowed> {
    let about = |rule: &&Allowed| rule.subjects.contains(&subject);
    ALLOWED.iter().filter(about).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_rule_is_about_a_subject_and_has_a_reason() {
        for rule in ALLOWED {
            for name in rule.subjects {
                assert!(
                    crate::beside_linux::Subject::named(name).is_some(),
                    "{name}"
                );
            }
            assert!(rule.because.len() > 30, "{rule:?}");
        }
    }
}
