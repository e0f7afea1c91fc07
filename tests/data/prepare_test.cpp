// Tests the way from files of every kind to a corpus that decodes to their exact bytes.
#include "terrace/data/text/prepare.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "terrace/data/text/inspect.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;

PrepareOptions options_for(const TemporaryFolder& folder, const std::vector<std::string>& inputs) {
  PrepareOptions options;
  options.inputs = inputs;
  options.output = folder / "out/corpus";
  options.tokenizer = folder.write("tokenizer.model", sample_model());
  options.threads = 2;
  options.overwrite = true;
  return options;
}

std::vector<std::string> decoded(const PrepareOptions& options) {
  const auto tokenizer = Tokenizer::open(options.tokenizer);
  const TokenCorpus corpus(options.output, CorpusIndex::Check::all);
  std::vector<std::string> documents;
  for (uint64_t i = 0; i < corpus.index().documents(); ++i) {
    const uint64_t begin = corpus.index().document_begin(i), end = corpus.index().document_begin(i + 1);
    std::vector<int64_t> tokens(end - begin);
    corpus.read(begin, tokens, tokenizer->vocabulary());
    EXPECT_EQ(tokens.back(), tokenizer->end_token());
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), tokenizer->end_token()), 1);
    documents.push_back(tokenizer->decode(std::vector<int32_t>(tokens.begin(), tokens.end())));
  }
  return documents;
}

TEST(PrepareReport, TellsTheSizeOfTokensAndTheSpeed) {
  PrepareReport report;
  report.text_bytes = 9'000'000;
  report.tokens = 2'000'000;
  report.seconds = 3;
  EXPECT_EQ(report.bytes_per_token(), 4.5);
  EXPECT_EQ(report.megabytes_per_second(), 3);
}

TEST(Prepare, FoldersPackedFilesAndJsonLinesInOneOrder) {
  const TemporaryFolder folder;
  const std::string raw = "raw \xFF\xE2\x96\x81 bytes";
  folder.write("in/a.txt", "first\n");
  folder.write("in/b/c.jsonl", "{\"text\": \"second\"}\n{\"text\": \"\"}\n{\"text\": \"third\\n\"}\n");
  folder.write("in/b/.hidden", "not read");
  folder.write("in/z", raw);
  std::string packed(1000, '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), "{\"text\": \"packed\"}", 18, 3));
  folder.write("in/d.jsonl.zst", packed);
  const PrepareOptions options = options_for(folder, {folder / "in"});
  const PrepareReport report = prepare(options);
  EXPECT_EQ(decoded(options), (std::vector<std::string>{"first\n", "second", "third\n", "packed", "raw \xFF  bytes"}));
  EXPECT_EQ(report.files, 4u);
  EXPECT_EQ(report.documents, 5u);
  EXPECT_EQ(report.empty_documents, 1u);
  EXPECT_EQ(report.counts, (EncodeCounts{.invalid_bytes = 1, .space_marks = 1}));
  EXPECT_EQ(report.changed_parts, 1u);
  EXPECT_EQ(report.text_bytes, 6u + 6 + 6 + 6 + 14);
  EXPECT_EQ(report.warnings().size(), 4u);
}

TEST(Prepare, FilesThatAreNotTextAreLeftOutOfFoldersAndOtherwiseRefused) {
  const TemporaryFolder folder;
  const std::string zeros = "a\0b"s;
  folder.write("in/a.txt", "text");
  const std::string picture = folder.write("in/b.png", "\x89PNG\r\n\x1A\n"), binary = folder.write("in/c", zeros);
  PrepareOptions options = options_for(folder, {folder / "in"});
  testing::internal::CaptureStdout();
  EXPECT_EQ(prepare(options).files, 1u);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("left out 2 files that are not text"), HasSubstr("b.png (a PNG picture)"),
                    HasSubstr("in/c (it has bytes that are 0)")));
  EXPECT_EQ(decoded(options), (std::vector<std::string>{"text"}));
  options.inputs = {picture, folder / "in/a.txt", binary};
  EXPECT_THAT(user_error([&] { prepare(options); }),
              AllOf(HasSubstr("not text: "), HasSubstr("b.png"), HasSubstr("in/c"), HasSubstr("--format text")));
  options.inputs = {binary};
  options.format = FormatChoice::plain;
  prepare(options);
  EXPECT_EQ(decoded(options), (std::vector<std::string>{zeros}));
}

