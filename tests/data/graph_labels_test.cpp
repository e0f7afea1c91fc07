// Labels have their units, stresses the volume of their cell, and structures the labels that their files give them.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <string>

#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/formats/extended_xyz.h"
#include "terrace/data/graphs/graph_batch.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/data/graphs/structures/quantities.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string one_atom_cif =
    "data_x\n_cell_length_a 3\n_cell_length_b 3\n_cell_length_c 3\n_cell_angle_alpha 90\n_cell_angle_beta 90\n"
    "_cell_angle_gamma 90\nloop_\n_atom_site_type_symbol\n_atom_site_fract_x\n_atom_site_fract_y\n_atom_site_fract_z\n"
    "Fe 0 0 0\n";

TEST(Quantities, AreKnownByTheirNames) {
  for (const char* name : {"energy", "REF_energy", "energy_ref", "dft_energy", "free-energy", "Total_Energy"}) {
    EXPECT_EQ(quantity_of(name), PhysicalQuantity::energy) << name;
  }
  EXPECT_EQ(quantity_of("REF_forces"), PhysicalQuantity::forces);
  EXPECT_EQ(quantity_of("REF_stress"), PhysicalQuantity::stress);
  EXPECT_EQ(quantity_of("virials"), PhysicalQuantity::virial);
  for (const char* name : {"surface_energy", "energy_above_hull", "stressed", "charge", "energy-unit"}) {
    EXPECT_EQ(quantity_of(name), PhysicalQuantity::other) << name;
  }
}

// Published conversions (NIST, CODATA 2018), to their digits.
TEST(Quantities, UnitsAreProductsOfKnownOnes) {
  const auto in = [](PhysicalQuantity quantity, const char* unit) {
    return standard_units_in(quantity, unit).value_or(NAN);
  };
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::energy, "eV"), 1);
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::energy, "Hartree"), 27.211386245988);
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::energy, "a.u."), 27.211386245988);
  EXPECT_NEAR(in(PhysicalQuantity::energy, "Ry"), 13.605693122994, 1e-12);
  EXPECT_NEAR(in(PhysicalQuantity::energy, "kcal/mol"), 0.0433641043, 1e-10);
  EXPECT_NEAR(in(PhysicalQuantity::energy, "kJ mol^-1"), 0.01036426966, 1e-11);
  EXPECT_NEAR(in(PhysicalQuantity::forces, "hartree/bohr"), 51.42206747, 1e-8);
  EXPECT_NEAR(in(PhysicalQuantity::forces, "kcal/mol/A"), 0.0433641043, 1e-10);
  EXPECT_NEAR(in(PhysicalQuantity::forces, "kcal/(mol Å)"), 0.0433641043, 1e-10);
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::forces, "eV/nm"), 0.1);
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::stress, "eV/Å^3"), 1);
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::stress, "eV/A**3"), 1);
  EXPECT_NEAR(in(PhysicalQuantity::stress, "GPa"), 0.006241509074, 1e-12);
  EXPECT_NEAR(in(PhysicalQuantity::stress, "kbar"), 0.0006241509074, 1e-13);
  EXPECT_NEAR(in(PhysicalQuantity::stress, "MPa"), 6.241509074e-6, 1e-15);
  EXPECT_DOUBLE_EQ(in(PhysicalQuantity::virial, "meV"), 1e-3);
  for (const char* wrong : {"furlong", "eV/atom", "", "eV/angstrom", "GPa", "mPa", "eV^9"}) {
    EXPECT_FALSE(standard_units_in(PhysicalQuantity::energy, wrong)) << wrong;
  }
  EXPECT_EQ(problem_of_derivative("hartree", "hartree/angstrom", PhysicalQuantity::forces), "");
  EXPECT_EQ(problem_of_derivative("", "eV/A", PhysicalQuantity::forces), "");
  EXPECT_EQ(problem_of_derivative("V", "V/s", PhysicalQuantity::forces), "");
  EXPECT_THAT(problem_of_derivative("eV", "GPa", PhysicalQuantity::stress), HasSubstr("no energy and its derivative"));
  EXPECT_THAT(problem_of_derivative("hartree", "hartree/bohr", PhysicalQuantity::forces),
              HasSubstr("no energy and its"));
  EXPECT_THAT(
      problem_of_derivative("eV/atom", "", PhysicalQuantity::forces),
      AllOf(HasSubstr("eV/atom is not known: where the values are in it, convert them in the files (an energy per "
                      "atom times the number of atoms)"),
            HasSubstr("only the note is wrong, prepare them again with --units and the right unit, such as eV")));
}

