// Compressed files give the bytes that Python compressed; damaged ones are refused with their names.
#include "terrace/data/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string read_all(const std::string& path, size_t step = 1000) {
  const auto source = open_bytes(path);
  std::string text, part(step, '\0');
  while (const size_t got = source->read(part.data(), step)) text.append(part, 0, got);
  EXPECT_EQ(source->disk_position(), std::filesystem::file_size(path));
  return text;
}

std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 700'000; ++i) text += std::to_string(i * 2654435761u) + (i % 9 == 0 ? "\n" : " ");
  return text;
}

TEST(ByteSource, ReadsPlainGzipAndZstdWhateverTheName) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("x"), long_text()}) {
    EXPECT_EQ(read_all(folder.write("plain.gz", text)), text);
    EXPECT_EQ(read_all(folder.write("packed.txt", gzip(text))), text);
    EXPECT_EQ(read_all(folder.write("packed.dz", zstd(text)), 77), text);
  }
}

TEST(ByteSource, ReadsSeveralMembersAndFramesAndPadding) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_all(folder.write("a", gzip("one ") + gzip("") + gzip("two") + std::string(600, '\0'))), "one two");
  const std::string skippable("\x50\x2A\x4D\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(read_all(folder.write("b", skippable + zstd("one ") + zstd("two"))), "one two");
}

TEST(ByteSource, ReadsWhatPythonPacked) {
  const TemporaryFolder folder;
  run_python(folder, "import gzip, sys\nwith gzip.open(sys.argv[1], 'wb') as f: f.write(b'line\\n' * 100000)\n",
             {folder / "x.gz"});
  std::string expected;
  for (int i = 0; i < 100000; ++i) expected += "line\n";
  EXPECT_EQ(read_all(folder / "x.gz", 4096), expected);
}

TEST(ByteSource, DamageIsRefusedByName) {
  const TemporaryFolder folder;
  for (const auto& packed : {gzip(long_text()), zstd(long_text())}) {
    const std::string cut = folder.write("cut", packed.substr(0, packed.size() - 5));
    EXPECT_NE(user_error([&] { read_all(cut); }).find("cut is a truncated"), std::string::npos);
    std::string changed = packed;
    changed[packed.size() / 2] ^= 0x55;
    changed[packed.size() / 2 + 1] ^= 0x55;
    const std::string corrupt = folder.write("changed", changed);
    // A change may also show as an early end.
    const std::string message = user_error([&] { read_all(corrupt); });
    EXPECT_TRUE(message.find("corrupt") != std::string::npos || message.find("truncated") != std::string::npos)
        << message;
  }
  EXPECT_NE(user_error([&] { read_all(folder.write("t", gzip("a") + "trailing")); }).find("corrupt gzip"),
            std::string::npos);
  EXPECT_NE(user_error([&] {
              open_bytes(folder.write("x", std::string("\xFD"
                                                       "7zXZ\0....",
                                                       10)));
            }).find("xz"),
            std::string::npos);
  EXPECT_NE(user_error([&] { open_bytes(folder / "absent"); }).find("absent: No such file"), std::string::npos);
}

}  // namespace
}  // namespace terrace::data
