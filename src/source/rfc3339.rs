//! Whether a text is an RFC 3339 `date-time` (section 5.6), exactly: the value itself is passed on as it came.

/// Whether `text` is an RFC 3339 `date-time`. Leap seconds are taken at any minute, fractions at any length.
pub(super) fn is_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((head, rest)) = bytes.split_at_checked(19) else { return false };
    is_date_and_time(head) && is_zone(after_fraction(rest))
}

fn is_date_and_time(head: &[u8]) -> bool {
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| head[at] != byte) || !matches!(head[10], b'T' | b't') {
        return false;
    }
    let in_range = |at: usize, range: std::ops::RangeInclusive<u32>| {
        number(&head[at..at + 2]).is_some_and(|value| range.contains(&value))
    };
    is_date(&head[..10]) && in_range(11, 0..=23) && in_range(14, 0..=59) && in_range(17, 0..=60)
}

fn is_date(date: &[u8]) -> bool {
    match (number(&date[..4]), number(&date[5..7]), number(&date[8..10])) {
        (Some(year), Some(month @ 1..=12), Some(day)) => (1..=days(year, month)).contains(&day),
        _ => false,
    }
}

fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// What follows the fraction; nothing, which is no zone, when a point has no digit behind it.
fn after_fraction(rest: &[u8]) -> &[u8] {
    let Some(fraction) = rest.strip_prefix(b".") else { return rest };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { &[] } else { &fraction[digits..] }
}

fn is_zone(zone: &[u8]) -> bool {
    match zone {
        b"Z" | b"z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            number(&[*h1, *h2]).is_some_and(|hours| hours <= 23)
                && number(&[*m1, *m2]).is_some_and(|minutes| minutes <= 59)
        }
        _ => false,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_rfc_3339_and_nothing_wider() {
        for good in [
            "1985-04-12T23:20:50.52Z",
            "1996-12-19T16:39:57-08:00",
            "1990-12-31T23:59:60Z",
            "1937-01-01T12:00:27.87+00:20",
            "2024-02-29t00:00:00z",
            "2026-01-01T00:00:00.123456789012Z",
        ] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "",
            "2026-01-01",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T24:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00Z ",
            "2026-01-01T00:00:00+24:00",
            "20260101T000000Z",
            "２026-01-01T00:00:00Z",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }
}