TEST(Quantities, VolumeIsThatOfTheCellWhateverIsPeriodic) {
  Cell cell{{{{4, 0, 0}, {1, 5, 0}, {0, 2, 20}}}, {true, true, false}};
  EXPECT_DOUBLE_EQ(volume_of(cell), 400);
  EXPECT_DOUBLE_EQ(stress_in_label("stress", cell), 1);
  EXPECT_DOUBLE_EQ(stress_in_label("REF_virial", cell), -1.0 / 400);
  cell.periodic = {false, false, false};
  EXPECT_DOUBLE_EQ(volume_of(cell), 400);
  cell.vectors[2] = {4, 0, 0};
  EXPECT_EQ(volume_of(cell), 0);
  EXPECT_EQ(stress_in_label("stress", cell), 0);
  EXPECT_EQ(volume_of({}), 0);
}

TEST(DeclaredUnits, OfAFileAreConvertedOrRefused) {
  const auto read = [](const std::string& keys) {
    return parse_extended_xyz("1\nProperties=species:S:1:pos:R:3:forces:R:3 " + keys + "\nH 1 2 3 0 0 1\n");
  };
  const Structure hartree =
      read("energy=-2 energy-unit=hartree forces_units=hartree/bohr stress=\"1 2 3 4 5 6\" stress-unit=GPa");
  EXPECT_DOUBLE_EQ(hartree.of_structure.at("energy").values[0], -2 * 27.211386245988);
  EXPECT_NEAR(hartree.of_atoms.at("forces").values[2], 51.42206747, 1e-8);
  EXPECT_NEAR(hartree.of_structure.at("stress").values[4], 2 * 0.006241509074, 1e-12);
  EXPECT_EQ(hartree.notes.size(), 3u);
  const Structure bohr = read("length-unit=bohr Lattice=\"9 0 0 0 9 0 0 0 9\"");
  EXPECT_NEAR(bohr.positions[2], 3 * 0.529177210903, 1e-12);
  EXPECT_NEAR(bohr.cell.vectors[0][0], 9 * 0.529177210903, 1e-12);
  EXPECT_TRUE(read("energy=1 energy-unit=eV").notes.empty());
  const auto refused = [&](const std::string& keys) { return user_error([&] { read(keys); }); };
  EXPECT_THAT(refused("energy=1 energy-unit=furlong"), AllOf(HasSubstr("\"furlong\""), HasSubstr("kcal/mol")));
  EXPECT_THAT(refused("energy=1 energy-unit=hartree"),
              AllOf(HasSubstr("forces has no unit"), HasSubstr("UNIT is hartree/bohr, eV/angstrom or another")));
  // ASE writes both energies, in one unit.
  EXPECT_THAT(
      refused("energy=1 free_energy=1 energy-unit=hartree forces-unit=hartree/bohr"),
      HasSubstr("energy is in hartree, and free_energy has no unit; declare it too, by free_energy-unit=UNIT in "
                "the file or --units free_energy=UNIT, where UNIT is hartree if it is in the same"));
}

