"""The flow with the official Python SDK: python flow.py URL MODEL.JSON

The other SDKs' flows are the same, step by step. Ends with a traceback where
something is wrong, or prints "ok".
"""

import asyncio
import json
import sys

from openfga_sdk import ConsistencyPreference, FgaObject, ReadRequestTupleKey, RelationshipCondition
from openfga_sdk.client import ClientConfiguration, OpenFgaClient
from openfga_sdk.client.models import (
    ClientAssertion,
    ClientBatchCheckItem,
    ClientBatchCheckRequest,
    ClientCheckRequest,
    ClientExpandRequest,
    ClientListObjectsRequest,
    ClientListRelationsRequest,
    ClientReadChangesRequest,
    ClientTuple,
    ClientWriteRequest,
    ClientWriteRequestOnDuplicateWrites,
    ConflictOptions,
)
from openfga_sdk.client.models.list_users_request import ClientListUsersRequest
from openfga_sdk.exceptions import NotFoundException, ValidationException
from openfga_sdk.models import CreateStoreRequest, UserTypeFilter

IN_HOURS = RelationshipCondition(name="in_hours", context={"from": 9, "until": 17})
STORY = [
    ClientTuple(user="user:anne", relation="member", object="group:eng"),
    ClientTuple(user="group:eng#member", relation="viewer", object="folder:plans"),
    ClientTuple(user="folder:plans", relation="parent", object="document:roadmap"),
    ClientTuple(user="user:bob", relation="owner", object="document:roadmap"),
    ClientTuple(user="user:carl", relation="viewer", object="document:roadmap", condition=IN_HOURS),
    ClientTuple(user="user:dan", relation="owner", object="document:secret"),
    ClientTuple(user="user:dan", relation="blocked", object="document:secret"),
]


def sees(user, obj="document:roadmap", **more):
    return ClientCheckRequest(user=user, relation="viewer", object=obj, **more)


async def refused(what, call, kind, code):
    try:
        await call
    except kind as e:
        assert e.code == code, (what, e.code, e)
    else:
        raise AssertionError(f"{what} was accepted")


async def flow(url, model):
    async with OpenFgaClient(ClientConfiguration(api_url=url)) as fga:
        await store(fga)
        await write_model(fga, model)
        await fga.write(ClientWriteRequest(writes=STORY[:5]))
        await fga.write_tuples(STORY[5:])
        await checks(fga)
        await batch(fga)
        await lists(fga)
        await read(fga)
        await assertions(fga)
        await refusals(fga)
        await remove(fga)


async def store(fga):
    made = await fga.create_store(CreateStoreRequest(name="python flow"))
    fga.set_store_id(made.id)
    listed = await fga.list_stores({"name": "python flow"})
    assert made.id in [s.id for s in listed.stores], listed
    assert (await fga.get_store()).name == "python flow"


async def write_model(fga, model):
    await fga.write_authorization_model(model)
    written = await fga.write_authorization_model(model)
    fga.set_authorization_model_id(written.authorization_model_id)
    one = await fga.read_authorization_model()
    assert len(one.authorization_model.type_definitions) == 4, one
    latest = await fga.read_latest_authorization_model()
    assert latest.authorization_model.id == written.authorization_model_id, latest
    assert len((await fga.read_authorization_models()).authorization_models) == 2


async def checks(fga):
    eve = ClientTuple(user="user:eve", relation="member", object="group:eng")
    for ask, want in [
        (sees("user:anne"), True),
        (sees("user:bob"), True),
        (sees("user:dan", "document:secret"), False),
        (sees("user:carl", context={"hour": 10}), True),
        (sees("user:carl", context={"hour": 20}), False),
        (sees("user:eve"), False),
        (sees("user:eve", contextual_tuples=[eve]), True),
    ]:
        got = await fga.check(ask, {"consistency": ConsistencyPreference.HIGHER_CONSISTENCY})
        assert got.allowed is want, (ask.user, got)


