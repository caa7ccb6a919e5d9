//! The clean part of a site: which pages there are, and how they link to each other.

use std::fmt::Write;

use fastrand::Rng;

use super::SiteOptions;

/// Children of a page in the tree by which every page can be reached.
const CHILDREN: usize = 4;
/// Other links of a page to pages of its host.
const MORE_LINKS: usize = 6;
/// One page in so many links to another host, and to what is closed.
const SOMETIMES: u32 = 5;
const WORDS: usize = 120;
/// A part that `robots.txt` closes.
pub const CLOSED: &str = "/private/";
/// A page in there that it opens again.
pub const OPENED: &str = "/private/open";
/// Where the sitemap is.
pub const SITEMAP: &str = "/sitemap.xml";
/// A page that only the sitemap leads to.
pub const LISTED: &str = "/listed";

/// Where a page of a host is.
pub fn path(number: usize) -> String {
    match number {
        0 => "/".to_owned(),
        _ => format!("/page/{number}"),
    }
}

/// The number of the page at a path.
pub fn number(path: &str) -> Option<usize> {
    match path {
        "/" => Some(0),
        _ => path.strip_prefix("/page/")?.parse().ok(),
    }
}

/// What `robots.txt` says.
pub fn robots(options: &SiteOptions, host: &str) -> String {
    let mut text = format!("User-agent: *\nDisallow: {CLOSED}\nAllow: {OPENED}\n");
    if let Some(delay) = options.crawl_delay {
        let _ = writeln!(text, "Crawl-delay: {}", delay.as_secs_f64());
    }
    if options.sitemap {
        let _ = writeln!(text, "Sitemap: http://{host}{SITEMAP}");
    }
    text
}

/// All pages of a host, for those who ask for them.
pub fn sitemap(options: &SiteOptions, host: &str) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for path in (0..options.pages).map(path).chain([LISTED.to_owned()]) {
        let _ = writeln!(text, "<url><loc>http://{host}{path}</loc></url>");
    }
    text.push_str("</urlset>\n");
    text
}

/// The page of this number on the host of that number.
pub fn page(options: &SiteOptions, hosts: &[String], host: usize, number: usize) -> String {
    let mut rng = Rng::with_seed(options.seed ^ ((host as u64) << 32) ^ number as u64);
    let links = links(options, hosts, host, number, &mut rng);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Page {number} of {}</title></head>\n<body><h1>Page {number}</h1>\n<p>",
        hosts[host]
    );
    for _ in 0..WORDS {
        html.push_str(&word(&mut rng));
        html.push(' ');
    }
    html.push_str("</p>\n");
    if number > 0 {
        let _ = writeln!(
            html,
            "<p>Only <span class=\"price\">{number}.50</span> today</p>"
        );
    }
    for link in links {
        let _ = writeln!(html, "<a href=\"{link}\">{link}</a>");
    }
    html.push_str("</body></html>\n");
    html
}

fn links(
    options: &SiteOptions,
    hosts: &[String],
    host: usize,
    number: usize,
    rng: &mut Rng,
) -> Vec<String> {
    let children = number * CHILDREN + 1..=number * CHILDREN + CHILDREN;
    let mut links: Vec<String> = children
        .filter(|child| *child < options.pages)
        .map(path)
        .collect();
    links.extend((0..MORE_LINKS).map(|_| path(rng.usize(..options.pages))));
    // As people write them, too.
    links.push(format!(
        "../page/{}#part",
        rng.usize(1..options.pages.max(2))
    ));
    if rng.u32(..SOMETIMES) == 0 {
        let other = &hosts[rng.usize(..hosts.len())];
        links.push(format!(
            "http://{other}{}",
            path(rng.usize(..options.pages))
        ));
        links.push(format!("{CLOSED}{number}"));
    }
    if number == 0 {
        links.push(OPENED.to_owned());
        let others = hosts.iter().enumerate().filter(|(other, _)| *other != host);
        links.extend(others.map(|(_, other)| format!("http://{other}/")));
        links.extend(options.traps.then(|| "/traps".to_owned()));
    }
    // The one above may name a page that does not exist on sites of one page.
    links.retain(|link| options.pages > 1 || !link.starts_with("../"));
    links
}

fn word(rng: &mut Rng) -> String {
    (0..rng.usize(2..9)).map(|_| rng.lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_page_of_every_host_can_be_reached_and_is_the_same_each_time() {
        let options = SiteOptions {
            pages: 60,
            ..SiteOptions::default()
        };
        let hosts = ["a:1".to_owned(), "b:1".to_owned()];
        let mut seen = HashSet::from([(0, 0)]);
        let mut next = vec![(0, 0)];
        while let Some((host, number)) = next.pop() {
            let html = page(&options, &hosts, host, number);
            assert_eq!(html, page(&options, &hosts, host, number));
            for (other, name) in hosts.iter().enumerate() {
                for target in 0..options.pages {
                    let at = path(target);
                    let is_linked = html.contains(&format!("\"http://{name}{at}\""))
                        || other == host && html.contains(&format!("\"{at}\""));
                    if is_linked && seen.insert((other, target)) {
                        next.push((other, target));
                    }
                }
            }
        }
        assert_eq!(seen.len(), 2 * options.pages);
        assert_eq!(number(&path(17)), Some(17));
    }
}
