# Prints the numbers of passed, failed and skipped tests in a log of ctest (Testing/Temporary/LastTest.log). A suite
# counts with its tests, every other entry as one test.
function add_entry() {
  if (result == "") return
  if (result ~ /^Passed/ && suite) { passed += of_suite["PASSED"]; skipped += of_suite["SKIPPED"] }
  else if (result ~ /^Passed/) passed += 1
  else if (result ~ /^Skipped/) skipped += 1
  else {
    passed += of_suite["PASSED"]
    skipped += of_suite["SKIPPED"]
    failed += of_suite["FAILED"] > 0 ? of_suite["FAILED"] : 1
  }
  result = ""
}
/^[0-9]+\/[0-9]+ Testing: / { add_entry(); suite = 0; delete of_suite }
/^Command: .*--gtest_filter=/ { suite = 1 }
suite && match($0, /^\[ +(PASSED|FAILED|SKIPPED) +\] [0-9]+ tests?[.,]/) { split($0, word, /[][ ]+/); of_suite[word[2]] = word[3] }
/^Test (Passed|Failed|Skipped)/ { result = $2 }
/^Test Timeout|^Test Not Run|^Unable to find executable/ { result = "Failed" }
END { add_entry(); print passed + 0, failed + 0, skipped + 0 }
