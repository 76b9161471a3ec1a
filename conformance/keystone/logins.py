"""Logs in with keystoneauth in the ways that session.txt does not: OAuth 1, OAuth 2,
one-time passwords with receipts, and requests that are signed with an EC2
credential.

Argument: the URL of the Identity API, whose administrator is admin with the
password of OS_PASSWORD. The last line counts the checks.
"""

import base64
import datetime
import hashlib
import hmac
import os
import struct
import sys
import time
import uuid

from keystoneauth1 import exceptions, session
from keystoneauth1.extras import oauth1
from keystoneauth1.identity import v3
from keystoneclient.contrib.ec2 import utils as ec2
from keystoneclient.v3 import client

from checks import check, finish

url = sys.argv[1]


def login(auth):
    return session.Session(auth=auth)


admin = login(v3.Password(url, username="admin", password=os.environ["OS_PASSWORD"], project_name="admin",
                          user_domain_id="default", project_domain_id="default"))
api = client.Client(session=admin, endpoint_override=url)
project = admin.get_project_id()
member = next(r for r in api.roles.list() if r.name == "member")

# OAuth 1: a consumer gets the role member of the administrator.
consumer = api.oauth1.consumers.create(description="x")
request = api.oauth1.request_tokens.create(consumer.id, consumer.secret, project)
verifier = api.oauth1.request_tokens.authorize(request.key, [member.id]).oauth_verifier
access = api.oauth1.access_tokens.create(consumer.id, consumer.secret, request.key, request.secret, verifier)
delegated = login(oauth1.v3.OAuth1(url, consumer.id, consumer.secret, access.key, access.secret))
check("OAuth 1: project", delegated.get_project_id() == project)
roles = [r["name"] for r in admin.get(url + "/auth/tokens", headers={"X-Subject-Token": delegated.get_token()}).json()["token"]["roles"]]
check("OAuth 1: roles", "member" in roles and "admin" not in roles, roles)
wrong = login(oauth1.v3.OAuth1(url, consumer.id, consumer.secret, access.key, "x"))
try:
    wrong.get_token()
    check("OAuth 1: wrong secret", False)
except exceptions.Unauthorized:
    check("OAuth 1: wrong secret", True)
api.oauth1.consumers.delete(consumer.id)

# OAuth 2: an application credential as client.
application = api.application_credentials.create("app-" + uuid.uuid4().hex)
bearer = login(v3.OAuth2ClientCredential(url, url + "/OS-OAUTH2/token", oauth2_client_id=application.id, oauth2_client_secret=application.secret))
check("OAuth 2", bearer.get(url + "/users/" + admin.get_user_id(), raise_exc=False).status_code == 200)

# Several factors: a password, and then a one-time password with the receipt.
name, seed = "user-" + uuid.uuid4().hex, uuid.uuid4().bytes
user = api.users.create(name, password="pw")
api.credentials.create(user.id, "totp", base64.b32encode(seed).decode())
admin.patch(url + "/users/" + user.id, json={"user": {"options": {"multi_factor_auth_rules": [["password", "totp"]]}}})


def passcode():
    mac = hmac.new(seed, struct.pack(">Q", int(time.time() // 30)), hashlib.sha1).digest()
    at = mac[-1] & 15
    return "%06d" % ((struct.unpack(">I", mac[at:at + 4])[0] & 0x7FFFFFFF) % 1000000)


try:
    login(v3.Password(url, username=name, password="pw", user_domain_id="default")).get_token()
    check("receipt", False)
except exceptions.MissingAuthMethods as e:
    check("receipt", e.methods == ["password"] and e.required_auth_methods == [["password", "totp"]], e)
    both = v3.Auth(url, [v3.TOTPMethod(username=name, user_domain_id="default", passcode=passcode())])
    both.add_method(v3.ReceiptMethod(receipt=e.receipt))
    check("second factor", login(both).get_user_id() == user.id)
api.users.delete(user.id)

# EC2: the signatures of Keystone's own client library.
pair = api.ec2.create(admin.get_user_id(), project)
now = datetime.datetime.now(datetime.timezone.utc)
for version in "0124":
    signed = {"access": pair.access, "host": "ec2:8773", "verb": "GET", "path": "/", "headers": {}, "body_hash": "",
              "params": {"Action": "List", "SignatureVersion": version, "SignatureMethod": "HmacSHA256", "Timestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    if version == "4":
        date = now.strftime("%Y%m%dT%H%M%SZ")
        signed["params"] = {"Action": "List"}
        signed["headers"] = {"Host": "ec2:8773", "X-Amz-Date": date, "Authorization":
                             f"AWS4-HMAC-SHA256 Credential={pair.access}/{date[:8]}/r/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature="}
    signed["signature"] = ec2.Ec2Signer(pair.secret).generate(signed)
    response = admin.post(url + "/ec2tokens", json={"credentials": signed}, raise_exc=False)
    check(f"EC2, version {version}", response.status_code == 200, response.text)
    signed["signature"] = ec2.Ec2Signer("x").generate(signed)
    response = admin.post(url + "/ec2tokens", json={"credentials": signed}, raise_exc=False)
    check(f"EC2, version {version}, wrong secret", response.status_code == 401, response.text)
api.ec2.delete(admin.get_user_id(), pair.access)

finish(after=", 0 skipped")
