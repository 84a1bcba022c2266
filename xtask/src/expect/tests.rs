use super::*;

fn entry(name: &str, mnemonics: &[&str]) -> Function {
    let mnemonics = mnemonics.iter().map(|mnemonic| mnemonic.to_string()).collect();
    Function { name: name.into(), mnemonics, ..Function::default() }
}

#[test]
fn the_longest_row_counts() {
    assert_eq!(row("forward_f16_v1").unwrap().wide_loads, Some(Wide::Global));
    assert_eq!(row("forward_f16_v1r4_ring").unwrap().wide_loads, Some(Wide::Ring));
    assert_eq!(row("backward_columns_f32_v1").unwrap().cas, Exactly(0));
    assert!(row("sideways_f32_v1").is_none());
    assert_eq!(packs("forward_f16w32_v4r2_shifted"), 8);
    assert_eq!((packs("forward_f64_v8_any"), packs("long_sums_f32")), (8, 4));
}

/// The faults of a right first stage in which `change` replaces instructions.
fn stage_1(suffix: &str, change: impl Fn(&'static str) -> Vec<&'static str>) -> Vec<String> {
    let mut right = vec![
        "bar.sync",
        CAS,
        "bar.sync",
        "ld.relaxed.gpu.global.u32",
        "ld.global.cg.v4.u32",
        "st.global.cg.v4.u32",
        "bar.sync",
        "st.relaxed.gpu.global.u32",
        "st.release.gpu.global.b32",
    ];
    match suffix {
        "_ring" => right.extend(["bar.sync", "cp.async.bulk.shared", "ld.shared.v4.b32"]),
        "_any" => right.extend([PASS; 4]),
        _ => right.push("ld.global.nc.v4.b32"),
    }
    right.extend(["shfl.sync.bfly.b32"; 11]);
    let changed: Vec<&str> = right.into_iter().flat_map(change).collect();
    unmet(&entry(&format!("backward_rows_f32_v1{suffix}"), &changed))
}

#[test]
fn a_right_first_stage_has_no_faults() {
    assert_eq!(stage_1("", |right| vec![right]), Vec::<String>::new());
    assert_eq!(stage_1("_ring", |right| vec![right]), Vec::<String>::new());
    assert_eq!(stage_1("_any", |right| vec![right]), Vec::<String>::new());
}

#[test]
fn each_wrong_instruction_is_a_fault() {
    let cases: [(&str, &str, &'static [&'static str]); 12] = [
        ("", CAS, &[CAS, CAS]),
        ("", CAS, &["atom.relaxed.gpu.global.cas.b32"]),
        ("", RELEASE, &["st.relaxed.gpu.global.b32"]),
        ("", "bar.sync", &["bar.sync", "bar.sync"]),
        ("", "shfl.sync", &[]),
        ("", "ld.global", &["ld.global.b32"]),
        ("_ring", "ld.shared", &["ld.global.v4.b32"]),
        ("_ring", "cp.async", &[]),
        ("_any", PASS, &[]),
        ("", "ld.relaxed", &[]),
        ("", "st.relaxed", &[]),
        ("", "st.global.cg", &["st.global.cg.v4.u32", "st.relaxed.gpu.global.u32"]),
    ];
    for (suffix, right, wrong) in cases {
        let change = |this: &'static str| {
            if this.starts_with(right) { wrong.to_vec() } else { vec![this] }
        };
        let faults = stage_1(suffix, change);
        assert_eq!(faults.len(), 1, "{right} {wrong:?}: {faults:?}");
    }
    assert_eq!(unmet(&entry("nobody", &[])).len(), 1);
}

#[test]
fn ranges_include_their_ends() {
    assert!(Between(1, 8).allows(1) && Between(1, 8).allows(8));
    assert!(!Between(1, 8).allows(0) && !Between(1, 8).allows(9));
    assert!(OneOf(&[1, 8]).allows(8) && !OneOf(&[1, 8]).allows(7));
    assert!(Any.allows(99) && !Exactly(1).allows(2));
}
