//! Checks on machines that a folder describes.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// A machine of these files.
fn host(files: &[(&str, &str)]) -> (TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(file, text).unwrap();
    }
    let host = Host::at(folder.path());
    (folder, host)
}

fn verdicts(findings: &[Finding]) -> Vec<Verdict> {
    findings.iter().map(|finding| finding.verdict).collect()
}

/// The only finding that `probe` has about a machine of `files`.
fn only(probe: fn(&Host) -> Vec<Finding>, files: &[(&str, &str)]) -> Finding {
    let (_folder, host) = host(files);
    let mut findings = probe(&host);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

#[test]
fn a_counter_that_may_stop_is_a_warning() {
    let cpu = |flags: &str| format!("model name\t: Test CPU\nflags\t\t: {flags}\n");
    let good = cpu("fpu constant_tsc nonstop_tsc avx2");
    let found = only(cpu::clock, &[("proc/cpuinfo", &good)]);
    assert_eq!(found.verdict, Verdict::Ready);
    assert_eq!(found.evidence, "Test CPU: invariant TSC, AVX2");
    for flags in [
        "fpu constant_tsc",
        "nonstop_tsc",
        "xconstant_tsc nonstop_tsc",
    ] {
        let found = only(cpu::clock, &[("proc/cpuinfo", &cpu(flags))]);
        assert_eq!(found.verdict, Verdict::Warning, "{flags}");
    }
}

#[test]
fn one_core_and_shared_cores_are_said() {
    let online = "sys/devices/system/cpu/online";
    let isolated = "sys/devices/system/cpu/isolated";
    let found = only(cpu::cores, &[(online, "0\n")]);
    assert!(found.evidence.contains("one core"), "{found:?}");
    let found = only(cpu::cores, &[(online, "0-7\n"), (isolated, "2-7\n")]);
    assert_eq!(found.verdict, Verdict::Ready);
    let (_folder, host) = host(&[
        (online, "0-1\n"),
        (isolated, "1\n"),
        (
            "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
            "0-1\n",
        ),
        (
            "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
            "0-1\n",
        ),
    ]);
    let found = cpu::cores(&host);
    assert_eq!(verdicts(&found), [Verdict::Ready, Verdict::Warning]);
    assert!(found[1].evidence.ends_with("0-1"), "{found:?}");
}

#[test]
fn a_governor_that_saves_power_and_deep_sleep_are_warnings() {
    let state = |n: u32, file: &str| format!("sys/devices/system/cpu/cpu0/cpuidle/state{n}/{file}");
    let (name1, late1) = (state(1, "name"), state(1, "latency"));
    let (name2, late2, off2) = (state(2, "name"), state(2, "latency"), state(2, "disable"));
    let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let (_folder, slow) = host(&[
        (governor, "powersave\n"),
        (&name1, "C1\n"),
        (&late1, "2\n"),
        (&name2, "C6\n"),
        (&late2, "133\n"),
        (&off2, "0\n"),
    ]);
    let found = cpu::power(&slow);
    assert_eq!(verdicts(&found), [Verdict::Warning, Verdict::Warning]);
    assert!(found[1].evidence.contains("C6") && !found[1].evidence.contains("C1"));
    let found = only(
        cpu::power,
        &[
            (governor, "performance\n"),
            (&name2, "C6\n"),
            (&late2, "133\n"),
            (&off2, "1\n"),
        ],
    );
    assert_eq!(found.verdict, Verdict::Ready);
}

#[test]
fn hugepages_that_are_missing_or_taken_are_a_problem() {
    let file =
        |name: &str| format!("sys/devices/system/node/node0/hugepages/hugepages-2048kB/{name}");
    let (total, free) = (file("nr_hugepages"), file("free_hugepages"));
    let judge = |has: &str, left: &str| {
        let (_folder, host) = host(&[
            (&total, has),
            (&free, left),
            (
                "proc/8123/status",
                "Name:\tqemu-system\nHugetlbPages:\t 1048576 kB\n",
            ),
        ]);
        memory::hugepages(&host).remove(0)
    };
    assert_eq!(judge("0", "0").verdict, Verdict::Problem);
    let taken = judge("512", "0");
    assert_eq!(taken.verdict, Verdict::Problem);
    assert!(
        taken
            .evidence
            .contains("1024 MiB held by qemu-system (pid 8123)"),
        "{taken:?}"
    );
    assert_eq!(judge("512", "10").verdict, Verdict::Warning);
    assert_eq!(judge("512", "512").verdict, Verdict::Ready);
}

#[test]
fn an_iommu_that_is_off_is_a_problem_unless_nobody_minds() {
    let mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let off = only(vfio::iommu, &[(mode, "N\n")]);
    assert_eq!(off.verdict, Verdict::Problem);
    assert!(off.cure.unwrap().contains("for a lab only"));
    assert_eq!(
        only(vfio::iommu, &[(mode, "Y\n")]).verdict,
        Verdict::Warning
    );
    // What VFIO makes up for a device without an IOMMU is no IOMMU.
    let stand_in = only(
        vfio::iommu,
        &[
            (mode, "Y\n"),
            ("sys/kernel/iommu_groups/0/name", "vfio-noiommu\n"),
        ],
    );
    assert_eq!(stand_in.verdict, Verdict::Warning, "{stand_in:?}");
    let locked = only(
        vfio::iommu,
        &[(
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        )],
    );
    assert!(locked.cure.unwrap().contains("locked down"));
    let on = only(vfio::iommu, &[("sys/kernel/iommu_groups/0/type", "DMA\n")]);
    assert_eq!(on.verdict, Verdict::Ready);
}

#[test]
fn vfio_needs_its_driver_and_its_node() {
    let driver = "sys/bus/pci/drivers/vfio-pci/0000:3b:00.0/vendor";
    let missing = only(
        vfio::module,
        &[
            ("proc/sys/kernel/osrelease", "6.1\n"),
            (
                "lib/modules/6.1/modules.dep",
                "kernel/drivers/vfio/pci/vfio-pci.ko:\n",
            ),
        ],
    );
    assert_eq!(missing.cure.as_deref(), Some("modprobe vfio-pci"));
    assert_eq!(
        only(vfio::module, &[(driver, "")]).verdict,
        Verdict::Problem
    );
    let found = only(vfio::module, &[(driver, ""), ("dev/vfio/vfio", "")]);
    assert_eq!(
        found.evidence,
        "vfio-pci is loaded (groups), 1 devices bound"
    );
}

#[test]
fn nodes_that_can_be_opened_are_ready() {
    let found = only(vfio::access, &[("proc/version", "")]);
    assert_eq!(found.verdict, Verdict::Warning);
    let (_folder, host) = host(&[("dev/vfio/vfio", ""), ("dev/vfio/41", "")]);
    assert_eq!(verdicts(&vfio::access(&host)), [Verdict::Ready; 2]);
}

#[test]
fn a_small_memlock_limit_binds_unless_the_process_may_exceed_it() {
    let limits = |soft: &str| {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max locked memory         {soft}              8388608              bytes     \n"
        )
    };
    let status = |caps: &str| format!("Name:\tx\nCapEff:\t{caps}\n");
    let judge = |soft: &str, caps: &str| {
        let files = [
            ("proc/self/limits", limits(soft)),
            ("proc/self/status", status(caps)),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        only(limits::memlock, &files).verdict
    };
    assert_eq!(judge("unlimited", "0"), Verdict::Ready);
    assert_eq!(judge("8388608", "0"), Verdict::Problem);
    assert_eq!(judge("8388608", "0000000000004000"), Verdict::Ready);
    assert_eq!(judge("8388608", "0000000000008000"), Verdict::Problem);
    assert_eq!(judge("2147483648", "0"), Verdict::Ready);
}

#[test]
fn nics_are_judged_by_who_has_them() {
    let device = |file: &str| format!("sys/bus/pci/devices/0000:3b:00.0/{file}");
    let (vendor, id, class) = (device("vendor"), device("device"), device("class"));
    let nic = [
        (vendor.as_str(), "0x1af4\n"),
        (id.as_str(), "0x1041\n"),
        (class.as_str(), "0x020000\n"),
    ];
    let found = only(nics::nics, &nic);
    assert_eq!(found.verdict, Verdict::Warning);
    assert_eq!(
        found.cure.as_deref(),
        Some("rgen bind 0000:3b:00.0 (as root)")
    );

    let (folder, host) = host(&nic);
    fs::create_dir_all(folder.path().join("sys/bus/pci/drivers/vfio-pci")).unwrap();
    let link = folder.path().join(device("driver"));
    std::os::unix::fs::symlink("../../drivers/vfio-pci", link).unwrap();
    assert_eq!(verdicts(&nics::nics(&host)), [Verdict::Ready]);
}

#[test]
fn the_first_problem_that_stops_a_nic_is_found() {
    let (_folder, host) = host(&[("proc/version", "")]);
    let reports = examine(&host);
    assert_eq!(reports.len(), CHECKS.len());
    let (report, finding) = obstacle(&reports).unwrap();
    assert_eq!(
        (report.id, finding.verdict),
        ("hugepages", Verdict::Problem)
    );
    let mut ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CHECKS.len(), "names are names");
}
