//! Pages of lists: `limit`, `after` and `next` mean the same everywhere.

use super::problem::Problem;

/// How many a page has if nobody says otherwise.
const LIMIT_DEFAULT: usize = 1_000;
/// How many a page has at most.
pub(super) const LIMIT_MAX: usize = 10_000;

/// How many are wanted.
pub(super) fn limit_of(limit: Option<usize>) -> Result<usize, Problem> {
    checked(limit, LIMIT_DEFAULT, LIMIT_MAX)
}

/// How many are wanted, where other bounds hold.
pub(super) fn checked(limit: Option<usize>, default: usize, max: usize) -> Result<usize, Problem> {
    match limit.unwrap_or(default) {
        limit if limit > max => Err(Problem::bad_request(format!("limit is at most {max}"))),
        limit => Ok(limit),
    }
}

/// Cuts a list, which is in order, at its limit, and says after which one to go on.
pub(super) fn next_of<T>(
    mut items: Vec<T>,
    limit: usize,
    key: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    if items.len() <= limit {
        return (items, None);
    }
    items.truncate(limit);
    let next = items.last().map(key);
    (items, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_has_no_next() {
        let items = vec!["a", "b", "c"];
        let page = |limit| next_of(items.clone(), limit, |item| (*item).to_owned());
        assert_eq!(page(2), (vec!["a", "b"], Some("b".to_owned())));
        assert_eq!(page(3), (items.clone(), None));
        assert_eq!(page(0), (vec![], None));
        assert!(limit_of(Some(LIMIT_MAX)).is_ok() && limit_of(Some(LIMIT_MAX + 1)).is_err());
    }
}
