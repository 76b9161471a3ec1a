"""Reads Rally's results as the notebook of the study of multi-region Keystone deployments
does: with its patterns of folders, its expressions of names and its paths into the files.
Compares what it finds with the records, and checks what must hold on any machine.

Arguments: the folder of Rally's results, and the records as "ostiary-bench geo --json"
prints them.
"""
import glob
import json
import re
import sys

import objectpath

RE_XP = r'(?:mariadb|galera|cockroachdb|postgresql|raft)-[a-zA-Z0-9\-]+'  # the last two are ours
RE_XP_PARAMS = r'(?P<db>[a-z]+)-(?P<oss>[0-9]+)-(?P<delay>[0-9]+)-(?P<zones>[Z0-9]{6})-(?P<high>[TF]).*'
JPATH_SCN = '$.tasks[0].subtasks[0].title'
JPATH_SERIES = '$.tasks[0].subtasks[0].workloads[0].data[len(@.error) is 0].atomic_actions'

passed, failed = 0, []


def check(ok, what):
    global passed
    if ok:
        passed += 1
    else:
        failed.append(what)


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


rally, records = sys.argv[1:]
with open(records) as file:
    records = {(r['cell']['system'], r['cell']['store'], bool(r['cell'].get('local')), r['cell']['instances'], r['cell']['delay_ms']): r for r in json.load(file)}
check(len(records) > 0, 'there are no records')
means = {}
for path in sorted(glob.glob(rally + '/*/*/rally_home/*.json')):
    with open(path) as file:
        tree = objectpath.Tree(json.load(file))
    system = path[len(rally) + 1:].split('/')[0]
    found = re.match(RE_XP_PARAMS, re.findall(RE_XP, path)[0]).groupdict()
    key = (system.removesuffix('-local'), found['db'], system.endswith('-local'), int(found['oss']), int(found['delay']))
    record = records.get(key)
    check(record is not None and found['high'] == 'F', path + ': it is of no record')
    if record is None:
        continue
    scenario = tree.execute(JPATH_SCN).removeprefix('KeystoneBasic.')
    want = next(s for s in record['scenarios'] if s['result']['Workload']['Scenario'] == scenario)
    series = {}
    for actions in tree.execute(JPATH_SERIES):
        for action in actions if isinstance(actions, list) else [actions]:
            series.setdefault(action['name'], []).append(action['finished_at'] - action['started_at'])
    good = [i for i in want['result']['Iterations'] or [] if not i['error']]
    expected = {}
    for i in good:
        for action in i['atomic_actions']:
            expected.setdefault(action['name'], []).append(action['finished_at'] - action['started_at'])
    check(series == expected, f'{path}: the notebook reads {({k: len(v) for k, v in series.items()})}, the record has {({k: len(v) for k, v in expected.items()})}')
    check(record['mark'] != 'failed' and good, f"{path}: {len(good)} iterations, {record.get('failure')}")
    for name, values in series.items():
        means[(key, scenario, name)] = median(values)

# Far from the database, a write of ours waits for the network at least once, and a read
# does not.
for (key, scenario, name), value in means.items():
    if key[0] == 'ostiary' and key[4] == 50:
        if name in ('keystone_v3.add_role', 'keystone_v3.delete_user'):
            check(value >= 0.1, f'{key} {scenario} {name}: {value:.3f} s, a round trip is 0.1')
        if name in ('keystone_v3.get_user', 'keystone_v3.list_roles', 'keystone_v3.get_project'):
            check(value < 0.1, f'{key} {scenario} {name}: {value:.3f} s, as much as a round trip: reads cross the network')
for text in failed:
    print('failed:', text)
print(f'{passed} passed, {len(failed)} failed, 0 skipped')
sys.exit(1 if failed else 0)
