// Runs the common steps of a preparation on its ranks.
#include "terrace/data/preparation_run.h"

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"

namespace terrace::data {

namespace fs = std::filesystem;

std::string prefix_of_output(const std::string& output, const std::string& ending, const std::string& example) {
  if (output.empty() || output.ends_with('/')) {
    throw UserError::of("--output \"{}\" names no file; give a prefix such as {}", output, example);
  }
  const fs::path path(output);
  return path.extension() == ending || path.extension() == ".json" ? fs::path(path).replace_extension().string()
                                                                   : output;
}

void check_absent(const std::vector<fs::path>& files) {
  for (const fs::path& path : files) {
    if (!fs::exists(path)) continue;
    throw UserError::of("{} exists; choose another --output, or give --overwrite to replace it", path.string());
  }
}

void PreparationRun::check_stop() const {
  if (stop_ == nullptr || !*stop_) return;
  throw UserError("interrupted; nothing was written to " + files_, ExitCode::failure);
}

void PreparationRun::on_first(const std::function<void()>& part) const {
  on_all_ranks(ranks_, [&] {
    if (ranks_.is_first()) part();
  });
}

void PreparationRun::on_first_then_others(const std::function<void()>& first,
                                          const std::function<void()>& others) const {
  on_first(first);
  on_all_ranks(ranks_, [&] {
    if (!ranks_.is_first()) others();
  });
}

void PreparationRun::make_of_parts(FileParts& parts, const PartSteps& steps) const {
  try {
    on_first_then_others(steps.begin, [&] {
      parts.join();
      steps.join();
    });
    parts.work_on_all_ranks(steps.work);
    steps.finish();
    parts.remove();
  } catch (const UserError& error) {
    if (error.code == ExitCode::bad_input) parts.discard();
    throw;
  }
}

void PreparationRun::commit(AtomicFile& data, const fs::path& described, const std::string& description) const {
  AtomicFile file(described);
  file.write(description);
  file.sync();
  data.sync();
  check_stop();
  end_start();  // what follows replaces the files of an earlier dataset, and is not to be cut off
  if (fs::remove(described)) sync_folder(described.parent_path());
  data.commit();
  file.commit();
}

}  // namespace terrace::data
