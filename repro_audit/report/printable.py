"""Makes text that others wrote safe to print: it can neither steer the terminal nor pass for our own words."""


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""Text on one line that holds printable characters alone.

    Control characters, line breaks, and marks that turn the direction of writing become escapes such as ``\x1b``:
    shown, so that nobody wonders what is missing.

    Args:
        encoding: Of the stream it goes to; what that cannot hold becomes an escape, too.
    """
    if not text.isprintable():
        text = "".join(_visible(character) for character in text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character == "\t":
        return "    "
    if character == "\N{NO-BREAK SPACE}":
        return " "
    return character.encode("unicode_escape").decode()


def clip(text: str, characters: int) -> str:
    """Printable text of at most so many characters; the middle gives way."""
    text = printable(text)
    if len(text) <= characters:
        return text
    head = characters // 3
    return f"{text[:head]} ... {text[len(text) - (characters - head - 5) :]}"
