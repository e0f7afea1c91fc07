// Trains on processes whose run goes back to its newest checkpoint, and the same run undisturbed, see
// going_back_test.py.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "terrace/comm/mpi/mpi.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace {

using terrace::train::MemoryFault;
using Keys = std::vector<std::string>;

class Run : public terrace::train::TinyRun {
 public:
  // All ranks use this folder, of which the first one writes the corpus.
  Run(std::filesystem::path folder, terrace::comm::World& world) : world_(world) {
    folder_ = std::move(folder);
    if (world.rank() == 0) SetUp();
    world.connect(terrace::mesh::all_ranks("corpus", world.size()))->barrier({.what = "write the corpus"}).wait();
  }

  // Trains in a folder of this name; in the first start with the fault.
  void train(const std::string& name, Keys keys, const std::vector<MemoryFault>& faults) {
    keys.insert(keys.end(), {"train.threads=1", "train.micro_batch=1", "layout.ranks_per_node=1",
                             fmt::format("checkpoint.memory_folder={}/memory", folder_.string()),
                             fmt::format("checkpoint.folder={}/{}", folder_.string(), name)});
    int64_t starts = 0;
    terrace::run::RunOptions options{.world = &world_};
    options.prepare = [&](terrace::train::Trainer& trainer) {
      if (starts++ == 0) trainer.disturb(faults);
    };
    terrace::run::run_training(tiny_config(keys), options);
    if (world_.rank() == 0) fmt::print("{} began {} times\n", name, starts);
  }

 private:
  void TestBody() override {}

  terrace::comm::World& world_;
};

}  // namespace

// Called with the folder and "reload", "copies" or "back".
int main(int, char** argv) {
  const std::string what = argv[2];
  const auto world = terrace::comm::make_mpi_world(terrace::comm::start_mpi(), {.timeout_seconds = 60});
  Run run(argv[1], *world);
  const std::string matrix = "blocks.1.ffn.first.weight";
  if (what == "back") {
    // An element of the gradient becomes 2^128 times as large.
    const MemoryFault spike{
        .place = MemoryFault::Place::gradient, .rank = 1, .step = 8, .parameter = matrix, .element = 0, .bit = 30};
    const Keys keys = {"train.steps=12", "checkpoint.every=3", "train.on_spike=back", "train.spike_window=5",
                       "train.spike_threshold=20.0"};
    Keys with_left_out = keys;
    with_left_out.emplace_back("train.skip_steps=[[8, 8]]");
    run.train("undisturbed", with_left_out, {});
    run.train("disturbed", keys, {spike});
    return 0;
  }
  const MemoryFault flip{
      .place = MemoryFault::Place::weight, .rank = 1, .step = 3, .parameter = matrix, .element = 1, .bit = 20};
  Keys keys = {"train.steps=5", "train.check_states_every=1", "train.on_corruption=reload", "layout.sharding=zero1"};
  keys.emplace_back(what == "copies" ? "checkpoint.memory_every=2" : "checkpoint.every=2");
  run.train("undisturbed", keys, {});
  run.train("disturbed", keys, {flip});
  return 0;
}
