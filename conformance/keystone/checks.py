"""Counts checks. A check that fails is printed."""

import sys

passed, failed = 0, 0


def check(name, good, shown=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"failed: {name}: {str(shown)[:5000]}")


def finish(before="", after=""):
    """Prints the line that counts the checks, and ends the program."""
    print(f"{before}{passed} passed, {failed} failed{after}")
    sys.exit(failed > 0)
