// Safetensors files: round trips through our own code and Python's package, and refusal of everything malformed.
#include "terrace/checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

const std::vector<at::ScalarType> types = {at::kDouble, at::kFloat,  at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                                           at::kShort,  at::kUInt16, at::kChar, at::kByte,     at::kBool};

// Tensor i of each type counts up from 0; the shapes include a scalar, nothing at all, and odd sizes.
Named sample_tensors() {
  const std::vector<std::vector<int64_t>> shapes = {{}, {0, 3}, {1}, {7}, {3, 5}, {2, 1, 9}};
  Named tensors;
  for (size_t i = 0; i < types.size(); ++i) {
    for (size_t j = 0; j < 2; ++j) {
      const std::vector<int64_t>& shape = shapes[(2 * i + j) % shapes.size()];
      int64_t elements = 1;
      for (int64_t extent : shape) elements *= extent;
      at::Tensor tensor = at::arange(elements, at::kLong).reshape(shape).to(types[i]);
      tensors.emplace_back(fmt::format("blocks.{}.{}", j, safetensors_type(types[i])), tensor);
    }
  }
  return tensors;
}

void expect_holds(const SafetensorsFile& file, const Named& tensors) {
  ASSERT_EQ(file.header().entries.size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const SafetensorsEntry* entry = file.header().find(name);
    ASSERT_NE(entry, nullptr) << name;
    const at::Tensor found = file.tensor(*entry);
    ASSERT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    if (expected.numel() == 0) continue;  // no bytes, and perhaps no address
    EXPECT_EQ(std::memcmp(found.const_data_ptr(), expected.contiguous().const_data_ptr(), expected.nbytes()), 0)
        << name;
  }
}

TEST(Safetensors, EveryTypeAndShapeComesBack) {
  const ScratchFolder folder;
  const Named tensors = sample_tensors();
  const WrittenFile written = write_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}, {"step", "7"}});
  const SafetensorsFile file(folder / "a.safetensors");
  expect_holds(file, tensors);
  EXPECT_EQ(file.header().metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"step", "7"}}));
  EXPECT_EQ(written.bytes, file.bytes().size());
  EXPECT_EQ(written.checksum, checksum(file.bytes()));
}

TEST(Safetensors, EveryTensorLiesAtAMultipleOfItsElement) {
  const ScratchFolder folder;
  write_safetensors(folder / "a.safetensors", sample_tensors(), {});
  const SafetensorsFile file(folder / "a.safetensors");
  for (const SafetensorsEntry& entry : file.header().entries) {
    EXPECT_EQ(entry.begin % c10::elementSize(entry.type), 0u) << entry.name;
  }
  EXPECT_EQ(file.header().entries.front().begin % 8, 0u);
}

TEST(Safetensors, StridedTensorsAreWrittenInTheirOrder) {
  const ScratchFolder folder;
  const at::Tensor whole = at::arange(30, at::kFloat).reshape({5, 6});
  write_safetensors(folder / "a.safetensors", {{"t", whole.t()}, {"narrow", whole.narrow(1, 2, 3)}}, {});
  expect_holds(SafetensorsFile(folder / "a.safetensors"),
               {{"t", whole.t().contiguous()}, {"narrow", whole.narrow(1, 2, 3).contiguous()}});
}

// Python's own package reads our file, checks the values, and writes another file; we read that.
TEST(Safetensors, AgreesWithThePythonPackageBothWays) {
  const ScratchFolder folder;
  const Named tensors = sample_tensors();
  write_safetensors(folder / "ours.safetensors", tensors, {{"format", "pt"}});
  const std::string script = R"(
import sys, torch
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
types = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "I16": torch.int16, "U16": torch.uint16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
assert len(tensors) == 2 * len(types), len(tensors)
for name, tensor in tensors.items():
    assert tensor.dtype == types[name.split(".")[2]], name
    assert tensor.tolist() == torch.arange(tensor.numel()).reshape(tensor.shape).to(tensor.dtype).tolist(), name
save_file({name: tensor.clone() for name, tensor in tensors.items()}, sys.argv[2], metadata={"by": "python"})
)";
  std::ofstream(folder / "check.py") << script;
  const std::string command =
      fmt::format("{} {} {} {}", tests::python(), (folder / "check.py").string(),
                  (folder / "ours.safetensors").string(), (folder / "theirs.safetensors").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  const SafetensorsFile theirs(folder / "theirs.safetensors");
  expect_holds(theirs, tensors);
  EXPECT_EQ(theirs.header().metadata.at("by"), "python");
}

std::vector<std::byte> with_header(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::vector<std::byte> file(sizeof(length) + length + data_bytes);
  std::memcpy(file.data(), &length, sizeof(length));
  std::memcpy(file.data() + sizeof(length), header.data(), length);
  return file;
}

