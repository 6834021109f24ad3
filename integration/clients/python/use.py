"""Uses the client of openapi-python-client."""

import datetime
import os
from http import HTTPStatus
from typing import TypeVar

from seqd_client import AuthenticatedClient
from seqd_client.api.biz_types import delete_biz_type, get_biz_type, get_stats, list_biz_types, patch_biz_type, put_biz_type
from seqd_client.api.numbers import parse_id, post_numbers, take_numbers
from seqd_client.api.service import list_nodes, readiness
from seqd_client.api.tokens import create_token, delete_token, get_token, list_tokens, patch_token
from seqd_client.models import (
    Binding,
    BizType,
    BizTypePage,
    Code,
    Definition,
    DefinitionPatch,
    Issued,
    NodeList,
    Parsed,
    Problem,
    Readiness,
    ReadinessStatus,
    Stats,
    Token,
    TokenPatch,
    TokenRequest,
    TokenWithSecret,
)
from seqd_client.types import UNSET


T = TypeVar("T")


def connect(token: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=os.environ["SEQD_URL"], token=token, raise_on_unexpected_status=True)


admin = connect(os.environ["SEQD_TOKEN"])


def good(answer: object, kind: type[T]) -> T:
    """Returns what a request got that must not fail."""
    assert isinstance(answer, kind), answer
    return answer


def refused(answer: object, status: int, code: Code) -> Problem:
    """Checks that a request got a problem with this code."""
    problem = good(answer, Problem)
    assert (problem.status, problem.code) == (status, code), problem
    return problem


def numbers() -> None:
    one = good(take_numbers.sync("order", client=admin), Issued)
    assert isinstance(one.id, str) and one.id.isdigit() and one.ids is UNSET, one
    three = good(take_numbers.sync("order", client=admin, count=3), Issued)
    assert isinstance(three.ids, list) and len(three.ids) == 3 and three.id is UNSET, three

    first = post_numbers.sync_detailed("order", client=admin, count=2, idempotency_key="python")
    again = post_numbers.sync_detailed("order", client=admin, count=2, idempotency_key="python")
    assert good(first.parsed, Issued).ids == good(again.parsed, Issued).ids, (first, again)
    assert again.headers["Idempotent-Replayed"] == "true", again.headers
    other = post_numbers.sync("order", client=admin, count=3, idempotency_key="python")
    refused(other, 422, Code.IDEMPOTENCY_KEY_REUSED)

    parsed = good(parse_id.sync("order", one.id, client=admin), Parsed)
    assert parsed.valid and parsed.number == one.id, parsed
    refused(take_numbers.sync("nobody", client=admin), 404, Code.UNKNOWN_BIZ_TYPE)


def biz_types() -> None:
    start = 9_000_000_000_000  # more than 32 bits have
    body = Definition(start=start, plugins=[Binding(name="stats")])
    made = good(put_biz_type.sync("python", client=admin, body=body), BizType)
    assert (made.name, made.enabled, made.definition.start) == ("python", True, start), made
    page = good(list_biz_types.sync(client=admin, limit=1000), BizTypePage)
    assert "python" in [biz_type.name for biz_type in page.biz_types], page

    got = get_biz_type.sync_detailed("python", client=admin)
    assert good(got.parsed, BizType).version == made.version, got
    tag = got.headers["ETag"]
    patch = DefinitionPatch.from_dict({"step": 500})
    changed = good(patch_biz_type.sync("python", client=admin, body=patch, if_match=tag), BizType)
    assert changed.definition.step == 500, changed
    refused(patch_biz_type.sync("python", client=admin, body=patch, if_match=tag), 412, Code.PRECONDITION_FAILED)
    wrong = DefinitionPatch.from_dict({"step": 0})
    problem = refused(patch_biz_type.sync("python", client=admin, body=wrong), 400, Code.INVALID_DEFINITION)
    assert isinstance(problem.problems, list) and problem.problems[0].key == "step", problem


def tokens() -> None:
    request = TokenRequest(name="python", scopes=["issue:python"])
    made = good(create_token.sync(client=admin, body=request), TokenWithSecret)
    assert made.enabled, made
    refused(create_token.sync(client=admin, body=request), 409, Code.CONFLICT)
    shop = connect(made.secret)
    assert good(take_numbers.sync("python", client=shop), Issued).id == "9000000000000"
    refused(list_tokens.sync(client=shop), 403, Code.FORBIDDEN)
    refused(list_tokens.sync(client=connect("seqd_wrong")), 401, Code.UNAUTHORIZED)

    expires = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
    changed = good(patch_token.sync("python", client=admin, body=TokenPatch(expires=expires)), Token)
    assert changed.expires == expires, changed
    changed = good(patch_token.sync("python", client=admin, body=TokenPatch(expires=None, enabled=False)), Token)
    assert not changed.enabled and changed.expires is UNSET, changed
    assert delete_token.sync_detailed("python", client=admin).status_code == HTTPStatus.NO_CONTENT
    refused(get_token.sync("python", client=admin), 404, Code.NOT_FOUND)


def service() -> None:
    stats = good(get_stats.sync("python", client=admin), Stats)
    assert stats.issued == 1 and stats.rates.field_1m.issued >= 0, stats
    assert good(readiness.sync(client=admin), Readiness).status == ReadinessStatus.READY
    assert good(list_nodes.sync(client=admin), NodeList).nodes[0].self_
    assert delete_biz_type.sync_detailed("python", client=admin).status_code == HTTPStatus.NO_CONTENT


numbers()
biz_types()
tokens()
service()
print("all as it should be")
