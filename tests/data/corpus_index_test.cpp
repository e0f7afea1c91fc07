// An index is accepted only if every number in it fits the files.
#include "terrace/data/text/corpus_index.h"

#include <cstring>

#include "terrace/base/random.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

// Sequences of 3, 0 and 2 uint16 tokens; documents of the first two and of the last.
struct Fields {
  std::string magic{index_magic};
  uint64_t version = 1;
  uint8_t type = 8;
  uint64_t sequences = 3, entries = 3;
  std::vector<int32_t> lengths{3, 0, 2};
  std::vector<int64_t> pointers{0, 6, 6};
  std::vector<int64_t> documents{0, 2, 3};
  uint64_t bin_bytes = 10;

  std::string bytes() const {
    std::string all = magic;
    const auto put = [&](const auto& value) { all.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
    put(version);
    put(type);
    put(sequences);
    put(entries);
    for (int32_t length : lengths) put(length);
    for (int64_t pointer : pointers) put(pointer);
    for (int64_t document : documents) put(document);
    return all;
  }
  CorpusIndex parse(const std::string& all) const {
    return CorpusIndex::parse(std::as_bytes(std::span(all)), bin_bytes, "x.idx", CorpusIndex::Check::all);
  }
  std::string error() const {
    const std::string all = bytes();
    return user_error([&] { parse(all); });
  }
};

TEST(CorpusIndex, ReadsCountsAndDocuments) {
  const Fields fields;
  const std::string bytes = fields.bytes();
  const CorpusIndex index = fields.parse(bytes);
  EXPECT_EQ(index.type(), TokenType::uint16);
  EXPECT_EQ(index.sequences(), 3u);
  EXPECT_EQ(index.documents(), 2u);
  EXPECT_EQ(index.tokens(), 5u);
  EXPECT_EQ(index.document_begin(0), 0u);
  EXPECT_EQ(index.document_begin(1), 3u);
  EXPECT_EQ(index.document_begin(2), 5u);
  const std::vector<uint64_t> documents{0, 0, 0, 1, 1};
  for (uint64_t token = 0; token < 5; ++token) EXPECT_EQ(index.document_of(token), documents[token]);
}

TEST(CorpusIndex, EveryTruncationIsRefused) {
  const Fields fields;
  const std::string bytes = fields.bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_NE(user_error([&] { fields.parse(cut); }).find("x.idx is truncated"), std::string::npos) << size;
  }
  const std::string more = bytes + "x";
  EXPECT_NE(user_error([&] { fields.parse(more); }).find("behind its last entry"), std::string::npos);
}

TEST(CorpusIndex, NamesEveryKindOfDamage) {
  const std::vector<std::pair<void (*)(Fields&), const char*>> cases{
      {[](Fields& f) { f.magic[0] = 'X'; }, "does not begin with MMIDIDX"},
      {[](Fields& f) { f.version = 2; }, "format version 2"},
      {[](Fields& f) { f.type = 7; }, "token type 7"},
      {[](Fields& f) { f.type = 0; }, "token type 0"},
      {[](Fields& f) { f.sequences = ~uint64_t{0}; }, "truncated"},
      {[](Fields& f) { f.sequences = (~uint64_t{0}) / 12 + 2; }, "truncated"},
      {[](Fields& f) { f.entries = uint64_t{1} << 61; }, "truncated"},
      {[](Fields& f) { f.bin_bytes = 11; }, "no multiple of the 2"},
      {[](Fields& f) { f.bin_bytes = 8; }, "does not lie in the .bin of 8 bytes"},
      {[](Fields& f) { f.bin_bytes = 12; }, "end at byte 10, but the .bin has 12"},
      {[](Fields& f) { f.lengths[0] = -3; }, "sequence 0 has length -3"},
      {[](Fields& f) { f.lengths[0] = 1; }, "sequence 0 ends at byte 2, but the next begins at 6"},
      {[](Fields& f) { f.pointers[0] = 2; }, "sequence 0 begins at byte 2"},
      {[](Fields& f) { f.pointers[2] = -6; }, "begins at -6"},
      {[](Fields& f) { f.pointers[1] = INT64_MAX; }, "begins at 9223372036854775807"},
      {[](Fields& f) { f.lengths[2] = INT32_MAX; }, "does not lie in the .bin"},
      {[](Fields& f) { f.documents[0] = 1; }, "document 0 begins at sequence 1"},
      {[](Fields& f) { f.documents[1] = 4; }, "document 0 spans sequences 0 to 4"},
      {[](Fields& f) { f.documents[1] = -1; }, "document 0 spans sequences 0 to -1"},
      {[](Fields& f) { f.documents[2] = 2; }, "documents end at sequence 2 of 3"},
      {[](Fields& f) {
         f.entries = 0;
         f.documents.clear();
       },
       "no document entries"},
      {[](Fields& f) {
         f.sequences = 0;
         f.entries = 1;
         f.lengths.clear();
         f.pointers.clear();
         f.documents = {0};
       },
       "no sequences, but the .bin has 5 tokens"}};
  for (const auto& [change, expected] : cases) {
    Fields fields;
    change(fields);
    EXPECT_NE(fields.error().find(expected), std::string::npos) << expected << " | " << fields.error();
  }
}

TEST(CorpusIndex, RandomBytesAreRefusedOrUsedSafely) {
  const Fields fields;
  const std::string good = fields.bytes();
  int accepted = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const PhiloxBlock draw = philox_at({5, 6}, i, 0);
    std::string bytes = good;
    for (uint32_t change = 0; change <= draw[0] % 3; ++change) {
      bytes[philox_at({5, 6}, i, 1 + change)[0] % bytes.size()] =
          static_cast<char>(philox_at({5, 6}, i, 9 + change)[1]);
    }
    try {
      const CorpusIndex index = fields.parse(bytes);
      for (uint64_t token = 0; token < index.tokens(); ++token) index.document_of(token);
      ++accepted;
    } catch (const UserError&) {
    }
  }
  EXPECT_LT(accepted, 2000);  // changes that change nothing that is read, such as a byte replaced by itself
}

TEST(CorpusIndex, TheTypeIsMegatronsChoice) {
  EXPECT_EQ(token_type_for(65'499), TokenType::uint16);
  EXPECT_EQ(token_type_for(65'500), TokenType::int32);
}

}  // namespace
}  // namespace terrace::data
