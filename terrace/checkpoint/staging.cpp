// Writes into a node-local folder and copies out of it.
#include "terrace/checkpoint/staging.h"

#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/make_checkpoint.h"
#include "terrace/checkpoint/own_folder.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* staging_key = "checkpoint.staging";

void copy_checked(const fs::path& from, const fs::path& to, const FileRecord& record) {
  const std::string found = copy_durably(from / record.name, to / record.name);
  if (found == record.checksum) return;
  throw UserError(
      fmt::format("checkpoint {} was not saved: {} changed on its way from {}: its checksum is {} and should "
                  "be {}. Earlier checkpoints are untouched. Leave checkpoint.staging out, or name another "
                  "disk",
                  to.string(), record.name, from.string(), found, record.checksum),
      ExitCode::failure);
}

// Ranks of one machine share the staging folder, so each has its own subfolder.
fs::path own_folder(const fs::path& staged, const SavingRanks& ranks) {
  return ranks.is_single() ? staged : staged / fmt::format("rank_{:04}", ranks.rank());
}

}  // namespace

fs::path staging_of(const fs::path& staging, const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(fs::absolute(run_folder)).string();
  return staging / ("terrace_" + checksum(std::as_bytes(std::span(name))));
}

void check_staging(const fs::path& staged) { check_own_folder(staged, staging_key); }

void clear_staging(const fs::path& staged, const SavingRanks& ranks) {
  std::optional<UserError> refusal;
  try {
    take_own_folder(staged, staging_key);
  } catch (const UserError& error) {
    refusal = error;
  } catch (const std::system_error& error) {
    log_warning("{}", error.what());  // the first save reports what follows from it
  }
  ranks.throw_if_any_failed(refusal);
  std::error_code error;
  // The ranks of one machine remove the same names, so some are gone when a rank reaches them. The folder itself stays.
  do {
    error.clear();
    for (fs::directory_iterator entry(staged, error), end; !error && entry != end; entry.increment(error)) {
      fs::remove_all(entry->path(), error);
      if (error) break;
    }
  } while (error == std::errc::no_such_file_or_directory && fs::exists(staged));
  if (error && fs::exists(staged)) {
    log_warning("left-overs in {} could not be removed: {}", staged.string(), error.message());
  }
  ranks.wait_for_all();
}

StagedFiles::StagedFiles(const fs::path& staged, const State& state, const SavingRanks& ranks)
    : path_(own_folder(staged, ranks) / step_name(state.step)), step_(state.step), trainer_(state.trainer) {
  take_own_folder(staged, staging_key);  // makes the folder again if it was removed
  fs::remove_all(path_);
  fs::create_directories(path_);
  try {
    written_ = write_files(path_, state, ranks);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw;
  }
}

StagedFiles::StagedFiles(StagedFiles&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      step_(other.step_),
      trainer_(std::move(other.trainer_)),
      written_(std::move(other.written_)) {}

StagedFiles::~StagedFiles() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

fs::path StagedFiles::copy_out(const fs::path& folder, const Retention& retention, const SavingRanks& ranks) const {
  int64_t needed = 0;
  for (const FileRecord& file : written_.files()) needed += static_cast<int64_t>(file.bytes);
  return make_checkpoint({.folder = folder,
                          .step = step_,
                          .trainer = trainer_,
                          .needed_bytes = needed,
                          .retention = retention,
                          .ranks = ranks},
                         [&](const fs::path& partial) {
                           for (const FileRecord& file : written_.files()) copy_checked(path_, partial, file);
                           return written_;
                         });
}

}  // namespace terrace::checkpoint
