//! Writes folders of kind `cost` with known trials: three kernel builds.

use std::path::Path;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_costs::folder::CostFolder;
use tardy_machine::root::Root;
use tardy_run::cost::{CacheState, CostRecord, CostSet, CostUnit, Group, MetricRecord};
use tardy_run::record::State;

/// A run folder of kind `cost` with three builds on one machine.
pub(crate) struct MadeCost {
    /// The field `machine` of `run.json`.
    pub(crate) machine: Value,
    /// System times of the trials, in seconds.
    pub(crate) sys: [f64; 3],
}

impl MadeCost {
    /// Writes the folder.
    pub(crate) fn write(&self, path: &Path) {
        let cost = CostRecord {
            set: CostSet::Build,
            command: vec!["make".into(), "-j8".into()],
            cpu: None,
            other_cpu: None,
            rounds: 1,
            trials: 3,
            trial_length_ns: Nanos::ZERO,
            clock_read_ns: Nanos(20),
            unit: CostUnit::Time,
            metrics: Vec::new(),
            left_out: Vec::new(),
        };
        let mut folder = CostFolder::create(path, cost, &Root::at(path)).unwrap();
        let metric = MetricRecord {
            name: "sys".into(),
            group: Group::Program,
            operation: "a build".into(),
            bytes: None,
            state: CacheState::Warm,
            lmbench: None,
            operations: 1,
            waiting: None,
            file: String::new(),
        };
        let place = folder.add(metric).unwrap();
        folder.begin_round(1);
        for (index, seconds) in self.sys.iter().enumerate() {
            folder.push(
                place,
                Nanos::from_secs(index as i64 + 1),
                (seconds * 1e12) as i64,
            );
        }
        folder.end_round().unwrap();
        folder.finish(State::Finished).unwrap();
        let file = path.join("run.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        record["machine"] = self.machine.clone();
        record["started"]["realtime_ns"] = (1_700_000_000_i64 * 1_000_000_000).into();
        std::fs::write(file, serde_json::to_vec(&record).unwrap()).unwrap();
    }
}
