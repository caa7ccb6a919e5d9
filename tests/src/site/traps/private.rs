//! Links to where nobody from outside belongs.

use super::{Trap, on_hosts, page};

/// Addresses of the machine itself in many disguises, of its neighbours, and of what clouds tell their machines.
const ADDRESSES: &[&str] = &[
    "http://169.254.169.254/latest/meta-data/",
    "http://metadata.invalid/",
    "http://127.0.0.2:{port}/traps/private/loopback",
    "http://localhost:{port}/traps/private/localhost",
    "http://2130706434:{port}/traps/private/decimal",
    "http://0x7f000002:{port}/traps/private/hexadecimal",
    "http://127.2:{port}/traps/private/short",
    "http://[::1]:{port}/traps/private/six",
    "http://[::ffff:127.0.0.2]:{port}/traps/private/mapped",
    "http://0.0.0.0:{port}/traps/private/zero",
    "http://10.0.0.1/",
    "http://192.168.0.1/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "ftp://{host}/traps/private/ftp",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "gopher://{host}/",
];

/// A page with all of them.
pub(super) const PRIVATE: Trap = Trap {
    name: "private",
    links: &["/traps/private/"],
    answer: |_, hosts, _, reply| {
        let port = hosts[0].rsplit(':').next().unwrap_or_default();
        let links: Vec<String> = ADDRESSES
            .iter()
            .map(|link| on_hosts(link, hosts).replace("{port}", port))
            .collect();
        reply.html(page("Inside", &links))
    },
};
