//! Which addresses belong to the public internet. Whoever fetches what somebody else named asks here first, so that nobody
//! is led to machines behind the firewall.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a >= 240
        // Shared by the customers of a provider.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        // The old way from IPv6 to IPv4.
        || (a == 192 && b == 88 && c == 99)
        // For benchmarks.
        || (a == 198 && (b == 18 || b == 19));
    !(reserved
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || address.is_broadcast())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Only these are given out; addresses that stand for IPv4 ones are not among them.
    let global = segments[0] & 0xe000 == 0x2000;
    let special = match (segments[0], segments[1]) {
        // Teredo, benchmarks, ORCHID and others.
        (0x2001, second) => second < 0x0200 || second == 0x0db8,
        // IPv4 in IPv6.
        (0x2002, _) => true,
        // Documentation.
        (0x3fff, second) => second < 0x1000,
        _ => false,
    };
    global && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for text in ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "2a00:1450::1"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:1.1.1.1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }
}
