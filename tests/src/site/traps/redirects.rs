//! Redirects in circles, in chains, to other hosts and to where nobody from outside belongs.

use super::{Trap, on_hosts, page};

/// One to the other and back, and one to itself.
pub(super) const LOOP: Trap = Trap {
    name: "redirect-loop",
    links: &["/traps/redirect-loop/there", "/traps/redirect-loop/itself"],
    answer: |_, _, request, reply| {
        let to = match request.below("/traps/redirect-loop") {
            "there" => "back",
            "back" => "there",
            _ => "itself",
        };
        reply.redirect(302, to)
    },
};

/// A short chain that ends at a page, and a long one.
pub(super) const CHAIN: Trap = Trap {
    name: "redirect-chain",
    links: &["/traps/redirect-chain/3", "/traps/redirect-chain/40"],
    answer: |_, _, request, reply| {
        let left: u32 = request.below("/traps/redirect-chain").parse().unwrap_or(0);
        match left {
            0 => reply.html(page("The end of a chain", &[])),
            _ => reply.redirect(301, &format!("/traps/redirect-chain/{}", left - 1)),
        }
    },
};

/// A chain without end.
pub(super) const ENDLESS: Trap = Trap {
    name: "redirect-endless",
    links: &["/traps/redirect-endless/1"],
    answer: |_, _, request, reply| {
        let number: u64 = request
            .below("/traps/redirect-endless")
            .parse()
            .unwrap_or(0);
        reply.redirect(302, &format!("/traps/redirect-endless/{}", number + 1))
    },
};

/// To another host, which may be one that the crawl leaves out.
pub(super) const AWAY: Trap = Trap {
    name: "redirect-away",
    links: &["/traps/redirect-away"],
    answer: |_, hosts, _, reply| reply.redirect(302, &on_hosts("http://{other}/page/1", hosts)),
};

/// To an address where clouds keep the secrets of their machines.
pub(super) const INWARDS: Trap = Trap {
    name: "redirect-inwards",
    links: &["/traps/redirect-inwards"],
    answer: |_, _, _, reply| reply.redirect(302, "http://169.254.169.254/latest/meta-data/"),
};
