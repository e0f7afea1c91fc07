// Tests the files that belong to the keys: every file of configs/ loads, and docs/configuration.md has the tables that
// the code generates.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "terrace/base/files/file.h"
#include "terrace/config/document.h"
#include "tests/config/config_cases.h"
#include "tests/paths.h"

namespace terrace::config {
namespace {

const std::filesystem::path root = tests::source_dir();

TEST(ConfigurationFiles, EveryFileLoadsAndNamesItsOwnFolder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "configs")) {
    if (entry.path().extension() != ".toml") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const Config config = load(entry.path(), models::planned_families());
    EXPECT_EQ(parsed(dump(config), "dump.toml"), config);
    EXPECT_EQ(config.checkpoint.folder, "runs/" + entry.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 10);
}

struct Shape {
  int64_t layers, width, heads, rows;
};

// The Frontier shapes are those of the table in arXiv 2312.12705; the embedding of the 22B run had 50,688 rows. The
// shape of 20B is GPT-NeoX-20B's (arXiv 2204.06745).
TEST(ConfigurationFiles, PublishedShapes) {
  const std::map<std::string, Shape> shapes = {
      {"gpt2-124m", {12, 768, 12, 50304}},       {"gpt2-355m", {24, 1024, 16, 50304}},
      {"gpt2-774m", {36, 1280, 20, 50304}},      {"gpt2-1.5b", {48, 1600, 25, 50304}},
      {"llama-1b", {16, 2048, 32, 128256}},      {"llama-8b", {32, 4096, 32, 128256}},
      {"frontier-22b", {48, 6144, 48, 50688}},   {"frontier-175b", {96, 12288, 96, 50688}},
      {"frontier-1t", {128, 25600, 128, 51200}}, {"gpt-20b", {44, 6144, 64, 50432}},
      {"llama-405b", {126, 16384, 128, 128256}}, {"mixtral-8x7b", {32, 4096, 32, 32000}},
  };
  for (const auto& [name, shape] : shapes) {
    const Config config = load(root / "configs" / (name + ".toml"), models::planned_families());
    const models::gpt::ModelConfig& model = models::gpt::model_of(config);
    EXPECT_EQ(model.layers, shape.layers) << name;
    EXPECT_EQ(model.width, shape.width) << name;
    EXPECT_EQ(model.heads, shape.heads) << name;
    EXPECT_EQ(model.padded_vocabulary(), shape.rows) << name;
  }
}

// The page, with the tables between its marks replaced by the generated ones.
std::string current_page(const std::string& page) {
  const std::string begin = "<!-- keys: begin -->\n", end = "<!-- keys: end -->\n";
  const size_t first = page.find(begin) + begin.size(), last = page.find(end);
  TERRACE_CHECK(first <= last && last != std::string::npos, "the page has lost its marks");
  return page.substr(0, first) + document(models::planned_families()) + page.substr(last);
}

// The test writes the page first if TERRACE_UPDATE_DOCS=1.
TEST(ConfigurationPage, UpToDate) {
  const std::filesystem::path path = root / "docs" / "configuration.md";
  if (std::getenv("TERRACE_UPDATE_DOCS") != nullptr) write_text_atomically(path, current_page(read_text(path)));
  const std::string page = read_text(path);
  EXPECT_EQ(page, current_page(page)) << "run this test with TERRACE_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace terrace::config
