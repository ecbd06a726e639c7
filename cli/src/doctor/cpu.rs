//! The processor: its clock, its cores, its sleep.

use super::Finding;
use crate::host::{Host, core_ranges, is_tsc_invariant};

/// A schedule in time stamp ticks needs a counter that never stops or changes its rate.
pub(super) fn clock(host: &Host) -> Vec<Finding> {
    let model = host
        .cpuinfo("model name")
        .unwrap_or_else(|| "unknown processor".to_owned());
    let flags = host.cpuinfo("flags").unwrap_or_default();
    let vectors: Vec<&str> = ["avx2", "avx512f"]
        .into_iter()
        .filter(|flag| flags.split(' ').any(|word| word == *flag))
        .collect();
    if is_tsc_invariant(host) {
        let vectors = match vectors.as_slice() {
            [] => "no AVX2".to_owned(),
            some => some.join(", ").to_uppercase(),
        };
        return vec![Finding::ready(format!("{model}: invariant TSC, {vectors}"))];
    }
    vec![Finding::warning(
        format!(
            "{model}: the time stamp counter may stop or change its rate; rates and latencies may be off"
        ),
        "in a VM: give the guest an invariant TSC (QEMU: -cpu host,migratable=off,+invtsc)",
    )]
}

/// A generating core shares badly.
pub(super) fn cores(host: &Host) -> Vec<Finding> {
    let (cores, isolated) = (host.cores(), host.isolated());
    let count = cores.len();
    if count < 2 {
        return vec![Finding::warning(
            "one core: sending, receiving and control take turns on it",
            "give the machine two cores or more: a core to send, one to receive",
        )];
    }
    let mut found = Vec::new();
    match isolated.as_slice() {
        [] => found.push(Finding::warning(
            format!("{count} cores, none isolated: other work will disturb the sending cores"),
            format!(
                "for exact rates: add isolcpus={0} nohz_full={0} to the kernel command line and reboot",
                core_ranges(&cores[1..])
            ),
        )),
        some => found.push(Finding::ready(format!(
            "{count} cores, {} isolated",
            core_ranges(some)
        ))),
    }
    let pairs = siblings(host, &cores);
    if !pairs.is_empty() {
        found.push(Finding::warning(
            format!("hyper-threads share a core: {}", pairs.join(" ")),
            "give --cores one of each pair: two workers on one core slow each other",
        ));
    }
    found
}

/// Sets of hyper-threads that share a core: `0,8`.
fn siblings(host: &Host, cores: &[usize]) -> Vec<String> {
    let mut sets: Vec<String> = Vec::new();
    for core in cores {
        let list = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let Some(set) = host.read(&list) else {
            continue;
        };
        if set.contains([',', '-']) && !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

/// A core that sleeps deeply wakes late, and one that is clocked down is slow.
pub(super) fn power(host: &Host) -> Vec<Finding> {
    let mut found = Vec::new();
    let governor = host.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if let Some(governor) = governor.filter(|governor| governor != "performance") {
        found.push(Finding::warning(
            format!("the frequency governor is {governor}: cores may be clocked down"),
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ));
    }
    let deep = deep_states(host);
    if !deep.is_empty() {
        found.push(Finding::warning(
            format!("idle cores may sleep as deep as {}: they wake late", deep.join(", ")),
            "for latencies: add processor.max_cstate=1 intel_idle.max_cstate=1 to the kernel command line and reboot",
        ));
    }
    if found.is_empty() {
        found.push(Finding::ready(
            "no frequency scaling and no deep sleep states",
        ));
    }
    found
}

/// Idle states, not switched off, that take more than 10 µs to leave.
fn deep_states(host: &Host) -> Vec<String> {
    const LATE_US: u64 = 10;
    let folder = "sys/devices/system/cpu/cpu0/cpuidle";
    let states = host.names(folder).into_iter().filter_map(|state| {
        let of = |file: &str| host.read(&format!("{folder}/{state}/{file}"));
        let latency: u64 = of("latency")?.parse().ok()?;
        let is_on = of("disable").is_none_or(|value| value == "0");
        (is_on && latency > LATE_US).then(|| of("name"))?
    });
    states.collect()
}
