// Speaks messages of twelve letters, with numbers in the byte order of the machine.
#include "terrace/predict/force_driver.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/ensemble/uncertainty.h"
#include "terrace/predict/potential_outputs.h"

namespace terrace::predict {
namespace {

// CODATA 2018.
constexpr double electronvolts_of_hartree = 27.211386245988, angstrom_of_bohr = 0.529177210903;
constexpr size_t header_bytes = 12;
constexpr int wait_milliseconds = 200;

// The connection, closed at its end.
class Connection {
 public:
  Connection(const std::filesystem::path& path, const DriverOptions& options) : options_(options) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.string().size() >= sizeof address.sun_path) {
      throw UserError::of("the path of the socket {} has more than {} letters; give a shorter one", path.string(),
                          sizeof address.sun_path - 1);
    }
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.connect_seconds);
    for (;;) {
      socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (socket_ < 0) throw std::system_error(errno, std::generic_category(), "socket");
      if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
      const int error = errno;
      ::close(socket_);
      const bool stops = options.stops && options.stops();
      if (stops || std::chrono::steady_clock::now() > end || (error != ENOENT && error != ECONNREFUSED)) {
        throw UserError(stops ? std::string("stopped on request")
                              : fmt::format("nobody listens at {}: {}; start the program that moves the atoms first",
                                            path.string(), std::generic_category().message(error)),
                        stops ? ExitCode::stopped : ExitCode::bad_input);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_milliseconds));
    }
  }
  Connection(const Connection&) = delete;
  ~Connection() { ::close(socket_); }

  // False where the other program has closed the connection before the first byte.
  bool receive(void* bytes, size_t count) {
    auto* to = static_cast<std::byte*>(bytes);
    for (size_t done = 0; done < count;) {
      if (options_.stops && options_.stops()) throw UserError("stopped on request", ExitCode::stopped);
      pollfd ready = {socket_, POLLIN, 0};
      if (::poll(&ready, 1, wait_milliseconds) <= 0) continue;
      const ssize_t got = ::recv(socket_, to + done, count - done, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 && done == 0) return false;
      if (got <= 0)
        throw UserError("the program that moves the atoms broke off in the middle of a message", ExitCode::peer_failed);
      done += static_cast<size_t>(got);
    }
    return true;
  }
  // Throws where the connection ends.
  template <typename Number>
  void receive_all(std::span<Number> numbers) {
    if (!receive(numbers.data(), numbers.size_bytes())) {
      throw UserError("the program that moves the atoms broke off in the middle of a message", ExitCode::peer_failed);
    }
  }
  template <typename Number>
  Number receive_number() {
    Number number = {};
    receive_all(std::span<Number>(&number, 1));
    return number;
  }
  // Receives a header; none at the end of the connection.
  std::optional<std::string> receive_header() {
    std::array<char, header_bytes> letters = {};
    if (!receive(letters.data(), letters.size())) return std::nullopt;
    std::string text(letters.begin(), letters.end());
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  void send(const void* bytes, size_t count) {
    const auto* from = static_cast<const std::byte*>(bytes);
    for (size_t done = 0; done < count;) {
      const ssize_t sent = ::send(socket_, from + done, count - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0)
        throw UserError("the program that moves the atoms has closed the connection", ExitCode::peer_failed);
      done += static_cast<size_t>(sent);
    }
  }
  template <typename Number>
  void send_all(std::span<const Number> numbers) {
    send(numbers.data(), numbers.size_bytes());
  }
  void send_header(std::string text) {
    text.resize(header_bytes, ' ');
    send(text.data(), text.size());
  }

 private:
  const DriverOptions& options_;
  int socket_ = -1;
};

// The answer to the program that moves the atoms, in the protocol's units.
struct Answer {
  double energy = 0;
  std::vector<double> forces = {};
  std::array<double, 9> virial = {};
  std::string text = {};
};

class Driver {
 public:
  Driver(const std::vector<const GraphPredictor*>& models, data::Structure structure)
      : models_(models), structure_(std::move(structure)) {
    for (const GraphPredictor* model : models) potentials_.push_back(potential_outputs(*model));
  }

