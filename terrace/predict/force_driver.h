// Gives energies and forces to another program that moves atoms, by i-PI's protocol for drivers (Kapil et al., Comput.
// Phys. Commun. 236, 214, 2019): ASE's SocketIOCalculator, i-PI, and others speak it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "terrace/data/graphs/structures/structure.h"
#include "terrace/predict/graph_predictor.h"

namespace terrace::predict {

struct DriverOptions {
  std::filesystem::path socket = {};  // a Unix socket on which the other program listens
  double connect_seconds = 60;        // for which it is waited
  std::function<bool()> stops = {};
};

// The path of the socket that programs mean by a name: /tmp/ipi_NAME; a path with a slash stands for itself.
std::filesystem::path driver_socket(const std::string& name);

// Connects and answers until the other program ends it; returns how often it answered. The other program gives cell and
// positions; elements and periodicity are those of `structure`. Energies are in eV and lengths in angstrom, or in the
// units that the data of the models declare, and converted to the protocol's units. Of several models the answer is the
// mean, and the further text of each answer is JSON with the energy of each and their spread: {"energies": [..],
// "energy_std": ..}. The virial is 0 without a stress and of a cell without a volume. Throws UserError where the models
// give no energy with forces, where nobody listens, and where the other program has another number of atoms or breaks
// off.
int64_t drive(const std::vector<const GraphPredictor*>& models, data::Structure structure,
              const DriverOptions& options);

}  // namespace terrace::predict
