// Tests how [[model.outputs]] is read and written, and which graph networks are refused, with the numbers and a way
// out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/config/config.h"
#include "terrace/config/document.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/gnn/settings/shrink.h"
#include "terrace/models/planned_families.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::models::gnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string head = "[model]\nfamily = \"gnn\"\nconv = \"painn\"\nlayers = 3\nwidth = 32\n";
const std::string rest =
    "[data]\ntrain = [\"unread\"]\n[train]\nglobal_batch = 8\nmicro_batch = 1\nsteps = 3\n"
    "[optimizer]\nlearning_rate = 1e-3\n[checkpoint]\nfolder = \"unused\"\n";
const std::string potential_tables =
    "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
    "[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\nweight = 10.0\n";

config::Config materials(const std::string& outputs, const std::vector<std::string>& keys = {}) {
  return config::parse(head + outputs + rest, "materials.toml", models::planned_families(), keys);
}

std::string refusal_of(const std::string& outputs, const std::vector<std::string>& keys = {}) {
  try {
    materials(outputs, keys);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::string refusal_of_keys(const std::vector<std::string>& keys) { return refusal_of(potential_tables, keys); }

TEST(GnnOutputs, AreReadFromTablesWithTheirDefaults) {
  const ModelConfig model = model_of(materials(potential_tables));
  ASSERT_EQ(model.outputs.size(), 2u);
  EXPECT_EQ(model.outputs[0].name, "energy");
  EXPECT_EQ(model.outputs[0].label, "energy");
  EXPECT_TRUE(model.outputs[0].per_atom);
  EXPECT_EQ(model.outputs[0].head, HeadKind::atomwise);
  EXPECT_EQ(model.outputs[0].offset, Offset::elements);
  EXPECT_EQ(model.outputs[0].width, 32);
  EXPECT_EQ(model.outputs[1].derivative_of, "energy");
  EXPECT_EQ(model.outputs[1].weight, 10.0);
  EXPECT_EQ(model.radial, 20);
  EXPECT_EQ(model.activation, Activation::silu);
}

TEST(GnnOutputs, AreTakenFromACommandLine) {
  const config::Config config = materials(
      potential_tables, {"model.outputs=[{name = \"gap\", columns = 2}, {name = \"mass\", level = \"node\"}]"});
  ASSERT_EQ(model_of(config).outputs.size(), 2u);
  EXPECT_EQ(model_of(config).outputs[0].columns, 2);
  EXPECT_EQ(model_of(config).outputs[1].level, Level::node);
  EXPECT_EQ(model_of(config).outputs[1].offset, Offset::mean);
}

TEST(GnnOutputs, AreWrittenAndReadBackExactly) {
  const std::string tables =
      "[[model.outputs]]\nname = \"energy\"\nweight = 0.1\nuncertain = true\nlabel = \"e \\\"total\\\"\"\n"
      "[[model.outputs]]\nname = \"stress\"\nderivative_of = \"energy\"\nderivative = \"stress\"\n"
      "[[model.outputs]]\nname = \"charges\"\nlevel = \"node\"\nhead = \"conv\"\nlayers = 2\n";
  const config::Config config = materials(tables, {"model.atom_features={spin = 1, velocity = 3}"});
  const std::string written = config::dump(config);
  EXPECT_THAT(written, HasSubstr("[[model.outputs]]\nname = \"energy\"\n"));
  const config::Config again = config::parse(written, "written.toml", models::planned_families());
  EXPECT_EQ(model_of(again), model_of(config));
  EXPECT_EQ(config::dump(again), written);
}

TEST(GnnOutputs, ReportEveryProblemAtItsPlace) {
  const std::string text = refusal_of(
      "[[model.outputs]]\nname = \"energy\"\nweight = 0\nwidt = 3\n[[model.outputs]]\nlevel = \"edge\"\nloss = "
      "\"rmse\"\n");
  EXPECT_THAT(text, HasSubstr("materials.toml:8:10: model.outputs[1].weight = 0 must be a number above 0"));
  EXPECT_THAT(text, HasSubstr("materials.toml:9:1: unknown key model.outputs[1].widt; did you mean width?"));
  EXPECT_THAT(text, HasSubstr("materials.toml:10:1: model.outputs[2].name is missing; add a line such as name = "
                              "\"energy\""));
  EXPECT_THAT(text, HasSubstr("materials.toml:11:9: model.outputs[2].level = \"edge\" must be \"graph\" or \"node\""));
  EXPECT_THAT(text, HasSubstr("model.outputs[2].loss = \"rmse\" must be \"mse\", \"mae\" or \"huber\""));
  EXPECT_THAT(text, HasSubstr("5 problems in materials.toml"));
}

TEST(GnnOutputs, AreTablesAndNotEmpty) {
  EXPECT_THAT(refusal_of("outputs = 3\n"), HasSubstr("model.outputs must be a list of tables, each written "
                                                     "[[model.outputs]]"));
  EXPECT_THAT(refusal_of("outputs = [\"energy\"]\n"), HasSubstr("must be a list of tables"));
  EXPECT_THAT(refusal_of("outputs = []\n"), HasSubstr("model.outputs is empty"));
  EXPECT_THAT(refusal_of(""), HasSubstr("model.outputs is missing"));
  EXPECT_THAT(refusal_of_keys({"model.outputs=[{nam = \"a\"}]"}),
              AllOf(HasSubstr("--set model.outputs="), HasSubstr("model.outputs[1].nam; did you mean name?")));
}

TEST(GnnOutputs, MustNotChangeWhenARunIsResumed) {
  const config::Config saved = materials(potential_tables);
  EXPECT_NO_THROW(config::check_resume(saved, materials(potential_tables), 1));
  try {
    config::check_resume(saved, materials("[[model.outputs]]\nname = \"energy\"\n"), 1);
    ADD_FAILURE() << "not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.outputs = [{name = \"energy\", "));
  }
}

