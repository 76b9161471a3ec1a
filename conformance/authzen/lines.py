"""Turns tuples, as rel prints them, into the lines that the native door imports."""
import json
import sys

for text in sys.stdin:
    text = text.strip()
    if not text:
        continue
    key, _, condition = text.partition(" with ")
    tuple_object, _, rest = key.partition("#")
    relation, _, subject = rest.partition("@")
    out = {"object": tuple_object, "relation": relation, "subject": subject}
    if condition:
        name, _, context = condition.partition(" ")
        out["condition"] = name
        if context:
            out["context"] = json.loads(context)
    print(json.dumps({"tuple": out}))
print(json.dumps({"end": {}}))
