import io

from rich.console import Console

from repro_audit.records import Failed, FailureKind, Phase, SourceLine
from repro_audit.report.inventory import inventory_table, print_inventory
from tests.sample_reports import LINE, alert, inventoried_case, inventory, skipped_case

FORWARD = SourceLine(path="/home/user/model.py", line=7, text="pool(x)")


def cells(table) -> list[list[str]]:
    """The rows of the table as text."""
    return [list(row) for row in zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)]


def printed(content) -> str:
    stream = io.StringIO()
    print_inventory(content, Console(file=stream, width=120, highlight=False))
    return " ".join(stream.getvalue().split())


def test_an_alert_is_a_row_with_op_phase_device_count_step_workload_and_line():
    content = inventory([inventoried_case("put", [alert()])])
    assert cells(inventory_table(content)) == [["put_", "forward", "cpu", "2", "1", "put", "put.py:12"]]
    assert "/home/user/put.py:12 self.table.put_(index, values)" in printed(content)


def test_the_same_alert_of_two_workloads_is_one_row_with_their_counts_added():
    cases = [inventoried_case("one", [alert(step=2)]), inventoried_case("two", [alert(count=5)])]
    (row,) = cells(inventory_table(inventory(cases)))
    assert row[3:6] == ["7", "1", "one, two"]


def test_a_backward_alert_shows_the_forward_line_that_made_it():
    backward = alert("pool_backward", phase=Phase.BACKWARD, location=LINE, forward_location=FORWARD)
    (row,) = cells(inventory_table(inventory([inventoried_case("pool", [backward])])))
    assert row[6] == "model.py:7"


def test_rows_are_sorted_by_op():
    cases = [inventoried_case("one", [alert("median CUDA with indices output"), alert("histc")])]
    assert [row[0] for row in cells(inventory_table(inventory(cases)))] == ["histc", "median CUDA with indices output"]


def test_an_inventory_without_an_alert_has_no_row_and_says_so():
    content = inventory([inventoried_case("mlp")])
    assert cells(inventory_table(content)) == []
    assert "1 of 1 cases raised no alert" in printed(content)


def test_what_could_not_be_run_is_listed_with_the_reason():
    failure = Failed(kind=FailureKind.EXCEPTION, detail="ValueError: no", exit_code=0)
    text = printed(inventory([inventoried_case("broken", outcome=failure), skipped_case("mlp")]))
    assert "broken on cpu: the warn_only run did not complete" in text
    assert "skipped: no cuda device: built without CUDA mlp on cuda:0" in text


def test_an_inventory_never_passes_for_evidence():
    assert "never evidence of repeatability" in printed(inventory([inventoried_case("mlp")]))
