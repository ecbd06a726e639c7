//! Frames in and out of split rings, by the `virtio-queue` crate, with the rules that a device
//! may hold the driver to (virtio 1.2 §2.7 and §5.1.6).

use std::io::{Read, Write};
use std::ops::Deref;

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestMemoryMmap, bitmap::BitmapSlice};

/// Bytes of the header before each frame: 12 with VERSION_1 (§5.1.6.1).
const HEADER: usize = 12;
/// The shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

/// What became of a frame for the driver.
pub(super) enum Given {
    /// It lies in these buffers: head of each chain and bytes written there.
    Into(Vec<(u16, u32)>),
    /// The driver has too few empty buffers.
    NoRoom,
}

/// Takes the next frame off a send ring, with the head of the chain that it lay in.
pub(super) fn take<M>(queue: &mut Queue, memory: &M) -> Result<Option<(u16, Vec<u8>)>, String>
where
    M: Clone + Deref<Target = GuestMemoryMmap>,
{
    let next = queue
        .iter(memory.clone())
        .map_err(|error| format!("send ring: {error}"))?
        .next();
    let Some(chain) = next else { return Ok(None) };
    let head = chain.head_index();
    if chain.clone().any(|slot| slot.is_write_only()) {
        return Err(format!("send ring: chain {head} has a writable buffer"));
    }
    let mut reader = chain
        .reader(memory)
        .map_err(|error| format!("send ring: chain {head}: {error}"))?;
    let mut header = [0; HEADER];
    let len = reader.available_bytes();
    if len < HEADER + SHORTEST {
        return Err(format!("send ring: chain {head} has {len} bytes"));
    }
    let mut frame = vec![0; len - HEADER];
    read_all(&mut reader, &mut header, &mut frame)
        .map_err(|error| format!("send ring: chain {head}: {error}"))?;
    if header != [0; HEADER] {
        // No offload was offered, so flags, GSO type, sizes and num_buffers are zero (§5.1.6.2).
        return Err(format!("send ring: chain {head} has the header {header:?}"));
    }
    Ok(Some((head, frame)))
}

fn read_all<B: BitmapSlice>(
    reader: &mut virtio_queue::Reader<'_, B>,
    header: &mut [u8],
    frame: &mut [u8],
) -> std::io::Result<()> {
    reader.read_exact(header)?;
    reader.read_exact(frame)
}

/// Puts a frame into the next empty buffers of a receive ring: one chain, or as many as it takes
/// where buffers are mergeable.
pub(super) fn give<M>(
    queue: &mut Queue,
    memory: &M,
    frame: &[u8],
    mergeable: bool,
) -> Result<Given, String>
where
    M: Clone + Deref<Target = GuestMemoryMmap>,
{
    let before = queue.next_avail();
    let needed = HEADER + frame.len();
    let mut chains = Vec::new();
    let mut room = 0;
    let mut available = queue
        .iter(memory.clone())
        .map_err(|error| format!("receive ring: {error}"))?;
    while room < needed {
        let Some(chain) = available.next() else {
            queue.set_next_avail(before);
            return Ok(Given::NoRoom);
        };
        let head = chain.head_index();
        let mut len = 0;
        for slot in chain.clone() {
            if !slot.is_write_only() {
                return Err(format!("receive ring: chain {head} has a readable buffer"));
            }
            len += slot.len() as usize;
        }
        if len < HEADER || (!mergeable && len < needed) {
            return Err(format!(
                "receive ring: chain {head} has room for {len} bytes, too few for {needed}"
            ));
        }
        room += len;
        chains.push((chain, len));
    }
    let count = u16::try_from(chains.len()).map_err(|_| "receive ring: too long".to_owned())?;
    let mut whole = vec![0; HEADER];
    whole[10..12].copy_from_slice(&count.to_le_bytes());
    whole.extend_from_slice(frame);
    let mut rest = &whole[..];
    let mut used = Vec::with_capacity(chains.len());
    for (chain, len) in chains {
        let head = chain.head_index();
        let (part, after) = rest.split_at(len.min(rest.len()));
        rest = after;
        chain
            .writer(memory)
            .map_err(|error| format!("receive ring: chain {head}: {error}"))?
            .write_all(part)
            .map_err(|error| format!("receive ring: chain {head}: {error}"))?;
        let written = u32::try_from(part.len()).map_err(|_| "receive ring: too long".to_owned())?;
        used.push((head, written));
    }
    Ok(Given::Into(used))
}
