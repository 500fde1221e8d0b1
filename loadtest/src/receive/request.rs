//! A delivery's request, as much of it as a receiver looks at. Pure.

const HEADERS_MAX: usize = 128;

/// A whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Where it came.
    pub place: Place,
    /// Its body.
    pub body: &'a [u8],
    /// All of its bytes, of which the next request begins behind.
    pub length: usize,
    /// What its signatures are made of and checked with.
    pub signed: Signed<'a>,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `/d/<number>`.
    Destination(u32),
    /// `/bare`: of the bare loop, answered and not looked at.
    Bare,
    /// Nothing here.
    Nowhere,
}

/// The headers of the signatures; empty where they are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signed<'a> {
    /// `webhook-id`.
    pub id: &'a [u8],
    /// `webhook-timestamp`.
    pub timestamp: &'a [u8],
    /// `webhook-signature`.
    pub standard: &'a [u8],
    /// `x-lerian-signature`.
    pub lerian: &'a [u8],
}

/// What so many bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The beginning of a request that will have this many bytes in all, if that is known.
    Partial(Option<usize>),
    /// A whole one.
    Whole(Request<'a>),
    /// None.
    Malformed,
}

/// Looks at what has come on a connection.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Parsed::Partial(None),
        Err(_) => return Parsed::Malformed,
    };
    let mut body_bytes = 0;
    let mut signed = Signed::default();
    for header in request.headers.iter() {
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = std::str::from_utf8(header.value).ok().and_then(|text| text.parse::<usize>().ok());
                let Some(length) = length else { return Parsed::Malformed };
                body_bytes = length;
            }
            10 if header.name.eq_ignore_ascii_case("webhook-id") => signed.id = header.value,
            17 if header.name.eq_ignore_ascii_case("webhook-timestamp") => signed.timestamp = header.value,
            17 if header.name.eq_ignore_ascii_case("webhook-signature") => signed.standard = header.value,
            18 if header.name.eq_ignore_ascii_case("x-lerian-signature") => signed.lerian = header.value,
            _ => {}
        }
    }
    let length = head + body_bytes;
    if bytes.len() < length {
        return Parsed::Partial(Some(length));
    }
    let place = place(request.path.unwrap_or_default());
    Parsed::Whole(Request { place, body: &bytes[head..length], length, signed })
}

fn place(path: &str) -> Place {
    if path == "/bare" {
        return Place::Bare;
    }
    let number = path.strip_prefix("/d/").and_then(|number| number.parse().ok());
    number.map_or(Place::Nowhere, Place::Destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"POST /d/17 HTTP/1.1\r\nhost: x\r\nWebhook-Id: a\r\nwebhook-timestamp: 12\r\n\
        webhook-signature: v1,b\r\nx-lerian-signature: v1,sha256=c\r\ncontent-length: 3\r\n\r\nabc";

    #[test]
    fn a_request_is_whole_with_its_last_byte() {
        let head = REQUEST.len() - 3;
        for cut in 0..REQUEST.len() {
            let expected = (cut >= head).then_some(REQUEST.len());
            assert_eq!(parse(&REQUEST[..cut]), Parsed::Partial(expected), "{cut}");
        }
        let two = [REQUEST, b"POST"].concat();
        let Parsed::Whole(request) = parse(&two) else { panic!("it is whole") };
        assert_eq!((request.place, request.body, request.length), (Place::Destination(17), &b"abc"[..], REQUEST.len()));
        let Signed { id, timestamp, standard, lerian } = request.signed;
        assert_eq!((id, timestamp), (&b"a"[..], &b"12"[..]));
        assert_eq!((standard, lerian), (&b"v1,b"[..], &b"v1,sha256=c"[..]));
    }

    #[test]
    fn paths_name_places() {
        assert_eq!(place("/bare"), Place::Bare);
        assert_eq!(place("/d/0"), Place::Destination(0));
        assert_eq!(place("/d/x"), Place::Nowhere);
        assert_eq!(place("/"), Place::Nowhere);
        assert_eq!(parse(b"\0\0\0\0"), Parsed::Malformed);
    }
}
