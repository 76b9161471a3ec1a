// A full flow of Permify's Node client over gRPC, unchanged from how its users
// write it: tenants, schema, data, checks, lookups, a stream and a watch.
// Usage: node flow.mjs HOST:PORT
import assert from "node:assert/strict";
import { grpc } from "@permify/permify-node";

const client = grpc.newClient({ endpoint: process.argv[2], cert: undefined, insecure: true });
const tenantId = "node-" + process.pid;
const { CheckResult, DataChange_Operation } = grpc.base;
const user = (id) => ({ type: "user", id, relation: "" });
const doc = (id) => ({ type: "document", id });
const metadata = { snapToken: "", schemaVersion: "", depth: 20 };
const boolean = (data) => ({
  typeUrl: "type.googleapis.com/base.v1.BooleanValue",
  value: grpc.base.BooleanValue.encode({ data }).finish(),
});

const created = await client.tenancy.create({ id: tenantId, name: "a tenant" });
assert.equal(created.tenant.id, tenantId);
assert.ok(created.tenant.createdAt instanceof Date);
await assert.rejects(client.tenancy.create({ id: tenantId, name: "again" }), /ERROR_CODE_UNIQUE_CONSTRAINT/);

const schema = `
entity user {}
entity group { relation member @user @group#member }
entity document {
  relation owner @user
  relation viewer @user @group#member
  attribute public boolean
  attribute level integer
  permission view = owner or viewer or public
  permission edit = owner and high(level)
}
rule high(level integer) { level >= context.data.least }
`;
const { schemaVersion } = await client.schema.write({ tenantId, schema });
assert.ok(schemaVersion);
await assert.rejects(client.schema.write({ tenantId, schema: "entity user { permission a = not b }" }), /NOT/);
const read = await client.schema.read({ tenantId, metadata: { schemaVersion } });
assert.deepEqual(Object.keys(read.schema.entityDefinitions).sort(), ["document", "group", "user"]);
const tree = read.schema.entityDefinitions.document.permissions.view.child;
assert.equal(tree.type.$case, "rewrite");
assert.ok(read.schema.ruleDefinitions.high.expression.expr, "a rule has its expression");
const list = await client.schema.list({ tenantId, pageSize: 10, continuousToken: "" });
assert.equal(list.head, schemaVersion);

// A watch from now on, with nothing written yet.
const seen = [];
const stop = new AbortController();
const watching = (async () => {
  try {
    for await (const r of client.watch.watch({ tenantId, snapToken: "" }, { signal: stop.signal })) {
      seen.push(...r.changes.dataChanges);
      if (seen.length >= 7) return;
    }
  } catch (e) {
    if (!stop.signal.aborted) throw e;
  }
})();
await new Promise((resolve) => setTimeout(resolve, 300));

const { snapToken } = await client.data.write({
  tenantId,
  metadata: { schemaVersion: "" },
  tuples: [
    { entity: doc("1"), relation: "owner", subject: user("anne") },
    { entity: doc("1"), relation: "viewer", subject: { type: "group", id: "eng", relation: "member" } },
    { entity: { type: "group", id: "eng" }, relation: "member", subject: user("bob") },
    { entity: doc("2"), relation: "viewer", subject: user("bob") },
  ],
  attributes: [{ entity: doc("3"), attribute: "public", value: boolean(true) }],
});
assert.ok(snapToken);

const check = (entity, permission, subject, extra = {}) =>
  client.permission.check({ tenantId, metadata: { ...metadata, snapToken }, entity, permission, subject, ...extra });
assert.equal((await check(doc("1"), "view", user("bob"))).can, CheckResult.CHECK_RESULT_ALLOWED);
assert.equal((await check(doc("1"), "view", user("carl"))).can, CheckResult.CHECK_RESULT_DENIED);
assert.equal((await check(doc("3"), "view", user("carl"))).can, CheckResult.CHECK_RESULT_ALLOWED);
const with5 = { context: { tuples: [], attributes: [], data: { least: 0 } } };
assert.equal((await check(doc("1"), "edit", user("anne"), with5)).can, CheckResult.CHECK_RESULT_ALLOWED);
const contextual = { context: { tuples: [{ entity: doc("9"), relation: "owner", subject: user("carl") }], attributes: [], data: {} } };
assert.equal((await check(doc("9"), "view", user("carl"), contextual)).can, CheckResult.CHECK_RESULT_ALLOWED);
await assert.rejects(check(doc("1"), "nothing", user("bob")), /ERROR_CODE_PERMISSION_NOT_FOUND/);
await assert.rejects(
  client.permission.check({ tenantId, metadata: { ...metadata, depth: 2 }, entity: doc("1"), permission: "view", subject: user("bob") }),
  /Depth: value must be greater than or equal to 3/);

