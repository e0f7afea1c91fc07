// The second lines of extended XYZ mean what ASE's reader makes of them, in thousands of spellings, or are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/data/graphs/formats/extended_xyz.h"
#include "terrace/data/graphs/formats/xyz_keys.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Structure frame(const std::string& keys, const std::string& atom = "H 0 0 0") {
  return parse_extended_xyz("1\n" + keys + "\n" + atom + "\n");
}

std::vector<double> value_in(const std::string& keys, const std::string& name) {
  const Structure structure = frame(keys);
  const auto found = structure.of_structure.find(name);
  return found == structure.of_structure.end() ? std::vector<double>{} : found->second.values;
}

std::string refusal(const std::string& keys) {
  return user_error([&] { frame(keys); });
}

TEST(XyzSpellings, BlanksMayStandAroundTheSign) {
  for (const char* keys :
       {"energy = -12.5 pbc=F", "energy= -12.5 pbc=F", "energy =-12.5 pbc=F", "pbc=F energy\t=\t-12.5"}) {
    EXPECT_THAT(value_in(keys, "energy"), ElementsAre(-12.5)) << keys;
  }
  EXPECT_THAT(refusal("name= energy=5"), HasSubstr("line 2: name= has no value before the next sign ="));
  EXPECT_THAT(refusal("name=\"\" energy=5"), HasSubstr("name= has no value before the next sign ="));
  EXPECT_THAT(refusal("=5"), HasSubstr("no key before it"));
  EXPECT_EQ(refusal("x -5=3 y"), "");  // a remark and the key "-5"
}

TEST(XyzSpellings, NumbersAreNotLostInSilence) {
  EXPECT_THAT(refusal("energy=-1.25D+01"), HasSubstr("energy=-1.25D+01 has an exponent with D"));
  EXPECT_THAT(refusal("energy=1D2"), HasSubstr("energy=1D2 is no number"));
  EXPECT_THAT(refusal("energy=-12.5eV"), HasSubstr("energy=-12.5eV is no number"));
  EXPECT_THAT(refusal("REF_energy=[[1,2],[3,4]]"), HasSubstr("write REF_energy=\"1 2 3 4\""));
  EXPECT_THAT(refusal("energy a=1"), HasSubstr("energy without a value is no number"));
  EXPECT_THAT(value_in("energy=1e309 a=-1e-999", "energy"), ElementsAre(std::numeric_limits<double>::infinity()));
  EXPECT_THAT(value_in("a=1_000 b=T", "a"), ElementsAre(1000));
  // Texts of other keys stay texts, and what looks like numbers is said.
  const Structure noted = frame("k=[[1,2],[3,4]] gap=1.5D0 id=1D2 config=[[a]]");
  EXPECT_TRUE(noted.of_structure.empty());
  EXPECT_THAT(noted.notes, ElementsAre(HasSubstr("k=[1,2,3,4] has brackets"), HasSubstr("gap=1.5D0 has an exponent")));
}

TEST(XyzSpellings, KeysInOtherLettersAreNotTakenForOthers) {
  EXPECT_THAT(refusal("lattice=\"5 0 0 0 5 0 0 0 5\""), HasSubstr("lattice= is not Lattice="));
  EXPECT_THAT(refusal("PBC=T a=1"), HasSubstr("PBC= is not pbc="));
  EXPECT_THAT(refusal("properties=species:S:1:pos:R:3"), HasSubstr("write Properties="));
  EXPECT_THAT(value_in("Lattice=\"5 0 0 0 5 0 0 0 5\" lattice=4.05", "lattice"), ElementsAre(4.05));
}

TEST(XyzSpellings, QuotesThatAreNotClosedAreRemarksOrRefused) {
  EXPECT_TRUE(frame("Molden's output").of_structure.empty());
  EXPECT_THAT(refusal("Molden's energy=5"), HasSubstr("' is opened at 's energy=5 and not closed"));
}

TEST(XyzSpellings, PeriodicityMayBeOneWord) {
  EXPECT_EQ(frame("Lattice=\"5 0 0 0 5 0 0 0 5\" pbc").cell.periodic, (std::array{true, true, true}));
  EXPECT_EQ(frame("Lattice=\"5 0 0 0 5 0 0 0 5\" pbc=F").cell.periodic, (std::array{false, false, false}));
}

TEST(XyzSpellings, ColumnsOfAtomsAreAsInAse) {
  EXPECT_THAT(frame("", "CU 0 0 0").species, ElementsAre(29));
  const Structure more = frame("", "h 0 0 0 0.25 7");
  EXPECT_THAT(more.species, ElementsAre(1));
  EXPECT_THAT(more.notes, ElementsAre(HasSubstr("columns behind the 4 that Properties names are left out")));
  EXPECT_THAT(user_error([] { frame("Properties=species:S:1:pos:R:3:fixed:L:1", "H 0 0 0 true"); }),
              HasSubstr("no T or F"));
  const Structure adf = parse_extended_xyz("1\na slab\nH 0 0 0\nVEC1 3 0 0\nVEC2 0 4 0\n");
  EXPECT_EQ(adf.cell, (Cell{{{{3, 0, 0}, {0, 4, 0}, {0, 0, 0}}}, {true, true, false}}));
  const std::string two = "1\n\nH 0 0 0\nVEC1 3 0 0\n1\n\nH 0 0 0\n";
  EXPECT_EQ(two.substr(frame_bytes(two, true)), "1\n\nH 0 0 0\n");
}

// The frames of the file as lines of JSON.
void write_answers(const std::string& text, const std::filesystem::path& path) {
  std::ofstream answers(path);
  std::string_view rest = text;
  while (const size_t bytes = frame_bytes(rest, true)) {
    Json answer = Json::object();
    try {
      const Structure read = parse_extended_xyz(rest.substr(0, bytes));
      answer["numbers"] = Json::object();
      // Numbers are written as texts, since JSON has no infinite numbers.
      for (const auto& [name, property] : read.of_structure) {
        for (const double value : property.values) answer["numbers"][name].push_back(fmt::format("{}", value));
      }
      for (const Vector3& vector : read.cell.vectors) {
        for (const double component : vector) answer["cell"].push_back(fmt::format("{}", component));
      }
      answer["periodic"] = read.cell.periodic;
    } catch (const UserError& error) {
      answer["error"] = error.what();
    }
    answers << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    rest.remove_prefix(bytes);
  }
}

TEST(XyzSpellingsAgainstAse, LinesMeanWhatAseReadsOrAreRefused) {
  const TemporaryFolder folder;
  const std::string code =
      "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n";
  const std::string cases = (tests::source_dir() / "tests/data/xyz_spelling_cases.py").string();
  ASSERT_EQ(run_python(folder, code, {cases, "write_lines", folder.path().string(), "7", "4000"}), "");
  write_answers(read_text(folder / "spellings.xyz"), folder.path() / "answers.jsonl");
  const std::string counts = run_python(folder, code, {cases, "compare_lines", folder.path().string()});
  EXPECT_THAT(counts, AllOf(HasSubstr("refused by line"), HasSubstr("same")));
  const size_t same = counts.rfind("; ");
  ASSERT_NE(same, std::string::npos) << counts;
  EXPECT_GT(std::atoi(counts.c_str() + same + 2), 0) << counts;
}

}  // namespace
}  // namespace terrace::data
