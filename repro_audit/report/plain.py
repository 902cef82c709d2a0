"""Makes text of unknown origin safe to print."""

import unicodedata

from rich.text import Text


def printable(text: str) -> str:
    """The text without what a terminal would obey: escapes and other control characters, and direction overrides.

    Line breaks stay, tabs become spaces.
    """
    return "".join(
        character if character == "\n" or not _dangerous(character) else _replacement(character) for character in text
    )


def _dangerous(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _replacement(character: str) -> str:
    if character == "\t":
        return "    "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def text(content: object, style: str = "") -> Text:
    """Text of unknown origin: no markup, nothing that a terminal would obey."""
    return Text(printable(str(content)), style=style)
