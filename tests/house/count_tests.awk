# Prints the numbers of passed, failed and skipped tests in a report of ctest (--output-junit). A suite of GoogleTest counts
# with its tests, every other entry as one test.
function add_entry() {
  well = of_suite["PASSED"]
  if (status == "run" && !suite) well = 1
  if (status == "fail" && of_suite["FAILED"] == 0) failed += 1
  passed += well
  failed += of_suite["FAILED"]
  skipped += of_suite["SKIPPED"]
  delete of_suite
}
/^\t<testcase / { suite = 0; status = $0; sub(/.* status="/, "", status); sub(/".*/, "", status) }
/<skipped message="SKIP_/ { skipped += 1; status = "skipped" }
status == "notrun" && /<skipped / { status = "fail" }
match($0, /\[ +(PASSED|FAILED|SKIPPED) +\] [0-9]+ tests?[.,]/) {
  split(substr($0, RSTART, RLENGTH), word, /[][ ]+/)
  of_suite[word[2]] = word[3]
  suite = 1
}
/^\t<\/testcase>/ { add_entry() }
END { print passed + 0, failed + 0, skipped + 0 }
