use super::*;

#[test]
fn texts() {
    let rank = |wanted| Error::Rank { argument: "x", found: 9, wanted };
    let dtypes = |x, w| Error::Dtypes { x, w };
    let (code, name, text) = (218, "INVALID".to_owned(), "invalid".to_owned());
    let source = DriverError { code, name, text };
    let load = |log: &str| Error::Load { source: source.clone(), log: log.into() };
    for (error, text) in [
        (rank(0..=8), "x: 9 dimensions, where 0 to 8 are wanted"),
        (rank(2..=2), "x: 9 dimensions, where 2 are wanted"),
        (
            Error::Shape { argument: "w", found: vec![4], expected: vec![2, 3] },
            "w: shape [4], where [2, 3] is wanted",
        ),
        (
            Error::Strides {
                argument: "y",
                shape: vec![2, 3],
                strides: vec![1, 2],
                wanted: "row-major order",
            },
            "y: shape [2, 3] with strides [1, 2], where row-major order is wanted",
        ),
        (
            Error::Bounds { argument: "range", found: 4..9, elements: 6 },
            "range: elements 4..9, where elements of 0..6 are wanted",
        ),
        (
            dtypes(DataType::F16, DataType::Bf16),
            "w and b: bf16, where x is f16: f16 or f32 is wanted",
        ),
        (dtypes(DataType::F32, DataType::F16), "w and b: f16, where x is f32: f32 is wanted"),
        (
            Error::Epsilon { found: -1e-300 },
            "eps: -1e-300, where a finite number of at least 0 is wanted",
        ),
        (
            Error::TooLarge { found: vec![1 << 62, 4, 1] },
            "shape: [4611686018427387904, 4, 1] has more elements than memory can hold",
        ),
        (load(""), "loading the kernels: INVALID (218): invalid"),
        (load("line 9"), "loading the kernels: INVALID (218): invalid; the driver's log: line 9"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