TEST(Prepare, PatternsChooseFilesOfFolders) {
  const TemporaryFolder folder;
  for (const char* name : {"a.txt", "b.md", "c/d.txt", "c/e.md", "c/f/g.txt"}) {
    folder.write(std::string("in/") + name, name);
  }
  PrepareOptions options = options_for(folder, {folder / "in"});
  const auto taken = [&](const FilePatterns& patterns) {
    options.patterns = patterns;
    prepare(options);
    return decoded(options);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(taken({.include = {"*.txt"}}), (Names{"a.txt", "c/d.txt", "c/f/g.txt"}));
  EXPECT_EQ(taken({.exclude = {"*.txt"}}), (Names{"b.md", "c/e.md"}));
  EXPECT_EQ(taken({.include = {"c/*", "b.*"}, .exclude = {"c/f/*"}}), (Names{"b.md", "c/d.txt", "c/e.md"}));
  EXPECT_THAT(user_error([&] { taken({.include = {"*.rst"}}); }), HasSubstr("--include and --exclude leave"));
  const auto said = [&](const FilePatterns& patterns) {
    testing::internal::CaptureStdout();
    taken(patterns);
    return testing::internal::GetCapturedStdout();
  };
  // The endings have 21 and 10 bytes.
  EXPECT_THAT(said({}), HasSubstr("files by ending: 3 of .txt (68%), 2 of .md (32%); --include and --exclude choose"));
  EXPECT_THAT(said({.exclude = {"*.md"}}), Not(HasSubstr("by ending")));
  EXPECT_THAT(said({.include = {"*"}}), Not(HasSubstr("by ending")));
  // A file that is named itself is taken.
  options.inputs = {folder / "in/b.md"};
  EXPECT_EQ(taken({.include = {"*.txt"}}), (Names{"b.md"}));
}

TEST(Prepare, AnArrayOfJsonIsReadLikeLines) {
  const TemporaryFolder folder;
  const std::string array =
      " [\n  {\"text\": \"one, [two]\",\n   \"more\": [1, {\"text\": \"no\"}]},\n\n  {\"text\": \"a \\\"}\\\\\"}  ,"
      "{\"meta\": {\"text\": \"no\"}, \"text\":\n\"last\"}\n]\n";
  PrepareOptions options = options_for(folder, {folder.write("a.json", array)});
  for (const uint64_t block_bytes : {1, 10, 1'000'000}) {
    options.rules.block_bytes = block_bytes;
    prepare(options);
    EXPECT_EQ(decoded(options), (std::vector<std::string>{"one, [two]", "a \"}\\", "last"}));
  }
  options.inputs = {folder.write("b.json", "[{\"text\": \"a\"}, 7, {\"text\": \"b\"}] x\n{\"text\": \"c\"}\n")};
  options.max_malformed = 2;
  EXPECT_EQ(prepare(options).malformed_lines, 2u);  // the number and what is behind the array
  EXPECT_EQ(decoded(options), (std::vector<std::string>{"a", "b", "c"}));
  options.inputs = {folder.write("c.json", "[{\"text\": \"a\"},")};
  EXPECT_THAT(user_error([&] { prepare(options); }), HasSubstr("c.json: the JSON array does not end"));
  options.inputs = {folder.write("d.json", "[]")};
  EXPECT_THAT(user_error([&] { prepare(options); }), HasSubstr("holds no text"));
}

TEST(Prepare, AnOutputNamedAsAFileIsItsPrefix) {
  EXPECT_EQ(output_prefix("d/val.bin"), "d/val");
  EXPECT_EQ(output_prefix("d/val.idx"), "d/val");
  EXPECT_EQ(output_prefix("d/val.1"), "d/val.1");
  EXPECT_EQ(output_prefix("d/.bin"), "d/.bin");
}

TEST(Prepare, TheResultDoesNotDependOnThreadsOrBlocks) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += sample_english() + std::to_string(i);
  PrepareOptions options = options_for(folder, {folder.write("a.txt", text), folder.write("b.txt", "short")});
  std::set<std::string> results;
  for (int threads : {1, 2, 5}) {
    for (uint64_t block_bytes : {1000, 100'000, 10'000'000}) {
      options.threads = threads;
      options.rules.block_bytes = block_bytes;
      prepare(options);
      results.insert(read_text(options.output + ".bin") + read_text(options.output + ".idx"));
    }
  }
  EXPECT_EQ(results.size(), 1u);
  EXPECT_EQ(decoded(options), (std::vector<std::string>{text, "short"}));
}

TEST(Prepare, TokensEqualPythonsEncodingOfTheWholeDocument) {
  const TemporaryFolder folder;
  const PrepareOptions options = options_for(folder, {folder.write("a.txt", sample_english())});
  prepare(options);
  const std::string output = run_python(folder, R"(
import sys, numpy, sentencepiece
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
text = open(sys.argv[2], encoding='utf-8', newline='').read()
ours = numpy.fromfile(sys.argv[3], dtype=numpy.uint16).tolist()
print(ours == model.encode(text) + [model.eos_id()], model.decode(ours) == text, len(ours) > 1000)
)",
                                        {options.tokenizer, folder / "a.txt", options.output + ".bin"});
  EXPECT_EQ(output, "True True True\n");
}