TEST(DeclaredUnits, OfOtherPropertiesAreNotedUnlessTheyDiffer) {
  const TemporaryFolder folder;
  const std::string in_ev = folder.write("a.xyz", "1\ngap=1 gap-unit=eV formula_units=4 dye_unit=none\nH 0 0 0\n"),
                    in_mev = folder.write("b.xyz", "1\ngap=900 gap_units=meV formula_units=4\nH 0 0 0\n"),
                    in_any = folder.write("c.xyz", "1\ngap=1 formula_units=4\nH 0 0 0\n");
  prepare_graphs({in_ev, in_any}, folder / "p");
  const GraphsDescription all = GraphsDataset(folder / "p").description();
  ASSERT_EQ(all.properties.size(), 2u);
  EXPECT_EQ(all.properties[0].name + all.properties[0].units, "formula_units");
  EXPECT_EQ(all.properties[1].name + all.properties[1].units, "gapeV");
  EXPECT_THAT(refused_graphs(folder, {in_ev, in_mev}),
              AllOf(HasSubstr("b.xyz: structure 1: gap is in meV, and in "), HasSubstr("a.xyz: structure 1 in eV")));
  EXPECT_THAT(refused_graphs(folder, {in_ev}, {{"units", {"gap=meV"}}}),
              HasSubstr("the file says that gap is in eV, and --units that it is in meV"));
}

TEST(DeclaredUnits, OfFilesThatGoTogetherAreDeclaredInAllOrNone) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& keys) {
    return folder.write(name, "1\nenergy=1 " + keys + "\nH 0 0 0\n");
  };
  const std::string hartree = write("h.xyz", "energy-unit=hartree"), none = write("n.xyz", ""),
                    electronvolt = write("e.xyz", "energy-unit=eV"), bohr = write("b.xyz", "length-unit=bohr"),
                    crystal = folder.write("c.cif", one_atom_cif);
  EXPECT_THAT(
      refused_graphs(folder, {hartree, none}),
      AllOf(HasSubstr("n.xyz: structure 1: energy has no unit, and in "),
            HasSubstr("h.xyz: structure 1 it is in hartree"),
            HasSubstr("energy-unit=eV in files that are in eV, or by --units energy=hartree where all are in it")));
  EXPECT_THAT(refused_graphs(folder, {none, hartree}),
              AllOf(HasSubstr("h.xyz: structure 1: energy is in hartree, and in "),
                    HasSubstr("n.xyz: structure 1 it has no unit")));
  EXPECT_THAT(refused_graphs(folder, {bohr, none}), HasSubstr("length has no unit, and in "));
  const auto energies = [&](const std::vector<std::string>& files, const GraphFlags& flags = {}) {
    prepare_graphs(files, folder / "p", flags);
    const GraphsDataset dataset(folder / "p");
    const int64_t energy = dataset.description().find("energy", GraphLevel::structure);
    std::vector<double> values;
    for (int64_t structure = 0; structure < dataset.structures(); ++structure) {
      values.push_back(dataset.values(energy, structure)[0]);
    }
    return values;
  };
  EXPECT_THAT(energies({hartree, electronvolt}), ElementsAre(27.211386245988, 1));
  EXPECT_THAT(energies({none, electronvolt}), ElementsAre(1, 1));
  EXPECT_THAT(energies({hartree, none}, {{"units", {"energy=hartree"}}}),
              ElementsAre(27.211386245988, 27.211386245988));
  // The lengths of CIF are angstrom.
  EXPECT_THAT(energies({bohr, crystal}), ElementsAre(1, testing::IsNan()));
}

TEST(PartialLabels, AreOfOneLevelWhereAllStructuresHaveThem) {
  const TemporaryFolder folder;
  const std::string of_structure = folder.write("a.xyz", "1\nenergy=1\nH 0 0 0\n"),
                    of_atoms = folder.write("b.xyz", "1\nProperties=species:S:1:pos:R:3:energy:R:1\nH 0 0 0 1\n");
  prepare_graphs({of_structure, of_atoms}, folder / "p");
  EXPECT_THAT(refused_graphs(folder, {of_structure, of_atoms}, {{"labels", {"energy"}}}),
              HasSubstr("--labels energy: its level or its number of columns differs"));
}