async def batch(fga):
    def item(name, user, obj="document:roadmap", **more):
        return ClientBatchCheckItem(user=user, relation="viewer", object=obj, correlation_id=name, **more)

    got = await fga.batch_check(ClientBatchCheckRequest(checks=[
        item("anne", "user:anne"),
        item("dan", "user:dan", "document:secret"),
        item("carl", "user:carl", context={"hour": 10}),
        item("lost", "user:carl"),
    ]))
    by = {r.correlation_id: r for r in got.result}
    assert [by[k].allowed for k in ("anne", "dan", "carl")] == [True, False, True], by
    assert by["lost"].error.input_error == "validation_error", by["lost"]


async def lists(fga):
    objects = await fga.list_objects(ClientListObjectsRequest(user="user:anne", relation="viewer", type="document"))
    assert objects.objects == ["document:roadmap"], objects
    streamed = [
        o.object
        async for o in fga.streamed_list_objects(ClientListObjectsRequest(user="user:bob", relation="viewer", type="document"))
    ]
    assert streamed == ["document:roadmap"], streamed
    users = await fga.list_users(ClientListUsersRequest(
        object=FgaObject(type="document", id="roadmap"), relation="viewer",
        user_filters=[UserTypeFilter(type="user")], context={"hour": 10}))
    assert sorted(u.object.id for u in users.users) == ["anne", "bob", "carl"], users
    relations = await fga.list_relations(ClientListRelationsRequest(
        user="user:bob", object="document:roadmap", relations=["owner", "viewer", "blocked"]))
    assert sorted(relations) == ["owner", "viewer"], relations
    root = (await fga.expand(ClientExpandRequest(relation="viewer", object="document:roadmap"))).tree.root
    assert root.name == "document:roadmap#viewer" and root.difference.base.union, root


async def read(fga):
    tuples, token = [], ""
    while len(tuples) < 100:
        page = await fga.read(ReadRequestTupleKey(), {"page_size": 3, "continuation_token": token})
        tuples += page.tuples
        token = page.continuation_token
        if not token:
            break
    assert len(tuples) == 7, tuples
    carl = await fga.read(ReadRequestTupleKey(user="user:carl", object="document:"))
    assert carl.tuples[0].key.condition.context == {"from": 9, "until": 17}, carl
    changes, token = [], ""
    for _ in range(5):
        page = await fga.read_changes(ClientReadChangesRequest(type="document"), {"page_size": 2, "continuation_token": token})
        changes += page.changes
        token = page.continuation_token
    assert len(changes) == 5 and changes[0].tuple_key.user == "folder:plans", changes
    assert changes[0].operation == "TUPLE_OPERATION_WRITE", changes[0]


async def assertions(fga):
    await fga.write_assertions([
        ClientAssertion(user="user:anne", relation="viewer", object="document:roadmap", expectation=True),
        ClientAssertion(user="user:eve", relation="viewer", object="document:roadmap", expectation=False),
    ])
    got = (await fga.read_assertions()).assertions
    assert [(a.tuple_key.user, a.expectation) for a in got] == [("user:anne", True), ("user:eve", False)], got


async def refusals(fga):
    nonsense = ClientCheckRequest(user="user:a", relation="nonsense", object="document:roadmap")
    await refused("a check without its context", fga.check(sees("user:carl")), ValidationException, "validation_error")
    await refused("an unknown relation", fga.check(nonsense), ValidationException, "validation_error")
    await refused("a tuple that is there", fga.write_tuples(STORY[:1]), ValidationException, "write_failed_due_to_invalid_input")
    ignore = ConflictOptions(on_duplicate_writes=ClientWriteRequestOnDuplicateWrites.IGNORE)
    await fga.write(ClientWriteRequest(writes=STORY[:1]), {"conflict": ignore})


async def remove(fga):
    await fga.delete_tuples(STORY[:1])
    assert (await fga.check(sees("user:anne"))).allowed is False
    await fga.delete_store()
    await refused("a store that is gone", fga.get_store(), NotFoundException, "store_id_not_found")


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as f:
        asyncio.run(flow(sys.argv[1], json.load(f)))
    print("ok")
