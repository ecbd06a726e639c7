//! Devices: when they answer, their regions, interrupts and resets.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;

use memmap2::{MmapOptions, MmapRaw};

use super::{File, Opened, State, errno, put, sized, u32_at, u64_at};

/// A register window.
pub(in super::super) struct Window {
    pub(in super::super) file: std::fs::File,
    pub(in super::super) size: u64,
    /// It may be mapped.
    pub(in super::super) mappable: bool,
    /// Only these stretches of it may be: offset and bytes.
    pub(in super::super) sparse: Vec<(u64, u64)>,
}

impl Window {
    pub(in super::super) fn new(size: u64, mappable: bool) -> Self {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        file.set_len(size).expect("it can be that long");
        Self {
            file,
            size,
            mappable,
            sparse: Vec::new(),
        }
    }
}

/// A device.
pub(in super::super) struct MockDevice {
    pub(in super::super) group: u32,
    /// Its own file's name.
    pub(in super::super) node: String,
    pub(in super::super) config: Vec<u8>,
    pub(in super::super) windows: Vec<(u32, Window)>,
    pub(in super::super) can_reset: bool,
    /// Opening it does not take bus mastering from it.
    pub(in super::super) keeps_master: bool,
    /// What the owner of its physical function asks for.
    pub(in super::super) token: Option<[u8; 16]>,
    /// Devices that a reset of its bus would reset: itself among them.
    pub(in super::super) bus: Vec<String>,
    pub(in super::super) vectors: u32,
    /// The kernel adds no vectors to those that are on.
    pub(in super::super) fixed_vectors: bool,
    /// Vectors that are on, by the number of the event file.
    pub(in super::super) enabled: Vec<i32>,
    pub(in super::super) open: u32,
    pub(in super::super) gone: bool,
    /// The iommufd that it is bound to.
    pub(in super::super) bound: Option<RawFd>,
    /// The address space that it uses.
    pub(in super::super) attached: Option<(RawFd, u32)>,
}

impl MockDevice {
    /// A device of `group` with 256 bytes of configuration space, and bus mastering left on by
    /// whoever had it before.
    pub(in super::super) fn new(group: u32, node: &str) -> Self {
        let mut config = vec![0; 256];
        config[..4].copy_from_slice(&[0x86, 0x80, 0xfb, 0x10]);
        config[4] = 0x04;
        Self {
            group,
            node: node.into(),
            config,
            windows: Vec::new(),
            can_reset: true,
            keeps_master: false,
            token: None,
            bus: Vec::new(),
            vectors: 4,
            fixed_vectors: true,
            enabled: Vec::new(),
            open: 0,
            gone: false,
            bound: None,
            attached: None,
        }
    }

    /// The device's own DMA: allowed by its command register.
    pub(in super::super) fn is_master(&self) -> bool {
        self.config[4] & 4 != 0
    }

    fn window(&self, offset: u64) -> io::Result<(&Window, u64)> {
        let (index, at) = (offset >> 40, offset & ((1 << 40) - 1));
        let found = self.windows.iter().find(|(n, _)| u64::from(*n) == index);
        match found {
            Some((_, window)) => Ok((window, at)),
            None => errno(libc::EINVAL),
        }
    }

    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if self.gone {
            return errno(libc::EIO);
        }
        if offset >> 40 == 7 {
            let at = usize::try_from(offset & 0xfff).expect("small");
            let Some(found) = self.config.get(at..at + bytes.len()) else {
                return errno(libc::EINVAL);
            };
            bytes.copy_from_slice(found);
            return Ok(());
        }
        let (window, at) = self.window(offset)?;
        window.file.read_exact_at(bytes, at)
    }

    /// Returns the access in words.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<String> {
        if self.gone {
            return errno(libc::EIO);
        }
        if offset >> 40 == 7 {
            let at = usize::try_from(offset & 0xfff).expect("small");
            let Some(place) = self.config.get_mut(at..at + bytes.len()) else {
                return errno(libc::EINVAL);
            };
            place.copy_from_slice(bytes);
            return Ok(format!("config {at:#x} = {bytes:x?}"));
        }
        let (window, at) = self.window(offset)?;
        window.file.write_all_at(bytes, at)?;
        Ok(format!("window {} {at:#x} = {bytes:x?}", offset >> 40))
    }

    pub(super) fn map(&self, offset: u64, len: usize) -> io::Result<MmapRaw> {
        let (window, at) = self.window(offset)?;
        let end = at + len as u64;
        let inside = |&(first, bytes): &(u64, u64)| first <= at && end <= first + bytes;
        let allowed = window.sparse.is_empty() || window.sparse.iter().any(inside);
        if !window.mappable || !allowed || end > window.size {
            return errno(libc::EINVAL);
        }
        MmapOptions::new().offset(at).len(len).map_raw(&window.file)
    }
}

