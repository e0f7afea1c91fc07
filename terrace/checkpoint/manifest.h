// manifest.json lists the files of a checkpoint with sizes and checksums, and the position of every stored slice in its
// whole tensor, so that a run with any layout finds the elements it needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/mesh/param_mark.h"

namespace terrace::checkpoint {

// The version of the manifest's format; a reader refuses newer ones. In version 2 a tensor may have several entries in
// a file; a manifest without such tensors is written as version 1.
constexpr int64_t manifest_format = 2;

struct FileRecord {
  std::string name;  // a file of the checkpoint's folder itself: no separator, no "..", no leading dot
  uint64_t bytes = 0;
  std::string checksum;  // terrace::checksum() of the whole file
  bool operator==(const FileRecord&) const = default;
};

// One stored slice: the elements [offset, offset + shape) in each dimension of a tensor of global_shape.
struct TensorRecord {
  std::string name;   // global
  std::string entry;  // its name in the file: the same, or followed by the offset where it is not the whole: "NAME@3,0"
  std::string type;   // as safetensors names it: "F32"
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
  ParamMark::Kind kind = ParamMark::Kind::replicated;
  int64_t dim = 0;   // for sharded: the dimension that is sharded
  std::string axis;  // for sharded: the mesh axis
  bool operator==(const TensorRecord&) const = default;
};

struct TensorFile {
  FileRecord file;
  std::vector<TensorRecord> tensors;
  bool operator==(const TensorFile&) const = default;
};

struct CollectionRecord {
  std::string name;
  std::vector<TensorFile> files;
  bool operator==(const CollectionRecord&) const = default;
};

struct Manifest {
  std::string terrace_version;
  int64_t step = 0;
  std::vector<CollectionRecord> collections;
  FileRecord config;
  std::map<std::string, FileRecord> attached = {};  // by role
  Json trainer;

  std::vector<FileRecord> files() const;  // every file but the manifest and the marker
  bool operator==(const Manifest&) const = default;
};

// Returns JSON text whose last key is a checksum of all keys before it.
std::string dump_manifest(const Manifest& manifest);

// Throws UserError that names `file_name` and the first problem: text that is not JSON, a wrong checksum, an unknown
// format, a key that is missing or has another type, a file name outside the folder, a slice outside its tensor, or an
// element that a collection has twice.
Manifest parse_manifest(std::string_view text, std::string_view file_name);

// One collection alone as JSON, and its parsing with the same checks.
Json collection_json(const CollectionRecord& collection);
CollectionRecord parse_collection(const Json& json, std::string_view file_name);

}  // namespace terrace::checkpoint
