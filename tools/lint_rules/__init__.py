"""The rules of tools/lint: each module has check(tree), which gives findings."""
