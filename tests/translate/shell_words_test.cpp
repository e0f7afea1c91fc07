// Compares words with those that a POSIX shell makes of the same text.
#include "terrace/translate/shell_words.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"

namespace terrace::translate {
namespace {

using Words = std::vector<std::string>;

Words words(std::string_view text) { return shell_words(text, "--from-megatron"); }

std::string refusal(std::string_view text) {
  try {
    words(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ShellWords, AreSeparatedByBlanksAndLineBreaks) {
  EXPECT_EQ(words(""), Words{});
  EXPECT_EQ(words("  \n\t "), Words{});
  EXPECT_EQ(words("--num-layers 2\n --bf16\t--lr=1e-4 "), (Words{"--num-layers", "2", "--bf16", "--lr=1e-4"}));
  EXPECT_EQ(words("--num-layers \\\n  2 \\\r\n --bf16"), (Words{"--num-layers", "2", "--bf16"}));
  EXPECT_EQ(words("--num-\\\nlayers 2"), (Words{"--num-layers", "2"}));
}

TEST(ShellWords, QuotedTextIsOneWord) {
  EXPECT_EQ(words("--data-path '0.5 a' \"b c\""), (Words{"--data-path", "0.5 a", "b c"}));
  EXPECT_EQ(words("--split='99,1,0' \"\" ''"), (Words{"--split=99,1,0", "", ""}));
  EXPECT_EQ(words(R"(a\ b "c\"d" 'e\f' "g\h")"), (Words{"a b", "c\"d", "e\\f", "g\\h"}));
  EXPECT_EQ(words("'$HOME' \\$HOME 5$"), (Words{"$HOME", "$HOME", "5$"}));
}

TEST(ShellWords, CommentsAndWhatFollowsTheCommandAreLeftOut) {
  EXPECT_EQ(words("--bf16 # --fp16 'of\n--lr 1 a#b"), (Words{"--bf16", "--lr", "1", "a#b"}));
  EXPECT_EQ(words("--bf16 2>&1 | tee log"), Words{"--bf16"});
  EXPECT_EQ(words("--lr 2 > log"), (Words{"--lr", "2"}));
  EXPECT_EQ(words("--bf16; sleep 1"), Words{"--bf16"});
}

TEST(ShellWords, AllValuesOfTheShellAreRefusedByName) {
  const std::string said =
      refusal("--num-layers $LAYERS --lr \"${LR:-1e-4}\" --save $LAYERS/x ${ARGS[@]} $(nproc) `id`");
  EXPECT_EQ(
      said,
      "--from-megatron has values that only your shell knows: $LAYERS, ${LR:-1e-4}, ${ARGS[@]}, $(nproc) and `id`; "
      "write the values in their places");
  EXPECT_NE(refusal("--lr ${LR"), "");
  EXPECT_NE(refusal("--lr \"$(\""), "");
}

TEST(ShellWords, AQuotationMarkNeedsItsPartner) {
  EXPECT_EQ(
      refusal("--save 'runs/a --bf16"),
      "--from-megatron: the quotation mark ' before \"runs/a --bf16\" has no partner; close it, or write \\' for the "
      "mark itself");
  EXPECT_NE(refusal("\"a\\\""), "");
  EXPECT_NE(refusal("\""), "");
  EXPECT_EQ(refusal("a\\"), "");
}

}  // namespace
}  // namespace terrace::translate
