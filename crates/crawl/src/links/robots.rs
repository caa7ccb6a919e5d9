//! What a page or an answer says to robots.

/// Whether a page wants to be indexed and followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RobotsRules {
    /// It is not to be shown in results.
    pub is_noindex: bool,
    /// Its links are not to be followed.
    pub is_nofollow: bool,
}

impl RobotsRules {
    /// Adds what the content of `<meta name=robots>` says. Of rules that contradict each other the stricter one holds.
    pub fn add(&mut self, content: &[u8]) {
        for word in content.split(|&byte| byte == b',') {
            match &*word.trim_ascii().to_ascii_lowercase() {
                b"noindex" => self.is_noindex = true,
                b"nofollow" => self.is_nofollow = true,
                b"none" => (self.is_noindex, self.is_nofollow) = (true, true),
                _ => (),
            }
        }
    }

    /// Adds what an `x-robots-tag` header says to everybody or to this robot: `noindex`, or `somebody: noindex`.
    pub fn add_header(&mut self, value: &str, robot: &str) {
        let mut is_spoken_to = true;
        for rule in value.split(',') {
            let mut rule = rule.trim();
            // A time after `unavailable_after` holds colons, too.
            if let Some((name, rest)) = rule.split_once(':')
                && !name.eq_ignore_ascii_case("unavailable_after")
                && !name.contains(char::is_whitespace)
            {
                is_spoken_to =
                    name.eq_ignore_ascii_case(robot) || name.eq_ignore_ascii_case("robots");
                rule = rest.trim();
            }
            if is_spoken_to {
                self.add(rule.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_header(value: &str) -> (bool, bool) {
        let mut rules = RobotsRules::default();
        rules.add_header(value, "hivewire");
        (rules.is_noindex, rules.is_nofollow)
    }

    #[test]
    fn headers_speak_to_all_or_to_one() {
        assert_eq!(of_header("noindex, nofollow"), (true, true));
        assert_eq!(of_header("NONE"), (true, true));
        assert_eq!(of_header("otherbot: noindex, nofollow"), (false, false));
        assert_eq!(
            of_header("otherbot: noindex, Hivewire: nofollow"),
            (false, true)
        );
        assert_eq!(
            of_header("unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"),
            (true, false)
        );
        assert_eq!(of_header("all"), (false, false));
    }
}
