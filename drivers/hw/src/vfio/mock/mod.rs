//! A kernel that holds VFIO's rules, and writes down what it was asked.
//!
//! Written from the rules alone (facts on VFIO; Linux `drivers/vfio`, `drivers/iommu/iommufd`):
//! it takes structures apart by offsets of its own and shares no constant with the code that it
//! checks. Where a real kernel would refuse, it refuses with the same error.

mod device;
mod iommu;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use memmap2::MmapRaw;

use super::kernel::{Argument, Kernel, Node};
pub(super) use device::{MockDevice, Window};
pub(super) use iommu::{AddressSpace, MockContainer};

/// The kernel. A cheap handle.
#[derive(Clone)]
pub(super) struct Mock {
    root: PathBuf,
    state: Arc<Mutex<State>>,
}

/// What it knows.
#[derive(Default)]
pub(super) struct State {
    /// Every call, in words.
    pub(super) calls: Vec<String>,
    /// Open files.
    pub(super) files: BTreeMap<RawFd, File>,
    pub(super) groups: BTreeMap<u32, MockGroup>,
    pub(super) devices: BTreeMap<String, MockDevice>,
    /// Addresses that the IOMMU translates, both ends included.
    pub(super) windows: Vec<(u64, u64)>,
    /// Older kernels do not say which.
    pub(super) hides_windows: bool,
    /// Most mappings of a container.
    pub(super) entry_limit: usize,
    /// Most bytes that may be pinned, and to how many this user may raise that.
    pub(super) lock_limit: u64,
    pub(super) hard_lock_limit: u64,
    /// The machine cannot isolate interrupts.
    pub(super) forgeable_interrupts: bool,
    /// A second group or device cannot share the first one's address space.
    pub(super) nothing_shared: bool,
    /// Files that this user may not open.
    pub(super) denied: Vec<String>,
    /// Files that are not there.
    pub(super) absent: Vec<String>,
    /// What `GET_API_VERSION` and `CHECK_EXTENSION` say.
    pub(super) version: u32,
    pub(super) extensions: Vec<u32>,
    last_file: RawFd,
}

/// An open file.
pub(super) enum File {
    Container(MockContainer),
    Group(u32),
    /// By name.
    Device(String, Opened),
    Iommufd(BTreeMap<u32, AddressSpace>),
}

/// How a device's file was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opened {
    /// By its group.
    ByGroup,
    /// By its own path, and not bound to an iommufd: it does nothing yet.
    Unbound,
    /// By its own path, and bound.
    Bound,
}

/// An IOMMU group.
pub(super) struct MockGroup {
    pub(super) viable: bool,
    pub(super) no_iommu: bool,
    /// Somebody has it open.
    pub(super) open: bool,
    /// The container that it is in.
    pub(super) container: Option<RawFd>,
}

impl Default for MockGroup {
    fn default() -> Self {
        Self {
            viable: true,
            no_iommu: false,
            open: false,
            container: None,
        }
    }
}

/// An error of the kernel's.
pub(super) fn errno<T>(code: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(code))
}

/// Four bytes of a structure; `EFAULT` past its end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_ne_bytes)
        .ok_or(io::Error::from_raw_os_error(libc::EFAULT))
}

/// Eight bytes of a structure.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    let low = u64::from(u32_at(bytes, at)?);
    let high = u64::from(u32_at(bytes, at + 4)?);
    Ok(if cfg!(target_endian = "little") {
        low | high << 32
    } else {
        high | low << 32
    })
}

/// Answers with `word` at `at`.
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, word: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&word);
}

/// What the kernel does with the size that a structure says of itself.
pub(super) fn sized(bytes: &[u8], least: u32) -> io::Result<u32> {
    let says = u32_at(bytes, 0)?;
    if says < least {
        return errno(libc::EINVAL);
    }
    assert!(
        says as usize <= bytes.len(),
        "a structure says that it is longer than it is: the kernel would write past its end"
    );
    Ok(says)
}