TEST(Prepare, TrainsATokenizerOnRequest) {
  const TemporaryFolder folder;
  PrepareOptions options = options_for(folder, {folder.write("a.txt", sample_english())});
  options.tokenizer = folder / "trained/new.model";
  options.train = true;
  options.vocabulary = 450;
  EXPECT_EQ(prepare(options).vocabulary, 450);
  EXPECT_EQ(decoded(options), std::vector<std::string>{sample_english()});
  options.overwrite = false;
  options.output = folder / "other";
  EXPECT_NE(user_error([&] { prepare(options); }).find("new.model exists"), std::string::npos);
}

TEST(Prepare, ATokenizerIsReplacedOnlyTogetherWithItsCorpus) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", Json{{"text", sample_english()}}.dump());
  PrepareOptions options = options_for(folder, {path});
  options.tokenizer = folder / "trained/t.model";
  options.train = true;
  options.vocabulary = 450;
  prepare(options);
  const std::string before = read_text(options.tokenizer);
  folder.write("a.jsonl", Json{{"text", sample_english() + "more"}}.dump() + "\n{oops\n");
  options.vocabulary = 460;
  EXPECT_NE(user_error([&] { prepare(options); }).find("1 malformed line so far"), std::string::npos);
  EXPECT_EQ(read_text(options.tokenizer), before);
  EXPECT_EQ(decoded(options), std::vector<std::string>{sample_english()});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "trained"), {}), 1);
  // A corpus that shares the tokenizer notices when it is replaced.
  options.max_malformed = 1;
  PrepareOptions sharing = options;
  sharing.output = folder / "out/sharing";
  sharing.train = false;
  prepare(sharing);
  prepare(options);
  EXPECT_EQ(decoded(options), std::vector<std::string>{sample_english() + "more"});
  EXPECT_NE(user_error([&] { inspect(sharing.output, options.tokenizer, 5); }).find("out/sharing was made with"),
            std::string::npos);
}

TEST(Prepare, NamesAnExistingOutputBeforeTrainingATokenizer) {
  const TemporaryFolder folder;
  PrepareOptions options = options_for(folder, {folder.write("a.txt", sample_english())});
  prepare(options);
  options.overwrite = false;
  options.train = true;
  options.tokenizer = folder / "new/t.model";
  EXPECT_NE(user_error([&] { prepare(options); }).find("out/corpus.idx exists"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(Prepare, RefusesPipesSocketsAndDevicesByName) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe", name = folder / "socket";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int listening = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  for (const auto& [input, kind] : {std::pair{pipe, "a named pipe"}, {name, "a socket"}, {"/dev/zero"s, "a device"}}) {
    EXPECT_THAT(user_error([&] { prepare(options_for(folder, {input})); }),
                AllOf(HasSubstr("input " + input + " is " + kind), HasSubstr("/dev/stdin")));
  }
  ::close(listening);
  PrepareOptions options = options_for(folder, {folder.write("a.txt", "text")});
  options.tokenizer = pipe;
  EXPECT_THAT(user_error([&] { prepare(options); }), HasSubstr("pipe is not a regular file"));
}

TEST(Prepare, APipeThatIsOpenIsRead) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "The old lighthouse", 18), 18);
  ::close(ends[1]);
  const PrepareOptions options = options_for(folder, {"/dev/fd/" + std::to_string(ends[0])});
  prepare(options);
  ::close(ends[0]);
  EXPECT_EQ(decoded(options), std::vector<std::string>{"The old lighthouse"});
}

TEST(Prepare, MalformedLinesFailPastTheLimitAndAreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"good\"}\n{oops\n{\"text\": \"fine\"}\n{\"x\": 1}\n");
  PrepareOptions options = options_for(folder, {path});
  for (uint64_t allowed : {0, 1}) {
    options.max_malformed = allowed;
    const std::string message = user_error([&] { prepare(options); });
    EXPECT_NE(message.find(path + ":2: not JSON"), std::string::npos) << message;
    EXPECT_NE(message.find(path + ":4: no field \"text\""), std::string::npos) << message;
    EXPECT_NE(message.find("--max-malformed allows " + std::to_string(allowed)), std::string::npos) << message;
    EXPECT_FALSE(std::filesystem::exists(options.output + ".bin"));
  }
  options.max_malformed = 2;
  const PrepareReport report = prepare(options);
  EXPECT_EQ(report.malformed_lines, 2u);
  EXPECT_EQ(report.first_malformed.at(0).line, 2u);
  EXPECT_EQ(decoded(options), (std::vector<std::string>{"good", "fine"}));
}

