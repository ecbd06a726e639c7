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
    /// Some core has more than one busy thread: they must make room for each other.
    pub(crate) shared: bool,
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
    /// Gives out the cores that this process may use, `allowed`; those of `asked` to workers, if
    /// the user named some.
    pub(crate) fn assign(
        host: &Host,
        allowed: &[usize],
        asked: Option<&str>,
        demand: Demand,
    ) -> Result<Self, Error> {
        match asked {
            Some(text) => Self::as_asked(allowed, text, demand),
            None => Ok(Self::by_itself(&preferred(host, allowed), demand)),
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
            };
        }
        let model = if demand.model { left.next() } else { None };
        let mut workers: Vec<usize> = left.take(demand.workers.max(1)).collect();
        workers.sort_unstable();
        Self {
            workers,
            model,
            shared: false,
        }
    }

    /// What is said aloud when there are too few, and how to cure it.
    pub(crate) fn warning(&self, allowed: &[usize], demand: Demand) -> Option<String> {
        let busy = demand.workers + usize::from(demand.model);
        if self.shared {
            return Some(format!(
                "{}: the generator{} and the control thread take turns, so this is slower than \
                 the machine could be, and counts stay exact. Cure: allow it {} cores \
                 (taskset, cgroup or --cores)",
                match allowed.len() {
                    1 => "one core for everything".to_owned(),
                    n => format!("{n} cores are too few"),
                },
                if demand.model { ", the model" } else { "" },
                busy.max(2)
            ));
        }
        None
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

    fn assign(allowed: &[usize], asked: Option<&str>, demand: Demand) -> Result<Cores, Error> {
        let nowhere = Host::at("/nonexistent");
        Cores::assign(&nowhere, allowed, asked, demand)
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
