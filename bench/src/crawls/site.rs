//! A site of many pages, made from their numbers alone.
//!
//! Pages have 7 to 12 KB and 20 to 30 links each, as pages of news and shops have without their pictures. Every page can
//! be reached: the links of a page begin with its children in a tree. A few links lead to a part that `robots.txt`
//! closes, where a crawler that obeys asks for nothing.

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::streams::checksum::mix;
use crate::streams::lines::line;

/// How many children a page has in the tree.
const CHILDREN: u64 = 8;
/// Links of a page.
const LINKS: std::ops::RangeInclusive<u64> = 20..=30;
/// Bytes of a page, about.
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 7 * 1024..=12 * 1024 - 256;
/// So many pages are in one folder.
const FOLDER_PAGES: u64 = 100;
/// One page of so many has a link to what is closed.
const CLOSED_EVERY: u64 = 10;
/// How many lines of text a page can have at most.
const PAGE_LINES_MAX: u64 = 1 << 10;
/// What `robots.txt` says.
const ROBOTS: &str = "User-agent: *\nDisallow: /closed/\nAllow: /\n";

/// Writes all pages of a site and its `robots.txt` into a folder.
pub fn write(pages: u64, folder: &Path) -> io::Result<()> {
    for first in (0..pages).step_by(FOLDER_PAGES as usize) {
        std::fs::create_dir_all(folder.join(&path(first.max(1))[1..]).with_file_name(""))?;
    }
    std::fs::create_dir_all(folder.join("closed"))?;
    std::fs::write(folder.join("robots.txt"), ROBOTS)?;
    for number in 0..pages {
        let name = match number {
            0 => "index.html".to_owned(),
            _ => path(number)[1..].to_owned(),
        };
        std::fs::write(folder.join(name), page(number, pages))?;
        if number % CLOSED_EVERY == 0 {
            let closed = folder.join(&closed_path(number)[1..]);
            std::fs::write(closed, "<p>Nobody may read this.</p>")?;
        }
    }
    Ok(())
}

/// Where a page is.
pub fn path(number: u64) -> String {
    match number {
        0 => "/".to_owned(),
        _ => format!("/p/{}/{number}.html", number / FOLDER_PAGES),
    }
}

fn closed_path(number: u64) -> String {
    format!("/closed/{number}.html")
}

/// The page of this number on a site of so many.
pub fn page(number: u64, pages: u64) -> String {
    let dice = |what: u64, range: &std::ops::RangeInclusive<u64>| {
        let (first, last) = (*range.start(), *range.end());
        first + (mix(&[number, what]) >> 8) % (last - first + 1)
    };
    let bytes = dice(1, &PAGE_BYTES) as usize;
    let mut links = links(number, pages, dice(2, &LINKS)).into_iter();
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page {number}</title>\n\
         <link rel=\"stylesheet\" href=\"/style.css\">\n</head>\n<body>\n<h1>Page {number}</h1>\n"
    );
    for paragraph in 0..PAGE_LINES_MAX {
        if html.len() >= bytes {
            break;
        }
        html.push_str("<p class=\"text\">");
        html.push_str(&line(number * PAGE_LINES_MAX + paragraph));
        if let Some(link) = links.next() {
            let _ = write!(html, " <a class=\"more\" href=\"{link}\">more</a>");
        }
        html.push_str(".</p>\n");
    }
    for link in links {
        let _ = writeln!(html, "<a href=\"{link}\">more</a>");
    }
    html.push_str("</body>\n</html>\n");
    html
}

/// Children first, then others.
fn links(number: u64, pages: u64, count: u64) -> Vec<String> {
    let children = number * CHILDREN + 1..=number * CHILDREN + CHILDREN;
    let mut links: Vec<String> = children.filter(|child| *child < pages).map(path).collect();
    if number.is_multiple_of(CLOSED_EVERY) {
        links.push(closed_path(number));
    }
    for other in links.len() as u64..count {
        links.push(path((mix(&[number, 3, other]) >> 8) % pages));
    }
    links
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PAGES: u64 = 1_000;

    #[test]
    fn pages_have_the_size_and_the_links_that_are_described() {
        for number in 0..PAGES {
            let page = page(number, PAGES);
            assert!(
                (7 * 1024..=12 * 1024).contains(&page.len()),
                "{}",
                page.len()
            );
            let links = page.matches("<a ").count();
            assert!((20..=30).contains(&links), "{links}");
        }
    }

    #[test]
    fn every_page_can_be_reached() {
        let mut seen = HashSet::from([0]);
        let mut next = vec![0];
        while let Some(number) = next.pop() {
            let page = page(number, PAGES);
            for other in 0..PAGES {
                if page.contains(&format!("\"{}\"", path(other))) && seen.insert(other) {
                    next.push(other);
                }
            }
        }
        assert_eq!(seen.len() as u64, PAGES);
    }
}