TEST(Prepare, EveryBadFileIsNamedBeforeAnythingIsEncoded) {
  const TemporaryFolder folder;
  const std::string bad = folder.write("1.jsonl", "{\"x\": 1}\n{\"y\": 1}\n"),
                    good = folder.write("2.jsonl", "{\"text\": \"a\"}"), other = folder.write("3.jsonl", "7\n");
  PrepareOptions options = options_for(folder, {bad, good, other});
  EXPECT_THAT(user_error([&] { prepare(options); }),
              AllOf(HasSubstr("3 malformed lines so far"), HasSubstr(bad + ":1: no field"), HasSubstr(bad + ":2: "),
                    HasSubstr(other + ":1: a number instead of an object")));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  options.inputs = {folder / "no", good, folder / "none", folder.write("cut.gz", "\x1F\x8B\x08"),
                    folder.write("z.png", "\x89PNG\r\n")};
  EXPECT_THAT(user_error([&] { prepare(options); }),
              AllOf(HasSubstr("4 problems with the input:\n  input "), HasSubstr("no does not exist"),
                    HasSubstr("none does not exist"), HasSubstr("cut.gz is a truncated gzip file"),
                    HasSubstr("z.png (a PNG picture)")));
  options.inputs.clear();
  for (int i = 0; i < 12; ++i) options.inputs.push_back(folder / fmt::format("absent{}", i));
  EXPECT_THAT(user_error([&] { prepare(options); }),
              AllOf(HasSubstr("12 problems with the input"), HasSubstr("absent9 "), HasSubstr("\n  and 2 more")));
}

TEST(Prepare, AnObjectOverSeveralLinesIsOneMistakeThatSaysSo) {
  const TemporaryFolder folder;
  const std::string object = "{\n  \"meta\": {\n    \"a\": [\n      1\n    ]\n  },\n  \"text\": \"x\"\n}\n";
  PrepareOptions options = options_for(folder, {folder.write("one.json", object)});
  const std::string message = user_error([&] { prepare(options); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("1 malformed line so far"), HasSubstr("one.json:1: a JSON object over several lines"),
                    HasSubstr("jq -c . " + options.inputs.front())));
  // Lines after it count by themselves.
  options.inputs = {
      folder.write("more.jsonl", "{\"text\": \"a\"}\n" + object + "{\"text\": \"b\"}\n" + object + "oops\n")};
  options.max_malformed = 3;
  EXPECT_EQ(prepare(options).malformed_lines, 3u);
  EXPECT_EQ(decoded(options), (std::vector<std::string>{"a", "b"}));
}

TEST(Prepare, TheMarkOfUtf8IsNoText) {
  const TemporaryFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  PrepareOptions options =
      options_for(folder, {folder.write("a.txt", mark + "one"), folder.write("b.jsonl", mark + "{\"text\": \"two\"}\n"),
                           folder.write("c.json", mark + "[{\"text\": \"three\"}]"), folder.write("d.txt", mark + mark),
                           folder.write("e.txt", "\xEF\xBB")});
  const std::vector<std::string> texts = {"one", "two", "three", mark, "\xEF\xBB"};
  prepare(options);
  EXPECT_EQ(decoded(options), texts);
  options.format = FormatChoice::plain;
  options.inputs = {folder / "a.txt", folder.write("f.txt", mark)};
  EXPECT_EQ(prepare(options).empty_documents, 1u);
  EXPECT_EQ(decoded(options), std::vector<std::string>{"one"});
}

TEST(Prepare, ATokenizerThatLosesTextIsReported) {
  const TemporaryFolder folder;
  folder.write("english", sample_english());
  run_python(folder, R"(
import sys, sentencepiece
sentencepiece.SentencePieceTrainer.train(input=sys.argv[1] + '/english', model_prefix=sys.argv[1] + '/lossy', vocab_size=300,
                                         hard_vocab_limit=False, minloglevel=2)
)",
             {folder.path().string()});
  PrepareOptions options =
      options_for(folder, {folder.write("a.txt", "The sea \xE2\x88\x9E, the sea"), folder.write("b.txt", "The sea")});
  options.tokenizer = folder / "lossy.model";
  const PrepareReport report = prepare(options);
  EXPECT_EQ(report.counts.unknown_tokens, 1u);
  EXPECT_EQ(report.changed_parts, 1u);
  EXPECT_EQ(report.warnings().size(), 2u);
}

