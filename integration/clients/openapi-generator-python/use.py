"""Uses the Python client of openapi-generator."""

import os
from typing import Callable

from seqd_client import ApiClient, ApiException, BizTypesApi, Configuration, NumbersApi, TokensApi
from seqd_client import Binding, Code, Definition, Problem, TokenPatch, TokenRequest

NAME = "openapi-generator-python"


def connect(token: str) -> ApiClient:
    return ApiClient(Configuration(host=os.environ["SEQD_URL"], access_token=token))


admin = connect(os.environ["SEQD_TOKEN"])


def refused(code: Code, request: Callable[[], object]) -> None:
    """Checks that a request gets a problem with this code."""
    try:
        answer = request()
    except ApiException as e:
        assert isinstance(e.data, Problem) and e.data.code == code and e.data.status == e.status, e
        return
    raise AssertionError(answer)


def numbers() -> None:
    api = NumbersApi(admin)
    one = api.take_numbers("order")
    assert one.id is not None and one.id.isdigit() and one.ids is None, one
    three = api.take_numbers("order", count=3)
    assert three.ids is not None and len(three.ids) == 3 and three.id is None, three
    parsed = api.parse_id("order", one.id)
    assert parsed.valid and parsed.number == one.id, parsed
    refused(Code.UNKNOWN_BIZ_TYPE, lambda: api.take_numbers("nobody"))


def biz_types() -> None:
    api = BizTypesApi(admin)
    start = 9_000_000_000_000  # more than 32 bits have
    made = api.put_biz_type(NAME, Definition(start=start, plugins=[Binding(name="stats")]))
    assert made.enabled and made.definition.start == start, made
    got = api.get_biz_type_with_http_info(NAME)
    assert got.headers is not None and got.data.version == made.version, got
    tag = {name.lower(): value for name, value in got.headers.items()}["etag"]
    changed = api.patch_biz_type(NAME, {"step": 500}, if_match=tag)
    assert changed.definition.step == 500, changed
    refused(Code.PRECONDITION_FAILED, lambda: api.patch_biz_type(NAME, {"step": 600}, if_match=tag))


def tokens() -> None:
    api = TokensApi(admin)
    made = api.create_token(TokenRequest(name=NAME, scopes=["issue:" + NAME]))
    assert made.enabled, made
    shop = connect(made.secret)
    assert NumbersApi(shop).take_numbers(NAME).id == "9000000000000"
    refused(Code.FORBIDDEN, lambda: TokensApi(shop).list_tokens())
    assert not api.patch_token(NAME, TokenPatch(enabled=False)).enabled
    api.delete_token(NAME)
    BizTypesApi(admin).delete_biz_type(NAME)


numbers()
biz_types()
tokens()
print("all as it should be")
