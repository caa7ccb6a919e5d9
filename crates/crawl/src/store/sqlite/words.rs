//! Words as people write them, as SQLite wants them.

/// The question for the full-text index, unless there is nothing to look for. Each word is quoted, so that no sign in it means
/// anything.
pub(super) fn question(words: &str) -> Option<String> {
    let mut choices = Vec::new();
    let mut choice = Choice::default();
    for (word, is_quoted, is_unwanted) in terms(words) {
        if !is_quoted && !is_unwanted && word.eq_ignore_ascii_case("or") {
            choices.extend(std::mem::take(&mut choice).question());
            continue;
        }
        // What has no letter or digit is no word for the index.
        if word.chars().any(char::is_alphanumeric) {
            let quoted = format!("\"{}\"", word.replace('"', "\"\""));
            match is_unwanted {
                true => choice.unwanted.push(quoted),
                false => choice.wanted.push(quoted),
            }
        }
    }
    choices.extend(choice.question());
    (!choices.is_empty()).then(|| choices.join(" OR "))
}

#[derive(Default)]
struct Choice {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Choice {
    fn question(self) -> Option<String> {
        if self.wanted.is_empty() {
            return None;
        }
        let mut question = format!("({})", self.wanted.join(" AND "));
        for unwanted in self.unwanted {
            question = format!("({question} NOT {unwanted})");
        }
        Some(question)
    }
}

/// Words and what stands in quotes, each with whether it was quoted and whether a `-` stands in front.
fn terms(words: &str) -> Vec<(&str, bool, bool)> {
    let mut terms = Vec::new();
    let mut rest = words.trim_start();
    while !rest.is_empty() {
        let (is_unwanted, from) = match rest.strip_prefix('-') {
            Some(from) => (true, from),
            None => (false, rest),
        };
        let (term, is_quoted, behind) = match from.strip_prefix('"') {
            Some(quoted) => {
                let (term, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
                (term, true, behind)
            }
            None => {
                let end = from.find(|sign: char| sign.is_whitespace() || sign == '"');
                let (term, behind) = from.split_at(end.unwrap_or(from.len()));
                (term, false, behind)
            }
        };
        terms.push((term, is_quoted, is_unwanted));
        rest = behind.trim_start();
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusqlite::Connection;

    #[test]
    fn words_become_questions() {
        let expected = [
            ("red bees", Some(r#"("red" AND "bees")"#)),
            (r#""red bees" fly"#, Some(r#"("red bees" AND "fly")"#)),
            ("bees -red", Some(r#"(("bees") NOT "red")"#)),
            ("bees or wasps", Some(r#"("bees") OR ("wasps")"#)),
            (r#"say "or" not"#, Some(r#"("say" AND "or" AND "not")"#)),
            ("-red", None),
            ("", None),
            (" - \" ( * ", None),
            (r#"a"b"#, Some(r#"("a" AND "b")"#)),
        ];
        for (words, wanted) in expected {
            assert_eq!(question(words).as_deref(), wanted, "{words}");
        }
    }

    proptest! {
        /// Whatever people write, the index understands it.
        #[test]
        fn no_words_are_wrong(words in "[a-cA-C\"*^:(){}+. -]{0,24}|\\PC{0,24}") {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch("CREATE VIRTUAL TABLE t USING fts5 (a)").unwrap();
            if let Some(question) = question(&words) {
                let count = connection.query_row("SELECT count(*) FROM t WHERE t MATCH ?1", [&question], |row| row.get::<_, i64>(0));
                prop_assert_eq!(count.map_err(|error| error.to_string()), Ok(0), "{}", question);
            }
        }
    }
}
