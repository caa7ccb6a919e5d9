//! Numbers as people write them.

/// The first number in a text. Of two different marks the last is the decimal one; a mark that comes twice, or once with
/// exactly three digits behind it and one to three digits other than a mere 0 before it, separates thousands. Spaces and
/// apostrophes between digits separate thousands, too. A minus directly before it counts.
pub fn parse(text: &str) -> Option<f64> {
    let characters: Vec<char> = text.chars().collect();
    let start = characters.iter().position(char::is_ascii_digit)?;
    let is_negative = is_negative(&characters[..start]);
    let number = &characters[start..number_end(&characters, start)];
    let decimal = decimal_mark(number);
    let plain: String = number
        .iter()
        .enumerate()
        .filter_map(|(at, character)| match character {
            _ if Some(at) == decimal => Some('.'),
            digit if digit.is_ascii_digit() => Some(*digit),
            _ => None,
        })
        .collect();
    let number: f64 = plain.parse().ok()?;
    number
        .is_finite()
        .then_some(if is_negative { -number } else { number })
}

/// A minus before the number, perhaps with a currency between. A range such as `5-7` begins with no minus, and neither does
/// what hangs on a word, as in `A-7`.
fn is_negative(before: &[char]) -> bool {
    let mut before = before
        .iter()
        .rev()
        .skip_while(|character| character.is_whitespace() || "$€£¥".contains(**character));
    matches!(before.next(), Some('-' | '−'))
        && before
            .next()
            .is_none_or(|character| character.is_whitespace() || *character == '(')
}

fn is_mark(character: char) -> bool {
    matches!(character, '.' | ',')
}

/// What stands between thousands and is never a decimal mark.
fn is_separator(character: char) -> bool {
    matches!(
        character,
        ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' | '’'
    )
}

/// Where the number ends: marks belong to it before a digit, separators before three of them.
fn number_end(characters: &[char], start: usize) -> usize {
    let is_digit = |at: usize| characters.get(at).is_some_and(char::is_ascii_digit);
    let mut at = start;
    loop {
        match characters.get(at) {
            Some(digit) if digit.is_ascii_digit() => at += 1,
            Some(mark) if is_mark(*mark) && is_digit(at + 1) => at += 1,
            Some(separator)
                if is_separator(*separator)
                    && (1..4).all(|next| is_digit(at + next))
                    && !is_digit(at + 4) =>
            {
                at += 1;
            }
            _ => return at,
        }
    }
}

/// Which of the characters is the decimal mark.
fn decimal_mark(number: &[char]) -> Option<usize> {
    let last = number.iter().rposition(|character| is_mark(*character))?;
    let mark = number[last];
    let has_other = number
        .iter()
        .any(|character| is_mark(*character) && *character != mark);
    let has_separator = number.iter().any(|character| is_separator(*character));
    let times = number
        .iter()
        .filter(|character| **character == mark)
        .count();
    if times > 1 {
        return None;
    }
    if has_other || has_separator {
        return Some(last);
    }
    let is_thousands =
        number.len() - last == 4 && (1..=3).contains(&last) && number[..last] != ['0'];
    (!is_thousands).then_some(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(parse(text), expected, "{text}");
        check("1.299,00 €", Some(1299.0));
        check("$1,299.00", Some(1299.0));
        check("1 299,50", Some(1299.5));
        check("CHF 1'299.50", Some(1299.5));
        check("1.234.567", Some(1_234_567.0));
        check("1,299", Some(1299.0));
        check("1.299", Some(1299.0));
        check("0.125", Some(0.125));
        check("12.5", Some(12.5));
        check("1234.567", Some(1234.567));
        check("3,16228", Some(3.16228));
        check("from 5 to 7", Some(5.0));
        check("2 500 pieces", Some(2500.0));
        check("2 50", Some(2.0));
        check("-$3.50", Some(-3.5));
        check("− 4", Some(-4.0));
        check("A-7", Some(7.0));
        check("7.", Some(7.0));
        check("1.299.00", Some(129_900.0));
        check("none", None);
        check("", None);
        check(&"9".repeat(400), None);
    }

    proptest! {
        #[test]
        fn both_ways_of_writing_are_the_same(whole in 0_u32..1_000_000_000, cents in 0_u32..100) {
            let digits = whole.to_string();
            let mut grouped = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            let english = format!("{grouped}.{cents:02}");
            let german: String = english.chars().map(|c| match c { ',' => '.', '.' => ',', other => other }).collect();
            let expected: f64 = format!("{whole}.{cents:02}").parse().expect("a number");
            prop_assert_eq!(parse(&english), Some(expected));
            prop_assert_eq!(parse(&german), Some(expected));
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC{0,40}") {
            parse(&text);
        }
    }
}
