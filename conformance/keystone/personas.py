"""Asks a server who may call what, and compares with a file.

Arguments: the URL of the server without /v3, and the file, which describes its own
form: door/keystone/testdata/personas.txt. With a third argument "print", it prints
the file with the statuses that the server answers. The last line counts the calls.
"""

import json
import re
import sys

import requests

ADMIN = {"project": {"name": "admin", "domain": {"id": "default"}}}


class World:
    """The records that the file makes, and the server that has them."""

    def __init__(self, url, file):
        self.url, self.lets, self.recipes, self.counter = url, {}, {}, 100000
        self.admin = self.login({"name": "admin", "domain": {"id": "default"}, "password": "secret"}, ADMIN)
        self.lines = open(file).read().splitlines()
        for line in self.lines:
            words = line.split()
            if not words:
                continue
            if words[0] == "let":
                self.lets[words[1]] = self.make(words[2:], self.lets)
            elif words[0] == "each":
                self.recipes[words[1]] = words[2:]
            elif words[0] == "personas":
                self.personas = dict.fromkeys(words[1:])

    def call(self, method, path, body, token, subject=None):
        headers = {"X-Auth-Token": token, "X-Subject-Token": subject, "Content-Type": "application/json" if body else None}
        return requests.request(method, self.url + path, data=body, headers={k: v for k, v in headers.items() if v}, timeout=120, allow_redirects=False)

    def login(self, user, scope):
        auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        r = self.call("POST", "/v3/auth/tokens", json.dumps(auth), None)
        assert r.status_code == 201, r.text
        return r.headers["X-Subject-Token"]

    def begin(self):
        """Makes the users of the personas with their grants, and logs them in."""
        roles = {r["name"]: r["id"] for r in self.call("GET", "/v3/roles", None, self.admin).json()["roles"]}
        places = {"s": ({"system": {"all": True}}, "/v3/system"), "d": ({"domain": {"id": self.lets["A"]}}, "/v3/domains/" + self.lets["A"]),
                  "p": ({"project": {"id": self.lets["a"]}}, "/v3/projects/" + self.lets["a"])}
        for name in self.personas:
            body = json.dumps({"user": {"name": name, "domain_id": self.lets["A"], "password": "x"}})
            user = self.call("POST", "/v3/users", body, self.admin).json()["user"]["id"]
            kind, _, role = name.partition("-")
            scope = {"unscoped": {}}
            if role:
                scope, place = places[kind]
                r = self.call("PUT", f"{place}/users/{user}/roles/{roles[role]}", None, self.admin)
                assert r.status_code == 204, r.text
            self.personas[name] = {"self": user, "selftoken": self.login({"id": user, "password": "x"}, scope)}

    def fill(self, text, env):
        """Replaces names in braces by their values."""

        def value(match):
            name = match[1]
            if name == "n":
                self.counter += 1
                return str(self.counter)
            if name in env:
                return env[name]
            if name in self.lets:
                return self.lets[name]
            env[name] = self.make(self.recipes[name], env)
            return env[name]

        return re.sub(r"\{([A-Za-z]\w*)\}", value, text)

    def make(self, words, env):
        """Does the request of a recipe, and returns its value."""
        token = self.admin
        if words[0] == "as":
            token, words = self.fill(words[1], env), words[2:]
        end = words.index("=>")
        body = self.fill(words[2], env) if end > 2 else None
        r = self.call(words[0], self.fill(words[1], env), body, token)
        assert r.status_code < 300, (words, r.status_code, r.text)
        value = words[end + 1]
        if "{" in value:
            return self.fill(value, env)
        if value == "X-Subject-Token":
            return r.headers[value]
        found = r.json()
        for part in value.split("."):
            found = found[int(part) if part.isdigit() else part]
        return found

    def ask(self, words, persona):
        """Does one call as a persona, and returns its status."""
        env = dict(self.personas[persona])
        path, body, subject = self.fill(words[1], env), None, None
        for word in words[2:]:
            if word.startswith("subject="):
                subject = self.fill(word[8:], env)
            else:
                body = self.fill(word, env)
        return self.call(words[0], path, body, env["selftoken"], subject).status_code


def split(line):
    """Returns the words of a call and its statuses."""
    words = line.split()
    end = next((i for i, w in enumerate(words) if re.fullmatch(r"\d{3}|-", w)), len(words))
    return words[:end], words[end:]


def columns(statuses):
    """Returns statuses in groups, as the file has them."""
    s = [str(x) for x in statuses]
    return "  ".join(" ".join(g) for g in (s[:4], s[4:8], s[8:12], s[12:13], s[13:]))


def main(url, file, mode="compare"):
    world = World(url, file)
    world.begin()
    lines, passed, failed = world.lines, 0, 0
    for i, line in enumerate(lines):
        if not re.match(r"(GET|HEAD|POST|PUT|PATCH|DELETE) ", line):
            if mode == "print":
                print(line)
            continue
        words, want = split(line)
        if i + 1 < len(lines) and lines[i + 1].startswith("keystone "):
            want = lines[i + 1].split()[1:]
        if want[:1] == ["-"] and mode != "print":
            continue
        got = [str(world.ask(words, p)) for p in world.personas]
        if mode == "print":
            print(" ".join(words) + "  " + columns(got), flush=True)
        elif got == want:
            passed += len(got)
        else:
            wrong = sum(x != y for x, y in zip(got, want, strict=True))
            passed, failed = passed + len(got) - wrong, failed + wrong
            print("failed:", " ".join(words), "\n  got ", columns(got), "\n  want", columns(want))
    if mode != "print":
        print(f"personas: {passed} passed, {failed} failed")
    return failed == 0


sys.exit(not main(*sys.argv[1:]))
