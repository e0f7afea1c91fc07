// Saving: everything into a folder under a temporary name, synced, renamed, marked complete.
#include <cerrno>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/file_lock.h"
#include "terrace/base/log.h"
#include "terrace/base/units.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/place.h"
#include "terrace/checkpoint/safetensors.h"
#include "terrace/checkpoint/slice.h"

namespace terrace::checkpoint {
namespace {

// Removes the folder that stands in it at the end.
struct FolderGuard {
  std::filesystem::path path;

  ~FolderGuard() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
};

FileRecord write_file(const std::filesystem::path& folder, const char* name, std::span<const std::byte> bytes) {
  AtomicFile file(folder / name);
  if (!bytes.empty()) file.write(bytes.data(), bytes.size());
  file.commit();
  return {name, bytes.size(), checksum(bytes)};
}

GroupRecord write_group(const std::filesystem::path& folder, const Group& group) {
  TensorFile file;
  file.file.name = group.name + ".safetensors";
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NamedTensor& named : group.tensors) {
    file.tensors.push_back(record_of(named));
    tensors.emplace_back(named.name, named.tensor);
  }
  // Other programs look for the key "format" to know the order of dimensions.
  const WrittenFile written = write_safetensors(folder / file.file.name, tensors, {{"format", "pt"}});
  file.file.bytes = written.bytes;
  file.file.checksum = written.checksum;
  return {group.name, {std::move(file)}};
}

// A SentencePiece model never starts as JSON does.
const char* tokenizer_name(std::span<const std::byte> bytes) {
  const bool json = !bytes.empty() && bytes.front() == std::byte{'{'};
  return json ? "tokenizer.json" : "tokenizer.model";
}

std::optional<FileRecord> write_tokenizer(const std::filesystem::path& folder, const std::string& source) {
  if (source.empty()) return std::nullopt;
  if (!std::filesystem::exists(source)) {
    // A checkpoint without its tokenizer is worth more than none.
    log_warning("the tokenizer {} is gone: the checkpoint is saved without it", source);
    return std::nullopt;
  }
  const MappedFile file(source);
  return write_file(folder, tokenizer_name(file.bytes()), file.bytes());
}

// Gives the finished folder its name. One that stood there takes its place in `written`, to be removed.
void place(FolderGuard& written, const std::filesystem::path& final_path) {
  if (std::filesystem::exists(final_path)) {
    write_text_atomically(written.path / marker_name, "");
    if (!exchange_names(written.path, final_path)) written.path = replace_by_renaming(written.path, final_path);
    sync_folder(final_path.parent_path());
    return;
  }
  std::filesystem::rename(written.path, final_path);
  written.path = final_path;
  sync_folder(final_path.parent_path());
  write_text_atomically(final_path / marker_name, "");
  written.path.clear();
}

UserError not_saved(const std::filesystem::path& path, const std::string& why, const std::string& remedy) {
  return UserError(
      fmt::format("checkpoint {} was not saved: {}. Earlier checkpoints are untouched. {}", path.string(), why, remedy),
      ExitCode::failure);
}

UserError no_room(const std::filesystem::path& path, const std::string& why, uint64_t needed, uint64_t available) {
  return not_saved(path,
                   fmt::format("{}; it needs more than {}, and {} were free", why,
                               format_bytes(static_cast<double>(needed)), format_bytes(static_cast<double>(available))),
                   "Make room, lower checkpoint.keep or choose another checkpoint.folder");
}

// A quota and the largest size of a file are limits of room too.
bool says_no_room(const std::error_code& code) {
  return code == std::errc::no_space_on_device || code == std::errc::file_too_large ||
         code == std::error_code(EDQUOT, std::generic_category());
}

}  // namespace

void write_contents(const std::filesystem::path& folder, const State& state) {
  std::filesystem::create_directory(folder);
  Manifest manifest;
  manifest.terrace_version = TERRACE_VERSION;
  manifest.step = state.step;
  manifest.trainer = state.trainer;
  const std::string config = config::dump(state.config);
  manifest.config = write_file(folder, config_name, std::as_bytes(std::span(config)));
  manifest.tokenizer = write_tokenizer(folder, state.config.data.tokenizer);
  for (const Group& group : state.groups) manifest.groups.push_back(write_group(folder, group));
  write_text_atomically(folder / manifest_name, dump_manifest(manifest));
}

uint64_t needed_bytes(const State& state) {
  uint64_t bytes = 0;
  for (const Group& group : state.groups) {
    for (const NamedTensor& named : group.tensors) bytes += named.tensor.nbytes();
  }
  return bytes;
}

std::filesystem::path place_checkpoint(const std::filesystem::path& folder, int64_t step, uint64_t needed,
                                       const Retention& retention,
                                       const std::function<void(const std::filesystem::path&)>& write) {
  std::filesystem::path final_path = folder / step_name(step);
  uint64_t available = 0;
  std::optional<FileLock> lock;
  try {
    std::filesystem::create_directories(folder);
    lock.emplace(folder / lock_name, held_message(folder));
    remove_leftovers(folder);
    available = std::filesystem::space(folder).available;
    if (available < needed) throw no_room(final_path, "the disk is too full", needed, available);
    FolderGuard written{partial_path(folder, step)};
    write(written.path);
    place(written, final_path);
  } catch (const std::system_error& error) {
    if (says_no_room(error.code())) throw no_room(final_path, error.what(), needed, available);
    throw not_saved(final_path, error.what(), "Mend that, or choose another checkpoint.folder");
  }
  try {
    apply_retention(folder, step, retention);
  } catch (const std::system_error& error) {
    log_warning("an old checkpoint in {} could not be removed: {}", folder.string(), error.what());
  }
  return final_path;
}

std::filesystem::path save(const std::filesystem::path& folder, const State& state, const Retention& retention) {
  return place_checkpoint(folder, state.step, needed_bytes(state), retention,
                          [&](const std::filesystem::path& partial) { write_contents(partial, state); });
}

}  // namespace terrace::checkpoint
