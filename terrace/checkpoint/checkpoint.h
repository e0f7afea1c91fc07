// A checkpoint is a folder "step_00000200" with safetensors files, a manifest, the resolved configuration and the
// tokenizer. It is complete if it holds the empty marker file COMPLETE, which is written last.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/files/attached_file.h"
#include "terrace/base/text/json.h"
#include "terrace/checkpoint/range.h"
#include "terrace/config/config.h"
#include "terrace/mesh/param_mark.h"

namespace terrace::comm {
class Comm;
}

namespace terrace::checkpoint {

// A tensor to save or to fill. `name` is global: "blocks.3.attention.qkv.weight". With a range the tensor is 1-D and
// holds these elements of the slice that the mark describes; a name may occur with several ranges or an empty one.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  ParamMark mark;
  std::optional<ElementRange> range = std::nullopt;
};

// A collection of tensors: "weights" (fp32 masters), "optimizer_m" or "optimizer_v", "buffers" of models that have
// some, "gradient_errors" of runs with error feedback and "copies" of runs with outer steps, in both of which each rank
// has tensors of its own. Each rank writes one file for each collection. With several ranks a rank names every tensor
// of its stage, with an empty range where it holds no element of it.
struct Collection {
  std::string name;
  std::vector<NamedTensor> tensors;
};

// The collection of the tensors that are saved and not trained (nn::Buffer). A checkpoint without it holds none.
inline constexpr const char* buffers_collection = "buffers";

// Everything that a run continues from.
struct State {
  int64_t step = 0;
  std::vector<Collection> collections;
  Json trainer;  // the trainer's own state, kept verbatim: samples drawn, loss scale, random state, threads, kernels
  config::Config config;
  std::vector<AttachedFile> attached = {};
};

struct Retention {
  int64_t keep = 3;        // the number of newest complete checkpoints that are kept; 0 keeps all
  int64_t keep_every = 0;  // checkpoints of steps that are multiples of this are kept too; 0 for none
};

// Writes folder/step_N under a temporary name, syncs it, marks it complete and renames it; then removes the checkpoints
// that the retention does not keep. Left-overs of interrupted saves are removed first. Returns the path. A complete
// checkpoint of the same step is replaced atomically. Checkpoints of later steps, left by a run that was resumed from
// an earlier one, are kept and do not count for the retention. If a write fails or the disk is full, the temporary
// folder is removed, earlier checkpoints stay as they are, and UserError gives the system's message and, where room was
// short, the bytes needed and free. May run on its own thread; a second save into the same folder at the same time is
// refused.
std::filesystem::path save(const std::filesystem::path& folder, const State& state, const Retention& retention);

// Saves from several ranks. Each calls it with the ranges that it writes; together they hold each element once. Each
// rank writes its own files (weights.rank_0003.safetensors), and member 0 writes everything else from its own state.
// `folder` lies on a file system that all ranks see, and `ranks` takes buffers in host memory. Returns on every member
// when the checkpoint is complete, or throws the same UserError on each; then the temporary folder is removed and
// earlier checkpoints stay as they are. Tensors with missing or repeated elements are an error too. With one member it
// does the same as the function above, with the same files.
std::filesystem::path save(const std::filesystem::path& folder, const State& state, const Retention& retention,
                           comm::Comm& ranks);

// Complete checkpoints in a run's folder, oldest first.
std::vector<std::filesystem::path> list(const std::filesystem::path& folder);

// The newest complete checkpoint of a run's folder, for "--resume auto". Incomplete ones are skipped with a warning.
std::optional<std::filesystem::path> newest(const std::filesystem::path& folder);

// The checkpoint that a user's path refers to: the path itself if it is a checkpoint's folder, else the newest complete
// checkpoint of that run's folder. Throws UserError where there is none.
std::filesystem::path resolve(const std::filesystem::path& path);

struct Manifest;
struct CollectionRecord;

// A checkpoint opened for reading. Opening checks the marker, the manifest and the files' sizes. Throws UserError that
// names the damaged file and, where the run has another complete checkpoint, how to continue from the newest.
class Reader {
 public:
  // Where several ranks open the same checkpoint, `member` of `members` checks the sizes of every `members`-th file
  // only, and member 0 checks the attached files. `resume_command` is the command that continues the run that reads,
  // without its --resume; errors about damage suggest it.
  explicit Reader(const std::filesystem::path& checkpoint, int64_t member = 0, int64_t members = 1,
                  std::string resume_command = "");

  const std::filesystem::path& path() const { return path_; }
  int64_t step() const;
  const Json& trainer() const;
  // The configuration of the run. Throws UserError where it does not fit these families.
  config::Config config(const config::Families& families) const;
  // The copy of the attached file with this role; empty where the run had none.
  std::filesystem::path attached(const std::string& role) const;
  AttachedPaths attached() const;

  // Copies every named tensor's slice or range into the given tensors, whatever slices were saved. The tensors may have
  // any float type and device; values are converted. Throws one UserError with all missing, unknown or wrongly shaped
  // names before anything is copied. Then it checks the size and checksum of each file with wanted elements; it opens
  // no other file. Thread-safe, and no other rank needs to take part. The collection's tensors with the names
  // `left_out` may be in the checkpoint and not be wanted.
  void read(const Collection& collection, const std::set<std::string>& left_out = {}) const;
  // Reads like read() a collection that may hold tensors that are not wanted, such as those of other ranks.
  void read_some(const Collection& collection) const;

  // Throws the error that read() would throw about names and shapes. Uses no values, so that the tensors may be without
  // memory (of the meta device).
  void check_fits(const Collection& collection, const std::set<std::string>& left_out = {}) const;
  // The whole shapes of a collection's tensors by name.
  std::map<std::string, std::vector<int64_t>> shapes(const std::string& collection) const;
  // Reads every file of the collection, and throws UserError that names the first damaged one.
  void check_files(const std::string& collection) const;

 private:
  enum class Unwanted { refuse, accept };
  void read(const Collection& collection, Unwanted unwanted, const std::set<std::string>& left_out) const;
  const CollectionRecord& collection_record(const std::string& name) const;
  void open(int64_t member, int64_t members);

  std::filesystem::path path_;
  std::string resume_command_;
  std::shared_ptr<const Manifest> manifest_;
  std::string config_;  // as TOML
};

}  // namespace terrace::checkpoint