TEST(Prepare, AStopLeavesNothing) {
  const TemporaryFolder folder;
  PrepareOptions options = options_for(folder, {folder.write("a.txt", sample_english())});
  const std::atomic<bool> stop = true;
  options.stop = &stop;
  EXPECT_NE(user_error([&] { prepare(options); }).find("nothing was written"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "out"));
}

TEST(Prepare, AKilledRunLeavesNoCorpusAndTheNextTidiesUp) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  PrepareOptions options = options_for(folder, {"/dev/fd/" + std::to_string(ends[0])});
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    prepare(options);
    ::_exit(0);
  }
  ::close(ends[0]);
  std::signal(SIGPIPE, SIG_IGN);
  const std::string text = sample_english();
  // More than the blocks in flight and the pipe hold: the child has written tokens when the last is taken.
  for (size_t fed = 0; fed < (size_t{10} << 20);) {
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    ASSERT_GT(written, 0);
    fed += static_cast<size_t>(written);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[1]);
  EXPECT_FALSE(std::filesystem::exists(options.output + ".bin"));
  EXPECT_FALSE(std::filesystem::is_empty(folder / "out")) << "the killed run left its temporary file";
  options.inputs = {folder.write("a.txt", "text")};
  prepare(options);
  const auto entries = std::filesystem::directory_iterator(folder / "out");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 3);
  EXPECT_EQ(decoded(options), std::vector<std::string>{"text"});
}

TEST(Prepare, MistakesAreNamed) {
  const TemporaryFolder folder;
  const auto error = [&](auto change) {
    PrepareOptions options = options_for(folder, {folder.write("a.txt", "text")});
    change(options);
    return user_error([&] { prepare(options); });
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(holds(error([&](PrepareOptions& o) { o.inputs = {folder / "none"}; }), "does not exist"));
  EXPECT_TRUE(holds(error([](PrepareOptions& o) { o.tokenizer = ""; }), "--train-tokenizer"));
  EXPECT_TRUE(holds(error([](PrepareOptions& o) { o.output = ""; }), "--output"));
  EXPECT_TRUE(holds(error([](PrepareOptions& o) { o.threads = -1; }), "threads = -1"));
  EXPECT_TRUE(holds(error([&](PrepareOptions& o) { o.inputs = {folder.write("e.txt", "")}; }), "holds no text"));
  EXPECT_TRUE(holds(error([](PrepareOptions& o) { o.rules.separator = "a\nb"; }), "one line"));
  std::filesystem::create_directory(folder / "empty");
  EXPECT_TRUE(holds(error([&](PrepareOptions& o) { o.inputs = {folder / "empty"}; }), "holds no files"));
}

TEST(Inspect, CountsLengthsAndASample) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{5, 1}, {6, 7, 8, 1}, {9, 1}, {1, 1, 1, 1, 1, 1, 30, 1}});
  const CorpusSummary summary = inspect(folder / "c", "", 10);
  EXPECT_EQ(summary.documents, 4u);
  EXPECT_EQ(summary.tokens, 16u);
  EXPECT_EQ(summary.shortest, 2u);
  EXPECT_EQ(summary.longest, 8u);
  EXPECT_EQ(summary.median, 3.0);
  EXPECT_EQ(summary.mean, 4.0);
  EXPECT_EQ(summary.smallest_token, 1);
  EXPECT_EQ(summary.largest_token, 30);
  EXPECT_EQ(summary.bin_bytes, 32u);
  EXPECT_EQ(summary.json()["token_type"], "uint16");
  write_corpus(folder / "odd", {{5, 1}, {6, 7, 8, 9, 1}, {1}});
  EXPECT_EQ(inspect(folder / "odd", "", 10).median, 2.0);

  const PrepareOptions options =
      options_for(folder, {folder.write("1.txt", "one"), folder.write("2.txt", "The old lighthouse")});
  prepare(options);
  EXPECT_EQ(inspect(options.output, options.tokenizer, 100).sample, "The old lighthouse");
  EXPECT_TRUE(std::string("The old lighthouse").starts_with(inspect(options.output, options.tokenizer, 2).sample));
  write_corpus(folder / "wide", {{700, 1}});
  EXPECT_NE(user_error([&] { inspect(folder / "wide", options.tokenizer, 5); }).find("token 700 at position 0"),
            std::string::npos);
}

}  // namespace
}  // namespace terrace::data
