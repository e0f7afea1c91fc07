// Tests reading tables of published runs.
#include "terrace/score/published_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace::score {
namespace {

std::string file_of(const ScratchFolder& folder, const std::string& text) {
  std::string file = (folder.path() / "runs.csv").string();
  write_text_atomically(file, text);
  return file;
}

std::string complaint(const std::string& text) {
  const ScratchFolder folder;
  const std::string file = file_of(folder, text);
  try {
    const PublishedTable table(file);
    return "";
  } catch (const UserError& error) {
    const std::string said = error.what();
    return said.substr(said.find("runs.csv"));
  }
}

TEST(PublishedTable, FindsColumnsByTheirNamesInUse) {
  const ScratchFolder folder;
  const PublishedTable table(file_of(folder,
                                     "id,# GPUs,hidden size,sec_per_iter,colour,notes\n"
                                     "a,8,1024,2.5,blue,\"one, two\"\r\n"
                                     "\n"
                                     "b,16,,3,,\n"));
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows()[0].of(Column::devices), "8");
  EXPECT_EQ(table.rows()[0].of(Column::width), "1024");
  EXPECT_EQ(table.rows()[0].of(Column::notes), "one, two");
  EXPECT_EQ(table.rows()[1].line, 4);
  EXPECT_EQ(table.rows()[1].of(Column::width), "");
  EXPECT_EQ(table.rows()[1].of(Column::tensor), "");
  EXPECT_TRUE(table.has(Column::notes));
  EXPECT_FALSE(table.has(Column::tensor));
  EXPECT_EQ(table.unknown(), std::vector<std::string>{"colour"});
}

TEST(PublishedTable, RefusesWhatIsNoTableOfRuns) {
  EXPECT_THAT(
      complaint("id,gpus\na,8\n"),
      testing::StartsWith("runs.csv has no column with the time of a step; one of these is needed: sec_per_iter"));
  EXPECT_EQ(complaint("id,sec_per_iter\n"), "runs.csv has no rows below its headings");
  EXPECT_EQ(
      complaint("id,sec_per_iter\na,1,2\n"),
      "runs.csv:2: the row has 3 cells, but the table has 2 headings; put cells with commas into quotation marks");
  EXPECT_EQ(complaint("id,sec_per_iter\n\"a,1\n"),
            "runs.csv:2: a quotation mark is not closed, or stands inside a cell");
}

TEST(PublishedTable, NumbersMayHaveWordsBehindThem) {
  EXPECT_EQ(whole_number("320(effective; log says 1280)"), 320);
  EXPECT_EQ(whole_number("~52000"), 52'000);
  EXPECT_EQ(whole_number("32 shard x 20 repl"), 32);
  EXPECT_EQ(whole_number("8.0"), 8);
  EXPECT_EQ(whole_number("51.2k"), std::nullopt);
  EXPECT_EQ(whole_number("8x2"), std::nullopt);
  EXPECT_EQ(whole_number(""), std::nullopt);
  EXPECT_EQ(number("103.17(mean of 4)"), 103.17);
  EXPECT_EQ(number("~60-62"), std::nullopt);
  EXPECT_EQ(number("60-62"), std::nullopt);
}

}  // namespace
}  // namespace terrace::score
