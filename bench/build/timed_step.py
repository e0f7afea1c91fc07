#!/usr/bin/env python3
# Runs one compiler and appends its processor time to a file: the launcher that compile_times.py gives to cmake.
import json
import os
import resource
import subprocess
import sys


def main():
    log, command = sys.argv[1], sys.argv[2:]
    result = subprocess.run(command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = command[command.index("-o") + 1] if "-o" in command else ""
    line = json.dumps({"output": output, "cpu_seconds": used.ru_utime + used.ru_stime}) + "\n"
    # One write to a file opened for appending is not torn by other compilers' writes.
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, line.encode())
    os.close(file)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
