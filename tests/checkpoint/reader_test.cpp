// Reading: damage is reported with a way to continue, all wrong names and shapes at once, and slices are assembled.
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/random.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Opens the checkpoint and reads all of it; the error's text, or "" where there is none.
std::string reading(const std::filesystem::path& checkpoint) {
  return user_error([&] {
    const Reader reader(checkpoint);
    for (const Collection& collection : empty_like(sample_state(0)).collections) reader.read(collection);
  });
}

struct TwoCheckpoints : testing::Test {
  TwoCheckpoints() {
    older = save(folder.path(), sample_state(100), {});
    newer = save(folder.path(), sample_state(200), {});
  }

  ScratchFolder folder;
  std::filesystem::path older, newer;
};

TEST_F(TwoCheckpoints, ATruncatedFileIsNamedWithTheWholeWayOut) {
  const std::filesystem::path file = newer / "optimizer_v.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THAT(user_error([&] { Reader reader(newer); }),
              AllOf(HasSubstr(file.string()), HasSubstr("bytes and should have"),
                    HasSubstr("; move it away with: mv " + newer.string() + " " + newer.string() +
                              ".damaged, and use " + older.string() +
                              " in its place (for a run: the same command with --resume " + older.string() + ")")));
  EXPECT_THAT(user_error([&] { Reader reader(newer, 0, 1, "terrace train 'my run.toml' --set train.steps=9"); }),
              HasSubstr("; move it away and continue from " + older.string() + " with: mv " + newer.string() + " " +
                        newer.string() + ".damaged && terrace train 'my run.toml' --set train.steps=9 --resume " +
                        older.string()));
}

TEST_F(TwoCheckpoints, TheWayOutOfADamagedOneLeadsToTheOther) {
  std::filesystem::resize_file(newer / "weights.safetensors", 10);
  EXPECT_EQ(newest(folder.path()), newer);
  std::filesystem::rename(newer, folder / "away");
  EXPECT_EQ(newest(folder.path()), older);
  EXPECT_EQ(reading(older), "");
  std::filesystem::rename(folder / "away", newer);
  std::filesystem::resize_file(older / "weights.safetensors", 10);
  EXPECT_THAT(reading(older), AllOf(HasSubstr("with: mv " + older.string()), HasSubstr("use " + newer.string())));
  // The name that the message suggests is free, even after the advice was followed once.
  std::filesystem::create_directory(older.string() + ".damaged");
  EXPECT_THAT(reading(older), HasSubstr(older.string() + ".damaged2, and "));
  EXPECT_EQ(user_error([&] { Reader reader(folder / "step_00000300"); }),
            "there is no checkpoint " + (folder / "step_00000300").string());
}

TEST_F(TwoCheckpoints, AMissingFileIsNamed) {
  for (const char* name : {"weights.safetensors", "config.toml", "manifest.json"}) {
    const std::filesystem::path file = newer / name;
    std::filesystem::rename(file, folder / "kept");
    EXPECT_THAT(reading(newer), AllOf(HasSubstr(file.string()), HasSubstr(older.string())));
    std::filesystem::rename(folder / "kept", file);
  }
  EXPECT_EQ(reading(newer), "");
}

TEST_F(TwoCheckpoints, AMissingMarkerMeansIncomplete) {
  std::filesystem::remove(newer / marker_name);
  EXPECT_THAT(reading(newer), AllOf(HasSubstr("is not complete"), HasSubstr(older.string())));
  std::filesystem::remove(older / marker_name);
  EXPECT_THAT(reading(newer), HasSubstr("there is no other complete checkpoint beside it"));
}

TEST_F(TwoCheckpoints, AFlippedBitAnywhereIsFound) {
  for (const char* name : {"weights.safetensors", "optimizer_m.safetensors", "config.toml", "manifest.json"}) {
    const std::filesystem::path file = newer / name;
    const std::string text = read_text(file);
    for (uint64_t i = 0; i < 40; ++i) {
      std::string flipped = text;
      const PhiloxBlock draw = philox_at({5, 6}, i, 0);
      const size_t at = draw[0] % text.size();
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << draw[1] % 8));
      std::ofstream(file, std::ios::binary) << flipped;
      EXPECT_THAT(reading(newer), AllOf(HasSubstr(file.string()), HasSubstr(older.string()))) << name << " at " << at;
    }
    std::ofstream(file, std::ios::binary) << text;
  }
  EXPECT_EQ(reading(newer), "");
}

