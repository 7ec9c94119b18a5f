// Compares cuDNN's attention on a real device with the reference. Skipped if cuDNN is not
// available.

#include "kernels/cuda/attention_choice.hpp"
#include "tests/support/attention_on_device.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using kernels::plugin;
using kernels::cuda::attention_library;
using tests::judged;

namespace {

// cuDNN rounds weights and their gradients to 16 bits before each product, and the gradients of a
// key head's queries before their sum: three roundings, our kernels have one.
template <class T>
constexpr double tolerance = 3 * 0x1p-8;
template <>
constexpr double tolerance<f16> = 3 * 0x1p-11;

/// The library; skips the test if there is none.
attention_library* library() {
  auto* const chosen = kernels::cuda::chosen_attention();
  if (chosen == nullptr)
    SKIP("attention is troupe's: " << plugin::open("cudnn").reason());
  return chosen;
}

/// Limits the workspace of a backward launch, in bytes, for its lifetime.
class limit {
 public:
  explicit limit(std::int64_t bytes) { set(bytes); }
  ~limit() { set(0); }
  limit(const limit&) = delete;
  limit& operator=(const limit&) = delete;

 private:
  static void set(std::int64_t bytes) {
    plugin::open("cudnn").function<kernels::cuda::attention_limit_function>(
        "troupe_attention_limit")(bytes);
  }
};

/// Workspace bytes of one head with up to 128 queries and keys.
constexpr std::int64_t of_a_head = 2 * 128 * 128;

template <class T>
void check_close(const std::vector<T>& mine, const std::vector<double>& judge) {
  bool finite = true;
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < judge.size(); ++i) {
    finite = finite && std::isfinite(double(mine[i]));
    largest = std::max(largest, std::abs(judge[i]));
    worst = std::max(worst, std::abs(double(mine[i]) - judge[i]));
  }
  CHECK(finite);
  CHECK(worst <= tolerance<T> * largest);
}

template <class T>
void check(const tests::attention_memory<T>& m) {
  auto* const by = library();
  INFO(by->version() << ", H " << m.H << " G " << m.G << " D " << m.D << " sequences "
                     << m.query_lengths.size() << " of " << m.query_lengths[0] << " fused "
                     << m.fused << " causal " << m.causal << " window " << m.window);
  auto copy = m;
  auto forward = copy.forward();
  forward.shape.uniform = true;
  auto backward = copy.backward();
  backward.shape.uniform = true;
  if (!by->serves(forward) || !by->serves(backward)) {
    if (by->missing().empty())
      FAIL("cuDNN serves no attention of this kind here");
    SKIP("attention is troupe's, at least in part: " << by->missing());
  }
  const auto mine = attended_on_device(m, 0, true);
  const auto judge = judged(mine);
  check_close(mine.o, judge.o);
  double worst = 0;
  for (std::size_t i = 0; i < judge.lse.size(); ++i)
    worst = std::max(worst,
                     std::abs(double(mine.lse[i]) - double(judge.lse[i]))
                         / std::max(8.0, std::abs(double(judge.lse[i]))));
  // Error of sums in fp32 and of approximate exponentials and logarithms; far below a 16-bit
  // rounding.
  CHECK(worst < 2e-5);
  check_close(mine.dq, judge.dq);
  check_close(mine.dk, judge.dk);
  check_close(mine.dv, judge.dv);
  const auto again = attended_on_device(m, 0, true);
  CHECK(mine.o == again.o);
  CHECK(mine.lse == again.lse);
  if (m.same_bits)
    CHECK(mine.dq == again.dq);
  CHECK(mine.dk == again.dk);
  CHECK(mine.dv == again.dv);
}

std::vector<std::int32_t> lengths(std::size_t S, std::int32_t T) {
  return std::vector<std::int32_t>(S, T);
}

}  // namespace

