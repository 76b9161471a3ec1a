#!/usr/bin/env python3
"""Read notifications of Identity (serve --keystone-notifications) as pycadf would make them.

    python3 notifications.py FILE...

Each line must be a message of oslo.messaging whose payload is a valid event of CADF, and
pycadf must make the same members from it. Needs pycadf (requirements.txt).
"""

import json
import sys

from pycadf import cadftaxonomy, cadftype, event, host, resource

ENVELOPE = {"message_id", "publisher_id", "event_type", "priority", "payload", "timestamp"}


def read_resource(r):
    r = dict(r)
    where = r.pop("host", None)
    out = resource.Resource(id=r.pop("id"), typeURI=r.pop("typeURI"), name=r.pop("name", None),
                            host=host.Host(**where) if where else None)
    for name, value in r.items():
        setattr(out, name, value)
    if not cadftaxonomy.is_valid_resource(out.typeURI):
        raise ValueError(f"{out.typeURI} is no type of resource")
    return out


def check(line):
    message = json.loads(line)
    if set(message) != ENVELOPE:
        raise ValueError(f"the members are {sorted(message)}")
    p = dict(message["payload"])
    if p.pop("typeURI") != "http://schemas.dmtf.org/cloud/audit/1.0/event":
        raise ValueError("the type is no event of CADF")
    e = event.Event(eventType=p.pop("eventType"), id=p.pop("id"), eventTime=p.pop("eventTime"), action=p.pop("action"),
                    outcome=p.pop("outcome"), initiator=read_resource(p.pop("initiator")),
                    target=read_resource(p.pop("target")), observer=read_resource(p.pop("observer")))
    for name, value in p.items():
        setattr(e, name, value)
    if not e.is_valid():
        raise ValueError("pycadf does not accept the event")
    if e.outcome not in (cadftaxonomy.OUTCOME_SUCCESS, cadftaxonomy.OUTCOME_FAILURE, cadftaxonomy.OUTCOME_PENDING):
        raise ValueError(f"the outcome is {e.outcome}")
    made = e.as_dict()
    if made != message["payload"]:
        raise ValueError(f"pycadf makes {json.dumps(made)}\nand the line has {json.dumps(message['payload'])}")
    return message["event_type"]


def main(files):
    n = 0
    for name in files:
        with open(name, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                try:
                    check(line)
                except Exception as why:
                    sys.exit(f"{name}:{number}: {why}\n{line}")
                n += 1
    if not n:
        sys.exit("no notification")
    print(f"{n} notifications are valid")


if __name__ == "__main__":
    main(sys.argv[1:])
