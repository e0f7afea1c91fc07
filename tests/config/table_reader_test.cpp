// Tests reading and writing of structs as nested tables, with every problem of a file in one message.
#include "terrace/config/table_reader.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/config/table_writer.h"

namespace terrace::config {
namespace {

struct Wheel {
  double radius = 0;
  int64_t spokes = 32;

  bool operator==(const Wheel&) const = default;
};

struct Lamp {
  std::string colour = "white";

  bool operator==(const Lamp&) const = default;
};

struct Bicycle {
  std::string name;
  bool electric = false;
  Lamp front = {}, rear = {};
  std::vector<Wheel> wheels = {{.radius = 0.35}};

  bool operator==(const Bicycle&) const = default;
};

constexpr auto lamp_keys = [](auto& lamp) { lamp.required("colour", &Lamp::colour, Text{}, "\"red\""); };

constexpr auto bicycle_keys = [](auto& bicycle) {
  bicycle.required("name", &Bicycle::name, Text{}, "\"tandem\"");
  bicycle.optional("electric", &Bicycle::electric, Flag{});
  bicycle.table("front", &Bicycle::front, lamp_keys);
  bicycle.optional_table(
      "rear", [](auto& one) -> auto& { return one.rear; }, lamp_keys);
  bicycle.list(
      "wheels", &Bicycle::wheels,
      [](auto& wheel) {
        wheel.required("radius", &Wheel::radius, Real{.least = 0, .least_excluded = true}, "0.35");
        wheel.optional("spokes", &Wheel::spokes, Whole{3, 100});
        wheel.rule({"spokes", "radius"}, [](const Wheel& one) {
          return static_cast<double>(one.spokes) * 0.1 < one.radius ? std::string("is too few") : "";
        });
      },
      [&](auto& wheel) {
        wheel.rule({"radius"}, [&](const Wheel& one) {
          return one.radius > bicycle.value().wheels.front().radius ? std::string("is more than the first") : "";
        });
      });
};

Bicycle read(const std::string& toml) { return read_tables<Bicycle>(toml, "bicycle.toml", bicycle_keys); }

std::string complaint(const std::string& toml) {
  try {
    read(toml);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

const std::string small = "name = \"b\"\nfront.colour = \"blue\"\n";

TEST(TableReader, KeepsDefaultsOfWhatIsNotGiven) { EXPECT_EQ(read(small), (Bicycle{.name = "b", .front = {"blue"}})); }

TEST(TableReader, ReadsTablesAndLists) {
  const Bicycle expected{.name = "b",
                         .electric = true,
                         .front = {"blue"},
                         .rear = {"red"},
                         .wheels = {{.radius = 0.3}, {.radius = 0.2, .spokes = 20}}};
  const std::string toml =
      "name = \"b\"\nelectric = true\n\n[front]\ncolour = \"blue\"\n\n[rear]\ncolour = \"red\"\n\n"
      "[[wheels]]\nradius = 0.3\n\n[[wheels]]\nradius = 0.2\nspokes = 20\n";
  EXPECT_EQ(read(toml), expected);
  EXPECT_EQ(write_tables(expected, bicycle_keys), toml);
  EXPECT_EQ(read("name = \"b\"\nelectric = true\nfront = {colour = \"blue\"}\nrear = {colour = \"red\"}\n"
                 "wheels = [{radius = 0.3}, {radius = 0.2, spokes = 20}]"),
            expected);
}

TEST(TableWriter, LeavesOutDefaults) {
  EXPECT_EQ(write_tables(Bicycle{.name = "b"}, bicycle_keys), "name = \"b\"\n\n[front]\ncolour = \"white\"\n");
}

TEST(TableReader, NamesWhatIsMissing) {
  EXPECT_EQ(complaint("electric = true\n[front]\n"),
            "2 problems in bicycle.toml:\n"
            "  bicycle.toml:2:1: front.colour is missing; add to [front] a line such as colour = \"red\"\n"
            "  bicycle.toml: name is missing; add a line such as name = \"tandem\"");
  EXPECT_EQ(complaint("name = \"b\""), "bicycle.toml: the table [front] is missing");
  EXPECT_EQ(complaint(small + "[[wheels]]\n"),
            "bicycle.toml:3:1: wheels[1].radius is missing; add to [[wheels]] a line such as radius = 0.35");
}

TEST(TableReader, SuggestsTheNearestKey) {
  EXPECT_EQ(complaint("electrik = true\n" + small), "bicycle.toml:1:1: unknown key electrik; did you mean electric?");
  EXPECT_EQ(complaint("x = 1\n" + small),
            "bicycle.toml:1:1: unknown key x; the file has name, electric, front, rear and wheels");
  EXPECT_EQ(complaint(small + "rear.color = \"red\""),
            "2 problems in bicycle.toml:\n"
            "  bicycle.toml:3:1: rear.colour is missing; add to [rear] a line such as colour = \"red\"\n"
            "  bicycle.toml:3:6: unknown key rear.color; did you mean colour?");
  EXPECT_EQ(complaint(small + "[[wheels]]\nradius = 1\n[[wheels]]\nradius = 1\nthickness = 2\n"),
            "bicycle.toml:7:1: unknown key wheels[2].thickness; [[wheels]] has radius and spokes");
}

TEST(TableReader, RefusesOtherKindsOfValues) {
  EXPECT_EQ(complaint("name = \"b\"\nfront = 3\n"), "bicycle.toml:2:9: front = 3 must be one table, written [front]");
  EXPECT_EQ(complaint("name = \"b\"\n[[front]]\ncolour = \"red\"\n").substr(0, 17), "bicycle.toml:2:1:");
  for (const std::string wheels : {"wheels = 2", "wheels = []", "wheels = [2]", "wheels.radius = 2"}) {
    EXPECT_NE(complaint(small + wheels).find("must be a list of tables, each written [[wheels]]"), std::string::npos)
        << wheels;
  }
  EXPECT_EQ(complaint("name = = 2").substr(0, 15), "bicycle.toml:1:");
}

TEST(TableReader, AppliesRulesToValidKeysOnly) {
  EXPECT_EQ(complaint(small + "[[wheels]]\nradius = 0.9\nspokes = 5\n"),
            "bicycle.toml:5:10: wheels[1].spokes = 5 is too few");
  // Without a radius nothing is said of the spokes, and the rule among wheels waits for all of them.
  EXPECT_EQ(complaint(small + "[[wheels]]\nradius = -1\nspokes = 5\n[[wheels]]\nradius = 2\n"),
            "bicycle.toml:4:10: wheels[1].radius = -1 must be a number above 0");
  EXPECT_EQ(complaint(small + "[[wheels]]\nradius = 1\n[[wheels]]\nradius = 2\n"),
            "bicycle.toml:6:10: wheels[2].radius = 2 is more than the first");
}

}  // namespace
}  // namespace terrace::config