TEST(GnnOutputs, AreOnThePageOfKeys) {
  const std::string page = config::document(models::planned_families());
  EXPECT_THAT(page, HasSubstr("### [[model.outputs]] with family = \"gnn\""));
  EXPECT_THAT(page, HasSubstr("| `name` | a string that is not empty | required |"));
}

TEST(GnnRules, RefuseNamesThatClashOrAreNone) {
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"Total energy\"\n"),
              HasSubstr("lower-case letters, digits and _"));
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"e\"\n[[model.outputs]]\nname = \"e\"\n"),
              HasSubstr("model.outputs[2] (name = \"e\") has the name of another output"));
}

TEST(GnnRules, RefuseHeadsThatDoNotFitTheLevel) {
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"e\"\nhead = \"conv\"\n"), HasSubstr("is for outputs of nodes"));
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"e\"\nlevel = \"node\"\nhead = \"atomwise\"\n"),
              HasSubstr("sums over a graph; use \"dense\" or \"conv\""));
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"e\"\nlevel = \"node\"\nper_atom = true\n"),
              HasSubstr("remove per_atom"));
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"e\"\nuncertain = true\nloss = \"mae\"\n"),
              HasSubstr("remove loss = \"mae\""));
}

TEST(GnnRules, RefuseDerivativesOfWhatIsNoEnergy) {
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"f\"\nderivative_of = \"energy\"\n"),
              HasSubstr("derivative_of = \"energy\", and the outputs are \"f\""));
  EXPECT_THAT(refusal_of("[[model.outputs]]\nname = \"e\"\nhead = \"dense\"\n[[model.outputs]]\nname = \"f\"\n"
                         "derivative_of = \"e\"\n"),
              HasSubstr("must be an output of graphs with one column and head = \"atomwise\""));
  EXPECT_THAT(refusal_of(potential_tables + "width = 4\n"), HasSubstr("is a derivative, which has no head"));
  EXPECT_THAT(refusal_of(potential_tables + "[[model.outputs]]\nname = \"again\"\nderivative_of = \"energy\"\n"),
              HasSubstr("is the same derivative as \"forces\""));
}

TEST(GnnRules, RefuseWhatDerivativesCannotHave) {
  EXPECT_THAT(refusal_of_keys({"layout.pipeline=2"}), HasSubstr("use pipeline = 1"));
  EXPECT_THAT(refusal_of_keys({"train.recompute=full"}), HasSubstr("would drop; use \"none\""));
  EXPECT_THAT(refusal_of_keys({"model.max_neighbours=20"}),
              HasSubstr("use max_neighbours = 0, or cap_with_forces = true"));
  EXPECT_EQ(refusal_of_keys({"model.max_neighbours=20", "model.cap_with_forces=true"}), "");
  EXPECT_THAT(refusal_of_keys({"model.conv=gin"}), HasSubstr("does not see where atoms are"));
}