TEST_F(TwoCheckpoints, WeightsAloneDoNotNeedTheOptimizer) {
  std::ofstream(newer / "optimizer_m.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(900) << "xx";
  const Reader reader(newer);
  const State found = empty_like(sample_state(200));
  reader.read(found.collections[0]);
  EXPECT_TRUE(same_bits(found.collections[0].tensors[1].tensor, sample_state(200).collections[0].tensors[1].tensor));
  EXPECT_THAT(user_error([&] { reader.read(found.collections[1]); }), HasSubstr("optimizer_m.safetensors is damaged"));
}

TEST(WayOut, SuggestedCommandRunsInAShell) {
  const ScratchFolder folder;
  const std::filesystem::path run = folder / "it's a run";
  const auto older = save(run, sample_state(1), {}), newer = save(run, sample_state(2), {});
  std::filesystem::remove(newer / "manifest.json");
  const std::string message = user_error([&] { Reader reader(newer, 0, 1, "terrace train a.toml"); }), mark = "with: ";
  const std::string command = message.substr(message.find(mark) + mark.size());
  ASSERT_EQ(std::system(("terrace() { test \"$4\" = \"" + older.string() + "\"; }; " + command).c_str()), 0) << command;
  EXPECT_EQ(newest(run), older);
}

TEST_F(TwoCheckpoints, ALinkInPlaceOfAFileIsRefused) {
  for (const char* name : {"weights.safetensors", "config.toml"}) {
    const std::filesystem::path outside = folder / "outside", file = newer / name;
    std::filesystem::rename(file, outside);
    std::filesystem::create_symlink(outside, file);
    EXPECT_THAT(reading(newer), AllOf(HasSubstr(file.string() + " is a symbolic link"), HasSubstr(older.string())));
    std::filesystem::remove(file);
    std::filesystem::rename(outside, file);
  }
  EXPECT_EQ(reading(newer), "");
}

TEST(Manifest, DeepNestingIsRefused) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(user_error([&] { parse_manifest("{\"format\": 1, \"checksum\": \"\", \"trainer\": " + deep, "m"); }),
              HasSubstr("nested more than 64 deep"));
}

TEST_F(TwoCheckpoints, AManifestThatLeavesTheFolderIsRefused) {
  for (const char* name : {"../weights.safetensors", "/etc/passwd", "..", ".", "", "a/b", ".hidden", "a\\b"}) {
    Manifest manifest = parse_manifest(read_text(newer / manifest_name), "m");
    manifest.collections[0].files[0].file.name = name;
    EXPECT_THAT(user_error([&] { parse_manifest(dump_manifest(manifest), "m"); }),
                AllOf(HasSubstr("groups[0].files[0]"), HasSubstr("not a plain name")))
        << name;
    std::ofstream(newer / manifest_name) << dump_manifest(manifest);
    EXPECT_THAT(reading(newer), HasSubstr("not a plain name"));
    std::ofstream(newer / manifest_name) << read_text(older / manifest_name);
  }
}

TEST_F(TwoCheckpoints, EveryMisfitIsInOneError) {
  Collection wanted = empty_like(sample_state(200)).collections[0];
  wanted.tensors[0] = replicated("embedding.weight", at::zeros({41, 8}));
  wanted.tensors[2] = replicated("blocks.1.norm.weight", at::zeros({8}));
  const at::Tensor untouched = wanted.tensors[1].tensor.clone();
  EXPECT_THAT(user_error([&] { Reader(newer).read(wanted); }),
              AllOf(HasSubstr("'embedding.weight' has shape [40, 8] in the checkpoint and [41, 8] in this model"),
                    HasSubstr("'blocks.1.norm.weight' is not in the checkpoint"),
                    HasSubstr("'blocks.0.norm.weight' is in the checkpoint and not in this model"),
                    HasSubstr("config.toml"), Not(HasSubstr("qkv"))));
  EXPECT_TRUE(same_bits(wanted.tensors[1].tensor, untouched));
  wanted.name = "optimizer";
  EXPECT_THAT(user_error([&] { Reader(newer).read(wanted); }),
              HasSubstr("no group 'optimizer'; it holds weights, optimizer_m, optimizer_v"));
}

