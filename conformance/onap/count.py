"""Counts the samples of a JMeter results file. Fails if one is an error, or if a
request of the plans is missing."""
import csv, sys

samples, errors, first, last, total = {}, [], None, 0, 0
with open(sys.argv[1], newline="") as f:
    for row in csv.DictReader(f):
        samples[row["label"]] = samples.get(row["label"], 0) + 1
        begin, took = int(row["timeStamp"]), int(row["elapsed"])
        first, last, total = min(begin, first or begin), max(begin + took, last), total + took
        if row["success"] != "true":
            errors.append(f'{row["label"]}: {row["responseCode"]} {row["responseMessage"]} {row["failureMessage"]}')
n = sum(samples.values())
# 8 requests before and 8 after the load, health and the seven decisions.
if len(samples) < 24 or n < 100:
    print(f"only {n} samples of {len(samples)} requests: {sorted(samples)}")
    sys.exit(1)
if errors:
    print(f"{len(errors)} errors of {n} samples, first: {errors[0]}")
    sys.exit(1)
print(f"{n} samples of {len(samples)} requests, 0 errors, {n * 1000 // max(last - first, 1)}/s, mean {total / n:.2f} ms")
