// Reads and writes folders in Hugging Face's layout.
#include "terrace/checkpoint/hf_folder.h"

#include <set>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

Json read_json(const fs::path& path) {
  try {
    return parse_json(read_text(path));
  } catch (const Json::exception& error) {
    throw UserError::of("{} is not JSON: {}", path.string(), error.what());
  }
}

[[noreturn]] void refuse_without_weights(const fs::path& folder) {
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin", "consolidated.00.pth"}) {
    if (!fs::exists(folder / pickle)) continue;
    throw UserError::of(
        "{} holds its weights as {}, a Python pickle, which can run any code when it is opened and is not read; "
        "convert "
        "it in Python: AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(OTHER, safe_serialization=True)",
        folder.string(), pickle);
  }
  throw UserError::of("{} holds neither {} nor {}", folder.string(), single_name, index_name);
}

// Whether a name from an index is a file of the folder itself.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

HfFolder::HfFolder(const fs::path& folder) : path_((folder / "").parent_path()) {
  if (!fs::is_directory(path_))
    throw UserError::of("there is no folder {}; name the folder that has the model's config.json", path_.string());
  if (!fs::exists(path_ / "config.json")) {
    throw UserError::of(
        "{} holds no config.json, so it is not a model's folder in Hugging Face's layout; name the one that has it",
        path_.string());
  }
  config_ = read_json(path_ / "config.json");
  if (fs::exists(path_ / single_name)) {
    open_single();
  } else if (fs::exists(path_ / index_name)) {
    open_indexed();
  } else {
    refuse_without_weights(path_);
  }
}

void HfFolder::add_file(const std::string& name) {
  const fs::path path = path_ / name;
  if (!fs::exists(path)) throw UserError::of("{} names {}, which does not exist", index_name, path.string());
  files_.try_emplace(name, path);
}

void HfFolder::open_single() {
  add_file(single_name);
  const SafetensorsFile& file = files_.at(single_name);
  for (const SafetensorsEntry& entry : file.header().entries) locations_[entry.name] = {&file, &entry};
}

void HfFolder::open_indexed() {
  const fs::path index_path = path_ / index_name;
  const Json index = read_json(index_path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw UserError::of("{} has no weight_map", index_path.string());
  }
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!is_plain_name(name) || !name.ends_with(".safetensors")) {
      throw UserError::of("{}: '{}' lies in {}, which is no safetensors file of this folder", index_path.string(),
                          tensor, file.dump());
    }
    if (!files_.contains(name)) add_file(name);
    const SafetensorsFile& opened = files_.at(name);
    const SafetensorsEntry* entry = opened.header().find(tensor);
    if (entry == nullptr) {
      throw UserError::of("{}: '{}' lies in {}, which does not hold it", index_path.string(), tensor, name);
    }
    locations_[tensor] = {&opened, entry};
  }
  // transformers reads whole files, also the tensors that the index leaves out.
  for (const auto& [name, file] : files_) {
    for (const SafetensorsEntry& entry : file.header().entries)
      locations_.try_emplace(entry.name, TensorLocation{&file, &entry});
  }
}

bool HfFolder::reads(const std::string& file) const {
  return file == "config.json" || files_.contains(file) || (file == index_name && !files_.contains(single_name));
}

std::vector<std::string> HfFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : locations_) names.push_back(name);
  return names;
}

at::Tensor HfFolder::tensor(const std::string& name) const {
  const auto found = locations_.find(name);
  TERRACE_CHECK(found != locations_.end(), "no tensor {}", name);
  return found->second.file->tensor(*found->second.entry);
}

void write_hf_folder(const fs::path& folder, const HfContents& contents) {
  const fs::path final_path = (fs::absolute(folder) / "").parent_path();
  if (fs::exists(final_path) && !(fs::is_directory(final_path) && fs::is_empty(final_path))) {
    throw UserError::of("{} exists; name another output, or remove it", final_path.string());
  }
  remove_abandoned_partials(final_path);
  const fs::path partial = temporary_path(final_path);
  const auto remove_partial = [&] {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
  };
  try {
    fs::create_directories(partial);
    for (const auto& [name, text] : contents.texts) write_text_atomically(partial / name, text);
    write_safetensors(partial / single_name, contents.tensors, {{"format", "pt"}});
    fs::rename(partial, final_path);
    sync_folder(final_path.parent_path());
  } catch (const std::system_error& error) {
    remove_partial();
    throw UserError(fmt::format("{} was not written: {}", final_path.string(), error.what()), ExitCode::failure);
  } catch (...) {
    remove_partial();
    throw;
  }
}

}  // namespace terrace::checkpoint
