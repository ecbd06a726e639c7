//! Interfaces in namespaces of the guest: set up by the kernel's tools, used through sockets.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How long a transfer may stand still. Emulated processors on a busy host are slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long nothing must come to count as nothing.
pub(super) const SHORT: Duration = Duration::from_secs(1);

/// The port that nobody listens on (RFC 863).
const DISCARD: u16 = 9;

/// What is sent last, and how often.
const FAREWELL: &[u8] = b"and that was the last";
const LAST: u32 = 4;

/// Bytes of an ICMP echo's header.
const ICMP: usize = 8;

/// What went wrong, in words.
pub(super) type Fallible<T = ()> = Result<T, String>;

/// One end: an interface in a namespace.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// Namespace.
    pub(super) name: &'static str,
    /// Where the device is.
    pub(super) bdf: String,
    /// Interface.
    pub(super) dev: String,
    /// Address of the interface.
    pub(super) ip: Ipv4Addr,
}

/// Runs a tool; what it printed.
pub(super) fn run(program: &str, words: &[&str]) -> Fallible<String> {
    let line = || format!("{program} {}", words.join(" "));
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{}: {error}", line()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}{}", line(), text.trim(), error.trim()))
}

pub(super) fn ip(words: &[&str]) -> Fallible<String> {
    run("/tools/ip", words)
}

impl End {
    /// Runs a tool in the namespace.
    pub(super) fn run(&self, words: &[&str]) -> Fallible<String> {
        let mut all = vec!["netns", "exec", self.name];
        all.extend(words);
        ip(&all)
    }

    pub(super) fn ip(&self, words: &[&str]) -> Fallible<String> {
        let mut all = vec!["-netns", self.name];
        all.extend(words);
        ip(&all)
    }

    pub(super) fn ethtool(&self, words: &[&str]) -> Fallible<String> {
        let mut all = vec!["/tools/ethtool"];
        all.extend(words);
        self.run(&all)
    }

    /// Brings the interface up.
    pub(super) fn up(&self) -> Fallible {
        self.ip(&["link", "set", &self.dev, "up"]).map(drop)
    }

    pub(super) fn down(&self) -> Fallible {
        self.ip(&["link", "set", &self.dev, "down"]).map(drop)
    }

    pub(super) fn set_mtu(&self, mtu: u32) -> Fallible {
        let mtu = mtu.to_string();
        self.ip(&["link", "set", &self.dev, "mtu", &mtu]).map(drop)
    }

    /// A number of the interface's: `carrier`, `statistics/rx_packets`, `speed`.
    pub(super) fn number(&self, name: &str) -> Fallible<i64> {
        let path = format!("/sys/class/net/{}/{name}", self.dev);
        let text = self.run(&["/bin/cat", &path])?;
        let number = text.trim().parse();
        number.map_err(|error| format!("{path} is {text:?}: {error}"))
    }

    /// Waits until the link is up.
    pub(super) fn wait_for_link(&self) -> Fallible {
        wait(|| self.number("carrier") == Ok(1))
            .map_err(|waited| format!("{}: no link after {waited:?}", self.dev))
    }

    /// Waits until the link is down, while the interface is up.
    pub(super) fn wait_for_no_link(&self) -> Fallible {
        wait(|| self.number("carrier") == Ok(0))
            .map_err(|waited| format!("{}: still a link after {waited:?}", self.dev))
    }

    /// Pings `to` with `size` bytes behind the ICMP header, one after the other; each must be
    /// answered, and with the same bytes. (The tool of that name waits for the last answer no
    /// longer than for those before.)
    pub(super) fn ping(&self, to: Ipv4Addr, size: usize, count: u16) -> Fallible {
        self.ping_for(to, size, count, PATIENCE)
    }

    /// As [`End::ping`], with this patience for each answer.
    pub(super) fn ping_for(
        &self,
        to: Ipv4Addr,
        size: usize,
        count: u16,
        patience: Duration,
    ) -> Fallible {
        let socket = self.inside(|| {
            fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0")?;
            let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
            let socket = socket(family, kind, SockFlag::empty(), SockProtocol::Icmp)?;
            let socket = UdpSocket::from(socket);
            socket.set_read_timeout(Some(patience))?;
            socket.connect((to, 0))?;
            Ok(socket)
        })?;
        let mut answer = vec![0; size + ICMP + 1];
        for n in 1..=count {
            // Echo request, its number; the kernel sets checksum and id.
            let mut request = vec![8, 0, 0, 0, 0, 0];
            request.extend(n.to_be_bytes());
            request.extend(content(u64::from(n), size));
            let lost = |error| format!("{to}, {size} bytes, number {n} of {count}: {error}");
            socket.send(&request).map_err(lost)?;
            let len = socket.recv(&mut answer).map_err(lost)?;
            if answer[..2] != [0, 0] || answer[6..len] != request[6..] {
                return Err(format!(
                    "{to}, {size} bytes: the answer differs: {len} bytes"
                ));
            }
        }
        Ok(())
    }

    /// Runs `work` in a thread that is in this namespace.
    fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> Fallible<T> {
        let path = Path::new("/run/netns").join(self.name);
        let enter = || {
            setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
            work()
        };
        thread::scope(|scope| scope.spawn(enter).join())
            .map_err(|_| "a thread panicked".to_owned())?
            .map_err(|error| format!("{}: {error}", self.name))
    }
}

