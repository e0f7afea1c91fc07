// The checks of a start, in one list: a run ends at the first problem, and terrace train --check collects them all.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/data/source.h"
#include "terrace/run/check_run.h"
#include "terrace/run/run_training.h"

namespace terrace::run {

class StartChecks {
 public:
  // `config` and `options` outlive the object. `here` of the ranks are on this machine.
  StartChecks(const config::Config& config, const RunOptions& options, int64_t ranks, int64_t here);

  // Locks the run's folder as begin() does, if this start continues from its newest checkpoint, the folder is there and
  // states were copied into memory. Returns whether it does: then the copies may become a checkpoint before begin().
  bool claim_known_folder();
  // Throws the first problem. Makes the run's folder, keeps it locked while this object lives, and opens the checkpoint
  // that the run continues from.
  void begin(const at::Device& device);
  // Collects all problems, with those that the contents of files have, and writes nothing.
  void look();

  RunCheck found;
  std::unique_ptr<checkpoint::Reader> resumed;  // null: a new run

 private:
  using Check = std::function<void()>;
  bool begins() const { return device_.has_value(); }
  void make_all();
  bool make(const Check& check);
  void note(const std::string& problem, ExitCode code);
  void check_files(bool is_new);
  void open_data();
  void claim_folder();
  void open_checkpoint();
  void check_need();

  const config::Config& config_;
  const RunOptions& options_;
  int64_t ranks_, here_;
  std::optional<at::Device> device_;  // of a run that begins
  std::optional<FileLock> lock_;
  std::unique_ptr<data::Source> data_;  // opened to look only
};

}  // namespace terrace::run
