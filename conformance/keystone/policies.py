"""Asks two servers the same requests under the same policy file, and compares the statuses.

Arguments: the URLs of the servers without /v3. Both have the rules of policies.yaml and no
records but those of a bootstrap. The last line counts the requests.
"""

import json
import sys

import requests

ADMIN = {"project": {"name": "admin", "domain": {"id": "default"}}}


class Server:
    """A server with the records of the comparison, by name."""

    def __init__(self, url):
        self.url, self.ids, self.tokens = url, {"default": "default"}, {}
        self.tokens["admin"] = self.login({"name": "admin", "domain": {"id": "default"}, "password": "secret"}, ADMIN)
        self.fill()

    def call(self, method, path, body=None, token="admin"):
        headers = {"X-Auth-Token": self.tokens[token]}
        path = path.format(**self.ids)
        return requests.request(method, self.url + "/v3" + path, json=body, headers=headers, timeout=120, allow_redirects=False)

    def login(self, user, scope):
        auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        r = requests.post(self.url + "/v3/auth/tokens", json=auth, timeout=120)
        assert r.status_code == 201, r.text
        return r.headers["X-Subject-Token"]

    def make(self, kind, name, label="", **members):
        r = self.call("POST", f"/{kind}s", {kind: {"name": name, **members}})
        assert r.status_code == 201, r.text
        self.ids[f"{kind}_{label or name}"] = r.json()[kind]["id"]
        return r.json()[kind]["id"]

    def fill(self):
        """Makes two domains with users, groups and projects, and one user for each role."""
        for d in ("a", "b"):
            domain = self.make("domain", d)
            for kind in ("user", "group", "project"):
                for name in ("keep", "drop"):
                    self.make(kind, name, label=name + d, domain_id=domain)
        for role in ("auditor", "only-keep", "group-" + self.ids["domain_a"]):
            self.make("role", role)
        for r in self.call("GET", "/roles").json()["roles"]:
            self.ids["role_" + r["name"].replace(self.ids["domain_a"], "a")] = r["id"]
        for persona, role, place in (("boss", "admin", "domain"), ("auditor", "auditor", "project"), ("only", "only-keep", "project"),
                                     ("owner", "group-a", "domain"), ("plain", "member", "project")):
            user = self.make("user", persona, domain_id=self.ids["domain_a"], password="x")
            at = self.ids["domain_a" if place == "domain" else "project_keepa"]
            assert self.call("PUT", f"/{place}s/{at}/users/{user}/roles/{self.ids['role_' + role]}").status_code == 204
            self.tokens[persona] = self.login({"id": user, "password": "x"}, {place: {"id": at}})


def questions():
    """Yields the requests: method, path, body."""
    for d in ("a", "b"):
        for name in ("keep", "drop"):
            for kind in ("user", "group", "project"):
                yield "GET", f"/{kind}s/{{{kind}_{name}{d}}}", None
                yield "PATCH", f"/{kind}s/{{{kind}_{name}{d}}}", {kind: {"description": "x"}}
            yield "GET", f"/users/{{user_{name}{d}}}/projects", None
            yield "GET", f"/users/{{user_{name}{d}}}/groups", None
            yield "PUT", f"/domains/{{domain_{d}}}/users/{{user_{name}{d}}}/roles/{{role_auditor}}", None
            yield "PUT", f"/projects/{{project_{name}{d}}}/users/{{user_{name}{d}}}/roles/{{role_auditor}}", None
            yield "GET", f"/projects/{{project_{name}{d}}}/users/{{user_{name}{d}}}/roles", None
        yield "GET", f"/domains/{{domain_{d}}}", None
    yield "PUT", "/domains/{default}/users/{user_dropa}/roles/{role_auditor}", None
    for path in ("/users", "/groups", "/projects", "/services", "/services?name=keep", "/services?name=drop", "/roles", "/regions"):
        yield "GET", path, None


def main(first, second):
    servers = Server(first), Server(second)
    passed = failed = 0
    for method, path, body in questions():
        for persona in servers[0].tokens:
            got = [s.call(method, path, body, persona).status_code for s in servers]
            if got[0] == got[1]:
                passed += 1
            else:
                failed += 1
                print("failed:", persona, method, path, got)
    for kind in ("user", "group", "project"):  # deletions last
        for name in ("keepb", "dropb"):
            for persona in ("plain", "admin"):
                got = [s.call("DELETE", f"/{kind}s/{{{kind}_{name}}}", None, persona).status_code for s in servers]
                passed, failed = passed + (got[0] == got[1]), failed + (got[0] != got[1])
                if got[0] != got[1]:
                    print("failed:", persona, "DELETE", kind, name, got)
    print(f"policies: {passed} passed, {failed} failed")
    return failed == 0


sys.exit(not main(*sys.argv[1:]))
