"""The examples of README.md."""

import os
import re
import unittest

import stint


class ReadmeTest(unittest.TestCase):
    def test_examples_are_python_and_use_names_that_exist(self):
        path = os.path.join(os.path.dirname(__file__), "..", "README.md")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        examples = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
        self.assertEqual(len(examples), 2)
        for example in examples:
            compile(example, "README.md", "exec")
            for name in re.search(r"from stint import (.*)", example)[1].split(", "):
                self.assertTrue(hasattr(stint, name), name)
        verbs = text[text.index("The verbs are"):text.index("Parameters have")]
        known = {
            name for name, value in vars(stint.Client).items()
            if callable(value) and not name.startswith("_") and name != "close"
        }
        self.assertEqual(set(re.findall(r"`(\w+)`", verbs)), known)
