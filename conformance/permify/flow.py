"""A full flow of Permify's Python client over REST, with its strict models.

Usage: python flow.py http://HOST:PORT
"""
import os
import sys

import permify
from permify import models as m

configuration = permify.Configuration(host=sys.argv[1])
client = permify.ApiClient(configuration)
tenancy, schemas, data, permission, bundles = (
    api(client) for api in (permify.TenancyApi, permify.SchemaApi, permify.DataApi, permify.PermissionApi, permify.BundleApi))
tenant = "python-%d" % os.getpid()


def user(id):
    return m.Subject(type="user", id=id)


def doc(id):
    return m.Entity(type="document", id=id)


def refused(call, status, text):
    try:
        call()
    except permify.ApiException as e:
        assert e.status == status and text in e.body, (e.status, e.body)
    else:
        raise AssertionError("not refused: " + text)


created = tenancy.tenants_create(m.TenantCreateRequest(id=tenant, name="a tenant"))
assert created.tenant.id == tenant and created.tenant.created_at is not None
refused(lambda: tenancy.tenants_create(m.TenantCreateRequest(id=tenant, name="again")), 400, "ERROR_CODE_UNIQUE_CONSTRAINT")

text = """
entity user {}
entity document {
  relation owner @user
  relation viewer @user
  attribute public boolean
  attribute tags string[]
  permission view = owner or viewer or public
  permission edit = owner and tagged(tags)
}
rule tagged(tags string[]) { context.data.tag in tags }
"""
version = schemas.schemas_write(tenant, m.SchemaWriteBody(schema=text)).schema_version
assert version
refused(lambda: schemas.schemas_write(tenant, m.SchemaWriteBody(schema="")), 400, "1:1: no entity references found in schema")
read = schemas.schemas_read(tenant, m.SchemaReadBody(metadata=m.SchemaReadRequestMetadata(schema_version=version)))
assert sorted(read.var_schema.references) == ["document", "tagged", "user"]
changed = schemas.schemas_partial_write(tenant, m.PartialWriteBody(
    metadata=m.SchemaPartialWriteRequestMetadata(schema_version=version),
    partials={"document": m.Partials(write=["relation editor @user"], update=["permission view = owner or viewer or public or editor"], delete=[])}))
assert changed.schema_version != version
assert schemas.schemas_list(tenant, m.SchemaListBody(page_size=10)).head == changed.schema_version

written = data.data_write(tenant, m.DataWriteBody(
    metadata=m.DataWriteRequestMetadata(schema_version=""),
    tuples=[
        m.Tuple(entity=doc("1"), relation="owner", subject=user("anne")),
        m.Tuple(entity=doc("2"), relation="viewer", subject=user("bob")),
        m.Tuple(entity=doc("3"), relation="editor", subject=user("bob")),
    ],
    attributes=[
        m.Attribute(entity=doc("4"), attribute="public",
                    value=m.Any.from_dict({"@type": "type.googleapis.com/base.v1.BooleanValue", "data": True})),
    ]))
assert written.snap_token

meta = m.PermissionCheckRequestMetadata(schema_version="", snap_token=written.snap_token, depth=20)


def check(entity, name, subject, **more):
    return permission.permissions_check(tenant, m.CheckBody(metadata=meta, entity=entity, permission=name, subject=subject, **more)).can


ALLOWED, DENIED = m.CheckResult.CHECK_RESULT_ALLOWED, m.CheckResult.CHECK_RESULT_DENIED
assert check(doc("1"), "view", user("anne")) == ALLOWED
assert check(doc("1"), "view", user("bob")) == DENIED
assert check(doc("3"), "view", user("bob")) == ALLOWED
tagged = m.Context.from_dict({"tuples": [], "attributes": [], "data": {"tag": "x"}})
assert check(doc("1"), "edit", user("anne"), context=tagged) == DENIED
refused(lambda: check(doc("1"), "nothing", user("anne")), 404, "ERROR_CODE_PERMISSION_NOT_FOUND")
refused(lambda: check(m.Entity(type="document", id="a b"), "view", user("anne")), 400, "invalid Entity.Id")