  int64_t serve(Connection& connection) {
    int64_t answered = 0;
    while (const std::optional<std::string> header = connection.receive_header()) {
      if (*header == "EXIT") break;
      if (*header == "STATUS") {
        connection.send_header(answer_ ? "HAVEDATA" : "READY");
      } else if (*header == "INIT") {
        connection.receive_number<int32_t>();
        std::vector<char> text(static_cast<size_t>(std::max(0, connection.receive_number<int32_t>())));
        connection.receive_all(std::span<char>(text));
      } else if (*header == "POSDATA") {
        receive_positions(connection);
        answer_ = computed();
      } else if (*header == "GETFORCE" && answer_) {
        send_answer(connection, *std::exchange(answer_, std::nullopt));
        ++answered;
      } else {
        throw UserError(
            fmt::format("the program that moves the atoms sent \"{}\", which the protocol has not here", *header),
            ExitCode::peer_failed);
      }
    }
    return answered;
  }

 private:
  void receive_positions(Connection& connection) {
    std::array<double, 9> cell = {}, inverse = {};
    connection.receive_all(std::span<double>(cell));
    connection.receive_all(std::span<double>(inverse));
    const auto atoms = connection.receive_number<int32_t>();
    if (atoms != structure_.atoms()) {
      throw UserError::of("the program that moves the atoms has {}, and the structure of --data {}",
                          counted(atoms, "atom"), structure_.atoms());
    }
    connection.receive_all(std::span<double>(structure_.positions));
    for (double& position : structure_.positions) position *= angstrom_of_bohr;
    // The protocol's columns are the vectors of the cell.
    for (size_t vector = 0; vector < 3; ++vector) {
      for (size_t axis = 0; axis < 3; ++axis) {
        structure_.cell.vectors[vector][axis] = angstrom_of_bohr * cell[3 * axis + vector];
      }
    }
  }

  Answer computed() const {
    std::vector<std::vector<double>> energies, forces, stresses;
    for (size_t i = 0; i < models_.size(); ++i) {
      const GraphPrediction prediction = models_[i]->predict({&structure_, 1});
      const auto in_electronvolts = [&](const std::string& output) {
        std::vector<double> values = prediction.values.find(output)->second;
        for (double& value : values) value *= potentials_[i].electronvolts;
        return values;
      };
      energies.push_back(in_electronvolts(potentials_[i].energy));
      forces.push_back(in_electronvolts(potentials_[i].forces));
      if (!potentials_[i].stress.empty()) stresses.push_back(in_electronvolts(potentials_[i].stress));
    }
    const ensemble::Distribution energy = ensemble::combined(energies, {});
    Answer answer{.energy = energy.mean[0] / electronvolts_of_hartree, .forces = ensemble::combined(forces, {}).mean};
    for (double& force : answer.forces) force *= angstrom_of_bohr / electronvolts_of_hartree;
    const double volume = data::volume_of(structure_.cell);
    if (stresses.size() == models_.size() && volume > 0) {
      // The virial is minus the derivative of the energy by the strain.
      const std::vector<double> stress = ensemble::combined(stresses, {}).mean;
      for (size_t i = 0; i < 9; ++i) {
        answer.virial[i] = -stress[i] * volume / electronvolts_of_hartree;
      }
    }
    if (models_.size() > 1) {
      Json all = Json::array();
      for (const std::vector<double>& one : energies) all.push_back(one[0]);
      answer.text = Json{{"energies", all}, {"energy_std", energy.deviation[0]}}.dump();
    }
    return answer;
  }

  void send_answer(Connection& connection, const Answer& answer) const {
    const auto atoms = static_cast<int32_t>(structure_.atoms()), letters = static_cast<int32_t>(answer.text.size());
    connection.send_header("FORCEREADY");
    connection.send_all(std::span<const double>(&answer.energy, 1));
    connection.send_all(std::span<const int32_t>(&atoms, 1));
    connection.send_all(std::span<const double>(answer.forces));
    connection.send_all(std::span<const double>(answer.virial));
    connection.send_all(std::span<const int32_t>(&letters, 1));
    connection.send_all(std::span<const char>(answer.text));
  }

  const std::vector<const GraphPredictor*>& models_;
  data::Structure structure_;
  std::vector<PotentialOutputs> potentials_;
  std::optional<Answer> answer_;
};

}  // namespace

std::filesystem::path driver_socket(const std::string& name) {
  return name.find('/') == std::string::npos ? std::filesystem::path("/tmp/ipi_" + name) : std::filesystem::path(name);
}

int64_t drive(const std::vector<const GraphPredictor*>& models, data::Structure structure,
              const DriverOptions& options) {
  TERRACE_CHECK(!models.empty(), "no model");
  Driver driver(models, std::move(structure));
  Connection connection(options.socket, options);
  return driver.serve(connection);
}

}  // namespace terrace::predict
