"""Requests that schemathesis makes of the OpenAPI description: no server error, no answer that is not declared."""

import pytest
from hypothesis import HealthCheck, given, settings

from services import PATIENCE, ROWS, STRINGS, TABLE, check, served

N_CASES = 10_000

SLOW = ("/policies", "/evaluations", "/export.parquet")
"""Routes that start other processes."""

schemathesis = pytest.importorskip("schemathesis")


def fuzz(service, n_cases):
    """Send cases to every operation; return how many were sent, by status."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    quick = [one for one in operations if not one.path.endswith(SLOW) and not one.path.endswith("/end")]
    statuses = {}
    for operation in quick:

        @settings(
            max_examples=n_cases * 7 // (5 * len(quick)),
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy())
        def send(case):
            if "experiment" in (case.path_parameters or {}) and hash(str(case.path_parameters)) % 4:
                case.path_parameters["experiment"] = ("rows", "text", "table")[hash(str(case.body)) % 3]
            response = case.call(base_url=service.url)
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
            declared = [not_a_server_error, content_type_conformance, response_schema_conformance]
            case.validate_response(response, checks=declared)

        send()
    return statuses


@pytest.fixture
def service(tmp_path):
    with served(tmp_path) as found:
        for name, policy in (("rows", ROWS), ("text", STRINGS), ("table", TABLE)):
            found.client.create(name, policy)
            found.client.act(name, "start")
        yield found


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_cases_find_no_server_error(service):
    statuses = fuzz(service, N_CASES)

    assert sum(statuses.values()) >= N_CASES
    assert set(statuses) <= {200, 400, 404, 405, 409, 413, 415, 422}
    assert statuses[200] > 100
    service.learner.snapshot().result(PATIENCE)
    check(service.learner)
