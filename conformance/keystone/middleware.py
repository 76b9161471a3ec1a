"""Puts keystonemiddleware in front of a small WSGI service, and sends requests to
the service with tokens of all kinds.

Arguments: the URL of the Identity API, whose administrator is admin with the
password of OS_PASSWORD, and the folder of its Fernet keys. The last line counts
the checks.
"""

import configparser
import glob
import os
import sys
import time

import msgpack
from cryptography import fernet
from keystoneauth1 import session
from keystoneauth1.identity import v3
from keystonemiddleware import auth_token

from checks import check, finish

url, keys = sys.argv[1:]
example = configparser.ConfigParser()
example.read_file(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/production/keystone_authtoken.conf")))


def service(environ, start_response):
    """The service: it answers with the identity that the middleware found."""
    names = "IDENTITY_STATUS", "USER_ID", "USER_NAME", "PROJECT_ID", "PROJECT_NAME", "USER_DOMAIN_ID", "ROLES", "SERVICE_CATALOG", "SERVICE_IDENTITY_STATUS", "SERVICE_ROLES"
    start_response("200 OK", [])
    return [repr({n: environ.get("HTTP_X_" + n) for n in names}).encode()]


def protect(**options):
    """Returns the service behind the middleware, with the options of the example."""
    conf = {**example["keystone_authtoken"], "auth_url": url, "www_authenticate_uri": url, "password": "x", "token_cache_time": "-1", "http_request_max_retries": "0"}
    return auth_token.filter_factory(conf, **options)(service)


def ask(app, token=None, service_token=None):
    """Sends a request, and returns its status, its headers and the identity."""
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/images", "SERVER_NAME": "localhost", "SERVER_PORT": "80", "wsgi.url_scheme": "http",
               "wsgi.input": sys.stdin.buffer, "wsgi.errors": sys.stderr, "SCRIPT_NAME": ""}
    if token:
        environ["HTTP_X_AUTH_TOKEN"] = token
    if service_token:
        environ["HTTP_X_SERVICE_TOKEN"] = service_token
    got = {}

    def start(status, headers, exc_info=None):
        got.update(status=int(status[:3]), headers=dict(headers))

    body = b"".join(app(environ, start))
    identity = eval(body) if got["status"] == 200 else {}
    return got["status"], got["headers"], identity


def login(user, password, project):
    return session.Session(v3.Password(url, username=user, password=password, project_name=project, user_domain_id="default", project_domain_id="default"))


def expired(token, seconds):
    """Returns the token as it would be if it had expired some seconds ago."""
    ring = [fernet.Fernet(open(f).read()) for f in sorted(glob.glob(keys + "/*"), key=lambda f: -int(os.path.basename(f)))]
    text = (token + "=" * (-len(token) % 4)).encode()
    content = msgpack.unpackb(fernet.MultiFernet(ring).decrypt(text))
    content = [time.time() - seconds if isinstance(part, float) else part for part in content]
    return ring[0].encrypt_at_time(msgpack.packb(content), int(time.time()) - seconds - 3600).decode().rstrip("=")


admin = login("admin", os.environ["OS_PASSWORD"], "admin")


def api(method, path, **body):
    answer = admin.request(url + path, method, json=body or None)
    return answer.json() if answer.content else {}


def find(kind, name):
    return api("GET", f"/{kind}?name={name}")[kind][0]["id"]


def user(name, project, role):
    """Creates a user with a role on a new project."""
    p = api("POST", "/projects", project={"name": project})["project"]["id"]
    u = api("POST", "/users", user={"name": name, "password": "x"})["user"]["id"]
    api("PUT", f"/projects/{p}/users/{u}/roles/{find('roles', role)}")
    return u, p


user("glance", "service", "service")
alice, demo = user("alice", "demo-of-alice", "member")
session_alice, session_glance = login("alice", "x", "demo-of-alice"), login("glance", "x", "service")
token, service_token = session_alice.get_token(), session_glance.get_token()
app = protect()

status, headers, who = ask(app, token)
check("valid token", status == 200 and who["IDENTITY_STATUS"] == "Confirmed", (status, who))
check("user", who.get("USER_ID") == alice and who.get("USER_NAME") == "alice", who)
check("project", who.get("PROJECT_ID") == demo and who.get("PROJECT_NAME") == "demo-of-alice", who)
check("domain", who.get("USER_DOMAIN_ID") == "default", who)
check("roles", set(who.get("ROLES", "").split(",")) == {"member", "reader"}, who)
check("catalog", url in (who.get("SERVICE_CATALOG") or ""), who)
status, headers, who = ask(protect(include_service_catalog="false"), token)
check("no catalog", status == 200 and not who["SERVICE_CATALOG"], (status, who))
status, headers, who = ask(app)
check("no token", status == 401 and headers.get("WWW-Authenticate") == f'Keystone uri="{url}"', (status, headers))
check("garbage", ask(app, "gAAAAABgarbage")[0] == 401)
check("forged", ask(app, token[:-3] + ("AAA" if token[-3:] != "AAA" else "BBB"))[0] == 401)
status, headers, who = ask(protect(delay_auth_decision="true"), "gAAAAABgarbage")
check("delayed decision", status == 200 and who["IDENTITY_STATUS"] == "Invalid", (status, who))

status, headers, who = ask(app, token, service_token)
check("service token", status == 200 and who["SERVICE_IDENTITY_STATUS"] == "Confirmed" and who["SERVICE_ROLES"] == "service", (status, who))
check("invalid service token", ask(app, token, "gAAAAABgarbage")[0] == 401)
old, older = expired(token, 60), expired(token, 3 * 24 * 3600)
check("expired token", ask(app, old)[0] == 401)
status, headers, who = ask(app, old, service_token)
check("expired token with a service token", status == 200 and who["USER_ID"] == alice, (status, who))
check("token that expired too long ago", ask(app, older, service_token)[0] == 401)
check("expired token with a service token without the role", ask(app, old, token)[0] == 401)

cached = protect(token_cache_time="300")
check("first request with a cache", ask(cached, token)[0] == 200)
check("second request with a cache", ask(cached, token)[0] == 200)

role = find("roles", "member")
api("DELETE", f"/projects/{demo}/users/{alice}/roles/{role}")
check("token without roles", ask(app, token)[0] == 401)
api("PUT", f"/projects/{demo}/users/{alice}/roles/{role}")
check("token after the role is granted again", ask(app, token)[0] == 200)
admin.delete(url + "/auth/tokens", headers={"X-Subject-Token": token})
check("revoked token", ask(app, token)[0] == 401)
time.sleep(1)  # a token of the second of a revocation may be invalid, too
second = login("alice", "x", "demo-of-alice").get_token()
check("new token", ask(app, second)[0] == 200)
api("PATCH", f"/users/{alice}", user={"enabled": False})
check("token of a disabled user", ask(app, second)[0] == 401)
api("PATCH", f"/users/{alice}", user={"enabled": True})
check("token from before the user was disabled", ask(app, second)[0] == 401)
api("PATCH", f"/users/{find('users', 'glance')}", user={"password": "x"})
time.sleep(1)
third = login("alice", "x", "demo-of-alice").get_token()
check("the service logs in again when its own token is revoked", ask(app, third)[0] == 200)

finish("keystonemiddleware: ")
