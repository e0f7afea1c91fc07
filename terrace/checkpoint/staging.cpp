// Writing into a node-local folder and copying out of it.
#include "terrace/checkpoint/staging.h"

#include <span>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/place.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

void copy_checked(const fs::path& from, const fs::path& to, const FileRecord& record) {
  {
    const MappedFile source(from / record.name);
    AtomicFile file(to / record.name);
    if (!source.bytes().empty()) file.write(source.bytes().data(), source.bytes().size());
    file.commit();
  }
  const std::string found = checksum(MappedFile(to / record.name).bytes());
  if (found == record.checksum) return;
  throw UserError(
      fmt::format("checkpoint {} was not saved: {} changed on its way from {}: its checksum is {} and should "
                  "be {}. Earlier checkpoints are untouched. Leave checkpoint.staging out, or name another "
                  "disk",
                  to.string(), record.name, from.string(), found, record.checksum),
      ExitCode::failure);
}

// Ranks of one machine share the folder, and none may remove what another has.
fs::path own_folder(const fs::path& staged, const Members& members) {
  return members.alone() ? staged : staged / fmt::format("rank_{:04}", members.rank());
}

}  // namespace

fs::path staging_of(const fs::path& staging, const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(fs::absolute(run_folder)).string();
  return staging / ("terrace_" + checksum(std::as_bytes(std::span(name))));
}

void clear_staging(const fs::path& staged, const Members& members) {
  std::error_code error;
  // Ranks of one machine remove the same names, and some are gone before they come to them.
  do {
    fs::remove_all(staged, error);
  } while (error == std::errc::no_such_file_or_directory);
  if (error) log_warning("left-overs in {} could not be removed: {}", staged.string(), error.message());
  members.wait_for_all();
}

Staged::Staged(const fs::path& staged, const State& state, const Members& members)
    : path_(own_folder(staged, members) / step_name(state.step)), step_(state.step), trainer_(state.trainer) {
  fs::remove_all(path_);
  fs::create_directories(path_);
  try {
    written_ = write_files(path_, state, members);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw;
  }
}

Staged::Staged(Staged&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      step_(other.step_),
      trainer_(std::move(other.trainer_)),
      written_(std::move(other.written_)) {}

Staged::~Staged() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

fs::path Staged::copy_out(const fs::path& folder, const Retention& retention, const Members& members) const {
  int64_t needed = 0;
  for (const FileRecord& file : written_.files()) needed += static_cast<int64_t>(file.bytes);
  return place_checkpoint({.folder = folder,
                           .step = step_,
                           .trainer = trainer_,
                           .needed_bytes = needed,
                           .retention = retention,
                           .members = members},
                          [&](const fs::path& partial) {
                            for (const FileRecord& file : written_.files()) copy_checked(path_, partial, file);
                            return written_;
                          });
}

}  // namespace terrace::checkpoint
