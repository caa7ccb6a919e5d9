//! Names of types, as people write them.

/// The name of a type without the paths of its modules: `Read<Cache>` and not `web::access::Read<service::Cache>`.
pub fn short_name<T: ?Sized>() -> String {
    without_paths(std::any::type_name::<T>())
}

fn without_paths(full: &str) -> String {
    let mut short = String::new();
    let mut word = String::new();
    let mut letters = full.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ':' if letters.peek() == Some(&':') => {
                letters.next();
                word.clear();
            }
            _ if letter.is_alphanumeric() || letter == '_' => word.push(letter),
            _ => {
                short.push_str(&word);
                word.clear();
                short.push(letter);
            }
        }
    }
    short + &word
}

#[cfg(test)]
mod tests {
    use super::without_paths;

    #[test]
    fn paths_of_modules_are_left_out() {
        for (full, short) in [
            ("u64", "u64"),
            ("alloc::string::String", "String"),
            (
                "a::Read<b::c::Cache<d::E, (f::G, u8)>>",
                "Read<Cache<E, (G, u8)>>",
            ),
            ("[a::B; 3]", "[B; 3]"),
            ("&'static str", "&'static str"),
        ] {
            assert_eq!(without_paths(full), short);
        }
    }
}
