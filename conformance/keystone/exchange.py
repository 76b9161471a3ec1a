"""Fills a real Keystone, and compares it with a server that has imported it.

fill URL FILE DATABASE  makes records of all kinds in the real one, and notes in FILE
                        how to log in, and tokens that it has issued. DATABASE is the
                        URL of its database: passwords get all four forms of hashes
                        through it.
compare URL REAL FILE   compares the server at URL with the real one. The last line
                        counts the checks.
spoil DATABASE          adds rows to the database that no import can copy.
spoiled FILE            compares the notes of an import of such a database with what
                        they must name. The last line counts the checks.
"""

import json
import os
import sys
from urllib.parse import parse_qs, urlsplit

import requests
from oauthlib import oauth1

from checks import check, finish


class Server:
    """A server of the Identity API."""

    def __init__(self, url):
        self.url, self.token = url, None

    def call(self, method, path, body=None, token=None, subject=None):
        headers = {"X-Auth-Token": token or self.token, "X-Subject-Token": subject, "OpenStack-Identity-Access-Rules": "1"}
        return requests.request(method, self.url + path, json=body, headers={k: v for k, v in headers.items() if v}, timeout=120)

    def make(self, kind, plural=None, **members):
        r = self.call("POST", "/" + (plural or kind + "s"), {kind: members})
        assert r.status_code == 201, (kind, members, r.text)
        return r.json()[kind]

    def put(self, path):
        r = self.call("PUT", path)
        assert r.status_code in (201, 204), (path, r.text)

    def login(self, user, secret, scope=None, domain="default"):
        """Returns the response of a login. user is a name or an id."""
        who = {"id": user} if domain is None else {"name": user, "domain": {"id": domain}}
        auth = {"identity": {"methods": ["password"], "password": {"user": {**who, "password": secret}}}}
        if scope:
            auth["scope"] = scope
        return self.call("POST", "/auth/tokens", {"auth": auth})

    def application(self, id, secret):
        return self.call("POST", "/auth/tokens", {"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"id": id, "secret": secret}}}})

    def trust(self, token, id):
        return self.call("POST", "/auth/tokens", {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": {"OS-TRUST:trust": {"id": id}}}})

    def signed(self, path, client, project=None, body=None):
        """Sends a request that a consumer of OAuth 1 signs."""
        headers = {"Requested-Project-Id": project} if project else {}
        target, signed, _ = client.sign(self.url + path, http_method="POST", headers=headers)
        return requests.post(target, headers=signed, json=body, timeout=120)

    def admin(self):
        r = self.login("admin", "secret", {"project": {"name": "admin", "domain": {"id": "default"}}})
        assert r.status_code == 201, r.text
        self.token = r.headers["X-Subject-Token"]


def execute(database, *statements):
    """Executes statements of SQL, each with its values."""
    u = urlsplit(database)
    where = {"host": u.hostname, "port": u.port, "user": u.username, "password": u.password}
    if u.scheme.startswith("mysql"):
        import pymysql

        db = pymysql.connect(database="keystone", init_command="SET SESSION sql_mode = 'ANSI_QUOTES'", **where)
    else:
        import psycopg2

        db = psycopg2.connect(dbname="keystone", **where)
    with db.cursor() as cursor:
        for text, *values in statements:
            cursor.execute(text, values)
    db.commit()
    db.close()


def hashes():
    """Returns hashes of the password "four forms" that Keystone makes."""
    from keystone.common.password_hashers import bcrypt, pbkdf2, scrypt

    p = b"four forms"
    return {"bcrypt": bcrypt.Bcrypt.hash(p, rounds=4), "bcrypt-sha256": bcrypt.Bcrypt_sha256.hash(p, rounds=4), "scrypt": scrypt.Scrypt.hash(p), "pbkdf2": pbkdf2.Sha512.hash(p)}


def fill(url, file, database):
    s = Server(url)
    s.admin()
    roles = {r["name"]: r["id"] for r in s.call("GET", "/roles").json()["roles"]}
    domain = s.make("domain", name="branch", description="another one")["id"]
    off = s.make("domain", name="closed", enabled=False)["id"]
    top = s.make("project", name="top", domain_id=domain, tags=["blue", "green"], cost=7)["id"]
    mid = s.make("project", name="mid", domain_id=domain, parent_id=top, options={"immutable": True})["id"]
    low = s.make("project", name="low", domain_id=domain, parent_id=mid)["id"]
    s.make("project", name="asleep", domain_id=domain, enabled=False)
    own = s.make("role", name="own", domain_id=domain)["id"]
    auditor = s.make("role", name="auditor", description="looks")["id"]
    s.put(f"/roles/{auditor}/implies/{roles['reader']}")
    s.put(f"/roles/{own}/implies/{auditor}")
    alice = s.make("user", name="alice", domain_id=domain, password="alice's", default_project_id=top, email="a@example.com", description=None,
                   options={"ignore_password_expiry": True, "lock_password": False})["id"]
    bob = s.make("user", name="bob", domain_id=domain, password="bob's")["id"]
    carol = s.make("user", name="carol", domain_id="default", password="carol's", enabled=False, options={"multi_factor_auth_rules": [["password", "totp"]], "multi_factor_auth_enabled": True})["id"]
    s.make("user", name="outsider", domain_id=off)
    logins = [["alice", "alice's", domain], ["bob", "bob's", domain]]
    for form, hash in hashes().items():
        id = s.make("user", name=form, password="first", domain_id="default")["id"]
        execute(database, ("update password set password_hash = %s where local_user_id = (select id from local_user where user_id = %s)", hash, id))
        logins.append([form, "four forms", "default"])
    group = s.make("group", name="crew", domain_id=domain, description="all hands")["id"]
    s.put(f"/groups/{group}/users/{alice}")
    s.put(f"/groups/{group}/users/{bob}")
    s.put(f"/projects/{top}/users/{alice}/roles/{roles['member']}")
    s.put(f"/projects/{low}/groups/{group}/roles/{auditor}")
    s.put(f"/domains/{domain}/users/{alice}/roles/{roles['manager']}")
    s.put(f"/domains/{domain}/groups/{group}/roles/{own}")
    s.put(f"/OS-INHERIT/domains/{domain}/users/{bob}/roles/{own}/inherited_to_projects")
    s.put(f"/OS-INHERIT/projects/{top}/groups/{group}/roles/{roles['reader']}/inherited_to_projects")
    s.put(f"/projects/{top}/users/{bob}/roles/{roles['member']}")
    s.put(f"/system/users/{alice}/roles/{roles['reader']}")
    s.put(f"/system/groups/{group}/roles/{auditor}")
    s.make("region", id="north", description="cold")
    s.make("region", id="arctic", parent_region_id="north")
    nova = s.make("service", type="compute", name="nova", description="machines")["id"]
    s.make("service", type="metering", name="gone", enabled=False)
    s.make("endpoint", service_id=nova, interface="public", region_id="arctic", url="http://127.0.0.1/v2/$(project_id)s")
    s.call("POST", "/registered_limits", {"registered_limits": [{"service_id": nova, "resource_name": "cores", "default_limit": 10, "region_id": "north"}, {"service_id": nova, "resource_name": "ram", "default_limit": -1}]})
    s.call("POST", "/limits", {"limits": [{"service_id": nova, "resource_name": "ram", "project_id": top, "resource_limit": 5, "description": "few"}, {"service_id": nova, "resource_name": "cores", "region_id": "north", "domain_id": domain, "resource_limit": 8}]})

    on = lambda project: {"project": {"id": project}}
    tokens, notes = {}, {}

    def issued(name, response):
        assert response.status_code == 201, (name, response.text)
        tokens[name] = response.headers["X-Subject-Token"]
        return tokens[name]

    a = issued("project", s.login("alice", "alice's", on(top), domain))
    b = issued("inherited", s.login("bob", "bob's", on(low), domain))
    issued("domain", s.login("alice", "alice's", {"domain": {"id": domain}}, domain))
    issued("system", s.login("alice", "alice's", {"system": {"all": True}}, domain))
    issued("unscoped", s.login("bob", "bob's", {"unscoped": {}}, domain))
    issued("default project", s.login("alice", "alice's", None, domain))
    issued("admin", s.login("admin", "secret", {"project": {"name": "admin", "domain": {"id": "default"}}}))
    gone = issued("revoked", s.login("bob", "bob's", on(top), domain))
    assert s.call("DELETE", "/auth/tokens", subject=gone).status_code == 204
    rules = [{"service": "compute", "path": "/v2/**", "method": "GET"}]
    for name, more in {"robot": {"access_rules": rules}, "free": {"unrestricted": True, "secret": "chosen", "roles": [{"id": roles["reader"]}]}, "brief": {"expires_at": "2099-01-01T00:00:00"}}.items():
        r = s.call("POST", f"/users/{alice}/application_credentials", {"application_credential": {"name": name, **more}}, token=a)
        assert r.status_code == 201, r.text
        c = r.json()["application_credential"]
        notes["application " + name] = [c["id"], c["secret"]]
        issued("application " + name, s.application(c["id"], c["secret"]))
    r = s.call("POST", "/OS-TRUST/trusts", {"trust": {"trustor_user_id": alice, "trustee_user_id": bob, "project_id": top, "impersonation": True, "roles": [{"id": roles["member"]}], "remaining_uses": 5}}, token=a)
    assert r.status_code == 201, r.text
    notes["trust"] = r.json()["trust"]["id"]
    issued("trust", s.trust(tokens["unscoped"], notes["trust"]))
    r = s.call("POST", "/credentials", {"credential": {"user_id": alice, "type": "ec2", "project_id": top, "blob": json.dumps({"access": "key-of-alice", "secret": "hidden"})}})
    assert r.status_code == 201, r.text
    s.make("credential", user_id=bob, type="totp", blob="GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
    s.make("credential", user_id=bob, type="note", blob='"quoted"')
    notes["paths"] = further(s, database, locals())
    json.dump({"logins": logins, "tokens": tokens, "notes": notes, "users": {"alice": alice, "bob": bob}, "domain": domain, "top": top, "trust": notes["trust"], "disabled": carol, "member": roles["member"]}, open(file, "w"))


def further(s, database, made):
    """Makes what other services and identity providers need, and what the rules for
    passwords count. Returns the paths of the bodies to compare."""
    domain, alice, low, nova, roles, notes = (made[k] for k in ("domain", "alice", "low", "nova", "roles", "notes"))

    def ok(method, path, body=None):
        r = s.call(method, path, body)
        assert r.status_code in (200, 201, 204), (path, r.text)
        return r.json() if r.content else None

    ok("PUT", f"/domains/{domain}/config", {"config": {"identity": {"driver": "ldap"}, "ldap": {"url": "ldap://127.0.0.1", "password": "of ldap", "user_tree_dn": "ou=x"}}})
    policy = s.make("policy", "policies", type="application/json", blob=json.dumps({"rule": []}), note=[1])["id"]
    endpoint = s.make("endpoint", service_id=nova, interface="internal", region_id="north", url="http://127.0.0.1/v2")["id"]
    for target in (f"endpoints/{endpoint}", f"services/{nova}", f"services/{nova}/regions/arctic"):
        ok("PUT", f"/policies/{policy}/OS-ENDPOINT-POLICY/{target}")
    group = s.make("endpoint_group", "OS-EP-FILTER/endpoint_groups", name="cold", description="in the north", filters={"interface": "public", "region_id": "arctic"})["id"]
    ok("PUT", f"/OS-EP-FILTER/endpoint_groups/{group}/projects/{low}")
    ok("PUT", f"/OS-EP-FILTER/projects/{low}/endpoints/{endpoint}")

    rules = [{"local": [{"user": {"name": "{0}"}}], "remote": [{"type": "OIDC-sub"}]}]
    ok("PUT", "/OS-FEDERATION/mappings/names", {"mapping": {"rules": rules, "schema_version": "2.0"}})
    ok("PUT", "/OS-FEDERATION/identity_providers/acme", {"identity_provider": {"enabled": True, "description": "of Acme", "domain_id": domain, "remote_ids": ["https://b", "https://a"]}})
    ok("PUT", "/OS-FEDERATION/identity_providers/off", {"identity_provider": {"enabled": False}})
    ok("PUT", "/OS-FEDERATION/identity_providers/acme/protocols/openid", {"protocol": {"mapping_id": "names"}})
    ok("PUT", "/OS-FEDERATION/service_providers/west", {"service_provider": {"auth_url": "https://127.0.0.1/a", "sp_url": "https://127.0.0.1/s", "enabled": False, "description": "w"}})
    fed = s.make("user", name="fed", domain_id=domain, federated=[{"idp_id": "acme", "protocols": [{"protocol_id": "openid", "unique_id": "fed%40acme"}]}])["id"]

    consumer = s.make("consumer", "OS-OAUTH1/consumers", description="program", home="here")
    scope = s.call("GET", "/auth/tokens", subject=s.token).json()["token"]
    admin, project = scope["user"]["id"], scope["project"]["id"]

    def request():
        client = oauth1.Client(consumer["id"], client_secret=consumer["secret"], callback_uri="oob")
        r = s.signed("/OS-OAUTH1/request_token", client, project)
        assert r.status_code == 201, r.text
        t = {k: v[0] for k, v in parse_qs(r.text).items()}
        verifier = ok("PUT", f"/OS-OAUTH1/authorize/{t['oauth_token']}", {"roles": [{"id": roles["admin"]}]})["token"]["oauth_verifier"]
        return {"client_key": consumer["id"], "client_secret": consumer["secret"], "resource_owner_key": t["oauth_token"], "resource_owner_secret": t["oauth_token_secret"], "verifier": verifier}

    notes["request token"] = request()
    notes["access token"] = access(s, request())

    s.make("user", name="idle", domain_id=domain, password="idle's")
    execute(database, ('update "user" set created_at = %s, last_active_at = %s where id = (select user_id from local_user where name = %s)', "2020-01-01 00:00:00", "2020-01-02", "idle"))
    locked = s.make("user", name="locked", domain_id=domain, password="first one")["id"]
    ok("POST", f"/users/{locked}/password", {"user": {"password": "second one", "original_password": "first one"}})
    notes["changed"] = s.make("user", name="changed", domain_id=domain, password="first one")["id"]
    ok("POST", f"/users/{notes['changed']}/password", {"user": {"password": "second one", "original_password": "first one"}})
    for _ in range(3):
        assert s.login(locked, "wrong", None, None).status_code == 401
    notes["locked"] = locked
    return [f"/domains/{domain}/config", f"/domains/{domain}/config/ldap", f"/policies/{policy}", "/policies", f"/policies/{policy}/OS-ENDPOINT-POLICY/endpoints",
            f"/endpoints/{endpoint}/OS-ENDPOINT-POLICY/policy", "/OS-EP-FILTER/endpoint_groups", f"/OS-EP-FILTER/endpoint_groups/{group}/projects", f"/OS-EP-FILTER/projects/{low}/endpoints",
            f"/OS-EP-FILTER/projects/{low}/endpoint_groups", f"/OS-EP-FILTER/endpoints/{endpoint}/projects", "/OS-FEDERATION/mappings", "/OS-FEDERATION/mappings/names",
            "/OS-FEDERATION/identity_providers", "/OS-FEDERATION/identity_providers/acme", "/OS-FEDERATION/identity_providers/acme/protocols", "/OS-FEDERATION/identity_providers/acme/protocols/openid",
            "/OS-FEDERATION/service_providers", f"/users/{fed}", "/OS-OAUTH1/consumers", f"/OS-OAUTH1/consumers/{consumer['id']}", "/users?name=idle", f"/users/{locked}", f"/users/{admin}/OS-OAUTH1/access_tokens"]


def access(s, request):
    """Exchanges a request token of OAuth 1 for an access token."""
    r = s.signed("/OS-OAUTH1/access_token", oauth1.Client(**request))
    assert r.status_code == 201, r.text
    t = {k: v[0] for k, v in parse_qs(r.text).items()}
    return {**{k: request[k] for k in ("client_key", "client_secret")}, "resource_owner_key": t["oauth_token"], "resource_owner_secret": t["oauth_token_secret"]}


def differences(x, y, at=""):
    """Returns the places where two bodies differ, with both values."""
    if isinstance(x, dict) and isinstance(y, dict):
        return [d for k in sorted({*x, *y}) for d in differences(x.get(k, "absent"), y.get(k, "absent"), f"{at}.{k}")]
    if isinstance(x, list) and isinstance(y, list):
        return [f"{at}: only ours {v}" for v in x if v not in y] + [f"{at}: only theirs {v}" for v in y if v not in x]
    return [] if x == y else [f"{at}: ours {x}, theirs {y}"]


def without(x, name):
    """Returns a body without the members of a name."""
    if isinstance(x, dict):
        return {k: without(v, name) for k, v in x.items() if k != name}
    return [without(v, name) for v in x] if isinstance(x, list) else x


def same(x, ours, theirs):
    """Returns a body without the URL of its server. Lists are in one order, and
    without what occurs twice: a role that a user has twice, for example."""
    if isinstance(x, dict):
        return {k: same(v, ours, theirs) for k, v in x.items() if k not in ("audit_ids",)}
    if isinstance(x, list):
        texts = {json.dumps(same(v, ours, theirs), sort_keys=True) for v in x}
        return [json.loads(t) for t in sorted(texts)]
    if isinstance(x, str):
        return x.replace(ours, "URL").replace(theirs, "URL")
    return x


# Members that differ, by the ends of paths. The rest of the bodies is compared.
KNOWN = {
    "/application_credentials": "links",  # in a list, the real one links a path that it does not have
    "/tags": "links",  # the real one links the root
    "/users": "federated",  # in a list, the real one leaves it out
    "/OS-ENDPOINT-POLICY/endpoints": "region",  # here the real one leaves out the older name of region_id
    "/OS-ENDPOINT-POLICY/policy": "links",  # the real one links the policy below /endpoints
    "/identity_providers/acme": "links",  # for one provider, the real one does not link its protocols
    "/protocols": "links",  # the real one leaves out the beginning of the paths
    "/protocols/openid": "links",
}
LISTS = ["/users", "/groups", "/projects", "/domains", "/roles", "/role_inferences", "/role_assignments", "/role_assignments?include_names", "/role_assignments?effective",
         "/regions", "/services", "/endpoints", "/registered_limits", "/limits", "/OS-TRUST/trusts", "/credentials"]


def compare(url, real, file):
    absent = [w.strip() for w in open(os.path.dirname(os.path.abspath(__file__)) + "/absent.txt")]
    state = json.load(open(file))
    ours, theirs = Server(url), Server(real)
    ours.admin()
    theirs.admin()
    alice, bob, domain = state["users"]["alice"], state["users"]["bob"], state["domain"]

    def both(name, path):
        x, y = ours.call("GET", path), theirs.call("GET", path)
        left_out = next((v for k, v in KNOWN.items() if path.endswith(k)), None)
        bodies = [same(without(r.json(), left_out), url, real) if r.content else None for r in (x, y)]
        check(name, x.status_code == y.status_code and bodies[0] == bodies[1], (x.status_code, y.status_code, differences(*bodies)))

    lists = [l for l in LISTS if "TRUST" not in l or "test_trusts" not in absent]
    for path in lists + [f"/roles?domain_id={domain}", f"/users/{alice}/groups", f"/users/{alice}/projects", f"/users/{alice}", f"/users/{bob}",
                         f"/projects/{state['top']}", f"/domains/{domain}/users/{alice}/roles", f"/system/users/{alice}/roles", f"/projects/{state['top']}/tags"]:
        both("list " + path, path)
    delegated = "test_application_credentials" not in absent
    if delegated:
        both("application credentials", f"/users/{alice}/application_credentials")
    for name, secret, where in state["logins"]:
        r = ours.login(name, secret, None, where)
        check("login " + name, r.status_code == 201, r.text)
        check("wrong password of " + name, ours.login(name, secret + "x", None, where).status_code == 401)
    check("login of a disabled user", ours.login(state["disabled"], "carol's", None, None).status_code == 401)

    for name, token in state["tokens"].items():
        if ("application" in name or "trust" in name) and not delegated:
            continue
        x, y = ours.call("GET", "/auth/tokens", subject=token), theirs.call("GET", "/auth/tokens", subject=token)
        if name == "revoked":
            check("revoked token", (x.status_code, y.status_code) == (404, 404), (x.status_code, y.status_code))
            continue
        bodies = [same(r.json(), url, real) for r in (x, y)]
        check(f"token of the real one: {name}", x.status_code == y.status_code == 200 and bodies[0] == bodies[1], (x.status_code, y.status_code, differences(*bodies)))
        x, y = (s.call("GET", "/auth/projects", token=token) for s in (ours, theirs))
        check(f"call with a token of the real one: {name}", x.status_code == y.status_code, (x.status_code, y.status_code, x.text, y.text))

    def back(name, response):
        check(f"login: {name}", response.status_code == 201, response.text)
        token = response.headers.get("X-Subject-Token")
        x, y = (s.call("GET", "/auth/tokens", subject=token) for s in (ours, theirs))
        bodies = [same(r.json(), url, real) for r in (x, y)]
        check(f"token for the real one: {name}", x.status_code == y.status_code == 200 and bodies[0] == bodies[1], (x.status_code, y.status_code, differences(*bodies)))

    for path in state["notes"]["paths"]:
        both("read " + path, path)
    oauth = {"auth": {"identity": {"methods": ["oauth1"], "oauth1": {}}}}
    back("access token of OAuth 1", ours.signed("/auth/tokens", oauth1.Client(**state["notes"]["access token"]), body=oauth))
    made = access(ours, state["notes"]["request token"])
    check("request token of OAuth 1", ours.signed("/auth/tokens", oauth1.Client(**made), body=oauth).status_code == 201)

    check("locked user", [s.login(state["notes"]["locked"], "second one", None, None).status_code for s in (ours, theirs)] == [401, 401])
    for s in (ours, theirs):
        r = s.call("POST", f"/users/{state['notes']['changed']}/password", {"user": {"password": "first one", "original_password": "second one"}})
        check("previous password", r.status_code == 400 and "previous password" in r.text, r.text)

    scope = {"project": {"id": state["top"]}}
    back("project", ours.login("alice", "alice's", scope, domain))
    back("domain", ours.login("alice", "alice's", {"domain": {"id": domain}}, domain))
    back("system", ours.login("alice", "alice's", {"system": {"all": True}}, domain))
    unscoped = ours.login("bob", "bob's", {"unscoped": {}}, domain)
    back("unscoped", unscoped)
    if delegated:
        for name in ("application robot", "application free", "application brief"):
            back(name, ours.application(*state["notes"][name]))
        back("trust", ours.trust(unscoped.headers["X-Subject-Token"], state["trust"]))
    finish("real: ")


# Rows that refer to nothing or cannot be read, with the lines that name them. The
# database accepts them, because Keystone has no foreign keys for them.
SPOILT = [
    ("""insert into assignment (type, actor_id, target_id, role_id, inherited) values ('UserProject', 'ghost', 'nowhere', 'none', false)""",
     "role assignment not copied: role none for ghost on nowhere: Could not find role: none."),
    ("""insert into role (id, name, extra, domain_id) values ('torn', 'torn', '{"a":', '<<null>>')""", "role not copied: torn: column extra: invalid JSON: "),
    ("""insert into "user" (id, domain_id, enabled, extra) values ('nameless', 'default', true, '{}')""", "user not copied: nameless: no name: "),
    ("""insert into "user" (id, domain_id, enabled, extra) values ('broken', 'default', true, '[]')""", "user not copied: broken: column extra: "),
    ("""insert into trust (id, trustor_user_id, trustee_user_id, project_id, impersonation, redelegated_trust_id, expires_at_int) values ('late', 'ghost', 'ghost', 'nowhere', true, 'gone', 4070908800000000)""",
     "trust not copied: late: Could not find "),
    ("""insert into credential (id, user_id, type, encrypted_blob, key_hash) values ('sealed', 'ghost', 'note', 'text', 'x')""", "credential not copied: sealed: none of 2 credential keys decrypts it"),
    ("""insert into access_rule (external_id, user_id, service, path, method) values ('rule', 'ghost', 's', '/', 'GET')""", "access rule not copied: rule: Could not find user: ghost."),
    ("""insert into project_endpoint (endpoint_id, project_id) values ('none', 'nowhere')""", "endpoint of a project not copied: project nowhere and endpoint none: Could not find "),
    ("""insert into policy_association (id, policy_id, endpoint_id) values ('x', 'none', 'none')""", "policy association not copied: policy none and endpoint none: Could not find "),
    ("""insert into sensitive_config (domain_id, "group", "option", value) values ('default', 'site', 'hidden', '"hidden value"')""",
     "domain configuration copied in part: default: Invalid domain specific configuration: Group site"),
    ("""insert into project (id, name, extra, enabled, domain_id, parent_id, is_domain) values ('loop', 'loop', '{}', true, 'default', 'loop', false)""", "project not copied: loop: Could not find project: loop."),
    ("""update password set password_hash = '$6$rounds=1$hidden$value' where local_user_id = (select id from local_user where name = 'bob')""", "a password is left out, because its hash has an unknown form"),
]


def spoil(database):
    execute(database, *([text] for text, _ in SPOILT))


def spoiled(file):
    notes = open(file).read()
    for _, line in SPOILT:
        check(line, line in notes, notes)
    check("no secret", "hidden value" not in notes and "$6$" not in notes, notes)
    finish("spoilt rows: ")


{"fill": fill, "compare": compare, "spoil": spoil, "spoiled": spoiled}[sys.argv[1]](*sys.argv[2:])
