// Tests which requests are refused for the memory that they take, and that the value named instead is accepted.
#include "terrace/generate/memory_check.h"

#include <gmock/gmock.h>

#include "tests/generate/tiny_models.h"

namespace terrace::generate {
namespace {

using testing::HasSubstr;

// Keys and values of 2 layers with 4 heads of 8 numbers, in fp32.
constexpr double token_bytes = 2 * 2 * 4 * 8 * 4;

struct MemoryCheck : testing::Test {
  std::string problem(const Request& request, double beside_weights, FreeMemory free = {}) const {
    double weights = 0;
    for (const nn::Parameter* parameter : model->parameters()) {
      weights += static_cast<double>(parameter->value.nbytes());
    }
    (free.on_gpu ? free.gpu : free.machine) += weights + beside_weights;
    return memory_problem(whole(gpt2_like()), *model, request, free);
  }

  std::unique_ptr<models::Model> model = build(gpt2_like());
  Request request{.prompts = {{1, 2, 3}}, .max_tokens = 8, .sampling = {}};
};

TEST_F(MemoryCheck, AcceptsWhatFits) {
  EXPECT_EQ(problem(request, 1e6), "");
  EXPECT_EQ(
      memory_problem(whole(gpt2_like()), *model, {.prompts = {{1}}, .samples = int64_t{1} << 60, .sampling = {}}, {}),
      "")
      << "memory is unknown";
}

TEST_F(MemoryCheck, NamesTheLargestNumberOfSamples) {
  request.samples = 100'000'000'000;
  const std::string refusal = problem(request, 1e6);
  EXPECT_THAT(refusal, HasSubstr("--samples 100000000000 takes "));
  EXPECT_THAT(refusal, HasSubstr(" for 100,000,000,000 continuations of up to 8 tokens, and "));
  // 16 slots of 3 + 8 - 1 cached tokens; a continuation has its tokens, its object and 64 bytes.
  const double kept = 1e6 - 16 * 10 * token_bytes;
  const auto most = static_cast<int64_t>(kept / (8 * 8 + sizeof(Continuation) + 64));
  EXPECT_THAT(refusal, HasSubstr(fmt::format("use --samples {} or less", most)));
  request.samples = most;
  EXPECT_EQ(problem(request, 1e6), "");
  request.samples = most + 1;
  EXPECT_NE(problem(request, 1e6), "");
}

TEST_F(MemoryCheck, NamesTheLargestBatchAndTheMostTokens) {
  request.samples = request.batch = 1000;
  // The context of 24 limits the tokens of a slot.
  request.max_tokens = 1000;
  EXPECT_THAT(problem(request, 100 * 24 * token_bytes),
              AllOf(HasSubstr("--batch 1000 takes 11.7 MiB for the keys and values of 1,000 continuations of up to 24 "
                              "tokens with their prompts, and 1.2 MiB of memory are free beside the weights"),
                    HasSubstr("use --batch 100 or less")));
  EXPECT_THAT(problem(request, 10 * token_bytes),
              AllOf(HasSubstr("--max-tokens 1000 takes 12.0 KiB"), HasSubstr("use --max-tokens 8 or less")));
}

TEST_F(MemoryCheck, CountsWhatIsOnTheGpuAndOnTheRanksOfTheMachine) {
  const FreeMemory gpu{.machine = 1e9, .on_gpu = true};
  EXPECT_THAT(problem(request, 9 * token_bytes, gpu), HasSubstr("of the GPU's memory are free"));
  EXPECT_EQ(problem(request, 10 * token_bytes, gpu), "");
  request.samples = 100;
  request.batch = 1;
  // Each of two ranks has a list of all continuations.
  const double kept = 100 * (8 * 8 + sizeof(Continuation) + 64), cached = 10 * token_bytes;
  EXPECT_EQ(problem(request, cached + kept), "");
  EXPECT_THAT(problem(request, cached + kept, {.ranks_here = 2, .ranks = 2}), HasSubstr("use --samples 50 or less"));
}

}  // namespace
}  // namespace terrace::generate