/// Waits for a condition; how long it was waited for in vain.
pub(super) fn wait(condition: impl Fn() -> bool) -> Result<(), Duration> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if condition() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(started.elapsed())
}

/// The interface of the device at `bdf`, once its driver has made one.
pub(super) fn interface(bdf: &str) -> Option<String> {
    let device = Path::new("/sys/bus/pci/devices").join(bdf);
    let in_folder = |folder: &Path| {
        let mut entries = fs::read_dir(folder.join("net")).ok()?;
        entries.next()?.ok()?.file_name().into_string().ok()
    };
    // virtio has a bus of its own below.
    let below = || {
        let entries = fs::read_dir(&device).ok()?.flatten();
        entries
            .map(|entry| entry.path())
            .find_map(|path| in_folder(&path))
    };
    in_folder(&device).or_else(below)
}

/// Bytes that nobody could mistake for others.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Sends `len` bytes over TCP from one end to the other; what arrives must be what was sent.
pub(super) fn stream(from: &End, to: &End, len: usize, seed: u64) -> Fallible {
    let sent = content(seed, len);
    let listener = to.inside(|| TcpListener::bind((to.ip, 0)))?;
    let port = listener.local_addr().map_err(|e| e.to_string())?.port();
    let received = thread::scope(|scope| {
        let receiver = scope.spawn(|| -> io::Result<Vec<u8>> {
            let (mut stream, _) = accept(&listener)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut received = Vec::with_capacity(len);
            stream.read_to_end(&mut received)?;
            Ok(received)
        });
        let sending = from.inside(|| {
            let to = SocketAddr::from((to.ip, port));
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(&sent)
        });
        let received = receiver
            .join()
            .map_err(|_| "a thread panicked".to_owned())?;
        sending?;
        received.map_err(|error| format!("{} receives: {error}", to.name))
    })?;
    same(&sent, &received)
}

/// As `accept`, but not for ever.
fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    listener.set_nonblocking(true)?;
    let started = Instant::now();
    loop {
        match listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if started.elapsed() > PATIENCE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                thread::sleep(Duration::from_millis(5));
            }
            Ok((stream, from)) => {
                stream.set_nonblocking(false)?;
                return Ok((stream, from));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends datagrams of many sizes, a few at a time, and waits for each: every one must arrive, and
/// as it was.
pub(super) fn datagrams(from: &End, to: &End, count: usize, largest: usize) -> Fallible {
    const AT_ONCE: usize = 8;
    let receiver = to.inside(|| {
        let socket = UdpSocket::bind((to.ip, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    })?;
    let place = receiver.local_addr().map_err(|e| e.to_string())?;
    let sender = from.inside(|| UdpSocket::bind((from.ip, 0)))?;
    let all: Vec<Vec<u8>> = (0..count)
        .map(|n| content(n as u64, 1 + n * 37 % largest))
        .collect();
    let mut received = vec![0; 65536];
    for batch in all.chunks(AT_ONCE) {
        for datagram in batch {
            sender.send_to(datagram, place).map_err(|e| e.to_string())?;
        }
        for datagram in batch {
            let len = receiver.recv(&mut received);
            let len = len.map_err(|error| format!("{} bytes: {error}", datagram.len()))?;
            same(datagram, &received[..len])?;
        }
    }
    Ok(())
}

/// Sends `count` datagrams to `address`, and counts those that the other end's driver hands up,
/// whoever they are for. What is sent to that end itself afterwards, on several ways through the
/// queues, says that no more will come; if it were not `wanted` many by then, some time more is
/// left to them.
pub(super) fn overheard(
    from: &End,
    to: &End,
    address: Ipv4Addr,
    count: usize,
    wanted: usize,
) -> Fallible<usize> {
    let all = to.inside(|| {
        let (family, kind) = (AddressFamily::Packet, SockType::Datagram);
        let socket = socket(family, kind, SockFlag::empty(), SockProtocol::EthIp)?;
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    })?;
    let socket = || from.inside(|| UdpSocket::bind((from.ip, 0)));
    let send = |socket: &UdpSocket, what: &[u8], to: Ipv4Addr| {
        let sent = socket.send_to(what, (to, DISCARD));
        sent.map(drop).map_err(|error| format!("{to}: {error}"))
    };
    let sender = socket()?;
    for n in 0..count {
        send(&sender, &content(n as u64, 64), address)?;
    }
    for _ in 0..LAST {
        send(&socket()?, FAREWELL, to.ip)?;
    }
    let (mut heard, mut last) = (0, 0);
    let mut packet = [0; 2048];
    while last < LAST || heard < wanted {
        if last == LAST {
            let more = all.set_read_timeout(Some(SHORT));
            more.map_err(|error| error.to_string())?;
        }
        let len = match all.recv(&mut packet) {
            Ok(len) => len,
            Err(_) if last == LAST => break,
            Err(error) => return Err(format!("{}: {error}", to.name)),
        };
        let packet = &packet[..len];
        let destination = packet.get(16..20);
        if destination == Some(&address.octets()) {
            heard += 1;
        } else if destination == Some(&to.ip.octets()) && packet.ends_with(FAREWELL) {
            last += 1;
        }
    }
    Ok(heard)
}

fn same(sent: &[u8], received: &[u8]) -> Fallible {
    if sent == received {
        return Ok(());
    }
    let at = sent.iter().zip(received).position(|(a, b)| a != b);
    Err(format!(
        "{} bytes were sent, {} arrived, the first difference is at {at:?}",
        sent.len(),
        received.len()
    ))
}
