//! The options behind a port string: taken one by one, so that what is left is unknown.

use std::time::Duration;

use crate::OpenError;
use crate::spec::Spec;
use virtio::Choice;

/// Which of the options of Intel's NICs one of them has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intel {
    /// How many queues it may be given, and that in words; none where it has one.
    queues: Option<(u64, &'static str)>,
    /// It is a virtual function, or may be one.
    pf_mtu: bool,
}

impl Intel {
    /// 8254x and 82574.
    pub(crate) const E1000: Self = Self {
        queues: None,
        pf_mtu: false,
    };
    /// 82576.
    pub(crate) const IGB: Self = Self {
        queues: Some((16, "1 to 16 queues each way")),
        pf_mtu: false,
    };
    /// Its virtual function.
    pub(crate) const IGBVF: Self = Self {
        queues: None,
        pf_mtu: true,
    };
    /// Any of these, on PCI.
    pub(crate) const E1000_PCI: Self = Self {
        pf_mtu: true,
        ..Self::IGB
    };
    /// 82599 and its kin.
    pub(crate) const IXGBE: Self = Self {
        queues: Some((64, "1 to 64 queues each way")),
        pf_mtu: false,
    };
    /// Their virtual functions, or either on PCI.
    pub(crate) const IXGBEVF: Self = Self {
        pf_mtu: true,
        ..Self::IXGBE
    };
}

/// A port string's options while they are taken.
pub(crate) struct Options<'a> {
    spec: &'a Spec,
    left: Vec<&'a (String, String)>,
}

impl<'a> Options<'a> {
    pub(crate) fn of(spec: &'a Spec) -> Self {
        Self {
            spec,
            left: spec.options.iter().collect(),
        }
    }

