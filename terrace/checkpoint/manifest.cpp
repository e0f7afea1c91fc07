// Writes the manifest as JSON, and parses it with a check of every key.
#include "terrace/checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/completeness.h"

namespace terrace::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, ParamMark::Kind>, 2> kind_words = {{
    {"replicated", ParamMark::Kind::replicated},
    {"sharded", ParamMark::Kind::sharded},
}};

Json file_json(const FileRecord& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}};
}

Json tensor_json(const TensorRecord& tensor) {
  const auto kind = std::ranges::find(kind_words, tensor.kind, &std::pair<std::string_view, ParamMark::Kind>::second);
  TERRACE_CHECK(kind != kind_words.end(), "tensor '{}' has no mark", tensor.name);
  Json json = {{"name", tensor.name},     {"type", tensor.type},   {"global_shape", tensor.global_shape},
               {"offset", tensor.offset}, {"shape", tensor.shape}, {"kind", kind->first}};
  if (tensor.entry != tensor.name) json["entry"] = tensor.entry;
  if (tensor.kind == ParamMark::Kind::sharded) {
    json["dim"] = tensor.dim;
    json["axis"] = tensor.axis;
  }
  return json;
}

std::string text_checksum(const Json& json) {
  const std::string text = json.dump();
  return checksum(std::as_bytes(std::span(text)));
}

// One value of the manifest with its path ("groups[0].files[1].name"), for error messages.
class Node {
 public:
  Node(const Json& json, std::string_view file_name, std::string way)
      : json_(json), file_name_(file_name), way_(std::move(way)) {}

  template <typename... Args>
  UserError wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return UserError::of("{} is damaged: {}{}{}", file_name_, way_, way_.empty() ? "" : " ",
                         fmt::format(format, std::forward<Args>(args)...));
  }

  const Json& json() const { return json_; }

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }

  Node operator[](const char* key) const {
    if (!has(key)) throw wrong("lacks '{}'", key);
    return {json_.at(key), file_name_, way_.empty() ? key : way_ + "." + key};
  }

  std::vector<Node> items() const {
    if (!json_.is_array()) throw wrong("is not a list");
    std::vector<Node> nodes;
    for (size_t i = 0; i < json_.size(); ++i) nodes.push_back({json_[i], file_name_, fmt::format("{}[{}]", way_, i)});
    return nodes;
  }

  std::string text() const {
    if (!json_.is_string()) throw wrong("is not a string");
    return json_.get<std::string>();
  }

  int64_t number() const {
    if (!json_.is_number_unsigned() || json_.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      throw wrong("is not a whole number from 0 to 2^63 - 1");
    }
    return json_.get<int64_t>();
  }

  std::vector<int64_t> numbers() const {
    std::vector<int64_t> values;
    for (const Node& item : items()) values.push_back(item.number());
    return values;
  }

 private:
  const Json& json_;
  std::string_view file_name_;
  std::string way_;
};

FileRecord parse_file(const Node& node) {
  FileRecord file;
  file.name = node["name"].text();
  file.bytes = static_cast<uint64_t>(node["bytes"].number());
  file.checksum = node["checksum"].text();
  // A leading dot rules out "." and ".." too.
  if (file.name.empty() || file.name[0] == '.' ||
      file.name.find_first_of(std::string_view("/\\\0", 3)) != file.name.npos) {
    throw node.wrong("names the file '{}', which is not a plain name inside the checkpoint's folder", file.name);
  }
  return file;
}

TensorRecord parse_tensor(const Node& node) {
  TensorRecord tensor;
  tensor.name = node["name"].text();
  tensor.entry = node.has("entry") ? node["entry"].text() : tensor.name;
  tensor.type = node["type"].text();
  tensor.global_shape = node["global_shape"].numbers();
  tensor.offset = node["offset"].numbers();
  tensor.shape = node["shape"].numbers();
  const std::string word = node["kind"].text();
  const auto kind = std::ranges::find(kind_words, word, &std::pair<std::string_view, ParamMark::Kind>::first);
  if (kind == kind_words.end()) throw node.wrong("has kind '{}'; known are replicated and sharded", word);
  tensor.kind = kind->second;
  if (tensor.kind == ParamMark::Kind::sharded) {
    tensor.dim = node["dim"].number();
    tensor.axis = node["axis"].text();
  }
  const size_t dims = tensor.global_shape.size();
  bool inside = tensor.offset.size() == dims && tensor.shape.size() == dims;
  for (size_t d = 0; inside && d < dims; ++d) {
    inside = tensor.offset[d] <= tensor.global_shape[d] && tensor.shape[d] <= tensor.global_shape[d] - tensor.offset[d];
  }
  if (!inside || (tensor.kind == ParamMark::Kind::sharded && tensor.dim >= static_cast<int64_t>(dims))) {
    throw node.wrong("('{}') places [{}] at [{}], outside the tensor's [{}]", tensor.name,
                     fmt::join(tensor.shape, ", "), fmt::join(tensor.offset, ", "),
                     fmt::join(tensor.global_shape, ", "));
  }
  return tensor;
}