TEST(Stresses, HaveSixNumbersInTheOrderOfAseOrNine) {
  const auto values = [](const std::string& keys, const std::string& name) {
    return parse_extended_xyz("1\n" + keys + "\nH 0 0 0\n").of_structure.at(name).values;
  };
  for (const char* name : {"stress", "virial", "REF_stress", "dft_virial"}) {
    EXPECT_THAT(values(std::string(name) + "=\"1 2 3 4 5 6\"", name), ElementsAre(1, 6, 5, 6, 2, 4, 5, 4, 3)) << name;
  }
  EXPECT_THAT(values("REF_stress=\"1 2 3 2 5 6 3 6 9\"", "REF_stress"), ElementsAre(1, 2, 3, 2, 5, 6, 3, 6, 9));
}

TEST(Stresses, OfVirialsHaveTheUnitOfStresses) {
  EXPECT_EQ(unit_of_stress("virial", "eV"), "eV/angstrom^3");
  EXPECT_EQ(unit_of_stress("REF_virial", ""), "");
  EXPECT_EQ(unit_of_stress("stress", "GPa"), "GPa");
  EXPECT_EQ(problem_of_derivative("hartree", unit_of_stress("virial", "hartree"), PhysicalQuantity::stress), "");
}

// Until the second version of the preparation a stress that is not periodic in three directions had no volume, and a
// virial was a stress.
TEST(Stresses, OfAnotherVersionAreNotGoneOnWith) {
  const TemporaryFolder folder;
  const auto source = [&](const std::string& keys, const std::string& property) {
    prepare_graphs({folder.write("a.xyz", "1\nLattice=\"2 0 0 0 2 0 0 0 9\" energy=1 " + keys + "\nH 0 0 0\n")},
                   folder / "p");
    GraphsConfig config;
    config.train = {folder / "p"};
    GraphsRequest request{.radius = 1, .labels = {{.name = "energy", .property = "energy"}}};
    if (!property.empty()) {
      request.labels.push_back(
          {.name = "stress", .property = property, .width = 9, .derivative_of = "energy", .is_stress = true});
    }
    return GraphsSource(config, request, 1);
  };
  const std::string stress = "stress=\"1 2 3 4 5 6\" ", slab = "pbc=\"T T F\"";
  for (const auto& [keys, property] :
       {std::pair<std::string, std::string>{stress, "stress"}, {stress + slab, ""}, {stress, ""}}) {
    const GraphsSource same = source(keys, property);
    const Json identity = same.identity();
    EXPECT_FALSE(identity.contains("stress")) << keys << property;
    EXPECT_NO_THROW(same.check_labels_of(identity, identity));
  }
  const auto refused = [&](const GraphsSource& now) {
    const Json own = now.identity();
    EXPECT_EQ(own.at("stress"), 2);
    EXPECT_NO_THROW(now.check_labels_of(own, own));
    Json older = own, later = own;
    older.erase("stress");
    later["stress"] = 3;
    EXPECT_THAT(user_error([&] { now.check_labels_of(later, own); }),
                HasSubstr("by version 3, and this terrace knows"));
    return user_error([&] { now.check_labels_of(older, own); });
  };
  EXPECT_THAT(refused(source(stress + slab, "stress")),
              AllOf(HasSubstr("label stress of 1 structure of"), HasSubstr("a.xyz: structure 1"),
                    HasSubstr("divided by no volume"), HasSubstr("Continue it with the terrace that wrote")));
  EXPECT_THAT(refused(source("virial=\"1 2 3 4 5 6\"", "virial")), HasSubstr("it trained on the virial itself"));
}

const std::string mixed_frames =
    "1\nLattice=\"2 0 0 0 2 0 0 0 2\" energy=1 virial=\"8 0 0 0 16 0 0 0 24\" "
    "Properties=species:S:1:pos:R:3:forces:R:3\n"
    "H 0 0 0 1 2 3\n"
    "2\nvirial=\"1 0 0 0 1 0 0 0 1\" Properties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 nan 5 6\nH 0 0 1 7 8 9\n"
    "1\nLattice=\"2 0 0 0 2 0 0 0 2\" energy=nan gap=4\nH 0 0 0\n";

