// Examples of each command: shown by --help and in the manual page, and run by the tests.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace terrace::cli {

struct Example {
  std::string path;   // of the command it belongs to, "data prepare"
  std::string line;   // as typed
  std::string about;  // what it does
};

// In an order in which they can be run one after another.
const std::vector<Example>& examples();
std::vector<Example> examples_of(const std::string& path);

// Puts them behind the help of each command.
void show_examples(CLI::App& program);

}  // namespace terrace::cli
