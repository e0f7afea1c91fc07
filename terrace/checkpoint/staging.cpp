// Writing into a node-local folder and copying out of it.
#include "terrace/checkpoint/staging.h"

#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/place.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

// Removes a folder at the end, whatever happens.
struct Removal {
  const fs::path& path;

  ~Removal() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void copy_synced(const fs::path& from, const fs::path& to) {
  const MappedFile source(from);
  AtomicFile file(to);
  if (!source.bytes().empty()) file.write(source.bytes().data(), source.bytes().size());
  file.commit();
}

void copy_checked(const fs::path& from, const fs::path& to, const FileRecord& record) {
  copy_synced(from / record.name, to / record.name);
  const std::string found = checksum(MappedFile(to / record.name).bytes());
  if (found == record.checksum) return;
  throw UserError(
      fmt::format("checkpoint {} was not saved: {} changed on its way from {}: its checksum is {} and should "
                  "be {}. Earlier checkpoints are untouched. Leave checkpoint.staging out, or name another "
                  "disk",
                  to.string(), record.name, from.string(), found, record.checksum),
      ExitCode::failure);
}

}  // namespace

fs::path staging_of(const fs::path& staging, const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(fs::absolute(run_folder)).string();
  return staging / ("terrace_" + checksum(std::as_bytes(std::span(name))));
}

fs::path stage(const fs::path& staged, const State& state) {
  fs::path path = staged / step_name(state.step);
  fs::remove_all(path);
  fs::create_directories(staged);
  try {
    write_contents(path, state);
  } catch (...) {
    const Removal removal{path};
    throw;
  }
  return path;
}

fs::path copy_out(const fs::path& staged_checkpoint, const fs::path& folder, const Retention& retention) {
  const Removal removal{staged_checkpoint};
  const fs::path manifest_path = staged_checkpoint / manifest_name;
  const Manifest manifest = parse_manifest(read_text(manifest_path), manifest_path.string());
  uint64_t needed = 0;
  for (const FileRecord& file : manifest.files()) needed += file.bytes;
  return place_checkpoint(folder, manifest.step, needed, retention, [&](const fs::path& partial) {
    fs::create_directory(partial);
    for (const FileRecord& file : manifest.files()) copy_checked(staged_checkpoint, partial, file);
    copy_synced(manifest_path, partial / manifest_name);
  });
}

}  // namespace terrace::checkpoint
