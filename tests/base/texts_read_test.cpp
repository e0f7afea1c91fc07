// Texts that another process has read are taken over where this one sees the same file, and nowhere else.
#include "terrace/base/files/texts_read.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

// The notes of a process that reads these files.
std::string noted_of(const std::vector<std::filesystem::path>& files) {
  const NotedTexts noted;
  for (const auto& file : files) read_text(file);
  return noted.bytes();
}

TEST(TextsRead, AreTakenOverFromAnotherProcess) {
  const ScratchFolder folder;
  const std::string with_zero("tokens\0and more", 15);
  write_text_atomically(folder / "one", with_zero);
  write_text_atomically(folder / "empty", "");
  write_text_atomically(folder / "not read", "x");
  std::string bytes = noted_of({folder / "one", folder / "empty", folder / "one"});
  // Other letters show which text is given.
  const size_t at = bytes.find(with_zero);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(bytes.find(with_zero, at + 1), std::string::npos);
  bytes[at] = 'T';
  EXPECT_EQ(read_text(folder / "one"), with_zero);
  take_texts(bytes);
  EXPECT_EQ(read_text(folder / "one")[0], 'T');
  EXPECT_EQ(read_text(folder / "empty"), "");
  EXPECT_EQ(taken_text(folder / "not read"), std::nullopt);
  EXPECT_EQ(read_text(folder / "not read"), "x");
}

TEST(TextsRead, AreReadAgainFromAFileThatHasChanged) {
  const ScratchFolder folder;
  write_text_atomically(folder / "file", "first");
  take_texts(noted_of({folder / "file"}));
  EXPECT_EQ(taken_text(folder / "file"), "first");
  write_text_atomically(folder / "file", "other");  // of the same size, with another number
  EXPECT_EQ(taken_text(folder / "file"), std::nullopt);
  EXPECT_EQ(read_text(folder / "file"), "other");
  std::filesystem::remove(folder / "file");
  EXPECT_EQ(taken_text(folder / "file"), std::nullopt);
}

TEST(TextsRead, OfLargeFilesAreNotNoted) {
  const ScratchFolder folder;
  write_text_atomically(folder / "large", std::string((size_t{4} << 20) + 1, 'a'));
  EXPECT_EQ(noted_of({folder / "large"}), "");
  write_text_atomically(folder / "small", "s");
  EXPECT_NE(noted_of({folder / "small"}), "");
  read_text(folder / "small");  // noted by nobody
  EXPECT_EQ(noted_of({}), "");
}

// The answer that a process finds in these files, and whether it looked.
struct Answer {
  std::string text;
  bool looked = false;
};
Answer answer_of(const std::vector<std::filesystem::path>& files, const std::string& question,
                 const std::string& text) {
  Answer answer;
  answer.text = found_in(files, question, [&] {
    answer.looked = true;
    return text;
  });
  return answer;
}

TEST(TextsRead, HaveAnswersToQuestionsAboutFiles) {
  const ScratchFolder folder;
  const std::string with_bytes("\xff\0 three", 8);
  write_text_atomically(folder / "one", "1");
  write_text_atomically(folder / "two", "2");
  const std::vector<std::filesystem::path> both = {folder / "one", folder / "two"};
  std::string bytes;
  {
    const NotedTexts noted;
    EXPECT_TRUE(answer_of(both, "sum", with_bytes).looked);
    bytes = noted.bytes();
  }
  EXPECT_TRUE(answer_of(both, "sum", "own").looked);
  take_texts(bytes);
  EXPECT_EQ(answer_of(both, "sum", "own").text, with_bytes);
  EXPECT_FALSE(answer_of(both, "sum", "own").looked);
  EXPECT_EQ(answer_of(both, "product", "own").text, "own");
  EXPECT_EQ(answer_of({folder / "one"}, "sum", "own").text, "own");
  EXPECT_EQ(read_text(folder / "one"), "1");
  write_text_atomically(folder / "two", "3");
  EXPECT_EQ(answer_of(both, "sum", "own").text, "own");
}

TEST(TextsRead, HaveNoAnswerWhereLookingFailed) {
  const ScratchFolder folder;
  write_text_atomically(folder / "one", "1");
  const NotedTexts noted;
  EXPECT_THROW(found_in({folder / "one"}, "sum", []() -> std::string { throw std::runtime_error("damaged"); }),
               std::runtime_error);
  EXPECT_EQ(noted.bytes(), "");
}

}  // namespace
}  // namespace terrace
