use super::*;

const STEPS: &str = "row-major order without gaps in the normalised dimensions";
const ROWS: &str = "one stride from each row to the next";

fn matrix(shape: &[usize], strides: &[usize], dims: usize) -> Result<Matrix> {
    Layout::strided(shape, strides)?.matrix(dims, "x")
}

fn accepted(shape: &[usize], strides: &[usize], dims: usize, [rows, columns, stride]: [usize; 3]) {
    let found = matrix(shape, strides, dims);
    assert_eq!(found, Ok(Matrix { rows, columns, stride }), "{shape:?} {strides:?} {dims}");
}

fn refused(shape: &[usize], strides: &[usize], dims: usize, wanted: &'static str) {
    let (argument, found) = ("x", matrix(shape, strides, dims));
    let (shape, strides) = (shape.to_vec(), strides.to_vec());
    assert_eq!(found, Err(Error::Strides { argument, shape, strides, wanted }));
}

/// The offset of each element, in row-major order of the indices.
fn offsets(layout: &Layout) -> Vec<u64> {
    let dims = zip(layout.shape(), layout.strides());
    dims.fold(vec![0], |outer, (size, stride)| {
        let step = |start: u64| (0..*size as u64).map(move |index| start + index * *stride as u64);
        outer.into_iter().flat_map(step).collect()
    })
}

#[test]
fn contiguous_layouts() {
    for (shape, strides) in [
        (&[][..], &[][..]),
        (&[5], &[1]),
        (&[2, 3, 4], &[12, 4, 1]),
        (&[3, 1, 2], &[2, 2, 1]),
        (&[3, 0, 2], &[2, 2, 1]),
        (&[1, 1, 1, 1, 1, 1, 1, 2], &[2, 2, 2, 2, 2, 2, 2, 1]),
    ] {
        let layout = Layout::contiguous(shape).unwrap();
        assert_eq!((layout.shape(), layout.strides()), (shape, strides));
        assert_eq!(layout.count(), shape.iter().product());
        assert_eq!(layout.span(), Some(layout.count()));
        assert!(layout.is_contiguous());
        assert_eq!(Layout::strided(shape, strides), Ok(layout));
    }
    assert_eq!(Layout::contiguous(&[]).unwrap().count(), 1);
    let layout = Layout::contiguous(&[2, 3]).unwrap();
    assert_eq!(format!("{layout:?}"), "Layout { shape: [2, 3], strides: [3, 1] }");
}

#[test]
fn bad_layouts_are_refused() {
    let rank = |argument, found, wanted| Some(Error::Rank { argument, found, wanted });
    assert_eq!(Layout::contiguous(&[1; 9]).err(), rank("shape", 9, 0..=8));
    assert_eq!(Layout::strided(&[1; 9], &[1; 9]).err(), rank("shape", 9, 0..=8));
    assert_eq!(Layout::strided(&[2, 3], &[1]).err(), rank("strides", 1, 2..=2));
    assert_eq!(matrix(&[2, 3], &[3, 1], 0).err(), rank("dims", 0, 1..=8));
    assert_eq!(matrix(&[2, 3], &[3, 1], 9).err(), rank("dims", 9, 1..=8));
    assert_eq!(matrix(&[2, 3], &[3, 1], 3).err(), rank("x", 2, 3..=8));
    assert_eq!(matrix(&[], &[], 1).err(), rank("x", 0, 1..=8));

    let most = isize::MAX as usize / 8;
    assert_eq!(Layout::contiguous(&[most]).unwrap().span(), Some(most));
    for shape in [&[most + 1][..], &[usize::MAX, 2], &[usize::MAX, 0, 2]] {
        let found = shape.to_vec();
        assert_eq!(Layout::contiguous(shape), Err(Error::TooLarge { found: found.clone() }));
        assert_eq!(Layout::strided(shape, &vec![0; found.len()]), Err(Error::TooLarge { found }));
    }
}

