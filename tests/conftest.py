"""What several test modules share."""

import pytest

from tests.scripting import shared_pair


@pytest.fixture(scope="session")
def pair():
    """Two warm interpreters, for tests that run scripts in them."""
    with shared_pair() as pair:
        yield pair
