// Names in braces are found and filled; the shell's own braces are left alone.
#include "terrace/search/study/placeholders.h"

#include <gtest/gtest.h>

namespace terrace::search {
namespace {

TEST(Placeholders, FindsAndFillsNamesInBraces) {
  const std::string text = "./trial.sh {layout.tensor} ${HOME} {a b} {} {x} {layout.tensor} | awk '{print}' {";
  EXPECT_EQ(names_in_braces(text), (std::vector<std::string>{"layout.tensor", "x", "print"}));
  EXPECT_EQ(filled("run {x} --out={y}.json ${x}", [](const std::string& name) { return "<" + name + ">"; }),
            "run <x> --out=<y>.json ${x}");
}

}  // namespace
}  // namespace terrace::search