TensorFile parse_tensor_file(const Node& node) {
  TensorFile file;
  file.file = parse_file(node);
  std::set<std::string> entries;
  for (const Node& item : node["tensors"].items()) {
    file.tensors.push_back(parse_tensor(item));
    const std::string& entry = file.tensors.back().entry;
    if (!entries.insert(entry).second) throw item.wrong("names the entry '{}' a second time", entry);
  }
  return file;
}

// Rejects slices that overlap, since their sizes could hide that elements are missing.
void check_slices(const Node& node, const CollectionRecord& collection) {
  std::map<std::string_view, TensorRecords> slices;
  for (const TensorFile& file : collection.files) {
    for (const TensorRecord& tensor : file.tensors) slices[tensor.name].push_back(&tensor);
  }
  for (const auto& [name, records] : slices) {
    for (const TensorRecord* record : records) {
      if (record->global_shape == records.front()->global_shape) continue;
      throw node.wrong("gives '{}' the shapes [{}] and [{}]", name, fmt::join(records.front()->global_shape, ", "),
                       fmt::join(record->global_shape, ", "));
    }
    if (const auto twice = find_overlapping(records)) {
      throw node.wrong("has elements of '{}' twice: {} and {}", name, describe_region(*twice->first),
                       describe_region(*twice->second));
    }
  }
}

CollectionRecord parse_collection(const Node& node) {
  CollectionRecord collection;
  collection.name = node["name"].text();
  for (const Node& item : node["files"].items()) collection.files.push_back(parse_tensor_file(item));
  check_slices(node, collection);
  return collection;
}

bool has_parts(const Manifest& manifest) {
  for (const CollectionRecord& collection : manifest.collections) {
    for (const TensorFile& file : collection.files) {
      if (!std::ranges::all_of(file.tensors, [](const auto& tensor) { return tensor.entry == tensor.name; })) {
        return true;
      }
    }
  }
  return false;
}

Json parse_checked(std::string_view text, std::string_view file_name) {
  Json json;
  try {
    json = parse_json(text);
  } catch (const Json::exception& error) {
    throw UserError::of("{} is damaged: not JSON: {}", file_name, error.what());
  }
  const Node root(json, file_name, "");
  // The format is checked first, since another format may have its checksum elsewhere.
  if (const int64_t format = root["format"].number(); format < 1 || format > manifest_format) {
    throw UserError::of("{} has format {}; this terrace reads formats 1 to {}: use the terrace that wrote it",
                        file_name, format, manifest_format);
  }
  const std::string stored = root["checksum"].text();
  json.erase("checksum");
  if (const std::string found = text_checksum(json); found != stored) {
    throw UserError::of("{} is damaged: its checksum is {}, and it states {}", file_name, found, stored);
  }
  return json;
}

}  // namespace

std::vector<FileRecord> Manifest::files() const {
  std::vector<FileRecord> files = {config};
  for (const auto& [role, file] : attached) files.push_back(file);
  for (const CollectionRecord& collection : collections) {
    for (const TensorFile& file : collection.files) files.push_back(file.file);
  }
  return files;
}

Json collection_json(const CollectionRecord& collection) {
  Json files = Json::array();
  for (const TensorFile& file : collection.files) {
    Json record = file_json(file.file);
    record["tensors"] = Json::array();
    for (const TensorRecord& tensor : file.tensors) record["tensors"].push_back(tensor_json(tensor));
    files.push_back(std::move(record));
  }
  return {{"name", collection.name}, {"files", std::move(files)}};
}

CollectionRecord parse_collection(const Json& json, std::string_view file_name) {
  return parse_collection(Node(json, file_name, ""));
}

std::string dump_manifest(const Manifest& manifest) {
  const int64_t format = has_parts(manifest) ? manifest_format : 1;
  Json json = {{"format", format}, {"terrace", manifest.terrace_version}, {"step", manifest.step}};
  json["config"] = file_json(manifest.config);
  for (const auto& [role, file] : manifest.attached) {
    Json record = file_json(file);
    record["role"] = role;
    json["attached"].push_back(std::move(record));
  }
  json["trainer"] = manifest.trainer;
  json["groups"] = Json::array();
  for (const CollectionRecord& collection : manifest.collections) json["groups"].push_back(collection_json(collection));
  json["checksum"] = text_checksum(json);
  return json.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text, std::string_view file_name) {
  const Json json = parse_checked(text, file_name);
  const Node root(json, file_name, "");
  Manifest manifest;
  manifest.terrace_version = root["terrace"].text();
  manifest.step = root["step"].number();
  manifest.config = parse_file(root["config"]);
  if (root.has("tokenizer")) manifest.attached["tokenizer"] = parse_file(root["tokenizer"]);  // of earlier versions
  if (root.has("attached")) {
    for (const Node& file : root["attached"].items()) {
      if (!manifest.attached.emplace(file["role"].text(), parse_file(file)).second) {
        throw file.wrong("has the role '{}' a second time", file["role"].text());
      }
    }
  }
  manifest.trainer = root["trainer"].json();
  for (const Node& collection : root["groups"].items()) manifest.collections.push_back(parse_collection(collection));
  return manifest;
}

}  // namespace terrace::checkpoint
