//! The outbound guard: which URLs and addresses the hub may call at all (contracts, "Security").
//!
//! One judge for saving and for dialling. A URL is parsed once, by the WHATWG rules of the `url` crate, and
//! judged by the result, so that odd spellings of an address gain nothing. Names are judged here by themselves;
//! what they resolve to is judged by [`Guard::check_addresses`] each time before a connection is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use url::{Host, Url};

/// Names of cloud metadata services: never called.
const METADATA_NAMES: [&str; 5] =
    ["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];
/// Metadata services outside the link-local range: AWS and Google (unique-local), Azure (public).
const METADATA_ADDRESSES: [IpAddr; 3] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];
/// Suffixes of names that mean a private network.
const PRIVATE_SUFFIXES: [&str; 3] = ["localhost", "local", "internal"];

/// Why a URL or an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// Neither http nor https.
    #[error("the scheme `{0}` is not http or https")]
    Scheme(String),
    /// A user name or password in the URL.
    #[error("the URL has a user name or password; use `auth`")]
    Userinfo,
    /// No host.
    #[error("the URL has no host")]
    NoHost,
    /// The name is reserved for private networks or metadata services.
    #[error("the name `{0}` is not allowed")]
    Name(String),
    /// One of the addresses is not public.
    #[error("the address {address} of `{host}` is {kind}, which is not allowed")]
    Address {
        /// The URL's host.
        host: String,
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: &'static str,
    },
    /// The name resolved to nothing.
    #[error("the name `{0}` has no address")]
    NoAddress(String),
}

/// What the operator allows beyond public addresses.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Loopback, private and unique-local addresses, and names of private networks.
    allow_private: bool,
    /// Networks that are allowed whatever they are.
    allowed: Vec<IpNet>,
}

/// What kind of address one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Public,
    /// Loopback, private or unique-local: an operator may admit them all.
    Private(&'static str),
    /// Never admitted, except by an explicit network.
    Forbidden(&'static str),
}

impl Guard {
    /// A guard that admits private addresses if `allow_private`, and the networks `allowed` in any case.
    #[must_use]
    pub const fn new(allow_private: bool, allowed: Vec<IpNet>) -> Self {
        Self { allow_private, allowed }
    }

    /// Judges a URL before anything is resolved: scheme, userinfo, a literal address, a forbidden name.
    ///
    /// # Errors
    /// [`GuardError`] names the rule.
    pub fn check_url(&self, url: &Url) -> Result<(), GuardError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(GuardError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(GuardError::Userinfo);
        }
        match url.host().ok_or(GuardError::NoHost)? {
            Host::Ipv4(address) => self.check_address(url.host_str().unwrap_or_default(), address.into()),
            Host::Ipv6(address) => self.check_address(url.host_str().unwrap_or_default(), address.into()),
            Host::Domain(name) => self.check_name(name),
        }
    }

    /// Judges what `host` resolved to: one forbidden address refuses them all.
    ///
    /// # Errors
    /// [`GuardError::Address`] for the first forbidden one, [`GuardError::NoAddress`] for none at all,
    /// [`GuardError::Name`] when the name itself is forbidden.
    pub fn check_addresses(&self, host: &str, addresses: &[IpAddr]) -> Result<(), GuardError> {
        if addresses.is_empty() {
            return Err(GuardError::NoAddress(host.to_owned()));
        }
        self.check_name(host)?;
        let only_listed = is_private_name(&bare_name(host)) && !self.allow_private;
        for &address in addresses {
            self.check_address(host, address)?;
            if only_listed && !self.is_listed(address) {
                return Err(GuardError::Name(host.to_owned()));
            }
        }
        Ok(())
    }

    /// A name of a private network passes where the operator lists networks: its addresses must then be in them.
    fn check_name(&self, name: &str) -> Result<(), GuardError> {
        let bare = bare_name(name);
        let private_refused = is_private_name(&bare) && !self.allow_private && self.allowed.is_empty();
        if bare.is_empty() || METADATA_NAMES.contains(&bare.as_str()) || private_refused {
            return Err(GuardError::Name(name.to_owned()));
        }
        Ok(())
    }

    fn check_address(&self, host: &str, address: IpAddr) -> Result<(), GuardError> {
        if self.is_listed(address) {
            return Ok(());
        }
        match kind(address) {
            Kind::Public => Ok(()),
            Kind::Private(_) if self.allow_private => Ok(()),
            Kind::Private(kind) | Kind::Forbidden(kind) => {
                Err(GuardError::Address { host: host.to_owned(), address, kind })
            }
        }
    }

    fn is_listed(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|net| net.contains(&address) || net.contains(&address.to_canonical()))
    }
}

