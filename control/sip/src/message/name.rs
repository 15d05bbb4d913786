//! Names of header fields: those that a proxy reads, in long and compact form, whatever their case (RFC 3261 §7.3.1, §7.3.3).

macro_rules! names {
    ($($(#[$doc:meta])* $variant:ident = $text:literal $(| $compact:literal)?;)*) => {
        /// A header field's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Name {
            $($(#[$doc])* $variant,)*
            /// One that nothing here looks into.
            Other,
        }

        impl Name {
            /// The name that a text is.
            pub fn of(text: &[u8]) -> Self {
                $(if text.eq_ignore_ascii_case($text.as_bytes()) $(|| text.eq_ignore_ascii_case($compact))? {
                    return Self::$variant;
                })*
                Self::Other
            }

            /// The long form; empty for [`Self::Other`].
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* Self::Other => "" }
            }
        }
    };
}

names! {
    /// The way back of responses (§20.42).
    Via = "Via" | b"v";
    /// Who asks (§20.20).
    From = "From" | b"f";
    /// Whom it is for (§20.39).
    To = "To" | b"t";
    /// Groups the messages of a call (§20.8).
    CallId = "Call-ID" | b"i";
    /// Orders requests (§20.16).
    CSeq = "CSeq";
    /// Where somebody is reached directly (§20.10).
    Contact = "Contact" | b"m";
    /// How many hops are left (§20.22).
    MaxForwards = "Max-Forwards";
    /// Proxies still to be visited (§20.34).
    Route = "Route";
    /// Proxies that want to see the requests of a dialog (§20.30).
    RecordRoute = "Record-Route";
    /// Octets of the body (§20.14).
    ContentLength = "Content-Length" | b"l";
    /// What the body is (§20.15).
    ContentType = "Content-Type" | b"c";
    /// Options that proxies must know (§20.29).
    ProxyRequire = "Proxy-Require";
    /// Credentials for a proxy (§20.28).
    ProxyAuthorization = "Proxy-Authorization";
    /// How long a registration holds (§20.19).
    Expires = "Expires";
    /// How long a session holds unless refreshed (RFC 4028 §4).
    SessionExpires = "Session-Expires" | b"x";
    /// How important the call is (RFC 4412 §3.1).
    ResourcePriority = "Resource-Priority";
    /// Challenge of a server (§20.44).
    WwwAuthenticate = "WWW-Authenticate";
    /// Challenge of a proxy (§20.27).
    ProxyAuthenticate = "Proxy-Authenticate";
    /// What was not understood (§20.40).
    Unsupported = "Unsupported";
    /// Why (RFC 3326).
    Reason = "Reason";
    /// When it was sent, for round-trip times (§20.38).
    Timestamp = "Timestamp";
    /// What Perhop's proxies tell each other of a call's reservations.
    QosProxy = "QoS-Proxy";
}
