// Defines what terrace data prepare does for a family: reads files that others wrote, writes a dataset to train on.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {

// A flag of the command, such as --levels. Families may share a name.
struct PrepareFlag {
  std::string name = {};   // without the hyphens
  std::string about = {};  // a sentence for the page of flags, which names the default
  bool is_switch = false;  // takes no value
  bool is_list = false;    // takes several values, with commas between them or given again
  bool is_range = false;   // takes two values, the first and the last
};

struct PrepareRequest {
  std::vector<std::string> inputs = {};  // files and folders, at least one
  std::string output = {};               // the prefix of the files to write
  bool overwrite = false;
  int64_t threads = 0;  // 0: one per core
  // The values that the command line gives for each flag, by the flag's name; a switch that is given has no values.
  std::map<std::string, std::vector<std::string>> flags = {};
  // The processes that share the work, only for preparations that divide it; nullptr: this one alone.
  PrepareRanks* ranks = nullptr;
  const std::atomic<bool>* stop = nullptr;  // once true, the files begun are removed and Interrupted is thrown
};

// The result of the first rank; that of other ranks is empty.
struct PrepareResult {
  std::string text = {};  // lines for a terminal, the last one naming the files
  Json json = {};
};

class Preparation {
 public:
  virtual ~Preparation() = default;
  virtual std::string kind() const = 0;   // the value of --kind, such as "fields"
  virtual std::string about() const = 0;  // a sentence about what it reads and writes
  virtual std::vector<PrepareFlag> flags() const = 0;
  // Returns whether several processes may share the work.
  virtual bool divides_work() const { return false; }
  // Throws UserError that names the file and the problem; then nothing half-written is left.
  virtual PrepareResult prepare(const PrepareRequest& request) const = 0;

  // Returns whether the files of a prefix are a dataset of this kind, which inspect() then checks and describes.
  virtual bool has_made(const std::string& /*prefix*/) const { return false; }
  virtual PrepareResult inspect(const std::string& /*prefix*/) const { return {}; }
  // Compares the arrays of the dataset with their checksums, which reads all of them. Throws UserError that names the
  // first one that differs. Does nothing where inspect() does it.
  virtual void verify(const std::string& /*prefix*/) const {}
};

}  // namespace terrace::data
