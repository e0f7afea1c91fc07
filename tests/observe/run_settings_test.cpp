// Names runs by the keys of their configurations that differ.
#include "terrace/observe/run_settings.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

class RunSettings : public testing::Test {
 protected:
  std::filesystem::path run(const std::string& name, const std::string& resolved) {
    write_text_atomically(folder_ / name / "resolved.toml", resolved);
    return folder_ / name;
  }

  // The names of the runs without the scratch folder before them.
  std::vector<std::string> names(const std::vector<std::filesystem::path>& folders,
                                 const std::vector<std::string>& keys = {}) {
    std::vector<std::string> names = names_by_settings(folders, keys);
    for (std::string& name : names) name = name.substr((folder_ / "").string().size());
    return names;
  }

  const ScratchFolder folder_;
};

constexpr const char* first = R"(
[model]
width = 64
[[model.outputs]]
name = "energy"
weight = 1.0
[data]
train = ["a", "b"]
[checkpoint]
folder = "runs/a"
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_F(RunSettings, AreTheKeysOfAllTables) {
  EXPECT_EQ(settings_of(run("a", first)), (std::map<std::string, std::string>{{"model.width", "64"},
                                                                              {"model.outputs.0.name", "\"energy\""},
                                                                              {"model.outputs.0.weight", "1.0"},
                                                                              {"data.train", "[ \"a\", \"b\" ]"},
                                                                              {"checkpoint.folder", "\"runs/a\""}}));
  EXPECT_TRUE(settings_of(folder_ / "nowhere").empty());
  EXPECT_TRUE(settings_of(run("torn", "[model")).empty());
}

TEST_F(RunSettings, NameRunsByAtMostTwoKeysThatDiffer) {
  const auto a = run("a", first), b = run("b", with(with(first, "64", "128"), "runs/a", "runs/b"));
  EXPECT_EQ(names({a, b}), (std::vector<std::string>{"a (model.width = 64)", "b (model.width = 128)"}));
  EXPECT_EQ(names({a}), std::vector<std::string>{"a"});
  const auto c = run("c", with(with(first, "64", "32"), "weight = 1.0\n", ""));
  EXPECT_EQ(names({a, c}), (std::vector<std::string>{"a (model.outputs.0.weight = 1.0, model.width = 64)",
                                                     "c (model.outputs.0.weight not given, model.width = 32)"}));
  const auto d = run("d", with(with(with(first, "64", "32"), "1.0", "2.0"), "\"b\"", "\"c\""));
  EXPECT_EQ(names({a, d}), (std::vector<std::string>{"a", "d"}));
  // Nothing is known of a run without its configuration.
  EXPECT_EQ(names({a, folder_ / "old"}), (std::vector<std::string>{"a", "old"}));
}

TEST_F(RunSettings, NameRunsByTheKeysThatAreAskedFor) {
  const auto a = run("a", first), b = run("b", with(first, "64", "128"));
  EXPECT_EQ(names({a / "", b}, {"data.train"}),
            (std::vector<std::string>{"a (data.train = [ \"a\", \"b\" ])", "b (data.train = [ \"a\", \"b\" ])"}));
  try {
    names({a, b}, {"model.with"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "--by: no resolved.toml of these runs has model.with; these keys differ: model.width");
  }
}

}  // namespace
}  // namespace terrace::observe
