//! What somebody may have meant.

use std::fmt;

/// How alike two words have to be.
const LIKENESS_MIN: f64 = 0.75;
/// From how many bytes on one letter may be wrong.
const SLIP_BYTES_MIN: usize = 3;
/// How much of a word is looked at.
const WORD_CHARACTERS_MAX: usize = 100;
/// Up to how many words are listed.
const LISTED_MAX: usize = 20;

/// The word that is most like this one, if any is.
fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(WORD_CHARACTERS_MAX).collect();
    let nearest = words
        .map(|candidate| (likeness(&word, candidate), candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))?;
    (nearest.0 >= LIKENESS_MIN).then_some(nearest.1)
}

/// From zero to one. In short words one slip of the fingers weighs much, so it is told by itself.
fn likeness(word: &str, candidate: &str) -> f64 {
    let likeness = strsim::jaro_winkler(word, candidate);
    let is_slip =
        || candidate.len() >= SLIP_BYTES_MIN && strsim::osa_distance(word, candidate) == 1;
    match likeness < LIKENESS_MIN && is_slip() {
        true => LIKENESS_MIN,
        false => likeness,
    }
}

/// What is put behind a complaint: a question, or a list of all words if they are few. It is found when it is
/// written, so that complaints that nobody sees cost nothing.
pub(super) fn hint<'a, I>(word: &'a str, words: I) -> impl fmt::Display
where
    I: IntoIterator<Item = &'a str> + Clone + 'a,
{
    fmt::from_fn(move |f| {
        if let Some(nearest) = nearest(word, words.clone().into_iter()) {
            return write!(f, ": did you mean {nearest:?}?");
        }
        let words: Vec<&str> = words.clone().into_iter().take(LISTED_MAX + 1).collect();
        match words.len() {
            0 => Ok(()),
            count if count > LISTED_MAX => Ok(()),
            _ => write!(f, "; there are {}", words.join(", ")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_asked_for_and_what_is_not_is_listed() {
        let words = ["lines", "words"];
        let meant = hint("wrods", words).to_string();
        assert_eq!(meant, ": did you mean \"words\"?");
        assert_eq!(hint("x", words).to_string(), "; there are lines, words");
        assert_eq!(
            hint("mni", ["min", "max"]).to_string(),
            ": did you mean \"min\"?"
        );
        assert_eq!(hint("x", []).to_string(), "");
    }
}
