// Meshes of Gmsh and VTK have the nodes, the values and the edges that their files describe, and problems are named by
// their lines.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <utility>

#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/formats/gmsh.h"
#include "terrace/data/graphs/formats/mesh_cells.h"
#include "terrace/data/graphs/formats/vtk.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Pairs = std::set<std::pair<int32_t, int32_t>>;

// The pairs with the smaller node first; each has to be there in both directions, once.
Pairs pairs_of(const GivenEdges& edges) {
  Pairs both, pairs;
  for (size_t edge = 0; edge < edges.receivers.size(); ++edge) {
    both.emplace(edges.receivers[edge], edges.senders[edge]);
    pairs.emplace(std::min(edges.receivers[edge], edges.senders[edge]),
                  std::max(edges.receivers[edge], edges.senders[edge]));
  }
  EXPECT_EQ(both.size(), edges.receivers.size());
  EXPECT_EQ(both.size(), 2 * pairs.size());
  return pairs;
}

// By Euler's formula a cell with E edges and V corners has E - V + 2 faces.
TEST(CellEdges, OfEachShapeAreThoseOfAPolyhedron) {
  const auto pairs = [](CellShape shape, std::vector<int32_t> nodes) {
    CellEdges edges;
    edges.add(shape, nodes);
    return pairs_of(edges.edges());
  };
  for (const auto& [shape, corners, faces] : {std::tuple{CellShape::tetrahedron, 4, 4},
                                              {CellShape::hexahedron, 8, 6},
                                              {CellShape::voxel, 8, 6},
                                              {CellShape::prism, 6, 5},
                                              {CellShape::pyramid, 5, 5}}) {
    ASSERT_EQ(nodes_of_cell(shape), corners);
    std::vector<int32_t> nodes;
    for (int32_t node = 0; node < corners; ++node) nodes.push_back(node);
    const Pairs of_cell = pairs(shape, nodes);
    EXPECT_EQ(std::ssize(of_cell) - corners + 2, faces);
    for (int32_t node = 0; node < corners; ++node) {
      EXPECT_GE(
          std::ranges::count_if(of_cell, [&](const auto& pair) { return pair.first == node || pair.second == node; }),
          3);
    }
  }
  // A voxel's corners are those of a hexahedron in another order.
  EXPECT_EQ(pairs(CellShape::voxel, {0, 1, 3, 2, 4, 5, 7, 6}), pairs(CellShape::hexahedron, {0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pairs(CellShape::pixel, {0, 1, 3, 2}), pairs(CellShape::polygon, {0, 1, 2, 3}));
  EXPECT_EQ(pairs(CellShape::line, {4, 2, 7}), (Pairs{{2, 4}, {2, 7}}));
  EXPECT_EQ(pairs(CellShape::strip, {0, 1, 2, 3}), (Pairs{{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}}));
  EXPECT_EQ(pairs(CellShape::points, {0, 1, 2}), Pairs{});
  EXPECT_EQ(pairs(CellShape::polygon, {0, 1, 1, 2}), (Pairs{{0, 1}, {1, 2}, {0, 2}}));
}

// Two triangles over the square 0 1 / 3 2 with the diagonal from 0 to 2; tags have gaps and are out of order.
const std::string square_41 =
    "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$PhysicalNames\n1\n1 1 \"$Nodes of the wall\"\n$EndPhysicalNames\n"
    "$Nodes\n2 4 5 40\n0 1 0 1\n5\n0 0 0\n2 1 1 3\n40\n7\n20\n1 0 0 0.5 0.5\n1 1 0 0.5 0.5\n0 1 0 0.5 0.5\n$EndNodes\n"
    "$Elements\n2 3 1 3\n1 1 1 1\n1 5 40\n2 1 2 2\n2 5 40 7\n3 5 7 20\n$EndElements\n"
    "$NodeData\n1\n\"heat flux\"\n1\n0.0\n3\n0\n2\n4\n5 1 2\n7 5 6\n40 3 4\n20 7 8\n$EndNodeData\n"
    "$ElementData\n1\n\"area\"\n0\n3\n0\n1\n2\n2 0.5\n3 0.5\n$EndElementData\n";
const std::string square_22 =
    "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n5 0 0 0\n40 1 0 0\n7 1 1 0\n20 0 1 0\n$EndNodes\n"
    "$Elements\n3\n1 15 2 0 1 5\n2 2 2 0 1 5 40 7\n3 2 0 5 7 20\n$EndElements\n"
    "$NodeData\n1\n\"heat flux\"\n0\n4\n0\n2\n4\n0\n5 1 2\n7 5 6\n40 3 4\n20 7 8\n$EndNodeData\n";

void expect_square(const Structure& mesh) {
  EXPECT_EQ(mesh.atoms(), 4);
  EXPECT_TRUE(mesh.has_edges);
  EXPECT_THAT(mesh.species, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(mesh.positions, ElementsAre(0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0));
  EXPECT_EQ(pairs_of(mesh.edges), (Pairs{{0, 1}, {1, 2}, {2, 3}, {0, 3}, {0, 2}}));
}

TEST(Gmsh, BothVersionsGiveNodesEdgesAndValues) {
  for (const std::string& text : {square_41, square_22}) {
    const Structure mesh = parse_gmsh(text);
    expect_square(mesh);
    ASSERT_EQ(mesh.of_atoms.size(), 1u);
    EXPECT_EQ(mesh.of_atoms.at("heat flux"), (PropertyValues{2, {1, 2, 3, 4, 5, 6, 7, 8}}));
  }
}

std::string with_change(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Gmsh, ProblemsAreNamedWithTheirLines) {
  const auto refused = [](const std::string& from, const std::string& to, const std::string& text = square_41) {
    return user_error([&] { parse_gmsh(with_change(text, from, to)); });
  };
  EXPECT_THAT(refused("4.1 0", "4.1 1"), HasSubstr("is a binary file"));
  EXPECT_THAT(refused("4.1 0", "4.0 0"), HasSubstr("version 4.0"));
  EXPECT_THAT(refused("$MeshFormat", "solid"), HasSubstr("line 1: \"solid\" stands where $MeshFormat"));
  EXPECT_THAT(refused("2 5 40 7", "2 5 40 8"), HasSubstr("line 26: there is no node 8"));
  EXPECT_THAT(refused("2 1 2 2", "2 1 9 2"), HasSubstr("an element of type 9"));
  EXPECT_THAT(refused("40\n7\n20", "40\n5\n20"), HasSubstr("the node 5 is there twice"));
  EXPECT_THAT(refused("2 4 5 40", "2 5 5 40"), HasSubstr("$Nodes has 4 where its first line says 5"));
  EXPECT_THAT(refused("2 3 1 3", "2 4 1 3"), HasSubstr("$Elements has 3"));
  EXPECT_THAT(refused("1 0 0 0.5", "1 0 zero 0.5"), HasSubstr("\"zero\" is no number, where a coordinate"));
  EXPECT_THAT(refused("2\n4\n5 1 2", "2\n3\n5 1 2"), HasSubstr("heat flux are those of 3 nodes, and there are 4"));
  EXPECT_THAT(refused("20 7 8", "40 7 8"), HasSubstr("two values at one node"));
  EXPECT_THAT(refused("\"heat flux\"", "heat"), HasSubstr("no name in quotes"));
  EXPECT_THAT(refused("$EndNodes", ""), HasSubstr("where $EndNodes should be"));
  EXPECT_THAT(refused("$EndElementData", ""), HasSubstr("ends after line"));
  EXPECT_THAT(refused("4\n5 0 0 0", "400000000\n5 0 0 0", square_22), HasSubstr("where the tag of a node should be"));
  EXPECT_THAT(user_error([] { parse_gmsh("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n"); }), HasSubstr("has no $Nodes"));
  EXPECT_THAT(refused("$Nodes\n4", "$NodeData\n1\n\"t\"\n0\n3\n0\n1\n0\n$EndNodeData\n$Nodes\n4", square_22),
              HasSubstr("line 13: $Nodes stands behind $NodeData"));
}

const std::string square_vtk =
    "# vtk DataFile Version 3.0\nPOINTS of a plate\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 double\n0 0 0 1 0 0\n1 "
    "1 0\n"
    "0 1 0\n\nCELLS 2 8\n3 0 1 2\n3 0 2 3\n\nCELL_TYPES 2\n5\n5\n"
    "CELL_DATA 2\nSCALARS area float\nLOOKUP_TABLE default\n0.5 0.5\n"
    "POINT_DATA 4\nSCALARS temperature double 1\nLOOKUP_TABLE default\n1 2 3 4\nVECTORS velocity float\n1 0 0 2 0 0 3 "
    "0 0 4 0 0\n"
    "FIELD FieldData 2\nload 2 4 double\n1 2 3 4 5 6 7 8\nMETADATA\nINFORMATION 0\n\nflag 1 4 int\n0 0 1 1\n";

TEST(Vtk, HasPointsEdgesAndDataOfPoints) {
  const Structure mesh = parse_vtk(square_vtk);
  expect_square(mesh);
  EXPECT_EQ(mesh.of_atoms.size(), 4u);
  EXPECT_EQ(mesh.of_atoms.at("temperature"), (PropertyValues{1, {1, 2, 3, 4}}));
  EXPECT_EQ(mesh.of_atoms.at("velocity"), (PropertyValues{3, {1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0}}));
  EXPECT_EQ(mesh.of_atoms.at("load"), (PropertyValues{2, {1, 2, 3, 4, 5, 6, 7, 8}}));
  EXPECT_EQ(mesh.of_atoms.at("flag"), (PropertyValues{1, {0, 0, 1, 1}}));
  // Version 5 divides the cells into offsets and nodes.
  const std::string newer =
      with_change(with_change(square_vtk, "Version 3.0", "Version 5.1"), "CELLS 2 8\n3 0 1 2\n3 0 2 3\n",
                  "CELLS 3 6\nOFFSETS vtktypeint64\n0 3 6\nCONNECTIVITY vtktypeint64\n0 1 2 0 2 3\n");
  expect_square(parse_vtk(newer));
  std::string windows;
  for (const char letter : square_vtk) windows += letter == '\n' ? "\r\n" : std::string(1, letter);
  EXPECT_EQ(parse_vtk(windows).of_atoms, mesh.of_atoms);
}

TEST(Vtk, ProblemsAreNamedWithTheirLines) {
  const auto refused = [](const std::string& from, const std::string& to) {
    return user_error([&] { parse_vtk(with_change(square_vtk, from, to)); });
  };
  EXPECT_THAT(refused("# vtk", "# VTU"), HasSubstr("is no legacy file of VTK"));
  EXPECT_THAT(refused("ASCII", "BINARY"), HasSubstr("line 3: is BINARY and not ASCII"));
  EXPECT_THAT(refused("UNSTRUCTURED_GRID", "POLYDATA"), HasSubstr("of the kind POLYDATA"));
  EXPECT_THAT(refused("3 0 2 3", "3 0 2 4"), HasSubstr("a cell has the point 4 of 4"));
  EXPECT_THAT(refused("5\n5\n", "5\n22\n"), HasSubstr("cell 2 has the type 22 with 3 points"));
  EXPECT_THAT(refused("CELL_TYPES 2\n5\n5\n", "CELL_TYPES 1\n5\n"), HasSubstr("1 types for 2 cells"));
  EXPECT_THAT(refused("POINT_DATA 4", "POINT_DATA 3"), HasSubstr("3 rows for 4 points"));
  EXPECT_THAT(refused("VECTORS velocity", "VECTORS temperature"), HasSubstr("the data temperature are there twice"));
  EXPECT_THAT(refused("flag 1 4", "flag 1 3"), HasSubstr("flag has 3 rows"));
  EXPECT_THAT(refused("flag 1 4 int", "flag 1 4 string"), HasSubstr("flag has texts"));
  EXPECT_THAT(refused("VECTORS", "GLYPHS"), HasSubstr("of the kind GLYPHS"));
  EXPECT_THAT(refused("0 0 1 1\n", "0 0 1\n"), HasSubstr("where a number should be"));
  EXPECT_THAT(user_error([] { parse_vtk("# vtk DataFile Version 3.0\nt\nASCII\nDATASET UNSTRUCTURED_GRID\n"); }),
              HasSubstr("has no POINTS"));
  EXPECT_THAT(refused("POINTS 4", "POINT_DATA 0\nSCALARS u int\nPOINTS 4"),
              HasSubstr("line 7: POINTS are there twice"));
}

TEST(GraphsDataset, MeshesKeepTheirEdges) {
  const TemporaryFolder folder;
  folder.write("in/a.msh", square_41);
  folder.write("in/b.vtk", with_change(with_change(square_vtk, "SCALARS temperature double 1", "SCALARS t double 1"),
                                       "FIELD FieldData 2\nload 2 4", "FIELD FieldData 2\nheat 2 4"));
  prepare_graphs({folder / "in"}, folder / "p");
  const GraphsDataset dataset(folder / "p");
  EXPECT_EQ(dataset.structures(), 2);
  EXPECT_EQ(dataset.description().edges, 20);
  EXPECT_EQ(dataset.structure(1).receivers.size(), 10u);
  EXPECT_THAT(refused_graphs(folder, {folder / "in/a.msh", folder.write("c.vtk", "# vtk DataFile Version 3.0\n")}),
              HasSubstr("c.vtk: ends after line"));
  EXPECT_THAT(refused_graphs(folder, {folder / "in/a.msh", folder.write("d.xyz", "1\n\nH 0 0 0\n")}),
              HasSubstr("gives no edges, as the structures before it do"));
}

}  // namespace
}  // namespace terrace::data
