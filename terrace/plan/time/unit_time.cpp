// Adds up the times of a unit's operations.
#include "terrace/plan/time/unit_time.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "terrace/machine/product_time.h"

namespace terrace::plan {
namespace {

using schedule::Operation;
using schedule::TensorCollective;

// The bytes of passes over the scores, where attention writes them to memory.
double score_bytes(const Operation& one, const ComputingRank& rank) {
  if (rank.software.fused_attention) return 0;
  const auto rows = static_cast<double>(one.m * config::element_bytes(rank.precision));
  const machine::Software& software = rank.software;
  const bool differs = one.backward && software.backward_score_passes > 0;
  return (differs ? software.backward_score_passes : software.score_passes) * rows * static_cast<double>(one.n) *
         static_cast<double>(one.count);
}

// Attention whose scores are written to memory: its products, and passes over the scores.
double unfused_attention_seconds(const Operation& one, const ComputingRank& rank) {
  const machine::Device& device = rank.machine.device;
  const int64_t element_bytes = config::element_bytes(rank.precision);
  const auto seconds = [&](int64_t columns, int64_t sums) {
    Operation product = schedule::matrix_product("", one.m, columns, sums, element_bytes);
    product.bytes *= static_cast<double>(one.count);
    product.count = one.count;
    return product_seconds(product, rank.precision, device);
  };
  const double products = (one.backward ? 2 : 1) * (seconds(one.n, one.k) + seconds(one.k, one.n));
  return products + score_bytes(one, rank) / device.pass_bandwidth(rank.precision);
}

double attention_seconds(const Operation& one, const ComputingRank& rank) {
  if (!rank.software.fused_attention) return unfused_attention_seconds(one, rank);
  const machine::Device& device = rank.machine.device;
  return one.flops() / device.attention_rate(rank.precision) + device.kernel_seconds;
}

// The bytes that the activation between two products returns. An activation's own kernel reads one or two tensors of
// that size and writes one, GeGLU's two read three and write two; within a product it only writes.
double activated_bytes(const Operation& one) {
  const double passes = one.count == 0 ? 1 : one.name == "geglu" ? 5 : one.name == "swiglu" ? 3 : 2;
  return one.bytes / passes;
}

// The bytes that an operation between products reads and writes in the program. The loss is counted with the logits if
// the program states its bytes.
double element_bytes(const Operation& one, const machine::Software& software) {
  const bool activates = one.name == "gelu" || one.name == "swiglu" || one.name == "geglu";
  if (activates && software.activation_passes > 0) return software.activation_passes * activated_bytes(one);
  const bool is_loss = one.name == "cross_entropy" || one.name == "cut_cross_entropy";
  if (is_loss && software.logit_bytes > 0) return 0;
  return software.element_passes * one.bytes;
}

// Whether this program has the operation and the program that is predicted does not.
bool is_left_out(const Operation& one, const machine::Software& software) {
  return !software.copies_sequences && (one.name == "reorder" || one.name == "concatenate");
}

void add_elements(PassTime& pass, double bytes, const ComputingRank& rank) {
  const machine::Device& device = rank.machine.device;
  pass.of(TimeKind::elements) +=
      bytes / (rank.software.passes_like_copies ? device.memory_bandwidth : device.pass_bandwidth(rank.precision));
  pass.memory_bytes += bytes;
}

// Adds the loss of a program that states its bytes for each logit.
void add_loss(PassTime& forward, const std::vector<Operation>& operations, const ComputingRank& rank) {
  for (const Operation& one : operations) {
    if (one.name != "logits") continue;
    const double logits = static_cast<double>(one.m) * static_cast<double>(one.n) * static_cast<double>(one.count);
    add_elements(forward, rank.software.logit_bytes * logits, rank);
  }
}

// One of several products that are computed one after another.
Operation single(Operation products) {
  products.bytes /= static_cast<double>(products.count);
  products.count = 1;
  return products;
}

// The factors of products in fp8 that a pass quantizes, each once, in rows and in columns: a forward input and weight,
// an input gradient the output's gradient. A weight gradient multiplies what these two have quantized.
enum class Quantizes { both_factors, first_factor, nothing };

// The product with factors of one byte an element.
Operation with_fp8_factors(Operation product, config::Precision precision) {
  const double elements = static_cast<double>(product.k) * static_cast<double>(product.m + product.n);
  product.bytes -= elements * static_cast<double>(product.count * (config::element_bytes(precision) - 1));
  return product;
}

// Adds the passes that read the factors and write them twice with one byte an element; returns their kernels.
double add_quantization(PassTime& time, const Operation& product, Quantizes quantizes, const ComputingRank& rank) {
  if (quantizes == Quantizes::nothing) return 0;
  const bool both = quantizes == Quantizes::both_factors;
  const auto rows = static_cast<double>(product.m + (both ? product.n : 0));
  const double elements = rows * static_cast<double>(product.k) * static_cast<double>(product.count);
  const double bytes = elements * static_cast<double>(config::element_bytes(rank.precision) + 2);
  const auto kernels = static_cast<double>(product.count * (both ? 2 : 1));
  add_elements(time, bytes, rank);
  time.of(TimeKind::elements) += kernels * rank.machine.device.kernel_seconds;
  time.element_bytes += bytes;
  return kernels;
}

// Adds a product in fp8 with what is quantized for it; returns the kernels.
double add_fp8_product(PassTime& time, const Operation& one, Quantizes quantizes, const ComputingRank& rank) {
  const Operation product = with_fp8_factors(one, rank.precision), each = single(product);
  const auto count = static_cast<double>(one.count);
  const machine::Device& device = rank.machine.device;
  time.of(TimeKind::products) +=
      count * machine::product_seconds({.m = each.m, .n = each.n, .k = each.k, .bytes = each.bytes},
                                       device.fp8.achievable, device);
  time.product_flops += product.flops();
  time.product_bytes += product.bytes;
  time.memory_bytes += product.bytes;
  return count + add_quantization(time, one, quantizes, rank);
}

PassTime pass_time(const std::vector<Operation>& operations, double kernels, const ComputingRank& rank,
                   Quantizes quantizes = Quantizes::both_factors) {
  const machine::Device& device = rank.machine.device;
  PassTime time;
  for (const Operation& one : operations) {
    if (is_left_out(one, rank.software)) continue;
    const auto count = static_cast<double>(one.count);
    switch (one.kind) {
      case Operation::Kind::product:
        if (rank.products == BlockProducts::fp8) {
          kernels += add_fp8_product(time, one, quantizes, rank);
          break;
        }
        time.of(TimeKind::products) += count * product_seconds(single(one), rank.precision, device);
        time.product_flops += one.flops();
        time.product_bytes += one.bytes;
        time.memory_bytes += one.bytes;
        kernels += count;
        break;
      case Operation::Kind::attention:
        time.of(TimeKind::attention) += attention_seconds(one, rank);
        time.attention_flops += one.flops();
        time.attention_bytes += one.bytes;
        time.memory_bytes += one.bytes + score_bytes(one, rank);
        kernels += 1;
        break;
      case Operation::Kind::elements:
        add_elements(time, element_bytes(one, rank.software), rank);
        time.of(TimeKind::elements) += count * device.kernel_seconds;
        time.element_bytes += one.bytes;
        break;
    }
  }
  time.of(TimeKind::launches) = std::max(0.0, kernels * device.launch_seconds - time.total());
  return time;
}

// Adds the seconds of the collectives to those of the pass, and of them those that computation waits for.
void add_collectives(PassTime& pass, const std::vector<TensorCollective>& collectives, const PassTime& weight_gradient,
                     const ComputingRank& rank) {
  if (!rank.tensor_collective) return;
  double exposed = 0;
  for (const TensorCollective& one : collectives) {
    const auto count = static_cast<double>(one.count);
    const double each = rank.tensor_collective(one.kind, one.bytes / count);
    double hidden = 0;
    if (rank.software.sums_while_computing && one.meanwhile == TensorCollective::Meanwhile::next_piece) {
      hidden = std::min((count - 1) * each, pass.of(TimeKind::products));
    } else if (rank.software.sums_while_computing && one.meanwhile == TensorCollective::Meanwhile::weight_gradients) {
      hidden = std::min(count * each, weight_gradient.total());
    }
    pass.tensor_seconds += count * each;
    exposed += count * each - hidden;
  }
  pass.of(TimeKind::tensor_sums) = exposed;
}

// Adds the seconds of transfers among context ranks, and of them those that attention does not hide.
void add_transfers(PassTime& pass, const std::vector<schedule::ContextTransfer>& transfers, const ComputingRank& rank) {
  if (!rank.context_transfer) return;
  double beside = 0, share = 0, exposed = 0;
  for (const schedule::ContextTransfer& one : transfers) {
    const auto count = static_cast<double>(one.count);
    const double seconds = count * rank.context_transfer(one.kind, one.bytes / count);
    pass.context_seconds += seconds;
    (one.beside_attention > 0 ? beside : exposed) += seconds;
    share = std::max(share, one.beside_attention);
  }
  pass.of(TimeKind::context) = exposed + std::max(0.0, beside - share * pass.of(TimeKind::attention));
}

// Adds the seconds of exchanges among expert ranks, beside which nothing is computed.
void add_exchanges(PassTime& pass, const std::vector<schedule::ExpertExchange>& exchanges, const ComputingRank& rank) {
  if (!rank.expert_exchange) return;
  for (const schedule::ExpertExchange& one : exchanges) {
    const auto count = static_cast<double>(one.count);
    const double seconds = count * rank.expert_exchange(one.bytes / count);
    pass.expert_seconds += seconds;
    pass.of(TimeKind::experts) += seconds;
  }
}

// The time of the part of a forward that selective recompute repeats.
PassTime selectively_repeated(const schedule::Operations& operations, const ComputingRank& rank) {
  const std::vector<Operation>& forward = operations.forward;
  const auto time_of = [&](std::initializer_list<Operation::Kind> kinds, double kernels) {
    std::vector<Operation> repeated;
    std::ranges::copy_if(forward, std::back_inserter(repeated),
                         [&](const Operation& one) { return std::ranges::find(kinds, one.kind) != kinds.end(); });
    return pass_time(repeated, kernels, rank);
  };
  const double share = rank.software.selective_products;
  if (share == 0) {
    PassTime time = time_of({Operation::Kind::attention}, 0);
    add_transfers(time, operations.forward_transfers, rank);
    return time;
  }
  PassTime time = time_of({Operation::Kind::product}, 0);
  time *= share;
  time += time_of({Operation::Kind::elements}, rank.software.forward_kernels);
  return time;
}

// A forward without a layer's last product, of a feed-forward or vision transformer's, and what comes behind it.
PassTime repeated_to_last_product(const schedule::Operations& operations, const ComputingRank& rank) {
  const auto last = std::ranges::find(operations.forward, std::string_view("ffn second"), &Operation::name);
  std::vector<TensorCollective> collectives = operations.forward_collectives;
  if (last != operations.forward.end() && !collectives.empty()) collectives.pop_back();
  PassTime time = pass_time({operations.forward.begin(), last}, rank.software.forward_kernels, rank);
  add_loss(time, operations.forward, rank);
  add_collectives(time, collectives, {}, rank);
  add_transfers(time, operations.forward_transfers, rank);
  add_exchanges(time, operations.forward_exchanges, rank);
  return time;
}

}  // namespace

std::string_view name_of(TimeKind kind) {
  constexpr std::array<std::string_view, num_time_kinds> names = {"products",    "attention", "elements", "launches",
                                                                  "tensor sums", "context",   "experts"};
  return names[static_cast<size_t>(kind)];
}

double PassTime::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

double PassTime::computing() const {
  return total() - of(TimeKind::tensor_sums) - of(TimeKind::context) - of(TimeKind::experts);
}

double PassTime::flops_of(TimeKind kind) const {
  return kind == TimeKind::products ? product_flops : kind == TimeKind::attention ? attention_flops : 0;
}

double PassTime::bytes_of(TimeKind kind) const {
  return kind == TimeKind::products    ? product_bytes
         : kind == TimeKind::attention ? attention_bytes
         : kind == TimeKind::elements  ? element_bytes
                                       : 0;
}

PassTime& PassTime::operator*=(double factor) {
  for (double& one : seconds) one *= factor;
  for (double* one : {&product_flops, &attention_flops, &product_bytes, &attention_bytes, &element_bytes, &memory_bytes,
                      &tensor_seconds, &context_seconds, &expert_seconds})
    *one *= factor;
  return *this;
}

PassTime& PassTime::operator+=(const PassTime& other) {
  for (size_t i = 0; i < num_time_kinds; ++i) seconds[i] += other.seconds[i];
  product_flops += other.product_flops;
  attention_flops += other.attention_flops;
  product_bytes += other.product_bytes;
  attention_bytes += other.attention_bytes;
  element_bytes += other.element_bytes;
  memory_bytes += other.memory_bytes;
  tensor_seconds += other.tensor_seconds;
  context_seconds += other.context_seconds;
  expert_seconds += other.expert_seconds;
  return *this;
}

double product_seconds(const Operation& products, config::Precision precision, const machine::Device& device) {
  return machine::product_seconds(
      {.m = products.m, .n = products.n, .k = products.k, .count = products.count, .bytes = products.bytes}, precision,
      device);
}

UnitTime unit_time(const schedule::Operations& operations, config::Recompute recompute, const ComputingRank& rank) {
  UnitTime time;
  time.weight_gradient = pass_time(operations.weight_gradient, 0, rank, Quantizes::nothing);
  time.forward = pass_time(operations.forward, rank.software.forward_kernels, rank);
  add_loss(time.forward, operations.forward, rank);
  add_collectives(time.forward, operations.forward_collectives, time.weight_gradient, rank);
  add_transfers(time.forward, operations.forward_transfers, rank);
  add_exchanges(time.forward, operations.forward_exchanges, rank);
  time.input_gradient =
      pass_time(operations.input_gradient, rank.software.backward_kernels, rank, Quantizes::first_factor);
  add_collectives(time.input_gradient, operations.backward_collectives, time.weight_gradient, rank);
  add_transfers(time.input_gradient, operations.backward_transfers, rank);
  add_exchanges(time.input_gradient, operations.backward_exchanges, rank);
  if (recompute == config::Recompute::full) {
    time.input_gradient += rank.software.stops_recompute ? repeated_to_last_product(operations, rank) : time.forward;
  } else if (recompute == config::Recompute::selective) {
    time.input_gradient += selectively_repeated(operations, rank);
  }
  return time;
}

}  // namespace terrace::plan
