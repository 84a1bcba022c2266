//! Times by N and name, and the files that keep them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

use clap::ValueEnum;
use ferronorm::Device;
use ferronorm::plan::DataType;
use serde::{Deserialize, Serialize};

/// Our layer, as the planner thinks best.
pub const OWN: &str = "ferronorm";
/// Our backward with groups that blocks share.
pub const GROUP_LOCKS: &str = "group locks";
/// Our backward as the seed has it.
pub const SEED: &str = "seed";
/// `ferronorm::limit`; in a file of peers, what they take for it.
pub const LIMIT: &str = "limit";

/// Microseconds by name; none where nothing was measured.
pub type Times = BTreeMap<String, Option<f64>>;

/// By our name, or in a file of peers by PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    #[serde(alias = "float64")]
    F64,
    #[serde(alias = "float32")]
    F32,
    #[serde(alias = "float16")]
    F16,
    #[serde(alias = "bfloat16")]
    Bf16,
}

impl From<Type> for DataType {
    fn from(dtype: Type) -> DataType {
        match dtype {
            Type::F64 => DataType::F64,
            Type::F32 => DataType::F32,
            Type::F16 => DataType::F16,
            Type::Bf16 => DataType::Bf16,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DataType::from(*self).fmt(f)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Direction {
    Forward,
    Backward,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        }
    }

    /// What the peers' limit is called beside ours.
    fn peers_limit(self) -> &'static str {
        match self {
            Direction::Forward => "torch copy",
            Direction::Backward => "torch add",
        }
    }

    /// Tensors of M x N that are moved at the least.
    fn tensors(self) -> usize {
        match self {
            Direction::Forward => 2,
            Direction::Backward => 3,
        }
    }
}

/// Whether `name` is a limit, ours or the peers'.
pub fn is_limit(name: &str) -> bool {
    name == LIMIT || Direction::BOTH.iter().any(|direction| name == direction.peers_limit())
}

/// A sweep, or a file of peers.
#[derive(Serialize, Deserialize)]
pub struct Results {
    pub gpu: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    pub rows: usize,
    pub dtype: Type,
    /// Of the peers.
    #[serde(default)]
    pub versions: serde_json::Map<String, serde_json::Value>,
    pub forward_us: BTreeMap<usize, Times>,
    pub backward_us: BTreeMap<usize, Times>,
}

impl Results {
    pub fn new(device: &Device, rows: usize, dtype: Type) -> Results {
        // "NVIDIA H200, GPU 0 (#0)", "CPU, 2 threads (#0)"
        let name = device.to_string();
        let gpu = name.split(", GPU ").next().and_then(|name| name.split(" (#").next());
        Results {
            gpu: gpu.unwrap_or(&name).to_owned(),
            driver: None,
            date: None,
            rows,
            dtype,
            versions: Default::default(),
            forward_us: BTreeMap::new(),
            backward_us: BTreeMap::new(),
        }
    }

    pub fn load(path: &Path) -> Result<Results, Box<dyn Error>> {
        let at = |error: &dyn Error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| at(&error))?;
        Ok(serde_json::from_str(&text).map_err(|error| at(&error))?)
    }

    pub fn times(&self, direction: Direction) -> &BTreeMap<usize, Times> {
        match direction {
            Direction::Forward => &self.forward_us,
            Direction::Backward => &self.backward_us,
        }
    }

    pub fn times_mut(&mut self, direction: Direction) -> &mut BTreeMap<usize, Times> {
        match direction {
            Direction::Forward => &mut self.forward_us,
            Direction::Backward => &mut self.backward_us,
        }
    }

    /// Takes the peers' times for the N that these results are of.
    pub fn join(&mut self, peers: Results) -> Result<(), Box<dyn Error>> {
        if (peers.dtype, peers.rows) != (self.dtype, self.rows) {
            return Err(format!(
                "peers: {}, M = {}, where {}, M = {} is timed",
                peers.dtype, peers.rows, self.dtype, self.rows
            )
            .into());
        }
        for direction in Direction::BOTH {
            for (columns, own) in self.times_mut(direction) {
                for (name, us) in peers.times(direction).get(columns).into_iter().flatten() {
                    let name = if name == LIMIT { direction.peers_limit() } else { name };
                    own.insert(name.into(), *us);
                }
            }
        }
        self.versions = peers.versions;
        Ok(())
    }

    pub fn gb_per_s(&self, direction: Direction, columns: usize, us: f64) -> f64 {
        let bytes = direction.tensors() * self.rows * columns * DataType::from(self.dtype).size();
        bytes as f64 / us * 1e-3
    }

    /// The shortest time that is known to move the bytes.
    pub fn limit(&self, direction: Direction, columns: usize) -> Option<f64> {
        let times = self.times(direction).get(&columns)?.iter();
        times.filter(|(name, _)| is_limit(name)).filter_map(|(_, us)| *us).reduce(f64::min)
    }

    pub fn csv(&self) -> Result<String, fmt::Error> {
        let mut csv = String::from("N,direction,name,us,gb_per_s,ratio_to_limit\n");
        for direction in Direction::BOTH {
            for (columns, times) in self.times(direction) {
                for (name, us) in times.iter().filter_map(|(name, us)| Some((name, (*us)?))) {
                    let rate = self.gb_per_s(direction, *columns, us);
                    let limit = self.limit(direction, *columns);
                    let ratio = limit.map_or(String::new(), |limit| format!("{:.4}", limit / us));
                    let name = name.replace('"', "\"\"");
                    let direction = direction.name();
                    writeln!(csv, "{columns},{direction},\"{name}\",{us:.3},{rate:.1},{ratio}")?;
                }
            }
        }
        Ok(csv)
    }
}
