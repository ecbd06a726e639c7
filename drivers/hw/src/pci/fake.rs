//! A tree of files that looks like `/sys`, and a kernel that does what writing to it does.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::{Bdf, Pci, link_name, text};

/// The tree. It goes with the last handle.
#[derive(Clone)]
pub(crate) struct Tree {
    dir: Arc<TempDir>,
    /// What was written, file and words, in order.
    pub(crate) writes: Arc<Mutex<Vec<(String, String)>>>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let dir = Arc::new(TempDir::new().expect("a temporary directory can be made"));
        let tree = Self {
            dir,
            writes: Arc::default(),
        };
        tree.file("sys/bus/pci/drivers_probe", "");
        tree.make("sys/bus/pci/devices");
        tree.make("sys/bus/pci/drivers");
        tree.file("proc/net/route", "Iface\tDestination\n");
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The bus, with this kernel behind it.
    pub(crate) fn pci(&self, addresses: &[(&str, &str)]) -> Pci {
        let addresses = addresses
            .iter()
            .map(|&(name, ip)| (name.to_owned(), ip.parse::<IpAddr>().expect("an address")))
            .collect();
        let kernel = self.clone();
        Pci::at(self.root(), addresses).with_kernel(move |file, words| kernel.write(file, words))
    }

    pub(crate) fn make(&self, path: &str) {
        fs::create_dir_all(self.root().join(path)).expect("the tree is ours");
    }

    pub(crate) fn file(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        let folder = path.parent().expect("files lie in folders");
        fs::create_dir_all(folder).expect("the tree is ours");
        fs::write(path, content).expect("the tree is ours");
    }

    fn device_dir(bdf: &str) -> String {
        format!("sys/bus/pci/devices/{bdf}")
    }

    /// A network device that the kernel gives to `driver`.
    pub(crate) fn device(&self, bdf: &str, ids: (u16, u16), driver: &str) {
        let dir = Self::device_dir(bdf);
        self.file(&format!("{dir}/vendor"), &format!("{:#06x}\n", ids.0));
        self.file(&format!("{dir}/device"), &format!("{:#06x}\n", ids.1));
        self.file(&format!("{dir}/class"), "0x020000\n");
        self.file(&format!("{dir}/revision"), "0x01\n");
        self.file(&format!("{dir}/numa_node"), "1\n");
        self.file(&format!("{dir}/driver_override"), "(null)\n");
        self.file(&format!("{dir}/reset"), "");
        self.file(&format!("{dir}/.driver"), driver);
        if !driver.is_empty() {
            self.driver(driver);
            self.attach(bdf, driver);
        }
    }

    pub(crate) fn driver(&self, name: &str) {
        self.file(&format!("sys/bus/pci/drivers/{name}/unbind"), "");
    }

    fn attach(&self, bdf: &str, driver: &str) {
        let target = self.root().join("sys/bus/pci/drivers").join(driver);
        let link = self.root().join(Self::device_dir(bdf)).join("driver");
        symlink(target, link).expect("the device has no driver yet");
    }

    /// Puts a device into IOMMU group `group`.
    pub(crate) fn group(&self, bdf: &str, group: u32) {
        let dir = format!("sys/kernel/iommu_groups/{group}");
        self.make(&format!("{dir}/devices"));
        let device = self.root().join(Self::device_dir(bdf));
        let group = self.root().join(dir);
        symlink(&device, group.join("devices").join(bdf)).expect("once a device");
        symlink(&group, device.join("iommu_group")).expect("once a device");
    }

    /// Gives a device a network interface.
    pub(crate) fn netdev(&self, bdf: &str, name: &str, mtu: u32) {
        self.file(
            &format!("{}/net/{name}/mtu", Self::device_dir(bdf)),
            &format!("{mtu}\n"),
        );
        self.make(&format!("sys/class/net/{name}"));
    }

    /// Makes `bdf` virtual function `number` of `physfn`.
    pub(crate) fn virtfn(&self, physfn: &str, number: u32, bdf: &str) {
        let pf = self.root().join(Self::device_dir(physfn));
        let vf = self.root().join(Self::device_dir(bdf));
        symlink(&vf, pf.join(format!("virtfn{number}"))).expect("once a number");
        symlink(&pf, vf.join("physfn")).expect("once a VF");
    }

    /// What the kernel does when `words` are written to `file`.
    fn write(&self, file: &Path, words: &str) -> io::Result<()> {
        let name = file.strip_prefix(self.root()).expect("inside the tree");
        let name = name.to_str().expect("plain names").to_owned();
        let mut writes = self.writes.lock().expect("no test panics with it");
        writes.push((name.clone(), words.to_owned()));
        drop(writes);
        if !file.exists() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let last = name.rsplit('/').next().expect("a name has a last part");
        match last {
            "drivers_probe" => self.probe(words),
            "unbind" => self.unbind(file, words),
            "sriov_numvfs" => self.set_virtfns(file, words),
            _ => fs::write(file, words),
        }
    }

    fn probe(&self, bdf: &str) -> io::Result<()> {
        let device = self.root().join(Self::device_dir(bdf));
        if device.join("driver").exists() {
            return Ok(());
        }
        let only = text(&device.join("driver_override"))
            .filter(|name| !name.is_empty() && name != "(null)");
        let driver = only.or_else(|| text(&device.join(".driver")));
        let driver = driver.filter(|name| !name.is_empty());
        if let Some(driver) = driver
            && self
                .root()
                .join("sys/bus/pci/drivers")
                .join(&driver)
                .is_dir()
            && !device.join(format!(".refuses-{driver}")).exists()
        {
            self.attach(bdf, &driver);
        }
        Ok(())
    }

    fn unbind(&self, file: &Path, bdf: &str) -> io::Result<()> {
        let link: PathBuf = self.root().join(Self::device_dir(bdf)).join("driver");
        let holder = link_name(&link);
        let asked = file.parent().and_then(Path::file_name);
        if holder.as_deref().map(AsRef::as_ref) != asked {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        fs::remove_file(link)
    }

    /// From some to some other number goes only by way of none; a driver that cannot has no
    /// such call.
    fn set_virtfns(&self, file: &Path, words: &str) -> io::Result<()> {
        let dir = file.parent().expect("a device's file");
        let now: u32 = text(file).and_then(|n| n.parse().ok()).unwrap_or(0);
        let wanted: u32 = words.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        if link_name(&dir.join("driver")).is_none() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if now > 0 && wanted > 0 {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        for number in 0..now {
            let link = dir.join(format!("virtfn{number}"));
            fs::remove_dir_all(fs::read_link(&link)?)?;
            fs::remove_file(link)?;
        }
        let physfn: Bdf = dir
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
            .expect("named by its address");
        for number in 0..wanted {
            let function = u8::try_from(number).expect("few");
            let bdf = Bdf {
                bus: physfn.bus + 1,
                function,
                ..physfn
            };
            self.device(&bdf.to_string(), (0x8086, 0x10ed), "");
            self.virtfn(&physfn.to_string(), number, &bdf.to_string());
        }
        fs::write(file, words)
    }
}
