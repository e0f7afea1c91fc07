// Reading a checkpoint back: what is damaged is named before anything is copied.
#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <map>
#include <unordered_map>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/safetensors.h"
#include "terrace/checkpoint/slice.h"

namespace terrace::checkpoint {
namespace {

// Runs `read`, and where it finds damage adds how to go on from another checkpoint.
template <typename Read>
auto with_way_out(const std::filesystem::path& checkpoint, Read&& read) {
  try {
    return read();
  } catch (const UserError& error) {
    throw UserError(error.what() + way_out(checkpoint), error.code);
  }
}

void check_sizes(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  for (const FileRecord& file : manifest.files()) {
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
}

void check_checksum(const std::filesystem::path& path, std::span<const std::byte> bytes, const FileRecord& file) {
  if (const std::string found = checksum(bytes); found != file.checksum) {
    throw UserError::of("{} is damaged: its checksum is {} and should be {}", path.string(), found, file.checksum);
  }
}

SafetensorsFile open_checked(const std::filesystem::path& checkpoint, const TensorFile& file) {
  const std::filesystem::path path = checkpoint / file.file.name;
  SafetensorsFile opened(path);
  check_checksum(path, opened.bytes(), file.file);
  for (const TensorRecord& tensor : file.tensors) {
    const SafetensorsEntry* entry = opened.header().find(tensor.name);
    if (entry == nullptr || entry->shape != tensor.shape || safetensors_type(entry->type) != tensor.type) {
      throw UserError::of("{} is damaged: it does not hold '{}' as {} [{}], as {} says", path.string(), tensor.name,
                          tensor.type, fmt::join(tensor.shape, ", "), manifest_name);
    }
  }
  return opened;
}

using Pieces = std::unordered_map<std::string, std::vector<const TensorRecord*>>;

Pieces stored_pieces(const GroupRecord& group) {
  Pieces pieces;
  for (const TensorFile& file : group.files) {
    for (const TensorRecord& tensor : file.tensors) pieces[tensor.name].push_back(&tensor);
  }
  return pieces;
}

// What keeps the wanted slice from being put together out of the stored ones; "" where nothing does.
std::string mismatch(const TensorRecord& wanted, const std::vector<const TensorRecord*>& stored) {
  int64_t covered = 0, elements = 1;
  for (int64_t extent : wanted.shape) elements *= extent;
  for (const TensorRecord* piece : stored) {
    if (piece->global_shape != wanted.global_shape) {
      return fmt::format("'{}' has shape [{}] there and [{}] here", wanted.name, fmt::join(piece->global_shape, ", "),
                         fmt::join(wanted.global_shape, ", "));
    }
    if (c10::isFloatingType(scalar_type(piece->type)) != c10::isFloatingType(scalar_type(wanted.type))) {
      return fmt::format("'{}' has type {} there and {} here", wanted.name, piece->type, wanted.type);
    }
    covered += overlap(*piece, wanted).numel();
  }
  if (covered == elements) return "";
  return fmt::format("'{}': only {} of the {} elements at [{}] of shape [{}] are there", wanted.name, covered, elements,
                     fmt::join(wanted.offset, ", "), fmt::join(wanted.shape, ", "));
}

void check_names(const std::filesystem::path& path, const Group& group, const Pieces& stored) {
  std::vector<std::string> problems;
  std::map<std::string, bool> unknown;
  for (const auto& [name, pieces] : stored) unknown[name] = true;
  for (const NamedTensor& named : group.tensors) {
    const auto pieces = stored.find(named.name);
    if (pieces == stored.end()) {
      problems.push_back(fmt::format("'{}' is not there", named.name));
      continue;
    }
    unknown.erase(named.name);
    if (std::string text = mismatch(record_of(named), pieces->second); !text.empty()) problems.push_back(text);
  }
  for (const auto& [name, _] : unknown) problems.push_back(fmt::format("'{}' is there and not in this model", name));
  if (problems.empty()) return;
  throw UserError::of("the {} of checkpoint {} do not fit this model:\n  {}\nUse the [model] of its {}", group.name,
                      path.string(), fmt::join(problems, "\n  "), config_name);
}

}  // namespace

Reader::Reader(const std::filesystem::path& checkpoint) : path_((checkpoint / "").parent_path()) {
  if (!std::filesystem::is_directory(path_)) throw UserError::of("there is no checkpoint {}", path_.string());
  with_way_out(path_, [this] { open(); });
}

void Reader::open() {
  if (!std::filesystem::exists(path_ / marker_name)) {
    throw UserError::of("checkpoint {} is not complete: it has no file {}, which is written last", path_.string(),
                        marker_name);
  }
  const std::filesystem::path manifest_path = path_ / manifest_name;
  manifest_ = std::make_shared<const Manifest>(parse_manifest(read_text(manifest_path), manifest_path.string()));
  check_sizes(path_, *manifest_);
  const std::filesystem::path config_path = path_ / manifest_->config.name;
  const std::string config = read_text(config_path);
  check_checksum(config_path, std::as_bytes(std::span(config)), manifest_->config);
  if (manifest_->tokenizer) {
    const MappedFile tokenizer(path_ / manifest_->tokenizer->name);
    check_checksum(tokenizer.path(), tokenizer.bytes(), *manifest_->tokenizer);
  }
  config_ = config::parse(config, config_path.string());
}

int64_t Reader::step() const { return manifest_->step; }

const Json& Reader::trainer() const { return manifest_->trainer; }

std::filesystem::path Reader::tokenizer() const {
  return manifest_->tokenizer ? path_ / manifest_->tokenizer->name : std::filesystem::path();
}

const GroupRecord& Reader::group_record(const std::string& name) const {
  std::vector<std::string> names;
  for (const GroupRecord& group : manifest_->groups) {
    if (group.name == name) return group;
    names.push_back(group.name);
  }
  throw UserError::of("checkpoint {} has no group '{}'; it holds {}", path_.string(), name, fmt::join(names, ", "));
}

void Reader::read(const Group& group) const {
  const GroupRecord& record = group_record(group.name);
  check_names(path_, group, stored_pieces(record));
  std::vector<SafetensorsFile> files;
  for (const TensorFile& file : record.files) {
    files.push_back(with_way_out(path_, [&] { return open_checked(path_, file); }));
  }
  std::unordered_map<std::string, const NamedTensor*> targets;
  for (const NamedTensor& named : group.tensors) targets[named.name] = &named;

  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < files.size(); ++i) {
    for (const TensorRecord& stored : record.files[i].tensors) {
      const NamedTensor& target = *targets.at(stored.name);
      const Overlap common = overlap(stored, record_of(target));
      if (common.numel() == 0) continue;
      const at::Tensor source = files[i].tensor(*files[i].header().find(stored.name));
      view_at(target.tensor.detach(), common.from_second, common.shape)
          .copy_(view_at(source, common.from_first, common.shape));
    }
  }
}

}  // namespace terrace::checkpoint