GraphsRequest mixed_request() {
  return {
      .radius = 1,
      .labels =
          {{.name = "energy", .property = "energy", .offset = LabelOffset::mean},
           {.name = "forces", .property = "forces", .level = GraphLevel::atom, .width = 3, .derivative_of = "energy"},
           {.name = "stress", .property = "virial", .width = 9, .derivative_of = "energy", .is_stress = true}},
      .counts = {{.level = GraphLevel::structure, .label = "energy"},
                 {.level = GraphLevel::atom, .times = 3, .label = "forces"},
                 {.level = GraphLevel::structure, .times = 9, .label = "stress"}}};
}

template <typename Number>
std::vector<Number> numbers_in(const MicroBatch& batch, const std::string& name) {
  const HostTensor& tensor = batch.tensors.at(name);
  std::vector<Number> values(tensor.bytes.size() / sizeof(Number));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(PartialLabels, AreNaNInTheDatasetAndCountedInItsDescription) {
  const TemporaryFolder folder;
  const PrepareResult result = prepare_graphs({folder.write("a.xyz", mixed_frames)}, folder / "p");
  EXPECT_THAT(result.text,
              AllOf(HasSubstr("energy of structures, 1 column: mean 1, deviation 0; 1 structure without it; "
                              "1 value missing (NaN)\n"),
                    HasSubstr("gap of structures, 1 column: mean 4, deviation 0; 2 structures without it\n"),
                    HasSubstr("1 structure without it; 1 value missing (NaN)\n")));
  const GraphsDataset dataset(folder / "p");
  dataset.check();
  const GraphsDescription& all = dataset.description();
  const int64_t energy = all.find("energy", GraphLevel::structure), gap = all.find("gap", GraphLevel::structure),
                forces = all.find("forces", GraphLevel::atom);
  EXPECT_EQ(all.properties[static_cast<size_t>(energy)].missing_values, 1);
  EXPECT_EQ(all.properties[static_cast<size_t>(gap)].structures_without, 2);
  EXPECT_EQ(dataset.values(energy, 0)[0], 1);
  EXPECT_TRUE(std::isnan(dataset.values(energy, 1)[0]));
  EXPECT_TRUE(std::isnan(dataset.values(gap, 0)[0]));
  EXPECT_EQ(dataset.values(gap, 2)[0], 4);
  EXPECT_TRUE(std::isnan(dataset.values(forces, 2)[0]));
  EXPECT_EQ(dataset.values(forces, 1)[3], 7);
  // Columns of forces: 1 and 7; 2, 5 and 8; 3, 6 and 9.
  EXPECT_THAT(all.properties[static_cast<size_t>(forces)].means, ElementsAre(4, 5, 6));
  // Programs that would take them for numbers do not open such a dataset; one whose labels are complete they do.
  EXPECT_THAT(read_text(folder / "p.json"), HasSubstr("\"version\": 2"));
  prepare_graphs({folder.write("b.xyz", "1\nenergy=1\nH 0 0 0\n")}, folder / "whole");
  EXPECT_THAT(read_text(folder / "whole.json"), HasSubstr("\"version\": 1"));
  EXPECT_THAT(refused_graphs(folder, {folder / "a.xyz"}, {{"labels", {"energy"}}}),
              AllOf(HasSubstr("structure 2: has no energy"), HasSubstr("structure 3: energy is nan")));
}

TEST(PartialLabels, AreTrainedWhereTheyAre) {
  const TemporaryFolder folder;
  prepare_graphs({folder.write("a.xyz", mixed_frames)}, folder / "p");
  GraphsConfig config;
  config.train = {folder / "p"};
  const GraphsSource source(config, mixed_request(), 1);
  const TensorNames names = {"targets.energy", "labelled.energy", "targets.forces", "labelled.forces",
                             "targets.stress", "labelled.stress", "volumes",        "scales.stress"};
  const MicroBatch batch = source.batch(std::vector<GraphsSource::Place>{{0, 0}, {0, 1}, {0, 2}}, {0, 1, 2}, names);
  EXPECT_THAT(numbers_in<float>(batch, "labelled.energy"), ElementsAre(1, 0, 0));
  EXPECT_THAT(numbers_in<float>(batch, "labelled.forces"), ElementsAre(1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0));
  // The second structure has no volume, and therefore no stress.
  EXPECT_THAT(numbers_in<double>(batch, "volumes"), ElementsAre(8, 1, 8));
  const auto labelled = numbers_in<float>(batch, "labelled.stress");
  EXPECT_EQ(std::vector<float>(labelled.begin(), labelled.begin() + 9), std::vector<float>(9, 1));
  EXPECT_EQ(std::vector<float>(labelled.begin() + 9, labelled.end()), std::vector<float>(18, 0));
  EXPECT_THAT(batch.counts, ElementsAre(1, 8, 9));
  for (const char* label : {"energy", "forces", "stress"}) {
    for (const double target : numbers_in<double>(batch, std::string("targets.") + label))
      EXPECT_TRUE(std::isfinite(target));
  }
  // A stress is minus the virial over the volume: -1, -2 and -3; the root of the mean square of nine numbers is the
  // scale.
  const double scale = numbers_in<double>(batch, "scales.stress")[0];
  EXPECT_DOUBLE_EQ(scale, std::sqrt(14.0 / 9));
  EXPECT_DOUBLE_EQ(scale * numbers_in<double>(batch, "targets.stress")[4], -2);
  EXPECT_DOUBLE_EQ(source.statistics().labels.at("energy").offsets[0]->mean[0], 1);
}

TEST(PartialLabels, ForcesAreEnoughAndFeaturesAreNot) {
  const TemporaryFolder folder;
  prepare_graphs(
      {folder.write("a.xyz", "1\nq=1 Properties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 1 2 3\n" + mixed_frames)},
      folder / "p");
  prepare_graphs({folder.write("f.xyz", "1\nProperties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 1 2 3\n")},
                 folder / "forces");
  GraphsRequest request = mixed_request();
  request.labels.pop_back();
  request.counts.pop_back();
  GraphsConfig config;
  config.train = {folder / "forces"};
  EXPECT_TRUE(problems_with_graphs(config, request).empty());
  request.labels[1].derivative_of = "";
  EXPECT_THAT(problems_with_graphs(config, request), ElementsAre(HasSubstr("has no property energy")));
  config.train = {folder / "p"};
  request.charge = "q";
  EXPECT_THAT(problems_with_graphs(config, request),
              ElementsAre(AllOf(HasSubstr("not in all structures: 3 structures have none"), HasSubstr("--labels q"))));
}

TEST(Units, OfALabelAreThoseOfItsDerivatives) {
  const TemporaryFolder folder;
  const std::string frame = folder.write(
      "a.xyz", "1\nU=1 Properties=species:S:1:pos:R:3:push:R:3 Lattice=\"2 0 0 0 2 0 0 0 2\"\nH 0 0 0 1 2 3\n");
  GraphsRequest request = mixed_request();
  request.labels.pop_back();
  request.counts.pop_back();
  request.labels[0].property = "U";
  request.labels[1].property = "push";
  GraphsConfig config;
  config.train = {folder / "p"};
  // Units of other names are noted, and kept with the offsets and scales.
  prepare_graphs({frame}, folder / "p", {{"units", {"U=hartree", "push=hartree/angstrom"}}});
  EXPECT_TRUE(problems_with_graphs(config, request).empty());
  EXPECT_EQ(GraphsSource(config, request, 1).statistics().labels.at("energy").units, "hartree");
  prepare_graphs({frame}, folder / "p", {{"units", {"U=hartree", "push=eV/angstrom"}}});
  EXPECT_THAT(problems_with_graphs(config, request),
              ElementsAre(HasSubstr("U and push: hartree and eV/angstrom are no")));
  prepare_graphs({frame}, folder / "q", {{"units", {"U=eV", "push=eV/angstrom"}}});
  config.train.push_back(folder / "q");
  EXPECT_THAT(problems_with_graphs(config, request),
              testing::Contains(AllOf(HasSubstr("U is in hartree"), HasSubstr("in eV"), HasSubstr("in one unit"))));
}

}  // namespace
}  // namespace terrace::data