    /// The value of `key`, the last one where it is given twice.
    fn take(&mut self, key: &str) -> Option<&'a str> {
        let value = self
            .left
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, v)| v.as_str());
        self.left.retain(|(name, _)| name != key);
        value
    }

    fn parsed<T>(
        &mut self,
        key: &str,
        allowed: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, OpenError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        parse(value).map(Some).ok_or_else(|| OpenError::BadValue {
            text: self.spec.text.clone(),
            option: key.to_owned(),
            value: value.to_owned(),
            allowed,
        })
    }

    /// One of some names.
    pub(crate) fn one_of<T>(
        &mut self,
        key: &str,
        allowed: &'static str,
        name: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, OpenError> {
        self.parsed(key, allowed, name)
    }

    /// `on`, `off` or `auto`.
    pub(crate) fn choice(&mut self, key: &str) -> Result<Option<Choice>, OpenError> {
        self.parsed(key, "on, off or auto", |value| match value {
            "on" | "1" | "yes" => Some(Choice::On),
            "off" | "0" | "no" => Some(Choice::Off),
            "auto" => Some(Choice::Auto),
            _ => None,
        })
    }

    /// `on` or `off`.
    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>, OpenError> {
        self.parsed(key, "on or off", |value| match value {
            "on" | "1" | "yes" => Some(true),
            "off" | "0" | "no" => Some(false),
            _ => None,
        })
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(
        &mut self,
        key: &str,
        allowed: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, OpenError> {
        self.parsed(key, allowed, |value| {
            value
                .parse()
                .ok()
                .filter(|number| (least..=most).contains(number))
        })
    }

    /// Slots of a ring.
    pub(crate) fn slots(&mut self, key: &str) -> Result<Option<usize>, OpenError> {
        let slots = self.number(key, "16 to 32768 slots", 16, 32_768)?;
        Ok(slots.and_then(|slots| usize::try_from(slots).ok()))
    }

    /// A share: `0.1%` or `0.001`.
    pub(crate) fn share(&mut self, key: &str) -> Result<Option<f64>, OpenError> {
        self.parsed(key, "a share, as 0.1% or 0.001", |value| {
            let share = match value.strip_suffix('%') {
                Some(percent) => percent.parse::<f64>().ok()? / 100.0,
                None => value.parse().ok()?,
            };
            (0.0..=1.0).contains(&share).then_some(share)
        })
    }

    /// A time: `50us`, `2ms`.
    pub(crate) fn time(&mut self, key: &str) -> Result<Option<Duration>, OpenError> {
        self.parsed(key, "a time up to 10s, as 50us or 2ms", |value| {
            let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
            let (number, unit) = units
                .iter()
                .find_map(|(name, unit)| Some((value.strip_suffix(name)?, unit)))?;
            let seconds = number.parse::<f64>().ok()? * unit;
            (0.0..=10.0)
                .contains(&seconds)
                .then(|| Duration::from_secs_f64(seconds))
        })
    }

    /// A speed: `10G`, `2.5G`, `100M`, in bits a second.
    pub(crate) fn speed(&mut self, key: &str) -> Result<Option<u64>, OpenError> {
        self.parsed(key, "a speed from 1M to 800G, as 10G or 100M", |value| {
            let (number, unit) = match (value.strip_suffix('G'), value.strip_suffix('M')) {
                (Some(number), _) => (number, 1000),
                (_, Some(number)) => (number, 1),
                _ => return None,
            };
            // Down to tenths, so that 2.5G is exact.
            let tenths = (number.parse::<f64>().ok()? * 10.0 * f64::from(unit)).round();
            let fits = (10.0..=8_000_000.0).contains(&tenths);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a small whole number"
            )]
            let tenths = fits.then_some(tenths as u64)?;
            Some(tenths * 100_000)
        })
    }

    /// A rate in whole frames a second: `5mpps`, `20kpps`, `64pps`.
    pub(crate) fn frame_rate(&mut self, key: &str) -> Result<Option<u64>, OpenError> {
        self.parsed(key, "a rate up to 1gpps, as 5mpps or 20kpps", |value| {
            let units = [("gpps", 1e9), ("mpps", 1e6), ("kpps", 1e3), ("pps", 1.0)];
            let lower = value.to_ascii_lowercase();
            let (number, unit) = units
                .iter()
                .find_map(|(name, unit)| Some((lower.strip_suffix(name)?, unit)))?;
            let pps = (number.parse::<f64>().ok()? * unit).round();
            let fits = (1.0..=1e9).contains(&pps);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a whole number in range"
            )]
            let pps = fits.then_some(pps as u64);
            pps
        })
    }

    /// A MAC address.
    pub(crate) fn mac(&mut self, key: &str) -> Result<Option<port::Mac>, OpenError> {
        self.parsed(key, "a unicast address, as 02:00:00:00:00:01", |value| {
            let mut mac = [0; 6];
            let mut bytes = value.split(':');
            for byte in &mut mac {
                *byte = bytes
                    .next()
                    .filter(|b| b.len() == 2)
                    .and_then(|b| u8::from_str_radix(b, 16).ok())?;
            }
            (bytes.next().is_none() && mac[0] & 1 == 0).then_some(mac)
        })
    }

    /// What to ask of a virtio device.
    pub(crate) fn virtio(&mut self) -> Result<virtio::Options, OpenError> {
        let pairs = self.number("queues", "1 to 64 queue pairs", 1, 64)?;
        Ok(virtio::Options {
            packed: self.choice("packed")?.unwrap_or_default(),
            in_order: self.choice("in_order")?.unwrap_or_default(),
            mergeable: self.choice("mergeable")?.unwrap_or_default(),
            indirect: self.choice("indirect")?.unwrap_or_default(),
            pairs: pairs.and_then(|pairs| usize::try_from(pairs).ok()),
            ..virtio::Options::default()
        })
    }

    /// How to drive a vmxnet3.
    pub(crate) fn vmxnet3(&mut self) -> Result<vmxnet3::Options, OpenError> {
        let revision = self.number("revision", "1 to 4", 1, 4)?;
        let queues = self.number("queues", "1 to 8 queues of each kind", 1, 8)?;
        Ok(vmxnet3::Options {
            revision: revision.and_then(|revision| u32::try_from(revision).ok()),
            data_ring: self.flag("data_ring")?,
            rx_data_ring: self.flag("rx_data_ring")?,
            queues: queues.and_then(|queues| usize::try_from(queues).ok()),
            rx_slots: self.slots("rx_slots")?,
            tx_slots: self.slots("tx_slots")?,
        })
    }

    /// What to ask of one of Intel's NICs, which may have the options of `may`.
    pub(crate) fn intel(&mut self, may: Intel) -> Result<intel::Options, OpenError> {
        let queues = match may.queues {
            None => None,
            Some((most, allowed)) => self.number("queues", allowed, 1, most)?,
        };
        Ok(intel::Options {
            queues: queues.and_then(|queues| usize::try_from(queues).ok()),
            rx_slots: self.slots("rx_slots")?,
            tx_slots: self.slots("tx_slots")?,
            mtu: self.mtu()?,
            pf_mtu: match may.pf_mtu {
                true => self.pf_mtu()?,
                false => None,
            },
        })
    }

    /// An MTU; whether the device has it is its driver's to say.
    fn mtu(&mut self) -> Result<Option<usize>, OpenError> {
        let mtu = self.number("mtu", "68 to 65521 bytes", 68, 65_521)?;
        Ok(mtu.and_then(|mtu| usize::try_from(mtu).ok()))
    }

    /// What becomes of a physical function's MTU.
    fn pf_mtu(&mut self) -> Result<Option<intel::PfMtu>, OpenError> {
        let allowed = "auto, raise or keep; a simulated host's own MTU is host_mtu=BYTES";
        self.parsed("pf_mtu", allowed, |value| match value {
            "auto" => Some(intel::PfMtu::Auto),
            "raise" => Some(intel::PfMtu::Raise),
            "keep" => Some(intel::PfMtu::Keep),
            _ => None,
        })
    }

    /// The refusal of an option that stands alone.
    pub(crate) fn incomplete(&self, key: &str, allowed: &'static str) -> OpenError {
        OpenError::BadValue {
            text: self.spec.text.clone(),
            option: key.to_owned(),
            value: "alone".to_owned(),
            allowed,
        }
    }

    /// Every option was taken.
    ///
    /// # Errors
    /// One was not; `known` lists those that there are.
    pub(crate) fn done(self, known: &'static str) -> Result<(), OpenError> {
        match self.left.first() {
            None => Ok(()),
            Some((option, _)) => Err(OpenError::UnknownOption {
                text: self.spec.text.clone(),
                option: option.clone(),
                known,
            }),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::parse(text).unwrap()
    }

    #[test]
    fn values_are_read_with_their_units() {
        let spec = spec("sim:virtio,loss=0.1%,delay=50us,speed=2.5G,packed,queues=4,knee=20.5Kpps");
        let mut options = Options::of(&spec);
        assert_eq!(options.share("loss").unwrap(), Some(0.001));
        assert_eq!(
            options.time("delay").unwrap(),
            Some(Duration::from_micros(50))
        );
        assert_eq!(options.speed("speed").unwrap(), Some(2_500_000_000));
        assert_eq!(options.frame_rate("knee").unwrap(), Some(20_500));
        assert_eq!(options.choice("packed").unwrap(), Some(Choice::On));
        assert_eq!(options.number("queues", "1 to 8", 1, 8).unwrap(), Some(4));
        options.done("").unwrap();
    }

    #[test]
    fn a_physical_functions_mtu_is_a_choice_and_its_number_is_the_simulated_hosts() {
        let take = |text: &str, may| {
            let spec = spec(text);
            let mut options = Options::of(&spec);
            let taken = options.intel(may)?;
            options.done("").map(|()| (taken.mtu, taken.pf_mtu))
        };
        for (text, choice) in [
            ("pf_mtu=raise", intel::PfMtu::Raise),
            ("pf_mtu=keep", intel::PfMtu::Keep),
            ("pf_mtu=auto", intel::PfMtu::Auto),
        ] {
            let text = format!("0000:03:10.0,mtu=9000,{text}");
            let taken = take(&text, Intel::IXGBEVF).unwrap();
            assert_eq!(taken, (Some(9000), Some(choice)));
            let error = take(&text, Intel::IXGBE).unwrap_err();
            assert!(matches!(error, OpenError::UnknownOption { .. }), "{error}");
        }
        let error = take("sim:ixgbevf,pf_mtu=9710", Intel::IXGBEVF).unwrap_err();
        let cure = error.remedy().unwrap();
        assert!(cure.contains("host_mtu="), "{cure}");
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        for text in ["loss=2", "loss=-1%", "loss=NaN", "loss=x"] {
            let spec = spec(&format!("sim:virtio,{text}"));
            assert!(Options::of(&spec).share("loss").is_err(), "{text}");
        }
        for text in [
            "knee=5",
            "knee=0pps",
            "knee=2gpps",
            "knee=-1kpps",
            "knee=infpps",
        ] {
            let spec = spec(&format!("sim:virtio,{text}"));
            assert!(Options::of(&spec).frame_rate("knee").is_err(), "{text}");
        }
        for text in ["speed=10", "speed=0G", "speed=infG", "speed=9999G"] {
            let spec = spec(&format!("sim:virtio,{text}"));
            assert!(Options::of(&spec).speed("speed").is_err(), "{text}");
        }
        for text in [
            "mac=1:2",
            "mac=01:00:00:00:00:00",
            "mac=02:00:00:00:00:00:00",
        ] {
            let spec = spec(&format!("sim:virtio,{text}"));
            assert!(Options::of(&spec).mac("mac").is_err(), "{text}");
        }
        let spec = spec("sim:virtio,quues=2");
        assert!(Options::of(&spec).done("queues").is_err());
    }
}