impl State {
    /// A device of an open group is given out only once the group's container has an IOMMU.
    pub(super) fn open_by_group(&mut self, group: u32, name: &str) -> io::Result<String> {
        let file = self.groups[&group].container;
        let ready = file.is_some_and(|file| match self.files.get(&file) {
            Some(File::Container(container)) => container.iommu.is_some(),
            _ => false,
        });
        if !ready {
            return errno(libc::EINVAL);
        }
        let (bdf, token) = match name.split_once(" vf_token=") {
            Some((bdf, token)) => (bdf, Some(token)),
            None => (name, None),
        };
        let Some(device) = self.devices.get_mut(bdf).filter(|d| d.group == group) else {
            return errno(libc::ENODEV);
        };
        check_token(device.token, token.map(parse_uuid))?;
        device.begin();
        Ok(bdf.to_owned())
    }

    pub(super) fn close_device(&mut self, bdf: &str) {
        let device = self.devices.get_mut(bdf).expect("it was open");
        device.open = device.open.saturating_sub(1);
        device.enabled.clear();
        device.config[4] &= !4;
        (device.bound, device.attached) = (None, None);
    }

    pub(super) fn device_call(
        &mut self,
        bdf: &str,
        (file, opened): (RawFd, Opened),
        request: u32,
        bytes: &mut [u8],
    ) -> io::Result<u32> {
        let device = self.devices.get_mut(bdf).expect("open, so it is there");
        if request == 118 {
            self.bind(bdf, opened, bytes)?;
            self.files
                .insert(file, File::Device(bdf.to_owned(), Opened::Bound));
            return Ok(0);
        }
        // One that was opened by its own file answers nothing before it is bound.
        if opened == Opened::Unbound {
            return errno(libc::EINVAL);
        }
        if device.gone {
            return errno(libc::EIO);
        }
        match request {
            107 => {
                sized(bytes, 16)?;
                put(bytes, 4, (2 | u32::from(device.can_reset)).to_ne_bytes());
                put(bytes, 8, 9u32.to_ne_bytes());
                put(bytes, 12, 5u32.to_ne_bytes());
                Ok(0)
            }
            108 => device.region_info(bytes),
            109 => device.irq_info(bytes),
            110 => {
                let call = device.set_irqs(bytes)?;
                self.calls.push(format!("{bdf} {call}"));
                Ok(0)
            }
            111 => self.reset(bdf),
            112 => self.dependents(bdf, bytes),
            113 => self.hot_reset(bdf, bytes),
            117 => self.feature(bdf, bytes),
            119 => self.attach(bdf, bytes),
            _ => errno(libc::ENOTTY),
        }
    }

    fn reset(&mut self, bdf: &str) -> io::Result<u32> {
        self.calls.push(format!("{bdf} reset"));
        if self.devices[bdf].can_reset {
            Ok(0)
        } else {
            errno(libc::ENOTTY)
        }
    }

    /// `argsz` 4, flags 4, iommufd 4, id 4, address of a token 8.
    fn bind(&mut self, bdf: &str, opened: Opened, bytes: &mut [u8]) -> io::Result<u32> {
        sized(bytes, 16)?;
        let file = RawFd::from_ne_bytes(u32_at(bytes, 8)?.to_ne_bytes());
        self.calls.push(format!("{bdf} bind"));
        if opened != Opened::Unbound {
            return errno(libc::EINVAL);
        }
        if !matches!(self.files.get(&file), Some(File::Iommufd(_))) {
            return errno(libc::EBADF);
        }
        let given = (u32_at(bytes, 4)? & 1 != 0)
            .then(|| u64_at(bytes, 16))
            .transpose()?;
        let group = self.devices[bdf].group;
        let forgeable = self.forgeable_interrupts;
        let viable = self.groups[&group].viable;
        let device = self.devices.get_mut(bdf).expect("open");
        // The group's file keeps the device's own from being used; that one lets nobody else in.
        if self.groups[&group].open {
            return errno(libc::EBUSY);
        }
        if device.bound.is_some() {
            return errno(libc::EINVAL);
        }
        if forgeable || !viable {
            return errno(libc::EPERM);
        }
        // What the token is stays with the caller; that there is one is enough here.
        match (device.token, given) {
            (Some(_), None) => return errno(libc::EACCES),
            (None, Some(_)) => return errno(libc::EINVAL),
            _ => {}
        }
        device.begin();
        device.bound = Some(file);
        put(bytes, 12, 7u32.to_ne_bytes());
        Ok(0)
    }

