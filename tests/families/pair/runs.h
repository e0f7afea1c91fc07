// Runs of the family of pairs.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "terrace/base/random.h"
#include "tests/families/pair/pair_family.h"
#include "tests/families/runs.h"

namespace terrace::pair {

// The program's families and the family of pairs.
inline config::Families all_families() {
  config::Families families = models::families();
  families.push_back(&family());
  return families;
}

class PairRuns : public RunsOfFamily {
 protected:
  PairRuns() {
    // Every third sample has no items, the others have one to four.
    std::ofstream file(folder_ / "samples.txt");
    for (uint64_t sample = 0; sample < 40; ++sample) {
      for (uint64_t item = 0; item < sample % 3 * (1 + sample % 2); ++item) {
        for (uint64_t i = 0; i < 7; ++i) {
          file << static_cast<double>(philox_at({3, 7}, sample * 10 + item, i)[0] % 33) / 16.0 - 1.0 << ' ';
        }
      }
      file << '\n';
    }
  }

  config::Config config(const std::vector<std::string>& overrides) const override {
    const std::string toml = "[model]\nfamily = \"pair\"\nlayers = 4\n[data]\ntrain = \"" +
                             (folder_ / "samples.txt").string() +
                             "\"\n[train]\nglobal_batch = 5\nmicro_batch = 2\nsteps = 4\nthreads = 1\ndevice = "
                             "\"cpu\"\n[optimizer]\nlearning_rate = 1e-2\n[layout]\ndeterministic = "
                             "true\n[checkpoint]\nfolder = \"" +
                             (folder_ / "run").string() + "\"\n";
    return config::parse(toml, "pair.toml", all_families(), overrides);
  }

  // Keys of runs whose micro-batches hold at most five items; the ranks compare their calls.
  static std::vector<std::string> in_budget() {
    return {"train.micro_batch=0", "train.micro_batch_sizes={items = 5}", "train.global_batch=11",
            "layout.check_calls=true"};
  }
};

}  // namespace terrace::pair
