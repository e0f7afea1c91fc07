// Torch's flash attention on the emulated device: exact attention in fp32, row by row of the probabilities' matrix.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "tests/gpu_emulation/device/host_tensors.h"

namespace gpu_emulation {
namespace {

struct Settings {
  bool is_causal;
  double scale;
  std::optional<int64_t> before, after;  // keys that a query sees on either side of its own
};

Settings settings_of(const at::Tensor& query, bool is_causal, std::optional<double> scale,
                     std::optional<int64_t> before, std::optional<int64_t> after) {
  return {is_causal, scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1)))), before, after};
}

// The sequences of [B, T, H, hd], or by their starts of [tokens, H, hd], each as [H, T, hd].
std::vector<at::Tensor> sequences_of(const at::Tensor& x, const at::Tensor& starts) {
  std::vector<at::Tensor> all;
  if (!starts.defined()) {
    for (int64_t i = 0; i < x.size(0); ++i) all.push_back(x[i].transpose(0, 1));
    return all;
  }
  const auto* const begins = starts.const_data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < starts.numel(); ++i) {
    all.push_back(x.narrow(0, begins[i], begins[i + 1] - begins[i]).transpose(0, 1));
  }
  return all;
}

// [H, T, S], with -infinity where a query does not see a key. Fewer key heads serve groups of query heads.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const Settings& settings) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)).mul_(settings.scale);
  const at::Tensor rows = at::arange(scores.size(1)).unsqueeze(1).add(scores.size(2) - scores.size(1)),
                   columns = at::arange(scores.size(2)).unsqueeze(0);
  constexpr double unseen = -std::numeric_limits<double>::infinity();
  if (settings.is_causal || (settings.after && *settings.after >= 0)) {
    const int64_t after = settings.is_causal ? 0 : *settings.after;
    scores.masked_fill_(columns.gt(rows.add(after)), unseen);
  }
  if (settings.before && *settings.before >= 0) scores.masked_fill_(columns.lt(rows.sub(*settings.before)), unseen);
  return scores;
}

at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat).contiguous(); }

at::Tensor for_query_heads(const at::Tensor& x, int64_t heads) { return x.repeat_interleave(heads / x.size(0), 0); }

using FlashResults = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check(const at::Tensor& query, double dropout) {
  TORCH_CHECK(query.element_size() == 2, "flash attention takes numbers of 16 bits");
  TORCH_CHECK(query.size(-1) % 8 == 0 && query.size(-1) <= 256, "flash attention takes no heads of ", query.size(-1));
  TORCH_CHECK(dropout == 0, "the emulated flash attention has no dropout");
}

