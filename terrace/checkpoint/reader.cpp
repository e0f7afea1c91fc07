// Reads a checkpoint. Damage is found and named before any tensor is changed.
#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/safetensors.h"
#include "terrace/checkpoint/slice.h"
#include "terrace/config/family.h"

namespace terrace::checkpoint {
namespace {

// Runs `read`, and adds to a UserError that it throws how to continue from another checkpoint.
template <typename Read>
auto with_recovery_advice(const std::filesystem::path& checkpoint, const std::string& resume_command, Read&& read) {
  try {
    return read();
  } catch (const UserError& error) {
    throw UserError(error.what() + recovery_advice(checkpoint, resume_command), error.code);
  }
}

void check_size(const std::filesystem::path& checkpoint, const FileRecord& file) {
  std::error_code error;
  const std::filesystem::path path = checkpoint / file.name;
  if (std::filesystem::is_symlink(path, error)) {
    throw UserError::of("{} is a symbolic link, which may lead out of the checkpoint; put the file itself there",
                        path.string());
  }
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw UserError::of("{} cannot be read: {}", path.string(), error.message());
  if (bytes != file.bytes) {
    throw UserError::of("{} is damaged: it has {} bytes and should have {}", path.string(), bytes, file.bytes);
  }
}

void check_checksum(const std::filesystem::path& path, std::span<const std::byte> bytes, const FileRecord& file) {
  if (const std::string found = checksum(bytes); found != file.checksum) {
    throw UserError::of("{} is damaged: its checksum is {} and should be {}", path.string(), found, file.checksum);
  }
}

SafetensorsFile open_checked(const std::filesystem::path& checkpoint, const TensorFile& file) {
  const std::filesystem::path path = checkpoint / file.file.name;
  check_size(checkpoint, file.file);
  SafetensorsFile opened(path);
  check_checksum(path, opened.bytes(), file.file);
  for (const TensorRecord& tensor : file.tensors) {
    const SafetensorsEntry* entry = opened.header().find(tensor.entry);
    if (entry == nullptr || entry->shape != tensor.shape || safetensors_type(entry->type) != tensor.type) {
      throw UserError::of("{} is damaged: it does not hold '{}' as {} [{}], as {} says", path.string(), tensor.entry,
                          tensor.type, fmt::join(tensor.shape, ", "), manifest_name);
    }
  }
  return opened;
}

// A stored slice and its file.
struct StoredSlice {
  const TensorFile* file;
  const TensorRecord* record;
};

// The copy of the wanted elements of a stored slice into a view of the destination.
struct Copy {
  StoredSlice from;
  Overlap common;
  at::Tensor to;
};

// The copies that fill the wanted tensors of a collection, and the problems that prevent it.
class ReadPlan {
 public:
  ReadPlan(const CollectionRecord& stored, const Collection& wanted, bool wants_all,
           const std::set<std::string>& left_out) {
    for (const TensorFile& file : stored.files) {
      for (const TensorRecord& record : file.tensors) stored_[record.name].push_back({&file, &record});
    }
    std::set<std::string> unknown;
    for (const auto& [name, slices] : stored_) unknown.insert(name);
    for (const NamedTensor& named : wanted.tensors) {
      unknown.erase(named.name);
      if (std::string problem = add(named); !problem.empty()) problems_.push_back(std::move(problem));
    }
    if (!wants_all) return;
    for (const std::string& name : unknown) {
      if (left_out.contains(name)) continue;
      problems_.push_back(fmt::format("'{}' is in the checkpoint and not in this model", name));
    }
  }

  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<Copy>& copies() const { return copies_; }

 private:
  // Adds the copies for one tensor. Returns why the stored slices cannot fill it, or "".
  std::string add(const NamedTensor& named) {
    const auto stored = stored_.find(named.name);
    if (stored == stored_.end()) {
      const bool empty = std::ranges::find(named.mark.global_shape, 0) != named.mark.global_shape.end();
      return empty ? "" : fmt::format("'{}' is not in the checkpoint", named.name);
    }
    if (std::string problem = mismatch(named, stored->second); !problem.empty()) return problem;
    for (const Slice& slice : slices_of(named)) {
      if (std::string problem = add(slice, stored->second); !problem.empty()) return problem;
    }
    return "";
  }

  static std::string mismatch(const NamedTensor& named, const std::vector<StoredSlice>& stored) {
    for (const auto& [file, record] : stored) {
      if (record->global_shape != named.mark.global_shape) {
        return fmt::format("'{}' has shape [{}] in the checkpoint and [{}] in this model", named.name,
                           fmt::join(record->global_shape, ", "), fmt::join(named.mark.global_shape, ", "));
      }
      const at::ScalarType type = named.tensor.scalar_type();
      if (c10::isFloatingType(scalar_type(record->type)) != c10::isFloatingType(type)) {
        return fmt::format("'{}' has type {} in the checkpoint and {} in this model", named.name, record->type,
                           safetensors_type(type));
      }
    }
    return "";
  }

  std::string add(const Slice& wanted, const std::vector<StoredSlice>& stored) {
    const TensorRecord& record = wanted.record;
    int64_t covered = 0;  // elements; the stored slices have no elements in common
    for (const StoredSlice& from : stored) {
      const Overlap common = overlap(*from.record, record);
      if (common.numel() == 0) continue;
      covered += common.numel();
      copies_.push_back({from, common, view_at(wanted.values.detach(), common.from_second, common.shape)});
    }
    if (covered == wanted.values.numel()) return "";
    return fmt::format("'{}': the checkpoint has only {} of the {} elements at [{}] of shape [{}]", record.name,
                       covered, wanted.values.numel(), fmt::join(record.offset, ", "), fmt::join(record.shape, ", "));
  }

