// Lists, locks and cleans a run's folder of checkpoints.
#include "terrace/checkpoint/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/shell_word.h"

namespace terrace::checkpoint {
namespace {

constexpr std::string_view prefix = "step_";

std::vector<std::filesystem::path> step_folders(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;  // a name that no folder can have has no checkpoints
  if (!std::filesystem::is_directory(folder, ignored)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (step_of(entry.path()) && entry.is_directory()) found.push_back(entry.path());
  }
  std::ranges::sort(found, {}, [](const auto& path) { return *step_of(path); });
  return found;
}

// A free name beside a damaged checkpoint that is not the name of a checkpoint.
std::string away(const std::filesystem::path& checkpoint) {
  std::string name = checkpoint.string() + ".damaged";
  for (int i = 2; std::filesystem::exists(name); ++i) name = fmt::format("{}.damaged{}", checkpoint.string(), i);
  return name;
}

bool is_complete(const std::filesystem::path& checkpoint) { return std::filesystem::exists(checkpoint / marker_name); }

}  // namespace

std::string step_name(int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::optional<int64_t> step_of(const std::filesystem::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  // Only the spelling of step_name() is accepted, so that no two folders have the same step.
  if (error != std::errc() || step < 0 || name != step_name(step)) return std::nullopt;
  return step;
}

std::filesystem::path partial_path(const std::filesystem::path& folder, int64_t step) {
  return folder / fmt::format(".{}.partial", step_name(step));
}

std::string held_message(const std::filesystem::path& folder) {
  return fmt::format("another save into {} is going on: give each run a checkpoint.folder of its own", folder.string());
}

std::filesystem::path hide_checkpoint(const std::filesystem::path& checkpoint) {
  std::filesystem::path hidden = checkpoint.parent_path() / fmt::format(".{}.removed", checkpoint.filename().string());
  std::filesystem::remove_all(hidden);
  std::filesystem::rename(checkpoint, hidden);
  sync_folder(checkpoint.parent_path());
  return hidden;
}

bool exchange_names(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  throw std::system_error(errno, std::generic_category(), "cannot replace " + b.string());
}

std::filesystem::path replace_by_renaming(const std::filesystem::path& written,
                                          const std::filesystem::path& checkpoint) {
  std::filesystem::path hidden = hide_checkpoint(checkpoint);
  std::filesystem::rename(written, checkpoint);
  return hidden;
}

void remove_leftovers(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(fmt::format(".{}", prefix)) && (name.ends_with(".partial") || name.ends_with(".removed"))) {
      std::filesystem::remove_all(entry.path());
    }
  }
}

void apply_retention(const std::filesystem::path& folder, int64_t step, const Retention& retention) {
  if (retention.keep <= 0) return;
  std::vector<std::filesystem::path> checkpoints = list(folder);
  std::erase_if(checkpoints, [step](const auto& path) { return *step_of(path) > step; });
  const int64_t surplus = static_cast<int64_t>(checkpoints.size()) - retention.keep;
  for (int64_t i = 0; i < surplus; ++i) {
    const bool milestone = retention.keep_every > 0 && *step_of(checkpoints[i]) % retention.keep_every == 0;
    if (!milestone) std::filesystem::remove_all(hide_checkpoint(checkpoints[i]));
  }
}

std::vector<std::filesystem::path> list(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found = step_folders(folder);
  std::erase_if(found, [](const auto& path) { return !is_complete(path); });
  return found;
}

std::optional<std::filesystem::path> newest(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found = step_folders(folder);
  while (!found.empty() && !is_complete(found.back())) {
    log_warning("{} has no file {}: its save was interrupted, so it is skipped", found.back().string(), marker_name);
    found.pop_back();
  }
  if (found.empty()) return std::nullopt;
  return found.back();
}

std::filesystem::path resolve(const std::filesystem::path& path) {
  std::filesystem::path plain = (path / "").parent_path();  // without a slash at the end
  if (!std::filesystem::is_directory(plain))
    throw UserError::of("there is no folder {}; name the folder of a run, or of one of its checkpoints",
                        plain.string());
  if (step_of(plain) || std::filesystem::exists(plain / manifest_name)) return plain;
  if (const auto found = newest(plain)) return *found;
  throw UserError::of(
      "{} is neither a checkpoint (it has no {}) nor a run's folder with a complete checkpoint (step_NNNNNNNN) in it",
      plain.string(), manifest_name);
}

std::string recovery_advice(const std::filesystem::path& checkpoint, const std::string& resume_command) {
  if (!step_of(checkpoint)) return "";
  std::vector<std::filesystem::path> others = list(checkpoint.parent_path());
  std::erase(others, checkpoint);
  if (others.empty()) {
    return fmt::format("; there is no other complete checkpoint beside it: move {} away and train from the start",
                       checkpoint.string());
  }
  const std::string other = others.back().string();
  const std::string move = fmt::format("mv {} {}", shell_word(checkpoint.string()), shell_word(away(checkpoint)));
  if (resume_command.empty()) {
    return fmt::format(
        "; move it away with: {}, and use {} in its place (for a run: the same command with --resume {})", move, other,
        shell_word(other));
  }
  return fmt::format("; move it away and continue from {} with: {} && {} --resume {}", other, move, resume_command,
                     shell_word(other));
}

std::optional<std::filesystem::path> run_of_kept_config(const std::filesystem::path& config_file) {
  const std::filesystem::path file = std::filesystem::weakly_canonical(config_file), checkpoint = file.parent_path();
  if (file.filename() == run_config_name && !list(checkpoint).empty()) return checkpoint;  // that is the run's folder
  if (file.filename() != config_name || !step_of(checkpoint)) return std::nullopt;
  if (!std::filesystem::exists(checkpoint / manifest_name)) return std::nullopt;
  return checkpoint.parent_path();
}

}  // namespace terrace::checkpoint
