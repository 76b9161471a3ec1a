#!/usr/bin/env bash
# Plays Rally's seven scenarios of Keystone against a server of the Identity API.
# Arguments: the folder of Rally's virtual environment, the URL, a folder for
# Rally's files, and the task file (rally.json by default). The password of admin
# is in OS_PASSWORD. Rally's results are in results.json of the folder. The last
# line counts the workloads of the task file.
set -uo pipefail
venv=$1 url=$2 work=$3 task=${4:-$(dirname "$0")/rally.json}
mkdir -p "$work"
export HOME=$work # Rally keeps its settings there
rally() { "$venv/bin/rally" --config-file "$work/rally.conf" "$@"; }
cat >"$work/rally.conf" <<CONF
[DEFAULT]
log_file = $work/rally.log
[database]
connection = sqlite:///$work/rally.db
CONF
rm -f "$work/rally.db" "$work/results.json"
cat >"$work/env.json" <<SPEC
{"existing@openstack": {"auth_url": "$url", "region_name": "RegionOne", "endpoint_type": "public", "https_insecure": false,
 "admin": {"username": "admin", "password": "$OS_PASSWORD", "project_name": "admin", "user_domain_name": "Default", "project_domain_name": "Default"}}}
SPEC
rally db create >"$work/db.out" 2>&1 && rally env create --name ks --spec "$work/env.json" >"$work/env.out" 2>&1 || {
	tail -n 20 "$work/env.out"
	echo "rally: 0 passed, 1 failed"
	exit 1
}
rally task start --task "$task" >"$work/task.out" 2>&1
rally task results >"$work/results.json" 2>/dev/null
"$venv/bin/python" - "$work/results.json" "$task" <<'COUNT'
import json, sys
expected = sum(len(runs) for runs in json.load(open(sys.argv[2])).values())
try:
    workloads = json.load(open(sys.argv[1]))
except ValueError as e:
    workloads = []
    print(e)
passed = 0
for w in workloads:
    wrong = [r["error"] for r in w["result"] if r["error"]]
    good = not wrong and len(w["result"]) == w["key"]["kw"]["runner"]["times"]
    passed += good
    if not good:
        print("failed:", w["key"]["name"], wrong[:1])
print(f"rally: {passed} passed, {expected - passed} failed")
sys.exit(passed != expected)
COUNT
