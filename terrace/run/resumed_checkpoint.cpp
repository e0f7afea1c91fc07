// Chooses the checkpoint that a run continues from, and refuses those that would mix the histories of two runs.
#include "terrace/run/resumed_checkpoint.h"

#include <optional>
#include <span>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/train/agreement.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

void check_continues(const checkpoint::Reader& reader) {
  if (!reader.trainer().contains("imported_from")) return;
  throw UserError::of(
      "{} was imported and holds weights alone, so no run can continue from it; start a new run with "
      "train.initial_weights in another checkpoint.folder",
      reader.path().string());
}

bool same_folder(const fs::path& a, const fs::path& b) {
  const auto plain = [](const fs::path& path) { return fs::weakly_canonical((path / "").parent_path()); };
  return plain(a) == plain(b);
}

// A run continues in the folder of its checkpoint: another folder would lack its earlier checkpoints and metrics.
void check_resumed_folder(const fs::path& checkpoint, const std::string& folder) {
  const fs::path lies_in = fs::weakly_canonical(checkpoint).parent_path();
  if (same_folder(lies_in, folder)) return;
  throw UserError::of(
      "--resume names a checkpoint in {}, but checkpoint.folder is {}; continue that run with --set "
      "checkpoint.folder={}, or begin another branch of it from a copy: mkdir -p {} && cp -r {} {} and --resume auto",
      checkpoint.parent_path().string(), folder, shell_word(checkpoint.parent_path().string()), shell_word(folder),
      shell_word(checkpoint.string()), shell_word(folder));
}

// Identifies the content of a checkpoint by its manifest, which has the checksums of all its files.
std::string content_of(const std::string& checkpoint) {
  const std::string manifest = read_text(fs::path(checkpoint) / checkpoint::manifest_name);
  return checksum(std::as_bytes(std::span(manifest)));
}

}  // namespace

void check_kept_folder(const fs::path& config_file, const std::string& folder) {
  if (config_file.empty()) return;
  const std::optional<fs::path> lies_in = checkpoint::run_of_kept_config(config_file);
  if (!lies_in || same_folder(*lies_in, folder)) return;
  throw UserError::of(
      "{} was kept by the run in {}, but names checkpoint.folder = \"{}\"; was the folder renamed, or is this another "
      "working folder? Continue that run with --set checkpoint.folder={}, or name another folder for a new run",
      config_file.string(), lies_in->string(), folder, shell_word(lies_in->string()));
}

bool is_new_run(const std::string& resume, const std::string& folder) {
  return resume.empty() || (resume == "auto" && checkpoint::list(folder).empty());
}

std::unique_ptr<checkpoint::Reader> open_resumed(const RunOptions& options, const std::string& folder) {
  const std::optional<fs::path> own = checkpoint::newest(folder);
  const std::string& resume = options.resume;
  const auto open = [&](const fs::path& path) {
    auto reader = std::make_unique<checkpoint::Reader>(path, 0, 1, options.resume_command);
    check_continues(*reader);
    return reader;
  };
  if (resume.empty() && own) {
    throw UserError::of(
        "{} already holds a run up to {}; continue it with --resume auto, or name another checkpoint.folder", folder,
        own->filename().string());
  }
  if (resume.empty()) return nullptr;
  if (resume == "auto") {
    if (!own) log_info("{} holds no checkpoint yet: the run starts at step 1", folder);
    return own ? open(*own) : nullptr;
  }
  const fs::path chosen = checkpoint::resolve(resume);
  auto reader = open(chosen);
  check_resumed_folder(chosen, folder);
  // The next --resume auto would take the later checkpoints for this run's own.
  if (own && checkpoint::step_of(*own).value_or(0) > reader->step()) {
    throw UserError::of(
        "{} is older than {}, which is also in the run's folder; move the later checkpoints away and use --resume "
        "auto, "
        "or name another checkpoint.folder",
        resume, own->string());
  }
  return reader;
}

std::unique_ptr<checkpoint::Reader> open_chosen(comm::World& world, comm::Comm& all, const std::string& chosen,
                                                const RunOptions& options) {
  std::unique_ptr<checkpoint::Reader> own;
  std::optional<UserError> problem;
  train::StartFacts facts;
  try {
    if (all.member() != 0)
      own = std::make_unique<checkpoint::Reader>(chosen, world.rank(), world.size(), options.resume_command);
    facts.emplace_back("the content of " + chosen, content_of(chosen));
  } catch (const UserError& error) {
    problem = error;
  }
  train::agree(world, problem);
  train::check_same(all, facts);
  return own;
}

}  // namespace terrace::run
