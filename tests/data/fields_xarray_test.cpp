// Tests that files which xarray writes are prepared as xarray reads them, and that xarray opens what is prepared.
#include <gmock/gmock.h>

#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

std::string run_cases(const TemporaryFolder& folder, const std::string& what) {
  return run_python(folder,
                    "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n",
                    {tests::source_dir().string() + "/tests/data/fields_cases.py", what, folder.path().string()});
}

TEST(FieldsAgainstXarray, FilesOfEveryKindGiveTheSameFieldsAndStatistics) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_cases(folder, "write"), "");
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".nc") continue;
    const bool is_daily = entry.path().stem() == "daily";
    const bool is_hourly = entry.path().stem() == "hourly";
    // The first 40 of 50 times, which begin at 06:00 on 20 December 1999.
    const std::string end = is_daily ? "2000-01-28" : is_hourly ? "1999-12-21T21" : "1999-12-30T00";
    std::string last = end;
    if (entry.path().stem() == "360_day") last = "1999-12-30T00";
    prepare_fields({entry.path().string()}, folder / "out" + "/" + entry.path().stem().string(),
                   {{"train", {"1999-12-20", last}}});
    ++files;
  }
  EXPECT_EQ(files, 16u);
  EXPECT_THAT(run_cases(folder, "compare"), HasSubstr("16 the same"));
}

}  // namespace
}  // namespace terrace::data
