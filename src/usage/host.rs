//! The addresses of this host, by which clients on it are known.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The addresses of the network namespace of the first process, which is the host's where that can be seen, and of this
/// program's own.
pub(super) fn addresses(proc: &Path) -> io::Result<HashSet<IpAddr>> {
    let mut found = HashSet::new();
    for process in ["1", "self"] {
        let net = proc.join(process).join("net");
        match fs::read_to_string(net.join("fib_trie")) {
            Ok(text) => found.extend(local_ipv4(&text).map(IpAddr::from)),
            // Hidden from this user.
            Err(_) if process == "1" => continue,
            Err(error) => return Err(error),
        }
        // A host without IPv6 has no such file.
        let text = fs::read_to_string(net.join("if_inet6")).unwrap_or_default();
        found.extend(ipv6(&text).map(IpAddr::from));
    }
    Ok(found)
}

/// The local addresses in `/proc/net/fib_trie`: leaves of the routing table, each above the line that says what it is.
fn local_ipv4(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    let mut leaf = None;
    text.lines().filter_map(move |line| {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            leaf = address.parse().ok();
            return None;
        }
        leaf.filter(|_| line.trim() == "/32 host LOCAL")
    })
}

/// The addresses in `/proc/net/if_inet6`: 32 hexadecimal digits at the beginning of each line.
fn ipv6(text: &str) -> impl Iterator<Item = Ipv6Addr> {
    text.lines().filter_map(|line| {
        let digits = line.split_ascii_whitespace().next().filter(|digits| digits.len() == 32)?;
        u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from_bits)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIB_TRIE: &str = "Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.10
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
";

    #[test]
    fn only_leaves_that_are_local_are_addresses_of_the_host() {
        assert_eq!(local_ipv4(FIB_TRIE).collect::<Vec<_>>(), [Ipv4Addr::new(192, 0, 2, 10)]);
    }

    #[test]
    fn ipv6_addresses_are_read_from_their_digits() {
        let text = "20010db8000000000000000000000001 02 40 00 80     eth0\nshort 1\n";
        assert_eq!(ipv6(text).collect::<Vec<_>>(), ["2001:db8::1".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn this_host_has_the_loopback_address() {
        assert!(addresses(Path::new("/proc")).unwrap().contains(&IpAddr::from(Ipv4Addr::LOCALHOST)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\|-- |/32 host LOCAL|[0-9a-f.: \n]){0,40}") {
            local_ipv4(&text).chain([Ipv4Addr::LOCALHOST]).count();
            ipv6(&text).count();
        }
    }
}