bulk = permission.permissions_bulk_check(tenant, m.BulkCheckBody(metadata=meta, items=[
    m.PermissionBulkCheckRequestItem(entity=doc("1"), permission="view", subject=user("anne")),
    m.PermissionBulkCheckRequestItem(entity=doc("1"), permission="nothing", subject=user("anne")),
]))
assert [r.can for r in bulk.results] == [ALLOWED, DENIED]

found = permission.permissions_lookup_entity(tenant, m.LookupEntityBody(
    metadata=m.PermissionLookupEntityRequestMetadata(schema_version="", snap_token="", depth=20),
    entity_type="document", permission="view", subject=user("bob"), page_size=20))
assert found.entity_ids == ["2", "3", "4"] and found.continuous_token == "", found
subjects = permission.permissions_lookup_subject(tenant, m.LookupSubjectBody(
    metadata=m.PermissionLookupSubjectRequestMetadata(schema_version="", snap_token="", depth=20),
    entity=doc("1"), permission="view", subject_reference=m.RelationReference(type="user"), page_size=20))
assert subjects.subject_ids == ["anne"], subjects
answers = permission.permissions_subject_permission(tenant, m.SubjectPermissionBody(
    metadata=m.PermissionSubjectPermissionRequestMetadata(schema_version="", snap_token="", depth=20, only_permission=False),
    entity=doc("1"), subject=user("anne"), context=tagged))
assert answers.results["view"] == ALLOWED and answers.results["owner"] == ALLOWED and answers.results["edit"] == DENIED
tree = permission.permissions_expand(tenant, m.PermissionExpandBody(
    metadata=m.PermissionExpandRequestMetadata(schema_version="", snap_token=""), entity=doc("1"), permission="view"))
assert tree.tree.expand.operation == m.ExpandTreeNodeOperation.OPERATION_UNION

rows = data.data_relationships_read(tenant, m.ReadRelationshipsBody(
    metadata=m.RelationshipReadRequestMetadata(snap_token=""), filter=m.TupleFilter(), page_size=2))
assert len(rows.tuples) == 2 and rows.continuous_token
rest = data.data_relationships_read(tenant, m.ReadRelationshipsBody(
    metadata=m.RelationshipReadRequestMetadata(snap_token=""), filter=m.TupleFilter(), page_size=2, continuous_token=rows.continuous_token))
assert len(rest.tuples) == 1 and rest.continuous_token == ""
values = data.data_attributes_read(tenant, m.ReadAttributesBody(
    metadata=m.AttributeReadRequestMetadata(snap_token=""), filter=m.AttributeFilter(entity=m.EntityFilter(type="document"))))
assert len(values.attributes) == 1 and values.attributes[0].attribute == "public"

bundle = m.DataBundle(name="share", arguments=["doc", "user"], operations=[
    m.V1Operation(relationships_write=["document:{{.doc}}#viewer@user:{{.user}}"])])
assert bundles.bundle_write(tenant, m.BundleWriteBody(bundles=[bundle])).names == ["share"]
assert bundles.bundle_read(tenant, m.BundleReadBody(name="share")).bundle.name == "share"
data.bundle_run(tenant, m.RunBundleBody(name="share", arguments={"doc": "5", "user": "a+b"}))
assert check(doc("5"), "view", user("a+b")) == ALLOWED
assert bundles.bundle_delete(tenant, m.BundleDeleteBody(name="share")).name == "share"

data.data_delete(tenant, m.DataDeleteBody(tuple_filter=m.TupleFilter(entity=m.EntityFilter(type="document", ids=["5"])), attribute_filter=m.AttributeFilter()))
refused(lambda: data.data_delete(tenant, m.DataDeleteBody(tuple_filter=m.TupleFilter(), attribute_filter=m.AttributeFilter())), 400, "ERROR_CODE_VALIDATION")
assert any(t.id == "t1" for t in tenancy.tenants_list(m.TenantListRequest(page_size=100)).tenants)
assert tenancy.tenants_delete(tenant).tenant_id == tenant
refused(lambda: tenancy.tenants_delete(tenant), 404, "ERROR_CODE_NOT_FOUND")
print("ok")
