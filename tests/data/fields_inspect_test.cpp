// The summary of a dataset of fields says what its description has, and a flipped byte is found in each of its arrays.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class InspectedFields : public testing::Test {
 protected:
  InspectedFields() {
    prepare_fields({file_of_waves().write(folder_ / "in.nc")}, prefix_,
                   {{"train", {"2000-01-01", "2000-01-20"}}, {"test", {"2000-01-21", "2000-01-25"}}});
  }

  void flip(uint64_t at) const {
    std::fstream file(prefix_ + ".nc", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int before = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(before ^ 1));
  }

  TemporaryFolder folder_;
  std::string prefix_ = folder_ / "p";
  FieldsPreparation kind_;
};

TEST_F(InspectedFields, AreSummarised) {
  EXPECT_TRUE(kind_.has_made(prefix_));
  EXPECT_TRUE(kind_.has_made(prefix_ + ".nc")) << "as --output of prepare takes it";
  EXPECT_FALSE(kind_.has_made(folder_ / "absent"));
  folder_.write("graphs.json", "{\"format\": \"terrace graphs\"}");
  EXPECT_FALSE(kind_.has_made(folder_ / "graphs"));
  const PrepareResult result = kind_.inspect(prefix_);
  EXPECT_THAT(result.text, AllOf(HasSubstr("100 times from 2000-01-01T00:00:00 to 2000-01-25T18:00:00, every 6 h"),
                                 HasSubstr("3 latitudes from -60 to 60 and 4 longitudes from 0 to 270"),
                                 HasSubstr("test 2000-01-21 to 2000-01-25: 20 times"),
                                 HasSubstr("2 variables:\n  t [K]: mean "), HasSubstr("1 constant:\n  orography [K]")));
  EXPECT_EQ(result.json.at("splits").at("train").at("times"), 80);
  EXPECT_EQ(result.json.at("variables").at(1).at("name"), "u");
}

TEST_F(InspectedFields, AFlippedByteIsFoundInEachArray) {
  const FieldsDescription all = read_fields_description(description_path(prefix_));
  kind_.verify(prefix_);
  const std::vector<std::pair<std::string, const StoredArray*>> arrays = {
      {"fields", &all.fields}, {"constants", &all.constant_fields}, {"climatology", &all.climatology_fields}};
  for (const auto& [name, array] : arrays) {
    for (const uint64_t at : {array->offset, array->offset + array->numbers() * 4 - 1}) {
      flip(at);
      kind_.inspect(prefix_);
      EXPECT_THAT(user_error([&] { kind_.verify(prefix_); }),
                  AllOf(HasSubstr("p.nc: the array " + name + " has another checksum than"), HasSubstr("p.json")));
      flip(at);
    }
  }
  kind_.verify(prefix_);
  // The files are verified also where they may not be written.
  std::filesystem::permissions(prefix_ + ".nc", std::filesystem::perms::owner_read);
  kind_.verify(prefix_);
}

}  // namespace
}  // namespace terrace::data
