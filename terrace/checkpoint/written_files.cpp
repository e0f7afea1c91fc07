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

std::string file_name(const std::string& collection, const SavingRanks& ranks) {
  if (ranks.is_single()) return collection + ".safetensors";
  return fmt::format("{}.rank_{:04}.safetensors", collection, ranks.rank());
}

WrittenCollection write_collection(const std::filesystem::path& folder, const Collection& collection,
                                   const SavingRanks& ranks) {
  WrittenCollection part{{collection.name, {}}, {}};
  TensorFile file;
  file.file.name = file_name(collection.name, ranks);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NamedTensor& named : collection.tensors) {
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

// The files of all ranks for one collection.
struct Gathered {
  CollectionRecord record;
  std::set<std::string> unwritten;
};

void check_whole(const Gathered& collection) {
  std::map<std::string_view, TensorRecords> slices;
  for (const TensorFile& file : collection.record.files) {
    for (const TensorRecord& record : file.tensors) slices[record.name].push_back(&record);
  }
  const auto refuse = [&](const std::string& problem) {
    throw UserError(fmt::format("what the ranks wrote is not all of the {}: {}", collection.record.name, problem),
                    ExitCode::failure);
  };
  for (const auto& [name, records] : slices) {
    if (const std::string problem = completeness_problem(records); !problem.empty()) refuse(problem);
  }
  for (const std::string& name : collection.unwritten) {
    if (!slices.contains(name)) refuse(fmt::format("no rank has an element of '{}'", name));
  }
}

}  // namespace

std::vector<FileRecord> WrittenFiles::files() const {
  std::vector<FileRecord> files;
  if (config) files.push_back(*config);
  for (const auto& [role, file] : attached) files.push_back(file);
  for (const WrittenCollection& collection : collections) {
    for (const TensorFile& file : collection.record.files) files.push_back(file.file);
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
  for (const Collection& collection : state.collections)
    written.collections.push_back(write_collection(folder, collection, ranks));
  return written;
}

std::string copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  {
    const MappedFile source(from);
    AtomicFile file(to);
    if (!source.bytes().empty()) file.write(source.bytes().data(), source.bytes().size());
    file.commit();
  }
  return checksum(MappedFile(to).bytes());
}

std::string to_text(const std::vector<WrittenCollection>& parts) {
  Json json = Json::array();
  for (const WrittenCollection& part : parts) {
    json.push_back({{"group", collection_json(part.record)}, {"unwritten", part.unwritten}});
  }
  return json.dump();
}

std::vector<CollectionRecord> merge_collections(const std::vector<std::string>& texts) {
  std::vector<Gathered> collections;
  for (const std::string& text : texts) {
    for (const Json& part : Json::parse(text)) {
      CollectionRecord record = parse_collection(part.at("group"), "what a rank wrote");
      auto collection =
          std::ranges::find(collections, record.name, [](const Gathered& known) { return known.record.name; });
      if (collection == collections.end())
        collection = collections.insert(collections.end(), Gathered{{record.name, {}}, {}});
      std::ranges::move(record.files, std::back_inserter(collection->record.files));
      for (const Json& name : part.at("unwritten")) collection->unwritten.insert(name.get<std::string>());
    }
  }
  std::vector<CollectionRecord> whole;
  for (Gathered& collection : collections) {
    check_whole(collection);
    whole.push_back(std::move(collection.record));
  }
  return whole;
}

}  // namespace terrace::checkpoint
