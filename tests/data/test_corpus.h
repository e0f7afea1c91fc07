// Shared by the tests of this room: a temporary folder, small texts, tokenizers and corpora, and Python as an
// independent reader.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/data/text/corpus_writer.h"
#include "terrace/data/text/tokenizer/tokenizer_training.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::data {

class TemporaryFolder : public ScratchFolder {
 public:
  std::string operator/(const std::string& name) const { return (path() / name).string(); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path())) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
};

// The message of the UserError that `call` throws; "" where it throws none.
template <typename Call>
std::string user_error(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Standard output of a Python program; a failure shows in the text and in the test's log.
inline std::string run_python(const TemporaryFolder& folder, const std::string& program,
                              const std::vector<std::string>& arguments = {}) {
  std::string command = tests::python() + " " + folder.write("program.py", program);
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, got);
  EXPECT_EQ(::pclose(pipe), 0) << output;
  return output;
}

inline std::string sample_english() {
  const std::vector<std::string> sentences{"The old lighthouse stood where the river meets the sea.",
                                           "Nobody remembered who had built it, or why its lamp burned blue.",
                                           "\"Tell me again,\" said the child, \"how the storm of 1884 began.\"",
                                           "Fishermen repaired their nets; gulls argued over scraps of bread.",
                                           "In the morning 27 ships lay at anchor, and by noon there were none!",
                                           "Über den Wolken -- naïve café tables, façade, 東京 and Ελλάδα.",
                                           "    indented code: for (int i = 0; i < 10; ++i) total += i * i;",
                                           "She walked along the shore, counting waves and forgetting the numbers."};
  std::string text;
  for (size_t i = 0; i < 400; ++i) {
    text += sentences[i * i % sentences.size()] + (i % 5 == 4 ? "\n\n" : i % 3 == 0 ? "\n" : " ");
    if (i % 7 == 0) text += "word" + std::to_string(i * 7919) + "  ";
  }
  return text;
}

// Bytes of the model that prepare trains on sample_english(); trained once per test binary.
inline const std::string& sample_model() {
  static const std::string model = [] {
    const TemporaryFolder folder;
    const std::vector<InputFile> files{{folder.write("text", sample_english()), TextFormat::plain, 1}};
    return train_tokenizer(files, {}, {.vocabulary = 500});
  }();
  return model;
}

inline void write_corpus(const std::string& prefix, const std::vector<std::vector<int32_t>>& documents,
                         int64_t vocabulary = 1000) {
  CorpusWriter writer(prefix, vocabulary, {});
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.commit();
}

inline TextConfig text_config(const std::vector<std::string>& train, double validation_share) {
  TextConfig config;
  config.train = train;
  config.validation_share = validation_share;
  return config;
}

}  // namespace terrace::data