TEST(GnnRules, KeepEnergiesSmoothAtTheRadius) {
  using models::gnn::Cutoff;
  const auto cutoff_of = [](const std::vector<std::string>& keys, const std::string& outputs) {
    return models::gnn::model_of(materials(outputs, keys)).cutoff;
  };
  const std::string dense = "[[model.outputs]]\nname = \"energy\"\n";
  for (const char* conv : {"egnn", "gatv2", "cgcnn"}) {
    const std::string key = std::string("model.conv=") + conv;
    EXPECT_EQ(cutoff_of({key}, potential_tables), Cutoff::cosine);
    EXPECT_EQ(cutoff_of({key, "model.edges=given"}, potential_tables), Cutoff::none);
    EXPECT_EQ(cutoff_of({key, "model.cutoff=none"}, potential_tables), Cutoff::none);
    EXPECT_EQ(cutoff_of({key}, dense), Cutoff::none);
    EXPECT_EQ(cutoff_of({key, "model.cutoff=cosine"}, dense), Cutoff::cosine);
  }
  EXPECT_EQ(cutoff_of({"model.conv=schnet"}, dense), Cutoff::cosine);
  EXPECT_EQ(cutoff_of({"model.conv=pna"}, dense), Cutoff::none);
  EXPECT_THAT(refusal_of_keys({"model.cutoff=none"}), HasSubstr("whose layers have one; use \"cosine\" or \"auto\""));
  EXPECT_THAT(refusal_of_keys({"model.conv=pna"}), HasSubstr("energies jump where an atom crosses the radius"));
  EXPECT_EQ(refusal_of_keys({"model.conv=pna", "model.cutoff=none"}), "");
  EXPECT_EQ(refusal_of_keys({"model.conv=pna", "model.edges=given"}), "");
  EXPECT_THAT(refusal_of_keys({"model.conv=pna", "model.cutoff=cosine"}), HasSubstr("scaled by the number of edges"));
}

TEST(GnnRules, RefuseLayersThatAreNotBuilt) {
  for (const char* conv : {"dimenet", "mace", "gat", "sage", "mfc", "pnaplus", "pnaeq", "allscaip", "uma"}) {
    EXPECT_THAT(refusal_of_keys({std::string("model.conv=") + conv}),
                HasSubstr("is not built yet; use \"schnet\", \"painn\", \"egnn\", \"pna\", \"gin\", \"gatv2\" or "
                          "\"cgcnn\""));
  }
  EXPECT_THAT(refusal_of_keys({"model.conv=transformer"}), HasSubstr("must be \"schnet\""));
}

TEST(GnnRules, RefuseWhatBatchNormCannotHave) {
  const std::string dense = "[[model.outputs]]\nname = \"e\"\n", batch = "model.norm=batch";
  EXPECT_EQ(refusal_of(dense, {batch}), "");
  EXPECT_THAT(refusal_of_keys({batch}), HasSubstr("so that one molecule pushed another; use \"layer\" or \"none\""));
  EXPECT_THAT(refusal_of(dense, {batch, "train.recompute=full"}), HasSubstr("use recompute = \"none\""));
  EXPECT_THAT(refusal_of(dense, {batch, "train.micro_batch=0", "train.micro_batch_sizes={atoms = 100}"}),
              HasSubstr("remove micro_batch_sizes, or use norm = \"layer\""));
  const std::string alone = "layout.outer_every=1";  // divides all steps
  EXPECT_EQ(refusal_of(dense, {"model.norm=layer", alone}), "");
  EXPECT_THAT(refusal_of(dense, {batch, alone}),
              HasSubstr("layout.outer_every = 1 and model.norm = \"batch\", whose statistics are those of all ranks in "
                        "every step, so that copies do not train by themselves; use outer_every = 0, or norm = "
                        "\"layer\""));
}

