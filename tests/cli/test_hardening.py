"""How the program is linked: what makes a memory error hard to use. SECURITY.md speaks of it.

    STOWAGE_BIN=build/release/stowage tests/cli/test_hardening.py
"""
import os
import shutil
import subprocess
import sys
import unittest

import program


@unittest.skipUnless(shutil.which("readelf"), "there is no readelf")
@unittest.skipIf("STOWAGE_SLOW_BUILD" in os.environ, "sanitizers have checks of their own")
class Hardening(unittest.TestCase):
    def shown(self, *options):
        return subprocess.run(["readelf", "--wide", *options, program.binary], check=True, capture_output=True, text=True).stdout

    def test_is_position_independent(self):
        self.assertIn("DYN (Position-Independent Executable file)", self.shown("--file-header"))

    def test_tables_of_functions_are_read_only(self):
        self.assertIn("GNU_RELRO", self.shown("--program-headers"))
        self.assertRegex(self.shown("--dynamic"), r"FLAGS.*\bNOW\b")

    def test_stack_is_guarded_and_not_executable(self):
        self.assertIn("__stack_chk_fail", self.shown("--dyn-syms"))
        self.assertRegex(self.shown("--program-headers"), r"GNU_STACK .* RW ")

    def test_string_functions_are_checked(self):
        self.assertIn("__snprintf_chk", self.shown("--dyn-syms"))


if __name__ == "__main__":
    sys.exit(program.main())
