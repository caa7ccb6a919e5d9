//! How often a test repeats what it does: a few times in the normal run, often in a soak.

/// Set to a number, it makes the tests that repeat something do it so many times as often.
pub const VARIABLE: &str = "HIVEWIRE_SOAK";

/// `normal`, or a multiple of it in a soak.
///
/// # Panics
///
/// If the variable is set, but not to a number from 1 on: a soak that does not soak proves nothing.
pub fn times(normal: u64) -> u64 {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return normal;
    };
    let factor = value.to_str().and_then(|value| value.parse::<u64>().ok());
    match factor {
        Some(factor) if factor > 0 => normal * factor,
        _ => panic!("{VARIABLE} must be a number from 1 on, not {value:?}"),
    }
}
