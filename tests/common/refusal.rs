//! What a refused call must say.

use ferronorm::{Device, Error, Result};

/// An error, and what it must read.
pub type Refusal = (Error, String);

/// A wrong shape.
pub fn shape(
    argument: &'static str,
    found: impl Into<Vec<usize>>,
    expected: impl Into<Vec<usize>>,
) -> Refusal {
    let (found, expected) = (found.into(), expected.into());
    let text = format!("{argument}: shape {found:?}, where {expected:?} is wanted");
    (Error::Shape { argument, found, expected }, text)
}

/// A wrong length.
pub fn length(argument: &'static str, found: usize, expected: usize) -> Refusal {
    let text = format!("{argument}: {found} elements, where {expected} are wanted");
    (Error::Length { argument, found, expected }, text)
}

/// A wrong device.
pub fn mismatch(argument: &'static str, found: &Device, expected: &Device) -> Refusal {
    let (found, expected) = (found.to_string(), expected.to_string());
    let text = format!("{argument}: on {found}, where the layer is on {expected}");
    (Error::DeviceMismatch { argument, found, expected }, text)
}

/// `result` is that error: its variant, fields and text.
pub fn refused<T>(result: Result<T>, (expected, text): &Refusal) {
    match result {
        Ok(_) => panic!("not refused, where this is wanted: {text}"),
        Err(error) => {
            // By its fields' text: an eps of NaN does not equal itself.
            assert_eq!(format!("{error:?}"), format!("{expected:?}"));
            assert_eq!(error.to_string(), *text);
        }
    }
}
