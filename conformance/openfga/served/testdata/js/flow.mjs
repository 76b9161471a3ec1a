// The flow with the official JavaScript SDK: node flow.mjs URL MODEL.JSON
// The other SDKs' flows are the same, step by step. Prints what went wrong and
// exits with 1, or prints "ok".
import { OpenFgaClient, ConsistencyPreference, ClientWriteRequestOnDuplicateWrites } from "@openfga/sdk";
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";

const [apiUrl, modelFile] = process.argv.slice(2);
const fga = new OpenFgaClient({ apiUrl });

const story = [
  { user: "user:anne", relation: "member", object: "group:eng" },
  { user: "group:eng#member", relation: "viewer", object: "folder:plans" },
  { user: "folder:plans", relation: "parent", object: "document:roadmap" },
  { user: "user:bob", relation: "owner", object: "document:roadmap" },
  { user: "user:carl", relation: "viewer", object: "document:roadmap", condition: { name: "in_hours", context: { from: 9, until: 17 } } },
  { user: "user:dan", relation: "owner", object: "document:secret" },
  { user: "user:dan", relation: "blocked", object: "document:secret" },
];
const sees = (user, object = "document:roadmap", more = {}) => ({ user, relation: "viewer", object, ...more });

async function refused(what, promise, status, code) {
  const e = await promise.then(() => assert.fail(`${what} was accepted`), (e) => e);
  assert.equal(e.statusCode, status, `${what}: ${e}`);
  assert.equal(e.apiErrorCode, code, `${what}: ${e}`);
}

// store
const made = await fga.createStore({ name: "js flow" });
fga.storeId = made.id;
assert((await fga.listStores({ name: "js flow" })).stores.some((s) => s.id === made.id));
assert.equal((await fga.getStore()).name, "js flow");

// model
const model = JSON.parse(readFileSync(modelFile));
await fga.writeAuthorizationModel(model);
const { authorization_model_id: id } = await fga.writeAuthorizationModel(model);
fga.authorizationModelId = id;
assert.equal((await fga.readAuthorizationModel()).authorization_model.type_definitions.length, 4);
assert.equal((await fga.readLatestAuthorizationModel()).authorization_model.id, id);
assert.equal((await fga.readAuthorizationModels()).authorization_models.length, 2);

// write
await fga.write({ writes: story.slice(0, 5) });
await fga.writeTuples(story.slice(5));

// check
const consistency = ConsistencyPreference.HigherConsistency;
for (const [ask, want] of [
  [sees("user:anne"), true],
  [sees("user:bob"), true],
  [sees("user:dan", "document:secret"), false],
  [sees("user:carl", undefined, { context: { hour: 10 } }), true],
  [sees("user:carl", undefined, { context: { hour: 20 } }), false],
  [sees("user:eve"), false],
  [sees("user:eve", undefined, { contextualTuples: [{ user: "user:eve", relation: "member", object: "group:eng" }] }), true],
]) assert.equal((await fga.check(ask, { consistency })).allowed, want, JSON.stringify(ask));

// batch
const batch = await fga.batchCheck({ checks: [
  { ...sees("user:anne"), correlationId: "anne" },
  { ...sees("user:dan", "document:secret"), correlationId: "dan" },
  { ...sees("user:carl"), correlationId: "carl", context: { hour: 10 } },
  { ...sees("user:carl"), correlationId: "lost" },
] });
const by = Object.fromEntries(batch.result.map((r) => [r.correlationId, r]));
assert.deepEqual([by.anne.allowed, by.dan.allowed, by.carl.allowed], [true, false, true]);
assert.equal(by.lost.error.input_error, "validation_error");

// lists
assert.deepEqual((await fga.listObjects({ user: "user:anne", relation: "viewer", type: "document" })).objects, ["document:roadmap"]);
const streamed = [];
for await (const { object } of fga.streamedListObjects({ user: "user:bob", relation: "viewer", type: "document" })) streamed.push(object);
assert.deepEqual(streamed, ["document:roadmap"]);
const users = await fga.listUsers({ object: { type: "document", id: "roadmap" }, relation: "viewer", user_filters: [{ type: "user" }], context: { hour: 10 } });
assert.deepEqual(users.users.map((u) => u.object.id).sort(), ["anne", "bob", "carl"]);
const relations = await fga.listRelations({ user: "user:bob", object: "document:roadmap", relations: ["owner", "viewer", "blocked"] });
assert.deepEqual(relations.relations.sort(), ["owner", "viewer"]);
const { tree } = await fga.expand({ relation: "viewer", object: "document:roadmap" });
assert.equal(tree.root.name, "document:roadmap#viewer");
assert(tree.root.difference.base.union);

// read
const tuples = [];
for (let continuationToken; tuples.length < 100; ) {
  const page = await fga.read({}, { pageSize: 3, continuationToken });
  tuples.push(...page.tuples);
  if (!(continuationToken = page.continuation_token)) break;
}
assert.equal(tuples.length, 7);
const carl = await fga.read({ user: "user:carl", object: "document:" });
assert.deepEqual(carl.tuples[0].key.condition, { name: "in_hours", context: { from: 9, until: 17 } });
const changes = [];
for (let i = 0, continuationToken; i < 5; i++) {
  const page = await fga.readChanges({ type: "document" }, { pageSize: 2, continuationToken });
  changes.push(...page.changes);
  continuationToken = page.continuation_token;
}
assert.deepEqual([changes.length, changes[0].tuple_key.user, changes[0].operation], [5, "folder:plans", "TUPLE_OPERATION_WRITE"]);

// assertions
await fga.writeAssertions([
  { ...sees("user:anne"), expectation: true },
  { ...sees("user:eve"), expectation: false },
]);
const { assertions } = await fga.readAssertions();
assert.deepEqual(assertions.map((a) => [a.tuple_key.user, a.expectation]), [["user:anne", true], ["user:eve", false]]);

// refusals
await refused("a check without its context", fga.check(sees("user:carl")), 400, "validation_error");
await refused("an unknown relation", fga.check({ user: "user:a", relation: "nonsense", object: "document:roadmap" }), 400, "validation_error");
await refused("a tuple that is there", fga.writeTuples(story.slice(0, 1)), 400, "write_failed_due_to_invalid_input");
await fga.write({ writes: story.slice(0, 1) }, { conflict: { onDuplicateWrites: ClientWriteRequestOnDuplicateWrites.Ignore } });

// remove
await fga.deleteTuples([{ user: "user:anne", relation: "member", object: "group:eng" }]);
assert.equal((await fga.check(sees("user:anne"))).allowed, false);
await fga.deleteStore();
await refused("a store that is gone", fga.getStore(), 404, "store_id_not_found");
console.log("ok");