#[test]
fn spans() {
    let span = |shape: &[usize], strides: &[usize]| Layout::strided(shape, strides).unwrap().span();
    assert_eq!(span(&[2, 3], &[10, 2]), Some(15));
    assert_eq!(span(&[1, 1], &[usize::MAX, usize::MAX]), Some(1));
    assert_eq!(span(&[4, 0], &[usize::MAX, 1]), Some(0));
    assert_eq!(span(&[1000, 1000], &[0, 0]), Some(1));
    assert_eq!(span(&[2], &[usize::MAX - 1]), Some(usize::MAX));
    assert_eq!(span(&[2], &[usize::MAX]), None);
    assert_eq!(span(&[3], &[usize::MAX / 2 + 1]), None);
    assert_eq!(span(&[2, 2], &[usize::MAX / 2, usize::MAX / 2 + 1]), None);
}

#[test]
fn layouts_that_are_matrices() {
    accepted(&[5], &[1], 1, [1, 5, 5]);
    accepted(&[4, 6], &[6, 1], 1, [4, 6, 6]);
    accepted(&[4, 6], &[6, 1], 2, [1, 24, 24]);
    // The left part of wider rows, also with leading dimensions that are one.
    accepted(&[4, 3], &[6, 1], 1, [4, 3, 6]);
    accepted(&[2, 4, 3], &[24, 6, 1], 1, [8, 3, 6]);
    accepted(&[7, 2, 3, 4], &[24, 12, 4, 1], 3, [7, 24, 24]);
    accepted(&[7, 2, 3, 4], &[100, 12, 4, 1], 3, [7, 24, 100]);
    // A tensor's first dimension last: dimensions of one element do not matter.
    accepted(&[32768, 1, 128], &[128, 4194304, 1], 1, [32768, 128, 128]);
    accepted(&[32768, 1, 128], &[128, 4194304, 1], 2, [32768, 128, 128]);
    accepted(&[1, 128], &[1 << 31, 1], 1, [1, 128, 128]);
    // One row for all, and one number for all where N is 1.
    accepted(&[4, 6], &[0, 1], 1, [4, 6, 0]);
    accepted(&[2, 4, 6], &[0, 0, 1], 1, [8, 6, 0]);
    accepted(&[4, 1], &[0, 0], 1, [4, 1, 0]);
    accepted(&[4, 1], &[1, 9], 1, [4, 1, 1]);
    accepted(&[4, 2, 1, 1], &[6, 3, 8, 9], 2, [8, 1, 3]);
    // Nothing to read.
    accepted(&[0, 6], &[9, 5], 1, [0, 6, 6]);
    accepted(&[4, 0], &[9, 5], 1, [4, 0, 0]);
    accepted(&[4, 0, 3], &[9, 5, 5], 2, [4, 0, 0]);
    accepted(&[3, 0, 2, 5], &[1, 2, 3, 4], 1, [0, 5, 5]);
}

#[test]
fn layouts_that_are_none() {
    refused(&[6, 4], &[1, 6], 1, STEPS); // transposed
    refused(&[4, 3], &[6, 2], 1, STEPS); // [..., ::2]
    refused(&[4, 6], &[0, 0], 1, STEPS); // an expanded number
    refused(&[5, 2, 3], &[12, 6, 1], 2, STEPS); // a gap between normalised dimensions
    refused(&[5, 2, 3], &[6, 1, 2], 2, STEPS);
    refused(&[2, 4, 6], &[48, 6, 1], 1, ROWS); // big[:, :4, :] of 8
    refused(&[2, 4, 6], &[6, 12, 1], 1, ROWS); // two dimensions swapped
    refused(&[2, 4, 6], &[0, 6, 1], 1, ROWS);
    refused(&[2, 4, 6], &[6, 0, 1], 1, ROWS);
    // Products past usize are no strides.
    refused(&[2, 2, 6], &[0, 1 << 63, 1], 1, ROWS);
    accepted(&[2, 1, 6], &[1 << 63, 5, 1], 1, [2, 6, 1 << 63]);
}

