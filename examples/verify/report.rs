//! What is printed of a case: its launches, times and errors.

use std::time::Duration;

use ferronorm::KernelTimes;
use ferronorm::plan::{Backward, DataType, Forward, Launch, Storage};
use reference::{Answer, Error};

use super::Case;

/// The seed's `atol`.
const MAX_ABS: f64 = 1e-2;

/// Relative L2 error allowed: the storage type's rounding, at most 2^-11 of a value in f16 and 2^-8
/// in bf16 and about 0.4 of that on average; in f32 and f64 the rounding of sums over thousands of
/// terms.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => 4e-15,
        DataType::F32 => 2e-6,
        DataType::F16 => 6e-4,
        DataType::Bf16 => 5e-3,
    }
}

/// Of one case.
pub struct Report {
    /// Whether all results are close enough.
    pub passed: bool,
    /// Lines to print.
    pub text: String,
}

impl Report {
    /// The case, and a line for each launch.
    pub fn new(case: &Case, forward: &Forward, backward: &Backward) -> Report {
        let Case { storage, rows, columns, mode, rms, .. } = case;
        let shape = |launch: &Launch| {
            format!("{} grid {} block {}", launch.instance, launch.grid, launch.block)
        };
        let mut launches: Vec<String> = forward.steps.iter().map(shape).collect();
        launches.extend(backward.rows.iter().map(shape));
        if let (Some(last), Some(_)) = (launches.last_mut(), backward.rows.iter().next()) {
            *last += &format!(" groups {}", backward.groups);
        }
        launches.extend(backward.columns.iter().map(shape));
        if launches.is_empty() {
            launches.push("nothing to launch".into());
        }
        let rms = if *rms { ", RMS" } else { "" };
        let launches = launches.join("\n          ");
        let text = format!(
            "\nM = {rows}, N = {columns}, {storage}, {mode:?}{rms}\n  plan    {launches}\n"
        );
        Report { passed: true, text }
    }

    /// Adds the times.
    pub fn add_times(&mut self, forward: Duration, backward: KernelTimes) {
        self.text += &format!(
            "  time    forward {}   backward rows {} + columns {}\n",
            microseconds(forward),
            microseconds(backward.rows),
            microseconds(backward.columns),
        );
    }

    /// Adds a line per result to the self.
    pub fn compare(&mut self, case: &Case, found: &Answer, right: &Answer) {
        let Case { storage: Storage { x, params }, columns, .. } = *case;
        self.text += "          max abs error   rel L2 error   allowed\n";
        let results = [
            ("y", &found.y, &right.y, x),
            ("mean", &found.mean, &right.mean, x.real()),
            ("rstd", &found.rstd, &right.rstd, x.real()),
            ("dx", &found.dx, &right.dx, x),
            ("dw", &found.dw, &right.dw, params),
            ("db", &found.db, &right.db, params),
        ];
        for (name, found, right, dtype) in results {
            let error = Error::of(found.iter().copied(), right);
            let allowed = tolerance(dtype);
            // With one column x_hat, dx and dw are 0, and a relative error says nothing; rstd is
            // 1 / sqrt(eps), and eps is rounded to f32 on its way.
            let vanishes = columns == 1 && matches!(name, "dx" | "dw");
            // bfloat16 rounds a value of 8 by as much as 2^-5: more than the seed's tolerance, which
            // is for f16.
            let largest = right.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            let rounding = if dtype == DataType::Bf16 { largest * 2f64.powi(-8) } else { 0.0 };
            let max_abs = if name == "rstd" { f64::INFINITY } else { MAX_ABS + rounding };
            let passed = error.max_abs <= max_abs && (vanishes || error.relative_l2 <= allowed);
            self.passed &= passed;
            self.text += &format!(
                "  {name:5}   {:13.2e}   {:12.2e}   {allowed:7.0e}   {}\n",
                error.max_abs,
                error.relative_l2,
                if passed { "PASS" } else { "FAIL" },
            );
        }
    }
}

fn microseconds(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}