TEST_F(TwoCheckpoints, ValuesAreConvertedToTheTensorsType) {
  const State saved = sample_state(200);
  for (at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    Collection wanted = saved.collections[0];
    for (NamedTensor& named : wanted.tensors)
      named.tensor = at::zeros(named.tensor.sizes(), type).set_requires_grad(true);
    Reader(newer).read(wanted);
    for (size_t t = 0; t < wanted.tensors.size(); ++t) {
      EXPECT_TRUE(same_bits(wanted.tensors[t].tensor, saved.collections[0].tensors[t].tensor.to(type)));
    }
  }
  Collection integers = saved.collections[0];
  integers.tensors[0].tensor = at::zeros({40, 8}, at::kLong);
  EXPECT_THAT(user_error([&] { Reader(newer).read(integers); }),
              HasSubstr("has type F32 in the checkpoint and I64 in this model"));
}

TEST(Slices, ARankReadsItsPartOfAWholeTensor) {
  const ScratchFolder folder;
  const at::Tensor whole = sample_values({7, 3}, 1);
  State state = sample_state(1);
  state.collections = {{"weights", {row_slice("w", whole, 0, 7)}}};
  const Reader reader(save(folder.path(), state, {}));
  for (int64_t offset = 0; offset < 7; ++offset) {
    const Collection part{"weights", {row_slice("w", at::zeros({7 - offset, 3}), offset, 7)}};
    reader.read(part);
    EXPECT_TRUE(at::equal(part.tensors[0].tensor, whole.narrow(0, offset, 7 - offset)));
  }
}

TEST(Slices, OnlyWhatIsStoredCanBeRead) {
  const ScratchFolder folder;
  State state = sample_state(1);
  const at::Tensor whole = sample_values({9, 3}, 1), part = whole.narrow(0, 3, 4);
  state.collections = {{"weights", {}}};
  for (const auto& [row, rows] : {std::pair(0, 3), std::pair(3, 4), std::pair(7, 2)}) {
    state.collections[0].tensors.push_back(row_range("w", whole, row, rows));
  }
  const std::filesystem::path path = save(folder.path(), state, {});
  Manifest manifest = parse_manifest(read_text(path / manifest_name), "m");
  std::vector<TensorRecord>& records = manifest.collections[0].files[0].tensors;
  ASSERT_EQ(records.size(), 3u);
  records = {records[1]};  // rows 3 to 6 of 9
  std::ofstream(path / manifest_name) << dump_manifest(manifest);
  const Reader reader(path);
  const Collection same{"weights", {row_slice("w", at::zeros({4, 3}), 3, 9)}};
  reader.read(same);
  EXPECT_TRUE(at::equal(same.tensors[0].tensor, part));
  EXPECT_THAT(user_error([&] {
                reader.read({"weights", {row_slice("w", at::zeros({4, 3}), 5, 9)}});
              }),
              HasSubstr("only 6 of the 12 elements at [5, 0]"));
  EXPECT_THAT(user_error([&] {
                reader.read({"weights", {replicated("w", at::zeros({9, 3}))}});
              }),
              HasSubstr("only 12 of the 27 elements"));
}

TEST(Manifest, SlicesOutsideTheirTensorAreRefused) {
  Manifest manifest{
      .terrace_version = "0", .step = 1, .collections = {}, .config = {"config.toml", 1, "0"}, .trainer = nullptr};
  TensorRecord tensor{"w", "w", "F32", {9, 3}, {3, 0}, {4, 3}, ParamMark::Kind::sharded, 0, "tp"};
  manifest.collections = {{"weights", {{{"w.safetensors", 1, "0"}, {tensor}}}}};
  EXPECT_EQ(parse_manifest(dump_manifest(manifest), "m"), manifest);
  const auto refused = [&](auto&& change) {
    Manifest changed = manifest;
    change(changed.collections[0].files[0].tensors[0]);
    return user_error([&] { parse_manifest(dump_manifest(changed), "m"); });
  };
  EXPECT_THAT(refused([](TensorRecord& t) { t.offset[0] = 6; }), HasSubstr("outside the tensor's [9, 3]"));
  EXPECT_THAT(refused([](TensorRecord& t) { t.offset[0] = INT64_MAX; }), HasSubstr("outside"));
  EXPECT_THAT(refused([](TensorRecord& t) { t.shape = {4}; }), HasSubstr("outside"));
  EXPECT_THAT(refused([](TensorRecord& t) { t.dim = 2; }), HasSubstr("outside"));
  EXPECT_THAT(refused([](TensorRecord& t) { t.shape[1] = -1; }), HasSubstr("is not a whole number"));
}

