"""Text from outside, as evidence can hold it; shared by both sides of the process boundary."""

DETAIL_CHARACTERS = 4000
"""How much of the end of a traceback, or of stderr, explains a failure."""


def encodable(text: str) -> str:
    r"""The text with lone surrogates, which neither JSON nor YAML can hold, written out as ``\udc80``."""
    return text.encode(errors="backslashreplace").decode()