std::string refusal(std::span<const std::byte> file) {
  try {
    parse_safetensors(file, "weights.safetensors");
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Safetensors, UnalignedTensorsOfOtherWritersAreReadToo) {
  const ScratchFolder folder;
  std::vector<std::byte> bytes = with_header(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
      9);
  const float values[] = {1.5f, -2.0f};
  std::memcpy(bytes.data() + bytes.size() - 8, values, 8);
  std::ofstream(folder / "a", std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const SafetensorsFile file(folder / "a");
  const at::Tensor b = file.tensor(*file.header().find("b"));
  EXPECT_EQ(b[0].item<float>(), 1.5f);
  EXPECT_EQ(b[1].item<float>(), -2.0f);
}

// Other readers take null for no metadata.
TEST(Safetensors, NullMetadataAreNone) {
  const std::string json = R"({"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += json + "\x07";
  const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(bytes)), "a");
  EXPECT_TRUE(header.metadata.empty());
  ASSERT_EQ(header.entries.size(), 1u);
  EXPECT_EQ(header.entries[0].name, "a");
}

TEST(Safetensors, SaysWhatIsWrongWithAMalformedFile) {
  struct Case {
    std::string header;
    size_t data_bytes;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"[]", 0, "not a JSON object"},
      {"{", 0, "not JSON"},
      {R"({"a":3})", 0, "'a' is not described by an object"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "'a' has no dtype"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "dtype 'F31'"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "'a' has no shape"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "in its shape"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "in its shape"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, "in its shape"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4, "more than 2^64 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "1 data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "bytes 4 to 0 of 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "bytes 0 to 8 of 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8 bytes, and its offsets give 4"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "starts at byte 1"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "starts at byte 3"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3, "take 2 bytes, and the file has 3"},
      {R"({"__metadata__":{"step":7}})", 0, "'step' is not a string"},
      {R"({"__metadata__":[]})", 0, "__metadata__ is not an object"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(refusal(with_header(c.header, c.data_bytes)),
                testing::AllOf(testing::HasSubstr("weights.safetensors"), testing::HasSubstr(c.message)));
  }
  EXPECT_EQ(refusal(with_header("{}", 0)), "accepted");
}

TEST(Safetensors, HeaderLengthIsCheckedBeforeMemoryIsTaken) {
  std::vector<std::byte> file = with_header("{}", 0);
  const uint64_t length = UINT64_MAX - 4;
  std::memcpy(file.data(), &length, sizeof(length));
  EXPECT_THAT(refusal(file), testing::HasSubstr("should have 18446744073709551611 bytes"));
  EXPECT_THAT(refusal(std::span(file).first(7)), testing::HasSubstr("it has 7 bytes"));
}

TEST(Safetensors, NestingDoesNotExhaustTheStack) {
  const std::string deep(200'000, '[');
  EXPECT_THAT(refusal(with_header(R"({"a":)" + deep, 0)), testing::HasSubstr("not JSON"));
  const auto of_shape = [](int64_t depth) {
    const auto length = static_cast<size_t>(depth);
    const std::string shape = std::string(length, '[') + std::string(length, ']');
    return refusal(with_header(fmt::format(R"({{"a":{{"dtype":"U8","shape":{}}}}})", shape), 0));
  };
  EXPECT_THAT(of_shape(62), testing::HasSubstr("in its shape"));
  EXPECT_THAT(of_shape(63), testing::HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(of_shape(200'000), testing::HasSubstr("nested more than 64 deep"));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const ScratchFolder folder;
  write_safetensors(folder / "a.safetensors", sample_tensors(), {});
  const SafetensorsFile file(folder / "a.safetensors");
  for (size_t bytes = 0; bytes < file.bytes().size(); ++bytes) {
    ASSERT_NE(refusal(file.bytes().first(bytes)), "accepted") << bytes;
  }
}

// A flipped bit may leave a valid header (in a name); what is accepted must describe the file's bytes exactly once.
TEST(Safetensors, FlippedBitsAreRefusedOrHarmless) {
  const ScratchFolder folder;
  write_safetensors(folder / "a.safetensors", sample_tensors(), {{"format", "pt"}});
  const SafetensorsFile file(folder / "a.safetensors");
  std::vector<std::byte> bytes(file.bytes().begin(), file.bytes().end());
  const size_t header_bytes = file.header().entries.front().begin;
  int refused = 0;
  for (size_t i = 0; i < header_bytes; ++i) {
    const std::byte original = bytes[i];
    bytes[i] ^= std::byte{1} << (philox_at({1, 2}, i, 0)[0] % 8);
    try {
      const SafetensorsHeader header = parse_safetensors(bytes, "a");
      uint64_t end = header.entries.front().begin;
      for (const SafetensorsEntry& entry : header.entries) {
        ASSERT_EQ(entry.begin, end);
        end = entry.end;
      }
      ASSERT_EQ(end, bytes.size());
    } catch (const UserError&) {
      ++refused;
    }
    bytes[i] = original;
  }
  EXPECT_GT(refused, static_cast<int>(header_bytes) / 3);
}

}  // namespace
}  // namespace terrace::checkpoint
