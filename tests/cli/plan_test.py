"""Tests terrace plan and terrace simulate, as a shell sees them."""
import re
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, CommandTest, terrace  # noqa: E402


class Machines(CommandTest):
    def example(self):
        """The description that docs/machines.md shows, in a file."""
        machine = self.scratch() / "ours.toml"
        machine.write_text(re.search('```toml\n(name = "our-cluster".*?)```', (SOURCE / "docs/machines.md").read_text(), re.S)[1])
        return machine

    def test_a_type_without_rates_is_refused_by_every_prediction(self):
        machine = self.example()
        said = f"{machine} has no [device.fp32]; add it, or set train.precision to bf16"
        for command in (["plan"], ["plan", "--json"], ["plan", "--best"], ["plan", "--scaling", "1,2"], ["simulate"]):
            result = self.expect(2, terrace(command[0], "configs/tiny.toml", "--machine", machine, *command[1:]), said)
            self.assertEqual(result.stdout, "")
        self.expect(0, terrace("plan", "configs/tiny.toml", "--machine", machine, "--set", "train.precision=bf16"))


if __name__ == "__main__":
    unittest.main()