TEST(GnnRules, RefuseSeveralMicroBatchesARankWithBatchNorm) {
  const std::string dense = "[[model.outputs]]\nname = \"e\"\n";
  const auto refusal_of_ranks = [&](int64_t ranks, const std::string& micro_batch, const std::string& norm) {
    try {
      schedule::check_ranks(materials(dense, {"model.norm=" + norm, "train.micro_batch=" + micro_batch}), ranks, ranks);
      return std::string();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal_of_ranks(2, "1", "layer"), "");
  EXPECT_EQ(refusal_of_ranks(2, "4", "batch"), "");
  EXPECT_EQ(refusal_of_ranks(3, "0", "batch"), "");
  EXPECT_THAT(refusal_of_ranks(2, "3", "batch"),
              HasSubstr("train.global_batch = 8 graphs on 2 data-parallel ranks are 2 micro-batches of "
                        "train.micro_batch = 3 on each; use micro_batch = 4, which is all of a rank's, or 3 "
                        "data-parallel ranks"));
}

TEST(GnnRules, RefuseCutsAndTypes) {
  EXPECT_THAT(refusal_of_keys({"layout.tensor=2"}), HasSubstr("are not cut; use 1"));
  EXPECT_THAT(refusal_of_keys({"train.precision=bf16"}), HasSubstr("are computed in fp32; use \"fp32\""));
  EXPECT_THAT(refusal_of_keys({"train.recompute=selective"}), HasSubstr("use \"full\" or \"none\""));
}

TEST(GnnRules, RefuseSizesAndFeaturesThatDoNotFit) {
  EXPECT_THAT(refusal_of_keys({"model.conv=gatv2", "model.heads=5"}), HasSubstr("use 1, 2, 4, 8, 16 or 32"));
  EXPECT_THAT(refusal_of_keys({"model.conv=schnet", "model.radial=1"}), HasSubstr("use at least 2"));
  EXPECT_THAT(refusal_of_keys({"model.edge_features={bond = 1}"}), HasSubstr("use edges = \"given\""));
  EXPECT_THAT(refusal_of_keys({"model.edge_features={bond = 1}", "model.edges=given"}),
              HasSubstr("have no effect with conv = \"painn\""));
  EXPECT_THAT(refusal_of_keys({"model.branches=2"}), HasSubstr("data.train has 1 datasets; use 1, or 0"));
}

TEST(GnnRules, RefuseClustersWhereTheyCannotBe) {
  const std::string dense = "[[model.outputs]]\nname = \"e\"\n";
  const auto refusal = [&](std::vector<std::string> keys) {
    keys.insert(keys.begin(), "model.pool_every=1");
    return refusal_of(dense, keys);
  };
  for (const char* conv : {"schnet", "pna", "gin", "gatv2", "cgcnn", "egnn"}) {
    EXPECT_EQ(refusal({std::string("model.conv=") + conv}), "") << conv;
  }
  EXPECT_THAT(refusal({}),
              HasSubstr("model.pool_every = 1 and model.conv = \"painn\", whose vectors of atoms have no mean "
                        "over a cluster yet; use \"schnet\""));
  EXPECT_THAT(refusal({"model.conv=egnn", "model.equivariance=true"}),
              HasSubstr("what layers move are atoms and no clusters; use equivariance = false or pool_every = 0"));
  EXPECT_THAT(
      refusal_of_keys({"model.conv=schnet", "model.pool_every=1"}),
      HasSubstr("model.pool_every = 1 and forces or stress among model.outputs: clusters, and so energies, jump "
                "when atoms move; use pool_every = 0"));
  EXPECT_EQ(refusal({"model.conv=gin", "model.pool_every=2"}), "");
  EXPECT_THAT(
      refusal({"model.conv=gin", "model.pool_every=3"}),
      HasSubstr("model.pool_every = 3 and model.layers = 3: no layer is left for the coarser graph; use 1 to 2, "
                "or 0 for none"));
  EXPECT_THAT(refusal({"model.conv=gin", "model.layers=1"}), HasSubstr("use pool_every = 0"));
  EXPECT_EQ(refusal({"model.conv=gin", "model.layers=21"}), "");
  EXPECT_THAT(refusal({"model.conv=gin", "model.layers=22"}), HasSubstr("cluster the nodes 21 times, and 20 times make "
                                                                        "one node of a million; use pool_every = 2"));
  EXPECT_EQ(refusal({"model.conv=gin", "model.layers=22", "model.pool_every=2"}), "");
}

TEST(GnnRules, RefuseKeysWithoutEffect) {
  EXPECT_THAT(refusal_of_keys({"model.conv=egnn"}), Not(HasSubstr("radial")));
  const std::string dense = "[[model.outputs]]\nname = \"e\"\n";
  const auto problem = [&](const std::string& keys, const std::string& outputs) {
    try {
      config::parse(head + keys + outputs + rest, "materials.toml", models::planned_families());
      return std::string();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(problem("", dense), "");
  EXPECT_THAT(problem("filters = 8\n", dense), HasSubstr("no effect with model.conv = \"painn\""));
  EXPECT_THAT(problem("heads = 2\n", dense), HasSubstr("use conv = \"gatv2\""));
  EXPECT_THAT(problem("equivariance = true\n", dense), HasSubstr("use conv = \"egnn\""));
  EXPECT_THAT(problem("shared_width = 8\n", dense), HasSubstr("no effect with model.shared_layers = 0"));
  EXPECT_THAT(problem("pooling = \"mean\"\n", potential_tables),
              HasSubstr("no output of model.outputs pools the atoms"));
  EXPECT_THAT(problem("max_neighbours = 3\nedges = \"given\"\n", dense), HasSubstr("with model.edges = \"given\""));
}

TEST(GnnRules, SuggestKeysForHydraGnnsNames) {
  EXPECT_THAT(refusal_of_keys({"model.hidden_dim=3"}), HasSubstr("did you mean width?"));
  EXPECT_THAT(refusal_of_keys({"model.mpnn_type=PAINN"}), HasSubstr("did you mean conv?"));
}

TEST(GnnRules, ConvHeadsOfHydraGnnHaveBatchNorm) {
  const std::string conv_head = "[[model.outputs]]\nname = \"e\"\nlevel = \"node\"\nhead = \"conv\"\n";
  EXPECT_EQ(model_of(materials(conv_head, {"model.reading=hydragnn"})).reading_version, 2);
  EXPECT_EQ(model_of(materials(conv_head, {"model.reading=hydragnn"})).norm_of_heads(), NormKind::batch);
  EXPECT_EQ(model_of(materials(conv_head, {"model.reading=hydragnn", "model.norm=layer"})).norm_of_heads(),
            NormKind::layer);
  EXPECT_EQ(model_of(materials(conv_head)).norm_of_heads(), NormKind::none);
  EXPECT_THAT(refusal_of(conv_head, {"model.reading=hydragnn", "train.recompute=full"}),
              HasSubstr("the batch norm that conv heads have with model.reading = \"hydragnn\""));
  EXPECT_EQ(refusal_of(conv_head, {"model.reading=hydragnn", "model.reading_version=1", "train.recompute=full"}), "");
  const std::vector<std::string> idle = materials(conv_head, {"model.reading_version=2"}).idle;
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_THAT(idle.front(), HasSubstr("with model.reading = \"paper\""));
}

// A checkpoint's configuration that lacks the key was written before conv heads had a norm.
TEST(GnnRules, ConfigurationsOfEarlierVersionsKeepTheirReading) {
  const config::Config now = materials(potential_tables, {"model.reading=hydragnn"});
  std::string dumped = config::dump(now);
  EXPECT_TRUE(settings_of_earlier(dumped).empty());
  const size_t line = dumped.find("reading_version = 2\n");
  ASSERT_NE(line, std::string::npos);
  dumped.erase(line, std::string("reading_version = 2\n").size());
  ASSERT_EQ(settings_of_earlier(dumped).size(), 1u);
  const config::Config earlier =
      config::parse(dumped, "earlier.toml", models::planned_families(), settings_of_earlier(dumped));
  EXPECT_EQ(model_of(earlier).reading_version, 1);
  EXPECT_FALSE(model_of(earlier).follows_hydragnn());
  EXPECT_TRUE(settings_of_earlier(config::dump(materials(potential_tables))).empty());
}

TEST(ShrunkGnn, IsSmallAndValid) {
  config::Config config = materials(potential_tables, {"model.width=256", "model.layers=6"});
  shrink(config);
  EXPECT_LE(model_of(config).width, 16);
  EXPECT_EQ(model_of(config).layers, 2);
  EXPECT_NO_THROW(config::parse(config::dump(config), "small.toml", models::planned_families()));
  config::Config coarse =
      materials("[[model.outputs]]\nname = \"e\"\n", {"model.conv=gin", "model.pool_every=3", "model.layers=6"});
  shrink(coarse);
  EXPECT_EQ(model_of(coarse).pool_every, 1);
  EXPECT_NO_THROW(config::parse(config::dump(coarse), "small.toml", models::planned_families()));
}

}  // namespace
}  // namespace terrace::models::gnn
