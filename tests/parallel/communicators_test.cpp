// Compares the communicators that a rank of a model connects with the count of plan.
#include "terrace/plan/memory/communicators.h"

#include <gtest/gtest.h>

#include <mutex>

#include "terrace/models/gpt/planned_gpt.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

// Notes the groups of a world's connections by their sizes.
class CountingWorld final : public comm::World {
 public:
  explicit CountingWorld(comm::World& world) : world_(world) {}

  int64_t rank() const override { return world_.rank(); }
  int64_t size() const override { return world_.size(); }
  int64_t ranks_per_node() const override { return world_.ranks_per_node(); }
  int64_t cores_per_rank() const override { return world_.cores_per_rank(); }
  void use_gpu(int gpu) override { world_.use_gpu(gpu); }
  void abort(const std::string& reason) override { world_.abort(reason); }
  std::unique_ptr<comm::Comm> connect(const mesh::Group& group,
                                      const std::vector<mesh::Direction>& directions) override {
    const int64_t member = std::ranges::find(group.ranks, rank()) - group.ranks.begin();
    count.groups += group.ranks.size() > 2;
    count.pairs += group.ranks.size() == 2;
    for (const mesh::Direction& one : directions) count.directions += one.from == member || one.to == member;
    return world_.connect(group, directions);
  }

  plan::CommunicatorCount count;

 private:
  comm::World& world_;
};

TEST(Communicators, AreThoseThatAModelsRanksConnect) {
  Training training{.model = "cut_llama_sharing"};
  for (const Layout& layout : std::vector<Layout>{{1, {}},
                                                  {4, {"sharding=ddp"}},
                                                  {4, {"sharding=zero2"}},
                                                  {4, {"sharding=hybrid", "shard_group=2"}},
                                                  {4, {"sharding=three_level", "ranks_per_pair=1", "ranks_per_node=2"}},
                                                  {4, {"tensor=4"}},
                                                  {4, {"pipeline=2", "sharding=zero1"}},
                                                  {8, {"tensor=2", "pipeline=2", "sharding=zero3"}},
                                                  {8, {"sharding=zero3", "ranks_per_node=4", "route=rails"}}}) {
    SCOPED_TRACE(layout.name());
    for (const char* model : {"cut_llama_sharing", "cut_gpt2"}) {
      training.model = model;
      config::Config config = config::config_of(models::gpt::planned_family());
      config.layout = layout_config(layout, false);
      config.train.global_batch = layout.ranks / (config.layout.tensor * config.layout.pipeline);
      config.train.micro_batch = 1;
      const auto table = std::make_shared<const plan::PlannedTable>(small_table(training), config.layout);
      const auto partition =
          std::make_shared<const schedule::Partition>(schedule::partition(table->rows, config.layout));
      const plan::PlannedRun run(config, layout.ranks, layout.ranks, {table, partition});
      std::vector<plan::CommunicatorCount> connected(static_cast<size_t>(layout.ranks));
      comm::run_threads(layout.ranks, {.timeout_seconds = 60}, [&](comm::World& world) {
        CountingWorld counting(world);
        const auto built = small_model(training, at::kFloat);
        const CutModel cut(*built, counting, small_layout(training, config.layout, world.size()), config.layout,
                           sharding_options(config.layout, at::kFloat));
        connected[static_cast<size_t>(world.rank())] = counting.count;
      });
      for (int64_t rank = 0; rank < layout.ranks; ++rank) {
        EXPECT_EQ(connected[static_cast<size_t>(rank)],
                  plan::communicators_of(run, run.mesh.coordinate(rank, "pipeline")))
            << model << " " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
