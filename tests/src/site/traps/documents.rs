//! Pages that say what crawlers should make of them.

use super::{Trap, page};

/// Relative links that are relative to something else.
pub(super) const BASE: Trap = Trap {
    name: "base",
    links: &["/traps/base/"],
    answer: |_, _, request, reply| {
        match request.below("/traps/base") {
        "" => reply.html(
            "<head><base href=\"/traps/base/below/\"><title>Base</title></head><a href=\"right\">right</a>",
        ),
        "below/right" => reply.html(page("Right", &[])),
        _ => reply.whole(404, &[], b""),
    }
    },
};

/// A link that is not to be followed.
pub(super) const NO_FOLLOW: Trap = Trap {
    name: "nofollow",
    links: &["/traps/nofollow/"],
    answer: |_, _, _, reply| {
        reply.html(
            "<title>Do not</title><a rel=\"nofollow\" href=\"/traps/nofollow/link\">do not</a>",
        )
    },
};

/// A page that is not to be kept, and one none of whose links are to be followed.
pub(super) const META: Trap = Trap {
    name: "meta",
    links: &[
        "/traps/meta/noindex",
        "/traps/meta/nofollow",
        "/traps/meta/header",
    ],
    answer: |_, _, request, reply| {
        let rule = request.below("/traps/meta");
        let html = |rule: &str| {
            format!(
                "<meta name=\"robots\" content=\"{rule}\"><title>{rule}</title><a href=\"/traps/meta/behind-{rule}\">on</a>"
            )
        };
        match rule {
            "noindex" | "nofollow" => reply.html(html(rule)),
            "header" => {
                let headers = [
                    ("Content-Type", "text/html"),
                    ("X-Robots-Tag", "noindex, nofollow"),
                ];
                let body = page("Header", &["/traps/meta/behind-header".to_owned()]);
                reply.whole(200, &headers, body.as_bytes())
            }
            _ => reply.html(page("Behind", &[])),
        }
    },
};

/// One page under many addresses, each of which names the one that counts.
pub(super) const CANONICAL: Trap = Trap {
    name: "canonical",
    links: &[
        "/traps/canonical?sort=up",
        "/traps/canonical?sort=down",
        "/traps/canonical",
    ],
    answer: |_, _, _, reply| {
        reply.html(
            "<link rel=\"canonical\" href=\"/traps/canonical\"><title>One</title><p>The same.</p>",
        )
    },
};

/// Pages that differ in a few words.
pub(super) const NEAR: Trap = Trap {
    name: "near",
    links: &["/traps/near/1", "/traps/near/2", "/traps/near/3"],
    answer: |_, _, request, reply| {
        let text: String = (0..400)
            .map(|n| format!("word{} ", n * 7_919 % 1_009))
            .collect();
        let number = request.below("/traps/near");
        reply.html(format!(
            "<title>Near</title><p>{text}</p><p>This is copy {number}.</p>"
        ))
    },
};