#[test]
fn long_strides() {
    let rows = 5;
    for stride in [(1 << 31) - 1, 1 << 31, (1 << 32) + 1] {
        let layout = Layout::strided(&[rows, 3], &[stride, 1]).unwrap();
        let matrix = layout.matrix(1, "x").unwrap();
        assert_eq!(matrix, Matrix { rows, columns: 3, stride });
        let last = offsets(&layout)[3 * (rows - 1)];
        assert!(last > u32::MAX as u64);
        assert_eq!((matrix.rows as u64 - 1) * matrix.stride as u64, last);
        assert_eq!(layout.span(), Some(last as usize + 3));
        // Dimensions that become one, at offsets of as many bits.
        accepted(&[2, rows, 3], &[rows * stride, stride, 1], 1, [2 * rows, 3, stride]);
    }
}

#[test]
fn rows_to_write_are_distinct() {
    let overlap = "a stride from row to row of at least the columns";
    for (shape, strides, distinct) in [
        ([4, 6], [6, 1], true),
        ([4, 6], [7, 1], true),
        ([4, 6], [5, 1], false),
        ([4, 6], [0, 1], false),
        ([1, 6], [0, 1], true),
        ([0, 6], [0, 1], true),
        ([4, 0], [0, 1], true),
        ([4, 1], [1, 0], true),
        ([4, 1], [0, 1], false),
    ] {
        let layout = Layout::strided(&shape, &strides).unwrap();
        let found = layout.distinct_rows(layout.matrix(1, "y").unwrap(), "y");
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        let error = Error::Strides { argument: "y", shape, strides, wanted: overlap };
        assert_eq!(found, if distinct { Ok(()) } else { Err(error) });
    }
}

/// Every layout of up to three dimensions of 0 to 3, with small strides: a matrix is found where
/// there is one, and has the same elements in the same order; it is said whether rows overlap.
#[test]
fn small_layouts() {
    let strides = [0, 1, 2, 3, 4, 5, 6, 9];
    let dimensions: Vec<_> = (0..4).flat_map(|size| strides.map(|stride| (size, stride))).collect();
    let mut layouts = vec![vec![]];
    for _ in 0..3 {
        let longer = |layout: &Vec<_>| {
            let layout = layout.clone();
            dimensions.iter().map(move |next| [&layout[..], &[*next]].concat())
        };
        layouts = layouts.iter().flat_map(longer).collect();
        for layout in &layouts {
            let (shape, strides): (Vec<_>, Vec<_>) = layout.iter().copied().unzip();
            check(&Layout::strided(&shape, &strides).unwrap());
        }
    }
}

fn check(layout: &Layout) {
    let offsets = offsets(layout);
    assert_eq!(offsets.len(), layout.count());
    assert_eq!(layout.span(), Some(offsets.iter().max().map_or(0, |last| *last as usize + 1)));
    assert_eq!(layout.is_contiguous(), (0..).take(offsets.len()).eq(offsets.iter().copied()));
    for dims in 1..=layout.shape().len() {
        let (outer, inner) = layout.shape().split_at(layout.shape().len() - dims);
        let (rows, columns) = (outer.iter().product(), inner.iter().product());
        let is = |stride: usize| {
            let row = |row| (0..columns).map(move |column| (row * stride + column) as u64);
            (0..rows).flat_map(row).eq(offsets.iter().copied())
        };
        match layout.matrix(dims, "x") {
            Ok(matrix) => {
                assert_eq!((matrix.rows, matrix.columns), (rows, columns), "{layout:?} {dims}");
                assert!(is(matrix.stride), "{layout:?} {dims}");
                assert!(!offsets.is_empty() && rows > 1 || matrix.stride == columns);
                let mut distinct = offsets.clone();
                distinct.sort();
                distinct.dedup();
                let all = distinct.len() == offsets.len();
                assert_eq!(layout.distinct_rows(matrix, "x").is_ok(), all, "{layout:?} {dims}");
            }
            // Only the distance of the first two rows can be the stride; there are elements, or
            // any would do.
            Err(_) => {
                let stride = offsets.get(columns).map_or(0, |second| second - offsets[0]);
                assert!(!is(stride as usize), "{layout:?} {dims}");
            }
        }
    }
}
