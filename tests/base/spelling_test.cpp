// The nearest word is found, or none where no word is near.
#include "terrace/base/text/spelling.h"

#include <gtest/gtest.h>

namespace terrace {
namespace {

const std::vector<std::string> words = {"heads", "head_dim", "kv_heads", "layers", "learning_rate"};

TEST(NearestWord, FindsOneLetterDroppedAddedReplacedOrExchanged) {
  EXPECT_EQ(nearest_word("heads", words), "heads");
  EXPECT_EQ(nearest_word("hads", words), "heads");
  EXPECT_EQ(nearest_word("headss", words), "heads");
  EXPECT_EQ(nearest_word("hesds", words), "heads");
  EXPECT_EQ(nearest_word("haeds", words), "heads");
  EXPECT_EQ(nearest_word("learningrate", words), "learning_rate");
}

// "layers" and "players" have distance 1. "xx" has two letters, and a distance of 2 always counts as near.
TEST(NearestWord, FindsNothingBeyondHalfOfTheWord) {
  EXPECT_EQ(nearest_word("precision", words), "");
  EXPECT_EQ(nearest_word("players", words), "layers");
  EXPECT_EQ(nearest_word("abcd", {"abxy"}), "abxy");
  EXPECT_EQ(nearest_word("abcd", {"axyz"}), "");
  EXPECT_EQ(nearest_word("xx", {"yy"}), "yy");
  EXPECT_EQ(nearest_word("xx", {"yyy"}), "");
  EXPECT_EQ(nearest_word("", words), "");
  EXPECT_EQ(nearest_word("heads", {}), "");
}

TEST(NearestWord, TakesTheNearestAndOfEquallyNearOnesTheFirst) {
  EXPECT_EQ(nearest_word("kv_head", words), "kv_heads");
  EXPECT_EQ(nearest_word("cat", {"bat", "hat", "cut"}), "bat");
}

}  // namespace
}  // namespace terrace
