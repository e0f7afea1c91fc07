// Lists examples of each command, which --help and the manual page show and the tests run.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace terrace::cli {

struct Example {
  std::string path;   // of the example's command, such as "data prepare"
  std::string line;   // as typed
  std::string about;  // what it does
};

// All examples, also those of commands that this build lacks, in an order in which they can be run one after another.
const std::vector<Example>& examples();
std::vector<Example> examples_of(const std::string& path);

// Adds the examples of each command to the end of its help.
void show_examples(CLI::App& program);

}  // namespace terrace::cli