  std::unordered_map<std::string, std::vector<StoredSlice>> stored_;
  std::vector<std::string> problems_;
  std::vector<Copy> copies_;
};

void refuse_misfit(const ReadPlan& plan, const Collection& collection, const std::filesystem::path& checkpoint) {
  if (plan.problems().empty()) return;
  throw UserError::of("the {} of checkpoint {} do not fit this model:\n  {}\nUse the [model] of its {}",
                      collection.name, checkpoint.string(), fmt::join(plan.problems(), "\n  "), config_name);
}

}  // namespace

Reader::Reader(const std::filesystem::path& checkpoint, int64_t member, int64_t members, std::string resume_command)
    : path_((checkpoint / "").parent_path()), resume_command_(std::move(resume_command)) {
  TERRACE_CHECK(0 <= member && member < members, "member {} of {}", member, members);
  if (!std::filesystem::is_directory(path_)) throw UserError::of("there is no checkpoint {}", path_.string());
  with_recovery_advice(path_, resume_command_, [&] { open(member, members); });
}

void Reader::open(int64_t member, int64_t members) {
  if (!std::filesystem::exists(path_ / marker_name)) {
    throw UserError::of("checkpoint {} is not complete: it has no file {}, which is written last", path_.string(),
                        marker_name);
  }
  const std::filesystem::path manifest_path = path_ / manifest_name;
  manifest_ = std::make_shared<const Manifest>(parse_manifest(read_text(manifest_path), manifest_path.string()));
  const std::vector<FileRecord> files = manifest_->files();
  for (size_t i = static_cast<size_t>(member); i < files.size(); i += static_cast<size_t>(members)) {
    check_size(path_, files[i]);
  }
  const std::filesystem::path config_path = path_ / manifest_->config.name;
  config_ = read_text(config_path);
  check_checksum(config_path, std::as_bytes(std::span(config_)), manifest_->config);
  for (const auto& [role, record] : manifest_->attached) {
    if (member != 0) break;
    const MappedFile file(path_ / record.name);
    check_checksum(file.path(), file.bytes(), record);
  }
}

config::Config Reader::config(const config::Families& families) const {
  std::vector<std::string> settings;
  for (const config::Family* family : families) {
    if (family->settings.settings_of_earlier == nullptr) continue;
    for (std::string& setting : family->settings.settings_of_earlier(config_)) settings.push_back(std::move(setting));
  }
  return config::parse(config_, (path_ / manifest_->config.name).string(), families, settings,
                       config::IdleKeys::accept);
}

int64_t Reader::step() const { return manifest_->step; }

const Json& Reader::trainer() const { return manifest_->trainer; }

std::filesystem::path Reader::attached(const std::string& role) const {
  const auto found = manifest_->attached.find(role);
  return found == manifest_->attached.end() ? std::filesystem::path() : path_ / found->second.name;
}

AttachedPaths Reader::attached() const {
  AttachedPaths paths;
  for (const auto& [role, file] : manifest_->attached) paths[role] = (path_ / file.name).string();
  return paths;
}

const CollectionRecord& Reader::collection_record(const std::string& name) const {
  static const CollectionRecord no_buffers{.name = buffers_collection, .files = {}};
  std::vector<std::string> names;
  for (const CollectionRecord& collection : manifest_->collections) {
    if (collection.name == name) return collection;
    names.push_back(collection.name);
  }
  if (name == buffers_collection) return no_buffers;
  throw UserError::of("checkpoint {} has no group '{}'; it holds {}", path_.string(), name, fmt::join(names, ", "));
}

void Reader::read(const Collection& collection, const std::set<std::string>& left_out) const {
  read(collection, Unwanted::refuse, left_out);
}

void Reader::read_some(const Collection& collection) const { read(collection, Unwanted::accept, {}); }

void Reader::check_fits(const Collection& collection, const std::set<std::string>& left_out) const {
  refuse_misfit(ReadPlan(collection_record(collection.name), collection, true, left_out), collection, path_);
}

std::map<std::string, std::vector<int64_t>> Reader::shapes(const std::string& collection) const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorFile& file : collection_record(collection).files) {
    for (const TensorRecord& record : file.tensors) shapes.emplace(record.name, record.global_shape);
  }
  return shapes;
}

void Reader::check_files(const std::string& collection) const {
  for (const TensorFile& file : collection_record(collection).files) {
    with_recovery_advice(path_, resume_command_, [&] { open_checked(path_, file); });
  }
}

void Reader::read(const Collection& collection, Unwanted unwanted, const std::set<std::string>& left_out) const {
  const ReadPlan plan(collection_record(collection.name), collection, unwanted == Unwanted::refuse, left_out);
  refuse_misfit(plan, collection, path_);
  std::map<const TensorFile*, SafetensorsFile> files;
  for (const Copy& copy : plan.copies()) {
    const TensorFile* file = copy.from.file;
    if (files.contains(file)) continue;
    files.emplace(file, with_recovery_advice(path_, resume_command_, [&] { return open_checked(path_, *file); }));
  }
  const at::NoGradGuard no_grad;
  for (const Copy& copy : plan.copies()) {
    const SafetensorsFile& file = files.at(copy.from.file);
    const at::Tensor source = file.tensor(*file.header().find(copy.from.record->entry));
    copy.to.copy_(view_at(source, copy.common.from_first, copy.common.shape));
  }
}

}  // namespace terrace::checkpoint