FlashResults forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& starts_q, const std::optional<at::Tensor>& starts_k, int64_t,
                     int64_t, double dropout, bool is_causal, bool, std::optional<double> scale,
                     std::optional<int64_t> before, std::optional<int64_t> after, const std::optional<at::Tensor>&,
                     const std::optional<at::Tensor>&) {
  check(query, dropout);
  const OnHost on_host;
  HostTensors tensors;
  const Settings settings = settings_of(query, is_causal, scale, before, after);
  const at::Tensor starts = tensors.lend(starts_q.value_or(at::Tensor()));
  const at::Tensor host_query = tensors.lend(query);
  const std::vector<at::Tensor> queries = sequences_of(host_query, starts);
  const std::vector<at::Tensor> keys = sequences_of(tensors.lend(key), tensors.lend(starts_k.value_or(at::Tensor())));
  const std::vector<at::Tensor> values =
      sequences_of(tensors.lend(value), tensors.lend(starts_k.value_or(at::Tensor())));
  at::Tensor out = at::empty(host_query.sizes(), host_query.options());
  const std::vector<at::Tensor> outs = sequences_of(out, starts);
  // The layout of the logarithms is the kernel's own, as only the backward pass reads them: here [H, all queries].
  std::vector<at::Tensor> logarithms;
  for (size_t i = 0; i < queries.size(); ++i) {
    const at::Tensor q = wide(queries[i]), k = for_query_heads(wide(keys[i]), q.size(0)),
                     v = for_query_heads(wide(values[i]), q.size(0));
    const at::Tensor scores = scores_of(q, k, settings);
    logarithms.push_back(scores.logsumexp(-1));
    outs[i].copy_(at::matmul(scores.softmax(-1), v));
  }
  const at::Tensor unused = at::empty({0}, at::kLong);
  return {tensors.take_back(out), tensors.take_back(at::cat(logarithms, 1)),
          tensors.take_back(at::zeros({2}, at::kLong)), tensors.take_back(unused), tensors.take_back(at::empty({0}))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& query,
                                                        const at::Tensor& key, const at::Tensor& value,
                                                        const at::Tensor& out, const at::Tensor& logsumexp,
                                                        const at::Tensor& starts_q, const at::Tensor& starts_k, int64_t,
                                                        int64_t, double dropout, bool is_causal, const at::Tensor&,
                                                        const at::Tensor&, std::optional<double> scale,
                                                        std::optional<int64_t> before, std::optional<int64_t> after) {
  check(query, dropout);
  const OnHost on_host;
  HostTensors tensors;
  const Settings settings = settings_of(query, is_causal, scale, before, after);
  const at::Tensor host_starts_q = tensors.lend(starts_q), host_starts_k = tensors.lend(starts_k);
  const auto of_queries = [&](const at::Tensor& x) { return sequences_of(tensors.lend(x), host_starts_q); };
  const auto of_keys = [&](const at::Tensor& x) { return sequences_of(tensors.lend(x), host_starts_k); };
  const std::vector<at::Tensor> queries = of_queries(query), keys = of_keys(key), values = of_keys(value),
                                outs = of_queries(out), gradients = of_queries(gradient);
  const auto made_like = [&](const at::Tensor& x) {
    return at::zeros_like(tensors.lend(x), at::MemoryFormat::Contiguous);
  };
  const at::Tensor dq = made_like(query), dk = made_like(key), dv = made_like(value);
  const std::vector<at::Tensor> dqs = sequences_of(dq, host_starts_q), dks = sequences_of(dk, host_starts_k),
                                dvs = sequences_of(dv, host_starts_k);
  const at::Tensor logarithms = tensors.lend(logsumexp);
  int64_t begin = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    const at::Tensor q = wide(queries[i]), d_out = wide(gradients[i]);
    const int64_t heads = q.size(0), key_heads = keys[i].size(0);
    const at::Tensor k = for_query_heads(wide(keys[i]), heads), v = for_query_heads(wide(values[i]), heads);
    const at::Tensor of_rows = logarithms.narrow(1, begin, q.size(1)).unsqueeze(-1);
    begin += q.size(1);
    const at::Tensor p = scores_of(q, k, settings).sub_(of_rows).exp_();  // [H, T, S]
    const at::Tensor row_sums = d_out.mul(wide(outs[i])).sum(-1, /*keepdim=*/true);
    const at::Tensor ds = at::matmul(d_out, v.transpose(-2, -1)).sub_(row_sums).mul_(p).mul_(settings.scale);
    // Heads of queries that share a head of keys add up.
    const auto of_key_heads = [&](const at::Tensor& x) {
      return x.view({key_heads, heads / key_heads, x.size(1), x.size(2)}).sum(1);
    };
    dqs[i].copy_(at::matmul(ds, k));
    dks[i].copy_(of_key_heads(at::matmul(ds.transpose(-2, -1), q)));
    dvs[i].copy_(of_key_heads(at::matmul(p.transpose(-2, -1), d_out)));
  }
  return {tensors.take_back(dq), tensors.take_back(dk), tensors.take_back(dv)};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_flash_attention_forward", forward);
  library.impl("_flash_attention_backward", backward);
}

}  // namespace
}  // namespace gpu_emulation