const bulk = await client.permission.bulkCheck({
  tenantId, metadata,
  items: [
    { entity: doc("1"), permission: "view", subject: user("anne") },
    { entity: doc("2"), permission: "view", subject: user("anne") },
  ],
});
assert.deepEqual(bulk.results.map((r) => r.can), [CheckResult.CHECK_RESULT_ALLOWED, CheckResult.CHECK_RESULT_DENIED]);

const lookup = { tenantId, metadata, entityType: "document", permission: "view", subject: user("bob"), scope: {}, pageSize: 20, continuousToken: "" };
assert.deepEqual((await client.permission.lookupEntity(lookup)).entityIds, ["1", "2", "3"]);
const streamed = [];
for await (const r of client.permission.lookupEntityStream(lookup)) streamed.push(r.entityId);
assert.deepEqual(streamed.sort(), ["1", "2", "3"]);
const scoped = [];
for await (const r of client.permission.lookupEntityStream({ ...lookup, scope: { document: { data: ["2"] } } })) scoped.push(r.entityId);
assert.deepEqual(scoped, ["2"]);

const subjects = await client.permission.lookupSubject({
  tenantId, metadata, entity: doc("1"), permission: "view", subjectReference: { type: "user", relation: "" }, pageSize: 20, continuousToken: "",
});
assert.deepEqual(subjects.subjectIds, ["anne", "bob"]);
const permissions = await client.permission.subjectPermission({
  tenantId, metadata: { ...metadata, onlyPermission: true }, entity: doc("1"), subject: user("bob"), context: { tuples: [], attributes: [], data: { least: 1 } },
});
assert.equal(permissions.results.view, CheckResult.CHECK_RESULT_ALLOWED);
assert.equal(permissions.results.edit, CheckResult.CHECK_RESULT_DENIED);
const expanded = await client.permission.expand({ tenantId, metadata, entity: doc("1"), permission: "view" });
assert.equal(expanded.tree.node.$case, "expand");

const tuples = await client.data.readRelationships({ tenantId, metadata: { snapToken: "" }, filter: { entity: { type: "document", ids: ["1"] }, relation: "", subject: undefined }, pageSize: 50, continuousToken: "" });
assert.equal(tuples.tuples.length, 2);
const attributes = await client.data.readAttributes({ tenantId, metadata: { snapToken: "" }, filter: { entity: { type: "document", ids: [] }, attributes: [] }, pageSize: 50, continuousToken: "" });
assert.equal(attributes.attributes.length, 1);
assert.equal(grpc.base.BooleanValue.decode(attributes.attributes[0].value.value).data, true);

await client.bundle.write({ tenantId, bundles: [{ name: "share", arguments: ["doc", "user"], operations: [{ relationshipsWrite: ["document:{{.doc}}#viewer@user:{{.user}}"], relationshipsDelete: [], attributesWrite: [], attributesDelete: [] }] }] });
assert.equal((await client.bundle.read({ tenantId, name: "share" })).bundle.operations.length, 1);
await client.data.runBundle({ tenantId, name: "share", arguments: { doc: "4", user: "a+b@x.org" } });
assert.equal((await check(doc("4"), "view", user("a+b@x.org"))).can, CheckResult.CHECK_RESULT_ALLOWED);

await client.data.delete({ tenantId, tupleFilter: { entity: { type: "document", ids: ["4"] }, relation: "viewer", subject: undefined }, attributeFilter: { entity: undefined, attributes: [] } });
assert.equal((await client.permission.check({ tenantId, metadata, entity: doc("4"), permission: "view", subject: user("a+b@x.org") })).can, CheckResult.CHECK_RESULT_DENIED);

const late = setTimeout(() => stop.abort(), 5000);
await watching;
clearTimeout(late);
const operations = seen.map((c) => c.operation);
assert.deepEqual(operations, [1, 1, 1, 1, 1, 1, 2], "six creations and a deletion were watched");
assert.equal(operations[6], DataChange_Operation.OPERATION_DELETE);
assert.equal(seen[6].type.tuple.subject.id, "a+b@x.org");

const tenants = await client.tenancy.list({ pageSize: 100, continuousToken: "" });
assert.ok(tenants.tenants.some((t) => t.id === "t1") && tenants.tenants.some((t) => t.id === tenantId));
await client.tenancy.delete({ id: tenantId });
await assert.rejects(check(doc("1"), "view", user("bob")), /ERROR_CODE_TENANT_NOT_FOUND/);
console.log("ok");
process.exit(0);
