"""Runs a file's tests and closes as all test programs do: a line for each skipped one, then "N passed, M failed, K skipped"."""
import os
import unittest

os.environ["XDG_CONFIG_HOME"] = os.devnull  # whoever runs the tests may have defaults of their own


class CountingResult(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run_tests():
    """The exit status."""
    result = unittest.main(exit=False, testRunner=unittest.TextTestRunner(resultclass=CountingResult)).result
    for test, reason in result.skipped:
        print(f"skipped {test.id()}: {reason}")
    skipped = f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{result.passed} passed, {len(result.failures) + len(result.errors)} failed{skipped}")
    return 0 if result.wasSuccessful() else 1
