//! The field engine once more, from its definitions alone and as slow as it likes: each value by
//! its number in the sequence, each write bit by bit, each checksum from scratch.

use engine::field::{Fix, Order, Program, Values, Var, Write};
use engine::frame::Template;
use etherparse::checksum::Sum16BitWords;

/// Frame number `n` of a program in which nothing is random.
pub(crate) fn frame(template: &Template, program: &Program, n: u64) -> Vec<u8> {
    let mut bytes = template.bytes.clone();
    let value = |name: &str| value_of(program, name, n);
    for write in &program.writes {
        put(
            &mut bytes,
            write,
            width_of(program, &write.var),
            value(&write.var),
        );
    }
    if let Some(size) = &program.size {
        bytes.truncate(usize::try_from(value(size)).unwrap());
    }
    for fix in &program.fixes {
        correct(&mut bytes, fix);
    }
    bytes
}

fn width_of(program: &Program, name: &str) -> usize {
    let var = name.split('.').next().unwrap();
    let found = program.var(name).or_else(|| program.var(var)).unwrap();
    if name.ends_with(".port") && program.var(name).is_none() {
        2
    } else {
        found.width
    }
}

/// How many values a variable has before they repeat.
fn places(values: &Values) -> u64 {
    match values {
        Values::Step { min, max, step, .. } => (max - min) / step + 1,
        Values::List { values, .. } => values.len() as u64,
        Values::Tuple { ip_min, ip_max, .. } => u64::from(ip_max - ip_min) + 1,
        other => panic!("{other:?} has no order"),
    }
}

/// The value in frame `n`.
fn value_of(program: &Program, name: &str, n: u64) -> u64 {
    if let Some(tuple) = name
        .strip_suffix(".ip")
        .or_else(|| name.strip_suffix(".port"))
        && let Some(var) = program.var(tuple)
        && let Values::Tuple {
            ip_min,
            port_min,
            port_max,
            limit_flows,
            ..
        } = var.values
    {
        let n = if limit_flows == 0 { n } else { n % limit_flows };
        let ips = places(&var.values);
        let ports = u64::from(port_max - port_min) + 1;
        return match name.ends_with(".ip") {
            true => u64::from(ip_min) + n % ips,
            false => u64::from(port_min) + n / ips % ports,
        };
    }
    let var = program.var(name).unwrap();
    // How often it has stepped: each frame, or each time the one before it came round.
    let steps = steps_of(program, var, n);
    at(&var.values, steps)
}

/// How many steps a variable has made before frame `n`.
fn steps_of(program: &Program, var: &Var, n: u64) -> u64 {
    match program
        .vars
        .iter()
        .find(|other| other.next.as_deref() == Some(&var.name))
    {
        None => n,
        Some(before) => {
            let ahead = first(&before.values);
            (steps_of(program, before, n) * stride(&before.values) + ahead) / places(&before.values)
        }
    }
}

/// How many places a list goes on at a time; it wraps when it passes the last one.
fn stride(values: &Values) -> u64 {
    match values {
        Values::List { values, step, .. } if values.len() > 1 => step % values.len() as u64,
        _ => 1,
    }
}

/// The place of the first value.
fn first(values: &Values) -> u64 {
    match values {
        Values::Step {
            order: Order::Inc,
            min,
            init: Some(init),
            step,
            ..
        } => (init - min) / step,
        Values::Step {
            order: Order::Dec,
            max,
            init: Some(init),
            step,
            ..
        } => (max - init) / step,
        _ => 0,
    }
}

fn at(values: &Values, steps: u64) -> u64 {
    let place = (steps + first(values)) % places(values);
    match values {
        Values::Step {
            order: Order::Inc,
            min,
            step,
            ..
        } => min + place * step,
        Values::Step {
            order: Order::Dec,
            max,
            step,
            ..
        } => max - place * step,
        Values::List {
            values,
            order,
            step,
        } => {
            let count = values.len() as u64;
            let walked = steps % count * (step % count) % count;
            let index = match order {
                Order::Inc => walked,
                Order::Dec => count - 1 - walked,
            };
            values[usize::try_from(index).unwrap()]
        }
        other => panic!("{other:?} has no order"),
    }
}

fn put(bytes: &mut [u8], write: &Write, width: usize, value: u64) {
    let place = &mut bytes[write.offset..write.offset + write.width];
    let sum = i128::from(value) + i128::from(write.add);
    let (modulo, mask, shift) = match write.mask {
        None => (width.max(write.width), u64::MAX, 0),
        Some(mask) => (write.width.max(4), mask.mask, mask.shift),
    };
    let value = sum.rem_euclid(1 << (modulo * 8));
    let value = if shift < 0 {
        value >> -shift
    } else {
        value << shift
    };
    for n in 0..write.width {
        // Byte n from the least significant one.
        let index = if write.little_endian {
            n
        } else {
            write.width - 1 - n
        };
        let byte = u8::try_from(value >> (n * 8) & 0xff).unwrap();
        let mask = u8::try_from(mask >> (n * 8) & 0xff).unwrap();
        place[index] = place[index] & !mask | byte & mask;
    }
}

/// Computes a checksum with the protocol library's adder.
pub(crate) fn correct(bytes: &mut [u8], fix: &Fix) {
    let at = fix.at();
    let (ip, protocol, offset) = match *fix {
        Fix::Ipv4 { at } => {
            bytes[at + 10..at + 12].fill(0);
            let sum = Sum16BitWords::new()
                .add_slice(&bytes[at..at + 20])
                .ones_complement();
            bytes[at + 10..at + 12].copy_from_slice(&sum.to_ne_bytes());
            return;
        }
        Fix::Udp { ip, .. } => (ip, 17, 6),
        Fix::Tcp { ip, .. } => (ip, 6, 16),
        Fix::Icmp { ip, .. } => (ip, 1, 2),
        Fix::Icmp6 { ip, .. } => (ip, 58, 2),
    };
    let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let (end, addresses) = match bytes[ip] >> 4 {
        4 => (ip + length(ip + 2), ip + 12..ip + 20),
        _ => (ip + 40 + length(ip + 4), ip + 8..ip + 40),
    };
    bytes[at + offset..at + offset + 2].fill(0);
    let mut sum = Sum16BitWords::new().add_slice(&bytes[at..end]);
    if protocol != 1 {
        let len = u32::try_from(end - at).unwrap().to_be_bytes();
        sum = sum
            .add_slice(&bytes[addresses])
            .add_4bytes(len)
            .add_2bytes([0, protocol]);
    }
    let sum = match sum.ones_complement() {
        0 if protocol == 17 => 0xffff,
        sum => sum,
    };
    bytes[at + offset..at + offset + 2].copy_from_slice(&sum.to_ne_bytes());
}
