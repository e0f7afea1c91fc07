// Writes each rank's files, and checks that together they hold every element once.
#include "terrace/checkpoint/written_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/checkpoint/completeness.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/safetensors.h"
#include "terrace/checkpoint/slice.h"

namespace terrace::checkpoint {
namespace {

FileRecord write_file(const std::filesystem::path& folder, const char* name, std::span<const std::byte> bytes) {
  AtomicFile file(folder / name);
  if (!bytes.empty()) file.write(bytes.data(), bytes.size());
  file.commit();
  return {name, bytes.size(), checksum(bytes)};
}

std::string file_name(const std::string& group, const SavingRanks& ranks) {
  if (ranks.is_single()) return group + ".safetensors";
  return fmt::format("{}.rank_{:04}.safetensors", group, ranks.rank());
}

WrittenGroup write_group(const std::filesystem::path& folder, const Group& group, const SavingRanks& ranks) {
  WrittenGroup part{{group.name, {}}, {}};
  TensorFile file;
  file.file.name = file_name(group.name, ranks);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NamedTensor& named : group.tensors) {
    std::vector<Slice> slices = slices_of(named);
    if (slices.empty() && std::ranges::find(named.mark.global_shape, 0) == named.mark.global_shape.end()) {
      part.unwritten.push_back(named.name);
    }
    for (Slice& slice : slices) {
      tensors.emplace_back(slice.record.entry, std::move(slice.values));
      file.tensors.push_back(std::move(slice.record));
    }
  }
  if (tensors.empty() && !ranks.is_single()) return part;
  // Other programs look for the key "format" to know the order of dimensions.
  const WrittenFile written = write_safetensors(folder / file.file.name, tensors, {{"format", "pt"}});
  file.file.bytes = written.bytes;
  file.file.checksum = written.checksum;
  part.record.files.push_back(std::move(file));
  return part;
}

std::map<std::string, FileRecord> write_attached(const std::filesystem::path& folder,
                                                 const std::vector<AttachedFile>& attached) {
  std::map<std::string, FileRecord> written;
  for (const AttachedFile& one : attached) {
    if (!one.text.empty()) {
      written.emplace(one.role, write_file(folder, one.stored_as.c_str(), std::as_bytes(std::span(one.text))));
      continue;
    }
    if (!std::filesystem::exists(one.path)) {
      // A checkpoint without the file is better than none.
      log_warning("the {} {} does not exist any more: the checkpoint is saved without it", one.role, one.path);
      continue;
    }
    const MappedFile file(one.path);
    written.emplace(one.role, write_file(folder, one.stored_as.c_str(), file.bytes()));
  }
  return written;
}

// The files of all ranks for one group.
struct Gathered {
  GroupRecord record;
  std::set<std::string> unwritten;
};

void check_whole(const Gathered& group) {
  std::map<std::string_view, TensorRecords> slices;
  for (const TensorFile& file : group.record.files) {
    for (const TensorRecord& record : file.tensors) slices[record.name].push_back(&record);
  }
  const auto refuse = [&](const std::string& problem) {
    throw UserError(fmt::format("what the ranks wrote is not all of the {}: {}", group.record.name, problem),
                    ExitCode::failure);
  };
  for (const auto& [name, records] : slices) {
    if (const std::string problem = completeness_problem(records); !problem.empty()) refuse(problem);
  }
  for (const std::string& name : group.unwritten) {
    if (!slices.contains(name)) refuse(fmt::format("no rank has an element of '{}'", name));
  }
}

}  // namespace

std::vector<FileRecord> WrittenFiles::files() const {
  std::vector<FileRecord> files;
  if (config) files.push_back(*config);
  for (const auto& [role, file] : attached) files.push_back(file);
  for (const WrittenGroup& group : groups) {
    for (const TensorFile& file : group.record.files) files.push_back(file.file);
  }
  return files;
}

WrittenFiles write_files(const std::filesystem::path& folder, const State& state, const SavingRanks& ranks) {
  WrittenFiles written;
  if (ranks.is_first()) {
    const std::string config = config::dump(state.config);
    written.config = write_file(folder, config_name, std::as_bytes(std::span(config)));
    written.attached = write_attached(folder, state.attached);
  }
  for (const Group& group : state.groups) written.groups.push_back(write_group(folder, group, ranks));
  return written;
}

std::string to_text(const std::vector<WrittenGroup>& parts) {
  Json json = Json::array();
  for (const WrittenGroup& part : parts) {
    json.push_back({{"group", group_json(part.record)}, {"unwritten", part.unwritten}});
  }
  return json.dump();
}

std::vector<GroupRecord> merge_groups(const std::vector<std::string>& texts) {
  std::vector<Gathered> groups;
  for (const std::string& text : texts) {
    for (const Json& part : Json::parse(text)) {
      GroupRecord record = parse_group(part.at("group"), "what a rank wrote");
      auto group = std::ranges::find(groups, record.name, [](const Gathered& known) { return known.record.name; });
      if (group == groups.end()) group = groups.insert(groups.end(), Gathered{{record.name, {}}, {}});
      std::ranges::move(record.files, std::back_inserter(group->record.files));
      for (const Json& name : part.at("unwritten")) group->unwritten.insert(name.get<std::string>());
    }
  }
  std::vector<GroupRecord> whole;
  for (Gathered& group : groups) {
    check_whole(group);
    whole.push_back(std::move(group.record));
  }
  return whole;
}

}  // namespace terrace::checkpoint
