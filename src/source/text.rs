//! Bytes from outside → text without control characters.

/// Why bytes are no attribute value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFault {
    /// Not UTF-8.
    InvalidUtf8,
    /// A C0 or C1 control character, or DEL.
    ControlCharacter,
}

/// The text that `bytes` are: UTF-8 without control characters.
pub(super) fn plain_text(bytes: &[u8]) -> Result<&str, TextFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| TextFault::InvalidUtf8)?;
    if is_printable_ascii(bytes) || !text.chars().any(char::is_control) {
        Ok(text)
    } else {
        Err(TextFault::ControlCharacter)
    }
}

/// `text` cut to at most `max` bytes, between two characters.
pub(super) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Looks at every byte without leaving early, so that it compiles to vector instructions.
fn is_printable_ascii(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |plain, byte| plain & (*byte >= 0x20) & (*byte < 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf8_without_control_characters() {
        assert_eq!(plain_text("aé€".as_bytes()), Ok("aé€"));
        assert_eq!(plain_text(b""), Ok(""));
        assert_eq!(plain_text(&[0x80]), Err(TextFault::InvalidUtf8));
        for control in ["a\r\nX: y", "\0", "\u{7f}", "\u{85}", "é\u{1f}"] {
            assert_eq!(plain_text(control.as_bytes()), Err(TextFault::ControlCharacter), "{control:?}");
        }
    }

    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("a", 9), "a");
    }
}