impl Mock {
    /// A kernel whose `/dev` lies under `root`: 39 bits of addresses but the interrupt window.
    pub(super) fn new(root: &Path) -> Self {
        let state = State {
            windows: vec![(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)],
            entry_limit: 65535,
            lock_limit: u64::MAX,
            hard_lock_limit: u64::MAX,
            extensions: vec![1, 3, 8, 9],
            last_file: 100,
            ..State::default()
        };
        Self {
            root: root.to_owned(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The calls so far that contain `word`.
    pub(super) fn calls_with(&self, word: &str) -> Vec<String> {
        let state = self.state();
        let calls = state.calls.iter().filter(|call| call.contains(word));
        calls.cloned().collect()
    }

    /// Where in the list of calls the first one with `word` is.
    pub(super) fn position(&self, word: &str) -> usize {
        let state = self.state();
        let found = state.calls.iter().position(|call| call.contains(word));
        found.unwrap_or_else(|| panic!("{word} is not among {:#?}", state.calls))
    }

    fn node(&self, state: &mut State, file: File) -> Box<dyn Node> {
        state.last_file += 1;
        let number = state.last_file;
        state.files.insert(number, file);
        Box::new(MockNode {
            mock: self.clone(),
            number,
        })
    }
}

impl Kernel for Mock {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Node>> {
        let name = path.strip_prefix(self.root.join("dev")).expect("under dev");
        let name = name.to_str().expect("plain").to_owned();
        let mut state = self.state();
        state.calls.push(format!("open {name}"));
        if state.denied.contains(&name) {
            return errno(libc::EACCES);
        }
        if state.absent.contains(&name) {
            return errno(libc::ENOENT);
        }
        let file = match name.split('/').collect::<Vec<_>>().as_slice() {
            ["vfio", "vfio"] => File::Container(MockContainer::default()),
            ["iommu"] => File::Iommufd(BTreeMap::new()),
            ["vfio", "devices", node] => {
                let found = state
                    .devices
                    .iter()
                    .find(|(_, device)| device.node == *node);
                let Some((bdf, _)) = found else {
                    return errno(libc::ENOENT);
                };
                File::Device(bdf.clone(), Opened::Unbound)
            }
            ["vfio", group] => {
                let plain = group.strip_prefix("noiommu-");
                let number = plain.unwrap_or(group).parse().ok();
                let group = number.and_then(|number| state.groups.get(&number));
                let Some(group) = group.filter(|g| g.no_iommu == plain.is_some()) else {
                    return errno(libc::ENOENT);
                };
                let number = number.expect("just found");
                // A device that is open by its own file keeps its group from being opened.
                let is_bound = |d: &MockDevice| d.group == number && d.bound.is_some();
                if group.open || state.devices.values().any(is_bound) {
                    return errno(libc::EBUSY);
                }
                state.groups.get_mut(&number).expect("just found").open = true;
                File::Group(number)
            }
            _ => return errno(libc::ENOENT),
        };
        Ok(self.node(&mut state, file))
    }

    fn raise_lock_limit(&self) -> bool {
        let mut state = self.state();
        let raised = state.lock_limit < state.hard_lock_limit;
        state.lock_limit = state.hard_lock_limit;
        state.calls.push("raise the lock limit".into());
        raised
    }
}

struct MockNode {
    mock: Mock,
    number: RawFd,
}

impl MockNode {
    fn device(state: &State, number: RawFd) -> Option<String> {
        match state.files.get(&number) {
            Some(File::Device(_, Opened::Unbound)) => None,
            Some(File::Device(bdf, _)) => Some(bdf.clone()),
            _ => None,
        }
    }
}

impl Node for MockNode {
    fn number(&self) -> RawFd {
        self.number
    }

    fn call(&self, request: u32, argument: Argument<'_>) -> io::Result<u32> {
        let mut state = self.mock.state();
        let (bytes, number) = match argument {
            Argument::Bytes(bytes) => (bytes, 0),
            Argument::Number(number) => (&mut [][..], number),
        };
        let result = match state.files.get(&self.number) {
            Some(File::Container(_)) => state.container_call(self.number, request, bytes, number),
            Some(&File::Group(group)) => state.group_call(group, request, bytes),
            Some(File::Device(bdf, opened)) => {
                let (bdf, opened) = (bdf.clone(), *opened);
                state.device_call(&bdf, (self.number, opened), request, bytes)
            }
            Some(File::Iommufd(_)) => state.iommufd_call(self.number, request, bytes),
            None => errno(libc::EBADF),
        };
        if let Err(error) = &result {
            let code = error.raw_os_error().unwrap_or(0);
            state.calls.push(format!("refused {request} with {code}"));
        }
        result
    }

    fn open_device(&self, name: &CStr) -> io::Result<Box<dyn Node>> {
        let name = name.to_str().expect("plain").to_owned();
        let mut state = self.mock.state();
        state.calls.push(format!("open device {name}"));
        let Some(&File::Group(group)) = state.files.get(&self.number) else {
            return errno(libc::ENOTTY);
        };
        let bdf = state.open_by_group(group, &name)?;
        Ok(self
            .mock
            .node(&mut state, File::Device(bdf, Opened::ByGroup)))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.mock.state();
        let bdf = Self::device(&state, self.number).ok_or(io::ErrorKind::InvalidInput)?;
        state.devices[&bdf].read(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.mock.state();
        let bdf = Self::device(&state, self.number).ok_or(io::ErrorKind::InvalidInput)?;
        let device = state.devices.get_mut(&bdf).expect("open, so it is there");
        let call = device.write(bytes, offset)?;
        state.calls.push(format!("{bdf} {call}"));
        Ok(())
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<MmapRaw> {
        let mut state = self.mock.state();
        let bdf = Self::device(&state, self.number).ok_or(io::ErrorKind::InvalidInput)?;
        state.calls.push(format!("{bdf} map {offset:#x} {len:#x}"));
        state.devices[&bdf].map(offset, len)
    }
}

impl Drop for MockNode {
    fn drop(&mut self) {
        let mut state = self.mock.state();
        let file = state.files.remove(&self.number);
        let closed = match file {
            Some(File::Container(_)) => "container".to_owned(),
            Some(File::Group(group)) => {
                state.leave(group);
                format!("group {group}")
            }
            Some(File::Device(bdf, opened)) => {
                if opened != Opened::Unbound {
                    state.close_device(&bdf);
                }
                format!("device {bdf}")
            }
            Some(File::Iommufd(_)) => "iommufd".to_owned(),
            None => "nothing".to_owned(),
        };
        state.calls.push(format!("close {closed}"));
    }
}
