//! Which core does what: workers, a simulated device's model, and what is left for control.

use crate::error::Error;
use crate::host::{Host, core_list, core_ranges};

/// Who works where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores {
    /// One worker each. Empty: one worker that the system moves about.
    pub(crate) workers: Vec<usize>,
    /// The core for the models of simulated ports.
    pub(crate) model: Option<usize>,
    /// Some core has more than one busy thread of ours: they must make room for each other.
    pub(crate) shared: bool,
    /// Others want these cores too: who spins then keeps its own peer from running.
    pub(crate) contended: bool,
}

/// What wants cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Workers that would find something to do.
    pub(crate) workers: usize,
    /// Whether a model needs a core too.
    pub(crate) model: bool,
}

impl Cores {
    /// Whether threads of ours give their core away when they have nothing to do.
    pub(crate) fn yields(&self) -> bool {
        self.shared || self.contended || self.workers.is_empty()
    }

    /// Gives out the cores that this process may use, `allowed`; those of `asked` to workers, if
    /// the user named some.
    pub(crate) fn assign(
        host: &Host,
        allowed: &[usize],
        asked: Option<&str>,
        demand: Demand,
    ) -> Result<Self, Error> {
        let cores = match asked {
            Some(text) => Self::as_asked(allowed, text, demand)?,
            None => Self::by_itself(&preferred(host, allowed), demand),
        };
        let busy = cores.workers.len().max(1) + usize::from(demand.model);
        let online = host.cores().len().max(1);
        let contended = host.others_running() + busy > online;
        if contended && asked.is_none() {
            return Ok(cores.close_together());
        }
        Ok(Self { contended, ..cores })
    }

    /// For a machine that others keep busy. A worker and a model that wait for each other on two
    /// cores must both have their turn before a frame moves on; on one core each hands over to
    /// the other. Measured with 16 others on two cores: seven times the frames, and none lost.
    fn close_together(self) -> Self {
        Self {
            workers: self.model.map_or(self.workers, |core| vec![core]),
            contended: true,
            ..self
        }
    }

    fn as_asked(allowed: &[usize], text: &str, demand: Demand) -> Result<Self, Error> {
        let workers = core_list(text)
            .filter(|cores| !cores.is_empty())
            .ok_or_else(|| Error::Usage {
                found: format!("--cores {text}: this is no list of cores"),
                cure: "write 2,3 or 2-5".to_owned(),
            })?;
        if let Some(core) = workers.iter().find(|core| !allowed.contains(core)) {
            return Err(Error::Usage {
                found: format!("--cores {text}: core {core} is not ours to use"),
                cure: format!("cores are {}", core_ranges(allowed)),
            });
        }
        if let Some(core) = twice(&workers) {
            return Err(Error::Usage {
                found: format!("--cores {text}: core {core} is in it twice"),
                cure: "one worker a core".to_owned(),
            });
        }
        let spare = allowed.iter().rev().find(|core| !workers.contains(core));
        let model = demand
            .model
            .then(|| spare.or(allowed.last()).copied())
            .flatten();
        Ok(Self {
            shared: demand.model && spare.is_none(),
            workers,
            model,
            contended: false,
        })
    }

    /// `cores` are in the order of preference.
    fn by_itself(cores: &[usize], demand: Demand) -> Self {
        let mut left = cores.iter().copied();
        if cores.len() < 2 {
            return Self {
                workers: Vec::new(),
                model: None,
                shared: true,
                contended: false,
            };
        }
        let model = if demand.model { left.next() } else { None };
        let mut workers: Vec<usize> = left.take(demand.workers.max(1)).collect();
        workers.sort_unstable();
        Self {
            workers,
            model,
            shared: false,
            contended: false,
        }
    }

    /// What is said aloud when there are too few, and how to cure it.
    pub(crate) fn warning(&self, allowed: &[usize], demand: Demand) -> Option<String> {
        if self.contended && !self.shared {
            let together = if demand.model {
                ", generator and model share one"
            } else {
                ""
            };
            return Some(format!(
                "other programs keep this machine's cores busy{together}: rates and latencies \
                 suffer, counts stay exact. Cure: stop them, or keep them off our cores \
                 (isolcpus, cpuset)"
            ));
        }
        self.shared.then(|| {
            let busy = demand.workers + usize::from(demand.model);
            let found = match allowed.len() {
                1 => "one core for everything".to_owned(),
                n => format!("{n} cores are too few"),
            };
            format!(
                "{found}: the generator{} and the control thread take turns, so this is slower \
                 than the machine could be, and counts stay exact. Cure: allow it {} cores \
                 (taskset, cgroup or --cores)",
                if demand.model { ", the model" } else { "" },
                busy.max(2)
            )
        })
    }
}

