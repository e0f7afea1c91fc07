// A vision transformer trains the same at every kind of layout, on random fields.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "terrace/models/families.h"
#include "terrace/verify/verify.h"

namespace terrace::verify {
namespace {

using LayoutKeys = std::vector<std::string>;

config::Config vit_config(const LayoutKeys& keys) {
  at::set_num_threads(1);
  return config::parse(
      "[model]\nfamily = \"vit\"\nvariables = [\"t\", \"u\", \"v\"]\noutputs = [\"u\", \"t\"]\ngrid = [7, 16]\n"
      "patch = 2\nlayers = 3\nwidth = 24\nheads = 12\nloss_weights = {t = 0.5}\n"
      "[data]\nfields = \"unread\"\nleads = [\"6h\", \"12h\"]\nconstants = [\"orography\"]\n"
      "[train]\nglobal_batch = 8\nmicro_batch = 1\nsteps = 3\nthreads = 1\ndevice = \"cpu\"\n"
      "[optimizer]\nlearning_rate = 1e-2\n[layout]\ndeterministic = true\n[checkpoint]\nfolder = \"unused\"\n",
      "vit.toml", models::families(), keys);
}

void expect_holds(int64_t ranks, const LayoutKeys& layout, const LayoutKeys& more) {
  LayoutKeys keys = more;
  std::string name = std::to_string(ranks);
  for (const std::string& key : layout) {
    keys.push_back("layout." + key);
    name += " " + key;
  }
  const Verdict verdict = verify(vit_config(keys), {.ranks = ranks});
  EXPECT_TRUE(verdict.holds()) << name << "\n" << text(verdict);
}

TEST(VerifyVit, HoldsEveryKindOfSharding) {
  for (const LayoutKeys& layout : std::vector<LayoutKeys>{
           {"sharding=zero1"}, {"sharding=zero2"}, {"sharding=zero3"}, {"sharding=hybrid", "shard_group=2"}}) {
    expect_holds(4, layout, {});
  }
}

// Dropout and stochastic depth, which are on, are drawn alike at every layout.
TEST(VerifyVit, HoldsTensorRanks) {
  for (const int64_t tensor : {2, 3, 4}) {
    const std::string cut = fmt::format("tensor={}", tensor);
    expect_holds(tensor, {cut}, {});
    if (tensor != 3) expect_holds(tensor, {cut, "sequence_parallel=true"}, {});
  }
  // Hybrid-STOP.
  expect_holds(8, {"tensor=2", "sharding=hybrid", "shard_group=2"}, {});
}

TEST(VerifyVit, HoldsTensorRanksWithNormedHeads) {
  const LayoutKeys normed = {"model.qk_norm=true", "model.time_inputs=true", "model.predicts=anomaly"};
  expect_holds(2, {"tensor=2", "sequence_parallel=true"}, normed);
  expect_holds(3, {"tensor=3"}, normed);
  const LayoutKeys damped = {"model.predicts=damped_anomaly", "data.leads=[\"6h\"]"};
  expect_holds(2, {"tensor=2", "sequence_parallel=true"}, damped);
  expect_holds(3, {"tensor=3"}, damped);
}

TEST(VerifyVit, HoldsPipelines) {
  expect_holds(2, {"pipeline=2"}, {"train.recompute=full"});
  expect_holds(2, {"pipeline=2", "schedule=zb-v", "chunks=2"}, {});
  expect_holds(4, {"pipeline=2", "tensor=2", "sequence_parallel=true"}, {"train.precision=bf16"});
}

}  // namespace
}  // namespace terrace::verify
