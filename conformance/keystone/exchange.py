"""Fills a real Keystone, and compares it with a server that has imported it.

fill URL FILE SOCKET   makes records of all kinds in the real one, and notes in
                       FILE how to log in, and tokens that it has issued. SOCKET is
                       MariaDB's: passwords get all four forms of hashes through it.
compare URL REAL FILE  compares the server at URL with the real one. The last line
                       counts the checks.
"""

import json
import os
import subprocess
import sys

import requests

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

    def admin(self):
        r = self.login("admin", "secret", {"project": {"name": "admin", "domain": {"id": "default"}}})
        assert r.status_code == 201, r.text
        self.token = r.headers["X-Subject-Token"]


def hashes():
    """Returns hashes of the password "four forms" that Keystone makes."""
    from keystone.common.password_hashers import bcrypt, pbkdf2, scrypt

    p = b"four forms"
    return {"bcrypt": bcrypt.Bcrypt.hash(p, rounds=4), "bcrypt-sha256": bcrypt.Bcrypt_sha256.hash(p, rounds=4), "scrypt": scrypt.Scrypt.hash(p), "pbkdf2": pbkdf2.Sha512.hash(p)}


def fill(url, file, socket):
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
        statement = f"update password p join local_user l on l.id = p.local_user_id set p.password_hash = '{hash}' where l.user_id = '{id}'"
        subprocess.run(["mariadb", "--no-defaults", "-uroot", "-S", socket, "keystone", "-e", statement], check=True)
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
    json.dump({"logins": logins, "tokens": tokens, "notes": notes, "users": {"alice": alice, "bob": bob}, "domain": domain, "top": top, "trust": notes["trust"], "disabled": carol}, open(file, "w"))


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
    "/role_assignments?effective": "links",  # of implied and inherited ones, the real one links the assignment that they come from
    "/groups": "membership_expires_at",  # of a user: always null
    "/role_inferences": "links",
    "/application_credentials": "links",  # in a list, the real one links a path that it does not have
    "/tags": "links",  # the real one links the root
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


{"fill": fill, "compare": compare}[sys.argv[1]](*sys.argv[2:])
