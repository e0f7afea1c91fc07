// Writes and splits cells that hold separators, quotation marks and nothing.
#include "terrace/base/text/csv.h"

#include <gtest/gtest.h>

namespace terrace {
namespace {

using Cells = std::vector<std::string>;

TEST(Csv, QuotesOnlyCellsThatHoldASeparator) {
  EXPECT_EQ(csv_cell("loss"), "loss");
  EXPECT_EQ(csv_cell(""), "");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"no\""), "\"say \"\"no\"\"\"");
}

TEST(Csv, SplitsWhatItWrote) {
  const Cells cells = {"", "a,b", "say \"no\"", "\"", "plain", ""};
  std::string row;
  for (const std::string& cell : cells) row += (&cell == cells.data() ? "" : ",") + csv_cell(cell);
  EXPECT_EQ(csv_cells(row), cells);
  EXPECT_EQ(csv_cells(""), Cells{""});
  EXPECT_EQ(csv_cells(","), (Cells{"", ""}));
}

TEST(Csv, RefusesMisplacedQuotationMarks) {
  for (const char* row : {"\"open", "a\"b", "\"a\"b", "\"", "x,\"y"}) EXPECT_EQ(csv_cells(row), std::nullopt) << row;
}

}  // namespace
}  // namespace terrace