    /// `argsz` 4, flags 4, id of the address space 4, 4.
    fn attach(&mut self, bdf: &str, bytes: &[u8]) -> io::Result<u32> {
        sized(bytes, 12)?;
        let id = u32_at(bytes, 8)?;
        self.calls.push(format!("{bdf} attach {id}"));
        let file = self.devices[bdf].bound.expect("bound, as checked before");
        let used = |device: &MockDevice| device.attached == Some((file, id));
        if self.nothing_shared && self.devices.values().any(used) {
            return errno(libc::EINVAL);
        }
        if !self.spaces(file).contains_key(&id) {
            return errno(libc::ENOENT);
        }
        self.devices.get_mut(bdf).expect("open").attached = Some((file, id));
        Ok(0)
    }

    /// `argsz` 4, flags 4, count 4; then 8 bytes each: owner 4, segment 2, bus 1, place 1.
    fn dependents(&mut self, bdf: &str, bytes: &mut [u8]) -> io::Result<u32> {
        let says = sized(bytes, 12)? as usize;
        let bus = self.devices[bdf].bus.clone();
        put(
            bytes,
            8,
            u32::try_from(bus.len()).expect("few").to_ne_bytes(),
        );
        if says < 12 + 8 * bus.len() {
            return errno(libc::ENOSPC);
        }
        for (n, name) in bus.iter().enumerate() {
            let place: crate::pci::Bdf = name.parse().expect("an address");
            let group = self.devices[name].group;
            put(bytes, 12 + 8 * n, group.to_ne_bytes());
            put(
                bytes,
                16 + 8 * n,
                [0, 0, place.bus, place.device << 3 | place.function],
            );
        }
        Ok(0)
    }

    /// `argsz` 4, flags 4, count 4; then the files of the groups of all who are on the bus. Of
    /// an iommufd's devices there are none, and all must be its own.
    fn hot_reset(&mut self, bdf: &str, bytes: &[u8]) -> io::Result<u32> {
        sized(bytes, 12)?;
        let count = u32_at(bytes, 8)? as usize;
        self.calls
            .push(format!("{bdf} hot reset with {count} groups"));
        let mut groups = Vec::new();
        for n in 0..count {
            let file = RawFd::from_ne_bytes(u32_at(bytes, 12 + 4 * n)?.to_ne_bytes());
            match self.files.get(&file) {
                Some(&File::Group(group)) => groups.push(group),
                _ => return errno(libc::EBADF),
            }
        }
        let bound = self.devices[bdf].bound;
        let owned = self.devices[bdf].bus.iter().all(|name| {
            let device = &self.devices[name];
            groups.contains(&device.group) || (bound.is_some() && device.bound == bound)
        });
        if owned { Ok(0) } else { errno(libc::EPERM) }
    }

    /// `argsz` 4, flags 4 (set: bit 17; feature 0: the token), then 16 bytes.
    fn feature(&mut self, bdf: &str, bytes: &[u8]) -> io::Result<u32> {
        if sized(bytes, 8)? != 24 || u32_at(bytes, 4)? != 1 << 17 {
            return errno(libc::EINVAL);
        }
        let token: [u8; 16] = bytes[8..24].try_into().expect("16 bytes");
        self.calls.push(format!("{bdf} token {token:02x?}"));
        Ok(0)
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16)
        .ok()
        .map(u128::to_be_bytes)
}

/// Missing or wrong: no access. Given where nobody asks for one: an invalid name.
fn check_token(wanted: Option<[u8; 16]>, given: Option<Option<[u8; 16]>>) -> io::Result<()> {
    match (wanted, given) {
        (None, None) => Ok(()),
        (None, Some(_)) | (Some(_), Some(None)) => errno(libc::EINVAL),
        (Some(wanted), Some(Some(given))) if wanted == given => Ok(()),
        (Some(_), _) => errno(libc::EACCES),
    }
}

