"""Runs tests of tempest in this process and counts them.

Arguments: the folder that contains the package tempest, the folder of the tests in
it, the file of words that name absent parts of the API, and the seconds after
which no further test begins. Tests that did not begin count as skipped.
Further arguments are words of which the id of a test must contain one.
"""

import sys
import time
import unittest

folder, tests, absent_file, seconds = sys.argv[1:5]
words = [w.strip() for w in open(absent_file) if w.strip() and w[0] != "#"]


def cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


everything = list(cases(unittest.defaultTestLoader.discover(f"{folder}/{tests}", top_level_dir=folder)))
if len(everything) < 100:
    sys.exit(f"found only {len(everything)} tests")
if sys.argv[5:]:
    everything = [t for t in everything if any(w in t.id() for w in sys.argv[5:])]
    if not everything:
        sys.exit("no test has the words")
absent = [t for t in everything if any(w in t.id() for w in words)]
suite = unittest.TestSuite()
for t in everything:
    if t not in absent:
        suite.addTest(t)


class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        if time.monotonic() > end:
            self.stop()


end = time.monotonic() + float(seconds)
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, resultclass=Result).run(suite)
failed = len(result.failures) + len(result.errors)
skipped = len(result.skipped)
passed = max(result.testsRun - failed - skipped, 0)
late = suite.countTestCases() - result.testsRun if result.shouldStop else 0
if late:
    print(f"skip {late} tests: {seconds} seconds are over")
print(f"tempest: {passed} passed, {failed} failed, {skipped + len(absent) + late} skipped")
