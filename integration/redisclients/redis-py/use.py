"""Takes numbers from seqd with redis-py."""

import os
import threading

import redis

url = os.environ["SEQD_REDIS"]  # such as redis://:seqd_token@127.0.0.1:6380
protocol = int(os.environ["SEQD_PROTOCOL"])
client = redis.Redis.from_url(url, protocol=protocol, decode_responses=True)


def numbers() -> None:
    one = client.incr("order")
    last = client.incrby("order", 10)  # ten consecutive numbers: last-9 to last
    assert one < last - 9, (one, last)
    ids = client.execute_command("SEQ.NEXT", "order", "COUNT", 5)  # as text
    assert len(ids) == 5 and increasing([last, *map(int, ids)]), ids
    invoices = client.execute_command("SEQ.NEXT", "invoice", "COUNT", 2)
    assert all(i.startswith("INV-") for i in invoices) and invoices[0] < invoices[1], invoices


def increasing(values: list[int]) -> bool:
    return all(a < b for a, b in zip(values, values[1:]))


def pipeline() -> None:
    # Without transaction=False, redis-py sends MULTI, which seqd does not have.
    with client.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.incr("order")
        values = pipe.execute()
    assert len(values) == 1000 and increasing(values), values


def threads() -> None:
    taken: list[list[int]] = [[] for _ in range(8)]

    def take(into: list[int]) -> None:
        for _ in range(100):
            into.append(client.incr("order"))

    workers = [threading.Thread(target=take, args=(into,)) for into in taken]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(increasing(values) for values in taken), taken
    assert len({value for values in taken for value in values}) == 800, taken


def refused(text: str, *command: object) -> None:
    """Checks that a command is refused with an error that has this text."""
    try:
        answer = client.execute_command(*command)
    except redis.ResponseError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{command} got {answer}")


def errors() -> None:
    refused("unknown_biz_type", "INCR", "nobody")
    refused("SEQ.NEXT", "INCR", "invoice")
    refused("unknown command", "GET", "order")
    refused("invalid_count", "INCRBY", "order", 0)
    refused("invalid_count", "INCRBY", "order", -1)
    refused("invalid_count", "INCRBY", "order", 2**63)
    refused("invalid_count", "SEQ.NEXT", "order", "COUNT", 10**6)


def transaction() -> None:
    """A transaction is refused, and afterwards answers belong to their commands."""
    try:
        answer = client.pipeline().incr("order").execute()
    except redis.ResponseError as error:
        assert "EXEC" in str(error) or "MULTI" in str(error), error
    else:
        raise AssertionError(f"a transaction got {answer}")
    numbers()


def wrong_token() -> None:
    if "@" not in url:
        return  # this seqd takes no tokens
    scheme, _, address = url.partition("://")[0], *url.rpartition("@")[1:]
    for token, want in (":seqd_wrong@", redis.AuthenticationError), ("", redis.AuthenticationError):
        stranger = redis.Redis.from_url(f"{scheme}://{token}{address}", protocol=protocol)
        try:
            stranger.incr("order")
        except want:
            continue
        raise AssertionError(f"a number for the token {token!r}")


def restart() -> None:
    """The client connects again after the service was killed and started."""
    before = client.incr("order")
    print("restart", flush=True)
    input()
    after = client.incr("order")
    assert before < after, (before, after)


numbers()
pipeline()
threads()
errors()
transaction()
wrong_token()
restart()
print("all as it should be")
