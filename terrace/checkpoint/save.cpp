// Saves a checkpoint: writes and syncs all files in a folder under a temporary name, marks it complete and renames it.
#include <cerrno>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/base/version.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/make_checkpoint.h"
#include "terrace/checkpoint/manifest.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

// Removes the folder `path` at the end of the scope, unless it is empty by then.
struct FolderGuard {
  fs::path path;

  ~FolderGuard() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// Marks the finished folder complete and then renames it, so that a folder with the final name is always whole. If such
// a folder existed, it is then in `written`, to be removed.
void publish(FolderGuard& written, const fs::path& final_path) {
  write_text_atomically(written.path / marker_name, "");
  const bool stands_there = fs::exists(final_path);
  if (!stands_there) {
    fs::rename(written.path, final_path);
    written.path = final_path;
  } else if (!exchange_names(written.path, final_path)) {
    written.path = replace_by_renaming(written.path, final_path);
  }
  sync_folder(final_path.parent_path());
  if (!stands_there) written.path.clear();
}

// Whether the error means that space ran out; a quota or a file size limit counts too.
bool says_no_room(const std::error_code& code) {
  return code == std::errc::no_space_on_device || code == std::errc::file_too_large ||
         code == std::error_code(EDQUOT, std::generic_category());
}

constexpr const char* another_folder = "Fix the cause, or choose another checkpoint.folder";
constexpr const char* shared_folder =
    "With several machines checkpoint.folder must lie on a file system that all of them see";

// One save, as one of the saving ranks sees it.
class CheckpointSave {
 public:
  explicit CheckpointSave(const SaveRequest& request)
      : request_(request),
        saving_ranks_(request.ranks),
        partial_(partial_path(request.folder, request.step)),
        final_path_(request.folder / step_name(request.step)) {}

  fs::path run(const std::function<WrittenFiles(const fs::path&)>& write) {
    needed_bytes_ = saving_ranks_.sum(request_.needed_bytes);
    run_on_all([this] {
      if (saving_ranks_.is_first()) begin();
    });
    available_bytes_ = saving_ranks_.broadcast_from_first(available_bytes_);
    WrittenFiles written;
    run_on_all([&] {
      // Without this check a rank on another machine would create the folder on its own disk.
      if (!fs::is_directory(partial_)) throw not_saved(partial_.string() + " does not exist", shared_folder);
      written = write(partial_);
    });
    const std::vector<std::string> texts = saving_ranks_.gather_texts(to_text(written.collections));
    run_on_all([&] {
      if (saving_ranks_.is_first()) complete(written, texts);
    });
    if (saving_ranks_.is_first()) retain();
    saving_ranks_.wait_for_all();  // a wait in training would have a time-out
    return final_path_;
  }

 private:
  // Runs a step of the save on this rank, and throws on all ranks if it failed on any of them.
  template <typename Step>
  void run_on_all(Step&& step) {
    std::optional<UserError> failure;
    try {
      step();
    } catch (const UserError& error) {
      failure = error;
    } catch (const std::system_error& error) {
      failure = says_no_room(error.code()) ? no_room(error.what()) : not_saved(error.what(), another_folder);
    } catch (const std::exception& error) {
      failure = not_saved(error.what(), another_folder);
    }
    saving_ranks_.throw_if_any_failed(failure);
  }

  void begin() {
    fs::create_directories(request_.folder);
    lock_.emplace(request_.folder / lock_name, held_message(request_.folder));
    remove_leftovers(request_.folder);
    available_bytes_ = static_cast<int64_t>(fs::space(request_.folder).available);
    if (available_bytes_ < needed_bytes_) throw no_room("the disk is too full");
    guard_.path = partial_;
    fs::create_directory(partial_);
  }

  void complete(const WrittenFiles& own, const std::vector<std::string>& texts) {
    Manifest manifest{.terrace_version = std::string(version()),
                      .step = request_.step,
                      .collections = {},
                      .config = own.config.value(),
                      .attached = own.attached,
                      .trainer = request_.trainer};
    try {
      manifest.collections = merge_collections(texts);
    } catch (const UserError& error) {
      throw not_saved(error.what(), "This is an error of the program, not of the configuration");
    }
    for (const FileRecord& file : manifest.files()) {
      std::error_code error;
      if (fs::file_size(partial_ / file.name, error) == file.bytes && !error) continue;
      throw not_saved(fmt::format("{} was written but is missing or has another size", file.name), shared_folder);
    }
    write_text_atomically(partial_ / manifest_name, dump_manifest(manifest));
    publish(guard_, final_path_);
  }

  void retain() const {
    try {
      apply_retention(request_.folder, request_.step, request_.retention);
    } catch (const std::system_error& error) {
      log_warning("an old checkpoint in {} could not be removed: {}", request_.folder.string(), error.what());
    }
  }

  UserError not_saved(const std::string& why, const std::string& remedy) const {
    const std::string who = saving_ranks_.is_single() ? "" : fmt::format("rank {}: ", saving_ranks_.rank());
    return UserError(fmt::format("checkpoint {} was not saved: {}{}. Earlier checkpoints are untouched. {}",
                                 final_path_.string(), who, why, remedy),
                     ExitCode::failure);
  }

  UserError no_room(const std::string& why) const {
    return not_saved(fmt::format("{}; it needs more than {}, and {} were free", why,
                                 format_bytes(static_cast<double>(needed_bytes_)),
                                 format_bytes(static_cast<double>(available_bytes_))),
                     fmt::format("Make room, {}choose another checkpoint.folder", keep_fewer()));
  }

  // Advice on how checkpoint.keep would leave more room, if it can.
  std::string keep_fewer() const {
    const int64_t keep = request_.retention.keep;
    if (keep == 0) return "set checkpoint.keep, whose 0 keeps all checkpoints, to a number such as 2, or ";
    return keep > 1 ? fmt::format("lower checkpoint.keep = {} or ", keep) : "or ";
  }

  const SaveRequest& request_;
  const SavingRanks& saving_ranks_;
  const fs::path partial_, final_path_;
  int64_t needed_bytes_ = 0, available_bytes_ = 0;  // of all ranks together
  // Only the first rank has the lock and the guard. The folder is removed before the lock is released.
  std::optional<FileLock> lock_;
  FolderGuard guard_;
};

fs::path save(const fs::path& folder, const State& state, const Retention& retention, const SavingRanks& ranks) {
  return make_checkpoint({.folder = folder,
                          .step = state.step,
                          .trainer = state.trainer,
                          .needed_bytes = needed_bytes(state),
                          .retention = retention,
                          .ranks = ranks},
                         [&](const fs::path& partial) { return write_files(partial, state, ranks); });
}

}  // namespace

int64_t needed_bytes(const State& state) {
  int64_t bytes = 0;
  for (const Collection& collection : state.collections) {
    for (const NamedTensor& named : collection.tensors) bytes += static_cast<int64_t>(named.tensor.nbytes());
  }
  return bytes;
}

fs::path make_checkpoint(const SaveRequest& request, const std::function<WrittenFiles(const fs::path&)>& write) {
  return CheckpointSave(request).run(write);
}

fs::path save(const fs::path& folder, const State& state, const Retention& retention) {
  return save(folder, state, retention, SavingRanks(nullptr));
}

fs::path save(const fs::path& folder, const State& state, const Retention& retention, comm::Comm& ranks) {
  return save(folder, state, retention, SavingRanks(&ranks));
}

}  // namespace terrace::checkpoint