struct ManifestOfParts : testing::Test {
  ManifestOfParts() {
    const auto part = [](std::string entry, std::vector<int64_t> offset, std::vector<int64_t> shape) {
      return TensorRecord{
          "w", std::move(entry), "F32", {9, 3}, std::move(offset), std::move(shape), ParamMark::Kind::replicated, 0,
          ""};
    };
    manifest.config = {"config.toml", 1, "0"};
    manifest.collections = {
        {"weights",
         {{{"a.safetensors", 1, "0"}, {part("w@0,0", {0, 0}, {4, 3}), part("w@4,0", {4, 0}, {1, 1})}},
          {{"b.safetensors", 1, "0"}, {part("w@4,1", {4, 1}, {1, 2}), part("w@5,0", {5, 0}, {4, 3})}}}}};
  }

  TensorRecord& record(size_t file, size_t tensor) { return manifest.collections[0].files[file].tensors[tensor]; }
  std::string refusal() const {
    return user_error([this] { parse_manifest(dump_manifest(manifest), "m"); });
  }

  Manifest manifest;
};

TEST_F(ManifestOfParts, FormatNumberThatOlderReadersRefuse) {
  const std::string text = dump_manifest(manifest);
  EXPECT_THAT(text, HasSubstr("\"format\": 2,"));
  EXPECT_EQ(parse_manifest(text, "m"), manifest);
  for (size_t file : {0, 1}) {
    for (size_t tensor : {0, 1}) record(file, tensor).name = record(file, tensor).entry;
  }
  const std::string plain = dump_manifest(manifest);
  EXPECT_THAT(plain, AllOf(HasSubstr("\"format\": 1,"), Not(HasSubstr("\"entry\""))));
  EXPECT_EQ(parse_manifest(plain, "m"), manifest);
}

TEST_F(ManifestOfParts, ElementsThatAreThereTwiceAreRefused) {
  record(1, 0).offset[1] = 0;
  EXPECT_THAT(refusal(), HasSubstr("groups[0] has elements of 'w' twice: [1, 1] at [4, 0] and [1, 2] at [4, 0]"));
}

TEST_F(ManifestOfParts, OneTensorHasOneShape) {
  record(1, 1).global_shape[0] = 10;
  EXPECT_THAT(refusal(), HasSubstr("groups[0] gives 'w' the shapes [9, 3] and [10, 3]"));
}

TEST_F(ManifestOfParts, AnEntryOfAFileIsOneSlice) {
  record(0, 1).entry = "w@0,0";
  EXPECT_THAT(refusal(), HasSubstr("groups[0].files[0].tensors[1] names the entry 'w@0,0' a second time"));
}

TEST(Manifest, AnotherFormatIsRefusedByNumber) {
  EXPECT_THAT(user_error([] { parse_manifest(R"({"format": 3})", "m"); }),
              HasSubstr("has format 3; this terrace reads formats 1 to 2"));
  EXPECT_THAT(user_error([] { parse_manifest(R"({"format": 0})", "m"); }), HasSubstr("has format 0"));
  EXPECT_THAT(user_error([] { parse_manifest("{}", "m"); }), HasSubstr("lacks 'format'"));
  EXPECT_THAT(user_error([] { parse_manifest("[1]", "m"); }), HasSubstr("lacks 'format'"));
  EXPECT_THAT(user_error([] { parse_manifest("", "m"); }), HasSubstr("not JSON"));
}

}  // namespace
}  // namespace terrace::checkpoint