/// The name in lower case without a trailing dot.
fn bare_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_private_name(bare: &str) -> bool {
    PRIVATE_SUFFIXES
        .iter()
        .any(|suffix| bare.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn kind(address: IpAddr) -> Kind {
    let inner = match address {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => embedded_v4(v6).map_or(IpAddr::V6(v6), IpAddr::V4),
    };
    match inner {
        _ if METADATA_ADDRESSES.contains(&inner) => Kind::Forbidden("a metadata service"),
        IpAddr::V4(v4) => kind_v4(v4),
        IpAddr::V6(v6) => kind_v6(v6),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] => Kind::Forbidden("unspecified"),
        [127, ..] => Kind::Private("loopback"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Private("private"),
        [169, 254, ..] => Kind::Forbidden("link-local"),
        [100, 64..=127, ..] => Kind::Forbidden("shared address space"),
        [192, 0, 0, _] | [198, 18..=19, ..] => Kind::Forbidden("special-purpose"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Kind::Forbidden("for documentation"),
        [224..=239, ..] => Kind::Forbidden("multicast"),
        [240..=255, ..] => Kind::Forbidden("reserved"),
        [..] => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Forbidden("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Private("loopback"),
        [0x0100, 0, 0, 0, ..] => Kind::Forbidden("discard-only"),
        [0x0064, 0xff9b, 1, ..] => Kind::Forbidden("a local translation prefix"),
        [0x2001, 0x0db8, ..] => Kind::Forbidden("for documentation"),
        [0xfc00..=0xfdff, ..] => Kind::Private("unique-local"),
        [0xfe80..=0xfeff, ..] => Kind::Forbidden("link-local"),
        [0xff00..=0xffff, ..] => Kind::Forbidden("multicast"),
        [..] => Kind::Public,
    }
}

/// The IPv4 address inside a v4-mapped, v4-compatible, NAT64 (RFC 6052) or 6to4 (RFC 3056) address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        [..] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(guard: &Guard, url: &str) -> Result<(), GuardError> {
        guard.check_url(&Url::parse(url).unwrap())
    }

    fn addresses(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    const NEVER: [&str; 24] = [
        "http://[::]/",
        "http://0.0.0.0/",
        "http://0.1.2.3/",
        "http://169.254.169.254/",
        "http://100.64.0.1/",
        "http://100.100.100.200/",
        "http://192.0.0.192/",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://198.19.255.255/",
        "http://198.51.100.7/",
        "http://203.0.113.7/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://168.63.129.16/",
        "http://[fe80::1]/",
        "http://[ff02::1]/",
        "http://[2001:db8::1]/",
        "http://[100::1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[64:ff9b:1::1]/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal./",
    ];

    const PRIVATE: [&str; 21] = [
        "http://127.0.0.1/",
        "http://127.0.0.1./",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://\u{ff11}\u{ff12}\u{ff17}.\u{ff10}.\u{ff10}.\u{ff11}/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fd00::1]/",
        "http://10.1.2.3/",
        "http://172.31.0.1/",
        "http://192.168.0.1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://printer.local/",
        "http://db.internal:8080/",
        "http://svc.ns.svc.cluster.local/",
    ];

    #[test]
    fn nothing_but_public_targets_by_default() {
        let guard = Guard::default();
        for url in NEVER.iter().chain(&PRIVATE) {
            assert!(verdict(&guard, url).is_err(), "{url} passed");
        }
        for url in [
            "http://1.1.1.1/",
            "https://example.com/",
            "http://172.32.0.1/",
            "http://100.128.0.1/",
            "http://[2606:4700::1111]/",
            "http://[64:ff9b::101:101]/",
            "http://localhost.example.com/",
            "http://notlocal/",
        ] {
            assert_eq!(verdict(&guard, url), Ok(()), "{url}");
        }
    }

    #[test]
    fn private_sinks_admit_private_targets_only() {
        let guard = Guard::new(true, Vec::new());
        for url in PRIVATE {
            assert_eq!(verdict(&guard, url), Ok(()), "{url}");
        }
        for url in NEVER {
            assert!(verdict(&guard, url).is_err(), "{url} passed");
        }
    }

    #[test]
    fn an_allow_list_admits_its_networks_and_nothing_else() {
        let guard = Guard::new(false, vec!["127.0.0.0/8".parse().unwrap()]);
        assert_eq!(verdict(&guard, "http://127.0.0.1:8080/"), Ok(()));
        assert_eq!(verdict(&guard, "http://[::ffff:127.0.0.1]/"), Ok(()));
        for url in ["http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/"] {
            assert!(verdict(&guard, url).is_err(), "{url} passed");
        }
        assert_eq!(guard.check_addresses("localhost", &addresses(&["127.0.0.1"])), Ok(()));
        assert!(guard.check_addresses("localhost", &addresses(&["127.0.0.1", "::1"])).is_err());
        assert!(guard.check_addresses("db.internal", &addresses(&["1.1.1.1"])).is_err());
    }

    #[test]
    fn one_forbidden_address_refuses_the_name() {
        let guard = Guard::default();
        assert_eq!(guard.check_addresses("a.test", &addresses(&["1.1.1.1", "2606:4700::1111"])), Ok(()));
        let mixed = guard.check_addresses("a.test", &addresses(&["2606:4700::1111", "10.0.0.1"]));
        assert_eq!(
            mixed,
            Err(GuardError::Address {
                host: "a.test".to_owned(),
                address: "10.0.0.1".parse().unwrap(),
                kind: "private"
            })
        );
        assert_eq!(guard.check_addresses("a.test", &[]), Err(GuardError::NoAddress("a.test".to_owned())));
    }

    #[test]
    fn schemes_and_userinfo_are_checked() {
        let guard = Guard::default();
        assert_eq!(verdict(&guard, "ftp://example.com/"), Err(GuardError::Scheme("ftp".to_owned())));
        assert_eq!(verdict(&guard, "http://user@example.com/"), Err(GuardError::Userinfo));
        assert_eq!(verdict(&guard, "http://:secret@example.com/"), Err(GuardError::Userinfo));
        assert_eq!(verdict(&guard, "data:text/plain,x"), Err(GuardError::Scheme("data".to_owned())));
    }

    proptest::proptest! {
        #[test]
        fn an_address_is_judged_alike_however_it_is_wrapped(bits: u32) {
            let plain = Ipv4Addr::from(bits);
            let [high, low] = [bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).unwrap());
            let wrapped = [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ];
            for address in wrapped {
                proptest::prop_assert_eq!(kind(address.into()), kind(plain.into()));
            }
            let special = plain.is_loopback() || plain.is_private() || plain.is_link_local() || plain.is_multicast()
                || plain.is_broadcast() || plain.is_documentation() || plain.is_unspecified();
            proptest::prop_assert!(!special || kind(plain.into()) != Kind::Public);
        }

        #[test]
        fn no_text_makes_the_guard_panic(text in ".{0,60}") {
            if let Ok(url) = Url::parse(&format!("http://{text}")) {
                let _ = Guard::default().check_url(&url);
            }
            let _ = Guard::default().check_addresses(&text, &[Ipv4Addr::LOCALHOST.into()]);
        }
    }

    #[test]
    fn zone_identifiers_are_no_urls() {
        assert!(Url::parse("http://[fe80::1%25lo]/").is_err());
        assert!(Url::parse("http://[fe80::1%lo]/").is_err());
    }
}
