// manifest.json: what a checkpoint consists of, with sizes, checksums and the place of every stored slice in its whole
// tensor, so that any layout can find what it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/mesh/param_mark.h"

namespace terrace::checkpoint {

// The version of the folder's layout; a reader refuses a newer one. 2 has tensors that are cut into several entries of
// a file; a manifest without such is written as 1.
constexpr int64_t manifest_format = 2;

struct FileRecord {
  std::string name;  // stands in the checkpoint's folder: no separator, no "..", no leading dot
  uint64_t bytes = 0;
  std::string checksum;  // terrace::checksum() of the whole file
  bool operator==(const FileRecord&) const = default;
};

// One stored slice: elements offset .. offset + shape of a tensor of global_shape, in each dimension.
struct TensorRecord {
  std::string name;   // global
  std::string entry;  // what the file calls it: the same, or with the offset where the file has a part: "NAME@3,0"
  std::string type;   // the word of safetensors: "F32"
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
  ParamMark::Kind kind = ParamMark::Kind::replicated;
  int64_t dim = 0;   // sharded: which dimension is cut
  std::string axis;  // sharded: over which mesh axis
  bool operator==(const TensorRecord&) const = default;
};

struct TensorFile {
  FileRecord file;
  std::vector<TensorRecord> tensors;
  bool operator==(const TensorFile&) const = default;
};

struct GroupRecord {
  std::string name;
  std::vector<TensorFile> files;
  bool operator==(const GroupRecord&) const = default;
};

struct Manifest {
  std::string terrace_version;
  int64_t step = 0;
  std::vector<GroupRecord> groups;
  FileRecord config;
  std::optional<FileRecord> tokenizer;
  Json trainer;

  std::vector<FileRecord> files() const;  // every file but the manifest and the marker
  bool operator==(const Manifest&) const = default;
};

// JSON text whose last key is a checksum of everything before it.
std::string dump_manifest(const Manifest& manifest);

// Throws UserError naming `file_name` and the first thing that is wrong: not JSON, checksum, format, a key that is
// missing or of another kind, a file name that leaves the folder, a slice outside its tensor, elements that a group has
// twice.
Manifest parse_manifest(std::string_view text, std::string_view file_name);

// One group by itself, and back with the same checks.
Json group_json(const GroupRecord& group);
GroupRecord parse_group(const Json& json, std::string_view file_name);

}  // namespace terrace::checkpoint
