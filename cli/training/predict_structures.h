// terrace predict with models of structures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::cli {

struct StructuresToPredict {
  std::vector<std::filesystem::path> members = {};
  std::string data = {};  // prefix of prepared graphs, or a file or folder of structures
  std::string split = "test", dataset = {};
  std::string output = {}, csv = {}, page = {};  // files; "": none
  std::string serve = {};                        // in place of files: the socket of a program that moves atoms
  int64_t threads = 0;
  bool overwrite = false, json = false;
};

// Writes what all models predict of the structures, judges it where there are labels and prints the figures; or serves
// the first structure. Throws UserError with every problem.
void predict_structures(const StructuresToPredict& asked);

}  // namespace terrace::cli
