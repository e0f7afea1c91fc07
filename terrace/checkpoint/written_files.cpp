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

class FolderSink : public FileSink {
 public:
  explicit FolderSink(std::filesystem::path folder) : folder_(std::move(folder)) {}

  FileRecord write(const std::string& name, std::span<const std::byte> bytes) override {
    AtomicFile file(folder_ / name);
    if (!bytes.empty()) file.write(bytes.data(), bytes.size());
    file.commit();
    return {name, bytes.size(), checksum(bytes)};
  }

  FileRecord write(const std::string& name, const NamedValues& tensors,
                   const std::map<std::string, std::string>& metadata) override {
    const WrittenFile written = write_safetensors(folder_ / name, tensors, metadata);
    return {name, written.bytes, written.checksum};
  }

 private:
  std::filesystem::path folder_;
};

std::string file_name(const std::string& collection, const SavingRanks& ranks) {
  if (ranks.is_single()) return collection + ".safetensors";
  return fmt::format("{}.rank_{:04}.safetensors", collection, ranks.rank());
}

WrittenCollection write_collection(FileSink& sink, const Collection& collection, const SavingRanks& ranks) {
  WrittenCollection part{{collection.name, {}}, {}};
  TensorFile file;
  NamedValues tensors;
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
  file.file = sink.write(file_name(collection.name, ranks), tensors, {{"format", "pt"}});
  part.record.files.push_back(std::move(file));
  return part;
}

std::map<std::string, FileRecord> write_attached(FileSink& sink, const std::vector<AttachedFile>& attached) {
  std::map<std::string, FileRecord> written;
  for (const AttachedFile& one : attached) {
    if (!one.text.empty()) {
      written.emplace(one.role, sink.write(one.stored_as, std::as_bytes(std::span(one.text))));
      continue;
    }
    if (!std::filesystem::exists(one.path)) {
      // A checkpoint without the file is better than none.
      log_warning("the {} {} does not exist any more: the checkpoint is saved without it", one.role, one.path);
      continue;
    }
    const MappedFile file(one.path);
    written.emplace(one.role, sink.write(one.stored_as, file.bytes()));
  }
  return written;
}

template <typename Files, typename Take>
void each_of(Files& written, const Take& take) {
  if (written.config) take(*written.config);
  for (auto& [role, file] : written.attached) take(file);
  for (auto& collection : written.collections) {
    for (auto& file : collection.record.files) take(file.file);
  }
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
  each_of(*this, [&](const FileRecord& file) { files.push_back(file); });
  return files;
}

void WrittenFiles::each(const std::function<void(FileRecord&)>& take) { each_of(*this, take); }

WrittenFiles write_files(FileSink& sink, const State& state, const SavingRanks& ranks) {
  WrittenFiles written;
  if (ranks.is_first()) {
    const std::string config = config::dump(state.config);
    written.config = sink.write(config_name, std::as_bytes(std::span(config)));
    written.attached = write_attached(sink, state.attached);
  }
  for (const Collection& collection : state.collections)
    written.collections.push_back(write_collection(sink, collection, ranks));
  return written;
}

WrittenFiles write_files(const std::filesystem::path& folder, const State& state, const SavingRanks& ranks) {
  FolderSink sink(folder);
  return write_files(sink, state, ranks);
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
