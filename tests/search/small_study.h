// A study of a small model on a machine of this repository, as texts of files.
#pragma once

#include <filesystem>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/search/study/study.h"
#include "tests/scratch_folder.h"

namespace terrace::search {

// A model of 4 layers and 12 heads. Returns the path of its configuration in the folder.
inline std::string write_small_config(const ScratchFolder& folder) {
  const std::filesystem::path path = folder / "small.toml";
  write_text_atomically(path,
                        "[model]\nlayers = 4\nwidth = 48\nheads = 12\nsequence = 16\nvocabulary = 64\n"
                        "[train]\nglobal_batch = 24\nmicro_batch = 1\nsteps = 10\nprecision = \"bf16\"\n");
  return path.string();
}

// The head of a file whose parameters follow.
inline std::string search_table(const std::string& config, const std::string& more = "") {
  return "[search]\nevaluator = \"simulate\"\nobjective = \"step_seconds\"\nconfig = \"" + config +
         "\"\nmachine = \"frontier\"\ndevices = 8\n" + more;
}

inline const char* const small_parameters =
    "[parameters.layout.tensor]\ntype = \"ordered\"\nvalues = [1, 2, 3, 4]\n"
    "[parameters.layout.pipeline]\ntype = \"ordered\"\nvalues = [1, 2, 4, 8]\n"
    "[parameters.layout.sharding]\ntype = \"categorical\"\nvalues = [\"ddp\", \"zero1\"]\n";

// 32 points on 8 devices; those with 3 tensor ranks do not divide the devices, and 8 stages are too many.
inline Study small_study(const ScratchFolder& folder, const std::string& more = "") {
  return parse_study(search_table(write_small_config(folder), more) + small_parameters, "space.toml");
}

}  // namespace terrace::search
