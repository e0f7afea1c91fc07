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

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

// Removes the folder that stands in it at the end.
struct FolderGuard {
  fs::path path;

  ~FolderGuard() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// Marks the finished folder complete and then gives it its name, so that whichever folder has the name is whole. One
// that stood there takes its place in `written`, to be removed.
void give_name(FolderGuard& written, const fs::path& final_path) {
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

// A quota and the largest size of a file are limits of room too.
bool says_no_room(const std::error_code& code) {
  return code == std::errc::no_space_on_device || code == std::errc::file_too_large ||
         code == std::error_code(EDQUOT, std::generic_category());
}

constexpr const char* another_folder = "Mend that, or choose another checkpoint.folder";
constexpr const char* shared_folder =
    "With several machines checkpoint.folder lies on a file system that all of them see";

// One save on its way, as one member sees it.
class Placing {
 public:
  explicit Placing(const Placement& placement)
      : placement_(placement),
        members_(placement.members),
        partial_(partial_path(placement.folder, placement.step)),
        final_path_(placement.folder / step_name(placement.step)) {}

  fs::path run(const std::function<Written(const fs::path&)>& write) {
    needed_bytes_ = members_.sum(placement_.needed_bytes);
    together([this] {
      if (members_.first()) begin();
    });
    available_bytes_ = members_.from_first(available_bytes_);
    Written written;
    together([&] {
      // Where it is missing, writing would make it anew on this machine's own disk.
      if (!fs::is_directory(partial_)) throw not_saved(partial_.string() + " is not there", shared_folder);
      written = write(partial_);
    });
    const std::vector<std::string> texts = members_.collect(to_text(written.groups));
    together([&] {
      if (members_.first()) complete(written, texts);
    });
    if (members_.first()) retain();
    members_.wait_for_all();  // here and not in training, where waiting is limited
    return final_path_;
  }

 private:
  // Does this member's part of something, and throws on all members where one of them could not.
  template <typename Part>
  void together(Part&& part) {
    std::optional<UserError> failure;
    try {
      part();
    } catch (const UserError& error) {
      failure = error;
    } catch (const std::system_error& error) {
      failure = says_no_room(error.code()) ? no_room(error.what()) : not_saved(error.what(), another_folder);
    } catch (const std::exception& error) {
      failure = not_saved(error.what(), another_folder);
    }
    members_.agree(failure);
  }

  void begin() {
    fs::create_directories(placement_.folder);
    lock_.emplace(placement_.folder / lock_name, held_message(placement_.folder));
    remove_leftovers(placement_.folder);
    available_bytes_ = static_cast<int64_t>(fs::space(placement_.folder).available);
    if (available_bytes_ < needed_bytes_) throw no_room("the disk is too full");
    guard_.path = partial_;
    fs::create_directory(partial_);
  }

  void complete(const Written& own, const std::vector<std::string>& texts) {
    Manifest manifest{.terrace_version = TERRACE_VERSION,
                      .step = placement_.step,
                      .groups = {},
                      .config = own.config.value(),
                      .tokenizer = own.tokenizer,
                      .trainer = placement_.trainer};
    try {
      manifest.groups = whole_groups(texts);
    } catch (const UserError& error) {
      throw not_saved(error.what(), "This is a mistake of the program, not of the configuration");
    }
    for (const FileRecord& file : manifest.files()) {
      std::error_code error;
      if (fs::file_size(partial_ / file.name, error) == file.bytes && !error) continue;
      throw not_saved(fmt::format("{} was written and is not there as it should be", file.name), shared_folder);
    }
    write_text_atomically(partial_ / manifest_name, dump_manifest(manifest));
    give_name(guard_, final_path_);
  }

  void retain() const {
    try {
      apply_retention(placement_.folder, placement_.step, placement_.retention);
    } catch (const std::system_error& error) {
      log_warning("an old checkpoint in {} could not be removed: {}", placement_.folder.string(), error.what());
    }
  }

  UserError not_saved(const std::string& why, const std::string& remedy) const {
    const std::string who = members_.alone() ? "" : fmt::format("rank {}: ", members_.rank());
    return UserError(fmt::format("checkpoint {} was not saved: {}{}. Earlier checkpoints are untouched. {}",
                                 final_path_.string(), who, why, remedy),
                     ExitCode::failure);
  }

  UserError no_room(const std::string& why) const {
    return not_saved(fmt::format("{}; it needs more than {}, and {} were free", why,
                                 format_bytes(static_cast<double>(needed_bytes_)),
                                 format_bytes(static_cast<double>(available_bytes_))),
                     "Make room, lower checkpoint.keep or choose another checkpoint.folder");
  }

  const Placement& placement_;
  const Members& members_;
  const fs::path partial_, final_path_;
  int64_t needed_bytes_ = 0, available_bytes_ = 0;  // of all members
  // Of member 0. The folder goes before others may save.
  std::optional<FileLock> lock_;
  FolderGuard guard_;
};

fs::path save(const fs::path& folder, const State& state, const Retention& retention, const Members& members) {
  return place_checkpoint({.folder = folder,
                           .step = state.step,
                           .trainer = state.trainer,
                           .needed_bytes = needed_bytes(state),
                           .retention = retention,
                           .members = members},
                          [&](const fs::path& partial) { return write_files(partial, state, members); });
}

}  // namespace

int64_t needed_bytes(const State& state) {
  int64_t bytes = 0;
  for (const Group& group : state.groups) {
    for (const NamedTensor& named : group.tensors) bytes += static_cast<int64_t>(named.tensor.nbytes());
  }
  return bytes;
}

fs::path place_checkpoint(const Placement& placement, const std::function<Written(const fs::path&)>& write) {
  return Placing(placement).run(write);
}

fs::path save(const fs::path& folder, const State& state, const Retention& retention) {
  return save(folder, state, retention, Members(nullptr));
}

fs::path save(const fs::path& folder, const State& state, const Retention& retention, comm::Comm& ranks) {
  return save(folder, state, retention, Members(&ranks));
}

}  // namespace terrace::checkpoint