/// Isolated cores first, core 0 (where the kernel keeps its own work) last.
fn preferred(host: &Host, allowed: &[usize]) -> Vec<usize> {
    let isolated = host.isolated();
    let mut cores = allowed.to_vec();
    cores.sort_by_key(|core| (!isolated.contains(core), *core == 0, *core));
    cores
}

fn twice(cores: &[usize]) -> Option<usize> {
    let mut seen = Vec::new();
    for core in cores {
        if seen.contains(core) {
            return Some(*core);
        }
        seen.push(*core);
    }
    None
}

#[cfg(test)]
mod test {
    use super::*;

    const SIM: Demand = Demand {
        workers: 2,
        model: true,
    };
    const HARD: Demand = Demand {
        workers: 2,
        model: false,
    };

    /// On a machine of four cores where `running` threads want one.
    fn on_machine(
        running: usize,
        allowed: &[usize],
        asked: Option<&str>,
        demand: Demand,
    ) -> Result<Cores, Error> {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        file("sys/devices/system/cpu/online", "0-3\n");
        file("proc/loadavg", &format!("0.0 0.0 0.0 {running}/99 1\n"));
        Cores::assign(&Host::at(folder.path()), allowed, asked, demand)
    }

    fn assign(allowed: &[usize], asked: Option<&str>, demand: Demand) -> Result<Cores, Error> {
        on_machine(1, allowed, asked, demand)
    }

    #[test]
    fn a_machine_that_others_keep_busy_is_said_aloud() {
        let calm = on_machine(2, &[0, 1, 2, 3], None, SIM).unwrap();
        assert!(!calm.contended && !calm.yields());
        let busy = on_machine(3, &[0, 1, 2, 3], None, SIM).unwrap();
        assert!(busy.contended && busy.yields());
        assert_eq!(busy.workers, [busy.model.unwrap()], "on one core");
        let named = on_machine(3, &[0, 1, 2, 3], Some("2,3"), SIM).unwrap();
        assert_eq!(named.workers, [2, 3], "the user knows");
        let warning = busy.warning(&[0, 1, 2, 3], SIM).unwrap();
        assert!(warning.contains("other programs"), "{warning}");
    }

    #[test]
    fn the_model_has_its_own_core_and_core_0_comes_last() {
        let cores = assign(&[0, 1], None, SIM).unwrap();
        assert_eq!((cores.workers.as_slice(), cores.model), (&[0][..], Some(1)));
        let cores = assign(&[0, 1, 2, 3], None, SIM).unwrap();
        assert_eq!(
            (cores.workers.as_slice(), cores.model),
            (&[2, 3][..], Some(1))
        );
        let cores = assign(&[0, 1, 2, 3], None, HARD).unwrap();
        assert_eq!((cores.workers.as_slice(), cores.model), (&[1, 2][..], None));
        assert!(!cores.shared && cores.warning(&[0, 1, 2, 3], HARD).is_none());
    }

    #[test]
    fn one_core_for_everything_is_said_aloud() {
        let cores = assign(&[5], None, SIM).unwrap();
        assert!(cores.shared && cores.workers.is_empty() && cores.model.is_none());
        assert!(
            cores
                .warning(&[5], SIM)
                .unwrap()
                .contains("one core for everything")
        );
        let cores = assign(&[0, 1], Some("0,1"), SIM).unwrap();
        assert!(cores.shared && cores.model == Some(1));
    }

    #[test]
    fn cores_that_are_not_ours_are_refused() {
        for text in ["7", "0,0", "x", "", "0-9", "1-0"] {
            assert!(assign(&[0, 1], Some(text), SIM).is_err(), "{text}");
        }
        assert_eq!(assign(&[0, 1, 2], Some("1"), SIM).unwrap().model, Some(2));
    }
}
