//! Large frames of a virtual function of 82599, and the MTU of its physical function.
//!
//! A PF of 82599 whose MTU is 1500 grants no VF a longer frame, and stops all its receiving for
//! asking; one whose MTU is larger grants any, but only to a VF that speaks version 1.1 of the
//! mailbox or later, and lets no other receive at all (Linux, `ixgbe_set_vf_lpe`). So the PF's MTU
//! is raised where this process sees the PF, and where it does not, the refusal says what to run
//! on the host. X540 and X550 have no such rule.

use hw::function::Function;
use hw::pci::RaisedMtu;

use crate::kind::Mac;
use crate::mailbox::Api;

/// Longest ordinary frame, in bytes with FCS.
const ORDINARY: usize = 1518;
/// Ethernet header and FCS.
const AROUND: usize = 18;

/// What was done about the PF's MTU.
#[derive(Debug, Default)]
pub(crate) struct Jumbo {
    /// It was raised, and goes back with this.
    raised: Option<RaisedMtu>,
    /// It could not be raised; what would help.
    remedy: Option<String>,
}

impl Jumbo {
    /// Makes the PF's MTU large enough for frames of `longest` bytes, if it has to be; says so.
    pub(crate) fn prepare<F: Function + ?Sized>(
        &mut self,
        function: &F,
        mac: Mac,
        longest: usize,
    ) -> Option<String> {
        self.remedy = None;
        if mac != Mac::M82599 || longest <= ORDINARY {
            self.raised = None;
            return None;
        }
        let mtu = u32::try_from(longest - AROUND).unwrap_or(u32::MAX);
        if self.raised.as_ref().is_some_and(|raised| raised.now >= mtu) {
            return None;
        }
        match function.raise_pf_mtu(mtu) {
            Ok(None) => None,
            Ok(Some(raised)) => {
                let said = format!(
                    "the MTU of {}, the physical function, was {} and is {} while this port is open",
                    raised.interface, raised.before, raised.now
                );
                // The new one first, so that the old one restores nothing.
                self.raised = Some(raised);
                Some(said)
            }
            // The PF may have been prepared all the same: its answer decides.
            Err(error) => {
                self.remedy = error.remedy();
                None
            }
        }
    }

    /// What helps when the PF refuses frames of `longest` bytes.
    pub(crate) fn cure(&self, mac: Mac, api: Api, longest: usize) -> String {
        let mtu = longest.saturating_sub(AROUND);
        match mac {
            Mac::X540 | Mac::X550 => "choose a smaller MTU".into(),
            Mac::M82599 if api < Api::V1_1 => {
                "the host's ixgbe speaks mailbox API 1.0, which knows ordinary frames only: there, \
                 ip link set dev <PF interface> mtu 1500, and here an MTU of 1500"
                    .into()
            }
            Mac::M82599 => self.remedy.clone().unwrap_or_else(|| {
                format!("on the host that owns the card: ip link set dev <PF interface> mtu {mtu}")
            }),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_refusal_names_the_command_to_run_on_the_host() {
        let jumbo = Jumbo::default();
        let said = jumbo.cure(Mac::M82599, Api::V1_3, 9018);
        assert!(
            said.contains("on the host") && said.contains("mtu 9000"),
            "{said}"
        );
        let old = jumbo.cure(Mac::M82599, Api::V1_0, 9018);
        assert!(old.contains("API 1.0") && old.contains("mtu 1500"), "{old}");
        assert!(!jumbo.cure(Mac::X540, Api::V1_3, 9018).contains("host"));
    }
}