impl MockDevice {
    /// Opening a device takes bus mastering from it.
    fn begin(&mut self) {
        self.open += 1;
        if !self.keeps_master {
            self.config[4] &= !4;
        }
    }

    /// `argsz` 4, flags 4, index 4, first capability 4, size 8, offset 8; then capabilities.
    fn region_info(&self, bytes: &mut [u8]) -> io::Result<u32> {
        let says = sized(bytes, 32)? as usize;
        let index = u32_at(bytes, 8)?;
        if index > 8 {
            return errno(libc::EINVAL);
        }
        put(bytes, 24, (u64::from(index) << 40).to_ne_bytes());
        put(bytes, 12, 0u32.to_ne_bytes());
        let found = self.windows.iter().find(|(n, _)| *n == index);
        let (flags, size) = match found {
            _ if index == 7 => (3, self.config.len() as u64),
            Some((_, window)) => (3 | u32::from(window.mappable) << 2, window.size),
            None => (0, 0),
        };
        put(bytes, 4, flags.to_ne_bytes());
        put(bytes, 16, size.to_ne_bytes());
        let sparse = found.map_or(&[][..], |(_, window)| &window.sparse);
        if sparse.is_empty() {
            return Ok(0);
        }
        let all = 32 + 8 + 8 + 16 * sparse.len();
        put(bytes, 0, u32::try_from(all).expect("small").to_ne_bytes());
        put(bytes, 4, (flags | 8).to_ne_bytes());
        if says >= all {
            put(bytes, 12, 32u32.to_ne_bytes());
            put(bytes, 32, 1u16.to_ne_bytes());
            put(bytes, 34, 1u16.to_ne_bytes());
            put(bytes, 36, 0u32.to_ne_bytes());
            let count = u32::try_from(sparse.len()).expect("few");
            put(bytes, 40, count.to_ne_bytes());
            for (n, (first, len)) in sparse.iter().enumerate() {
                put(bytes, 48 + 16 * n, first.to_ne_bytes());
                put(bytes, 56 + 16 * n, len.to_ne_bytes());
            }
        }
        Ok(0)
    }

    /// `argsz` 4, flags 4, index 4, count 4.
    fn irq_info(&self, bytes: &mut [u8]) -> io::Result<u32> {
        sized(bytes, 16)?;
        let (flags, count) = match u32_at(bytes, 8)? {
            0 => (7, 1),
            2 => (1 | u32::from(self.fixed_vectors) << 3, self.vectors),
            1 | 3 | 4 => (9, 1),
            _ => return errno(libc::EINVAL),
        };
        put(bytes, 4, u32::to_ne_bytes(flags));
        put(bytes, 12, u32::to_ne_bytes(count));
        Ok(0)
    }

    /// `argsz` 4, flags 4, index 4, start 4, count 4, then event files. The first that turn
    /// vectors on say how many there are; a kernel that cannot add wants all off first.
    fn set_irqs(&mut self, bytes: &[u8]) -> io::Result<String> {
        let says = sized(bytes, 20)? as usize;
        let word = |n: usize| u32_at(bytes, 4 * n);
        let (flags, index, start, count) = (word(1)?, word(2)?, word(3)?, word(4)?);
        match flags {
            // No data, trigger, none: all off.
            0x21 if count == 0 => {
                self.enabled.clear();
                Ok(format!("interrupts {index} off"))
            }
            // No data, unmask: the line alone.
            0x11 if index == 0 && (start, count) == (0, 1) => Ok("unmask".into()),
            // Event files, trigger.
            0x24 => {
                let most = if index == 2 { self.vectors } else { 1 };
                if says < 20 + 4 * count as usize || start + count > most || count == 0 {
                    return errno(libc::EINVAL);
                }
                let on = u32::try_from(self.enabled.len()).expect("few");
                if on > 0 && self.fixed_vectors && start + count > on {
                    return errno(libc::EINVAL);
                }
                self.enabled.resize((start + count).max(on) as usize, -1);
                for n in 0..count as usize {
                    let file = i32::from_ne_bytes(word(5 + n)?.to_ne_bytes());
                    self.enabled[start as usize + n] = file;
                }
                Ok(format!("interrupts {index} on, {count} from {start}"))
            }
            _ => errno(libc::EINVAL),
        }
    }
}