TEMPLATE_TEST_CASE("cuDNN's attention agrees with the reference and has reproducible bits",
                   "[cudnn][attention]",
                   bf16,
                   f16) {
  using memory = tests::attention_memory<TestType>;
  const auto sized = [](std::size_t S,
                        std::int64_t H,
                        std::int64_t G,
                        std::int32_t T,
                        std::int64_t D,
                        bool fused) {
    return memory{.H = H,
                  .G = G,
                  .D = D,
                  .query_lengths = lengths(S, T),
                  .key_lengths = lengths(S, T),
                  .fused = fused};
  };
  check(sized(2, 3, 3, 77, 64, true));     // odd
  check(sized(1, 8, 2, 256, 128, true));   // groups become the batch
  check(sized(5, 6, 2, 64, 64, true));     // one launch per group, for all sequences
  check(sized(2, 8, 2, 300, 128, false));  // all heads have one stride
  check(sized(3, 2, 2, 130, 80, true));
}

TEMPLATE_TEST_CASE("cuDNN's attention agrees with the reference with a window and without a mask",
                   "[cudnn][attention]",
                   bf16,
                   f16) {
  using memory = tests::attention_memory<TestType>;
  memory m{.H = 4,
           .G = 4,
           .D = 64,
           .query_lengths = lengths(2, 256),
           .key_lengths = lengths(2, 256),
           .fused = true};
  m.window = GENERATE(0, 100);
  check(m);
  m.window = -1;
  m.causal = false;
  check(m);
}

// If padded keys counted with a score of 0, their weights would be infinite. Only large negative
// scores and a length with such keys in its last tile show this.
TEMPLATE_TEST_CASE("cuDNN's attention handles scores far below zero",
                   "[cudnn][attention]",
                   bf16,
                   f16) {
  const std::int32_t T = GENERATE(64, 192, 100);
  INFO("T " << T);
  tests::attention_memory<TestType> m{
      .H = 2, .G = 2, .D = 64, .query_lengths = lengths(1, T), .key_lengths = lengths(1, T)};
  for (std::size_t i = 0; i < m.q.size(); i += 64) {
    m.q[i] = TestType(1.0);
    m.k[i] = TestType(-120.0 * 8);  // the scale is 1 / 8
  }
  check(m);
}

TEMPLATE_TEST_CASE("cuDNN's attention in several launches agrees with the reference",
                   "[cudnn][attention]",
                   bf16,
                   f16) {
  library();
  using memory = tests::attention_memory<TestType>;
  const auto m = [](std::size_t S, std::int64_t H, std::int64_t G, std::int32_t T) {
    return memory{.H = H,
                  .G = G,
                  .D = 64,
                  .query_lengths = lengths(S, T),
                  .key_lengths = lengths(S, T),
                  .fused = true};
  };
  // Some launches have pointers to lse with an alignment of only 4 bytes.
  for (const std::int64_t heads : {8, 4, 2, 1}) {  // two sequences, one, halves, heads
    INFO("room for heads " << heads);
    const limit cut(heads * of_a_head);
    check(m(4, 4, 4, 77));
  }
  for (const std::int64_t heads : {9, 6, 3}) {  // three sequences of a group, two, one
    INFO("room for heads " << heads);
    const limit cut(heads * of_a_head);
    check(m(6, 6, 2, 101));
    check(m(1, 18, 6, 101));  // groups
  }
}

TEMPLATE_TEST_CASE("cuDNN's query gradients summed in order agree with the reference",
                   "[cudnn][attention]",
                   bf16,
                   f16) {
  auto* const by = library();
  const limit none(1);  // too little for a sum at once
  tests::attention_memory<TestType> m{.H = 8,
                                      .G = 2,
                                      .D = 128,
                                      .query_lengths = lengths(2, 300),
                                      .key_lengths = lengths(2, 300),
                                      .fused = true};
  auto backward = m.backward();
  backward.shape.uniform = true;
  if (!by->serves(backward))
    SKIP("this device, or " << by->version() << ", has no such sums " << by->missing());
  check(m);
}

TEMPLATE_TEST_CASE("cuDNN's query gradients summed in any order agree with the reference",
                   "[cudnn][attention]",
                   bf16,
                   f16) {
  check(tests::attention_memory<TestType>{.H = 8,
                                          .G = 2,
                                          .D = 128,
                                          .query_lengths = lengths(2, 300),
                                          .key_lengths = lengths(2, 300),
                                          .fused = true,
                                          .same_bits = false});
}
