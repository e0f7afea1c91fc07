// A checkpoint is a folder "step_00000200" with safetensors files, a manifest, the resolved configuration and the
// tokenizer, complete only with the empty file COMPLETE in it, which is written last.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/checkpoint/range.h"
#include "terrace/config/config.h"
#include "terrace/mesh/param_mark.h"

namespace terrace::comm {
class Comm;
}

namespace terrace::checkpoint {

// A tensor to save or to fill. `name` is global: "blocks.3.attention.qkv.weight". With a range the tensor is 1-D and
// holds these elements of the slice that the mark means; a name may come with several ranges, and with an empty one.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  ParamMark mark;
  std::optional<ElementRange> range = std::nullopt;
};

// Everything a run continues from. One file per group and rank: "weights" (fp32 masters), "optimizer_m", "optimizer_v".
// With several ranks a rank names every tensor that its part of the model has, with an empty range where it holds none
// of it.
struct Group {
  std::string name;
  std::vector<NamedTensor> tensors;
};

struct State {
  int64_t step = 0;
  std::vector<Group> groups;
  Json trainer;  // samples drawn, loss scale, random state, thread count, kernels: the trainer's own, kept verbatim
  config::Config config;
};

struct Retention {
  int64_t keep = 3;        // newest complete checkpoints that stay; 0: all
  int64_t keep_every = 0;  // steps that are multiples of this stay too; 0: none
};

// Writes folder/step_N under a temporary name, syncs, marks complete, renames, then removes what the retention lets go;
// left-overs of interrupted saves are removed first. Returns the path. A complete checkpoint of the same step is
// replaced at once; later steps (of a run that was resumed from before them) do not count for the retention and stay.
// Where the disk is full or refuses, the temporary folder is removed, earlier checkpoints stay as they are, and
// UserError says what the system said and, where room was short, how much was needed and free. May run on a thread of
// its own; two saves into one folder at a time are refused.
std::filesystem::path save(const std::filesystem::path& folder, const State& state, const Retention& retention);

// Does so with many ranks, each of which calls it with the ranges that it writes: together each tensor once. Each
// writes files of its own (weights.rank_0003.safetensors); member 0 does the rest, and of the state's other parts only
// its own count. `folder` lies on a file system that all ranks see, and `ranks` takes buffers in host memory. Returns
// on every member when the checkpoint is complete, or throws the same UserError on each: then the temporary folder is
// removed and earlier checkpoints stay as they are. Tensors of which elements are missing or come twice are an error
// too. With one member: as above, with the same files.
std::filesystem::path save(const std::filesystem::path& folder, const State& state, const Retention& retention,
                           comm::Comm& ranks);

// Complete checkpoints in a run's folder, oldest first.
std::vector<std::filesystem::path> list(const std::filesystem::path& folder);

// The newest complete checkpoint of a run's folder, for "--resume auto". Incomplete ones are passed over with a
// warning.
std::optional<std::filesystem::path> newest(const std::filesystem::path& folder);

// The checkpoint that a user's path means: a checkpoint's folder itself, or a run's folder and then its newest complete
// one. Throws UserError where there is none.
std::filesystem::path resolve(const std::filesystem::path& path);

struct Manifest;
struct GroupRecord;

// A checkpoint opened for reading. Opening checks the marker, the manifest and the files' sizes; throws UserError
// naming the damaged file and how to go on from the newest other checkpoint of the same run, where there is one.
class Reader {
 public:
  // Where several ranks open the same checkpoint, each may look at the sizes of only every n-th file, those of `member`
  // of `members`, and member 0 at the tokenizer. `resume_command` continues the run that reads, but for its --resume;
  // errors about damage offer it.
  explicit Reader(const std::filesystem::path& checkpoint, int64_t member = 0, int64_t members = 1,
                  std::string resume_command = "");

  const std::filesystem::path& path() const { return path_; }
  int64_t step() const;
  const Json& trainer() const;
  const config::Config& config() const { return config_; }
  std::filesystem::path tokenizer() const;  // empty where the run had none

  // Copies every named tensor's slice or range into the given tensors (any float type and device: values are
  // converted), whatever slices they were saved as. Missing, unknown or wrongly shaped names: one UserError with all of
  // them, before anything is copied. Then the size and checksum of each file that holds something of what is wanted are
  // checked; others are not opened. Thread-safe, and no other rank needs to take part.
  void read(const Group& group) const;

 private:
  const GroupRecord& group_record(const std::string& name) const;
  void open(int64_t member, int64_t members);

  std::filesystem::path path_;
  std::string resume_command_;
  std::shared_ptr<const Manifest> manifest_;
  config::Config config_;
};

}  // namespace terrace::checkpoint
