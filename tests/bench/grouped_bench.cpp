// Rates of the grouped products of experts, compared with one dense product of as many rows.
//
//   bench_grouped [threads [type...]]           types: f32, bf16, f16; default: all
//
// Both run in turn in the same process: the dense product has the weight of one expert and the rows
// of all. Rows are balanced, or follow Zipf's law: expert e has a share of 1 / (e + 1), or all are
// those of two experts. Each figure is the best of many runs, because other load can only make a
// run slower. With several sources, the rows of an expert are as many groups, as where ranks share
// experts.
//
// The goal is 85 % of the dense rate if each expert with rows has at least 64. The last lines count
// the products that miss it and name the slowest one: first those of one source, then the others.

#include "kernels/backend/backend.hpp"
#include "kernels/op/every_op.hpp"
#include "tests/support/ops.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using kernels::backend;

namespace {

constexpr double goal = 0.85;
constexpr std::int64_t goal_rows = 64;

enum class routing { balanced, zipf, two_experts };

struct shape {
  std::int64_t E, rows, N, K;  ///< rows: of an expert, on average
  routing by = routing::balanced;
  std::int64_t sources = 1;  ///< groups of an expert
};

double weight_of(routing by, std::int64_t e) {
  switch (by) {
    case routing::zipf:
      return 1 / double(e + 1);
    case routing::two_experts:
      return e < 2 ? 1 : 0;
    case routing::balanced:
      break;
  }
  return 1;
}

std::vector<std::int64_t> offsets_of(const shape& s) {
  double all = 0;
  for (std::int64_t e = 0; e < s.E; ++e)
    all += weight_of(s.by, e);
  std::vector<std::int64_t> out{0};
  double sum = 0;
  for (std::int64_t e = 0; e < s.E; ++e) {
    sum += weight_of(s.by, e);
    const std::int64_t begin = out.back();
    const auto end = std::int64_t(double(s.E * s.rows) * sum / all + 0.5);
    for (std::int64_t i = 1; i <= s.sources; ++i)
      out.push_back(begin + (end - begin) * i / s.sources);
  }
  return out;
}

/// True if each expert with rows has enough of them for the goal.
bool is_judged(const std::vector<std::int64_t>& offsets, std::int64_t sources) {
  const auto each = std::size_t(sources);
  for (std::size_t g = each; g < offsets.size(); g += each)
    if (const auto rows = offsets[g] - offsets[g - each]; rows > 0 && rows < goal_rows)
      return false;
  return true;
}

/// Verdict over the judged products.
struct tally {
  const char* sources;
  int all = 0, missed = 0;
  double least = 1e30;  ///< rate
  std::string slowest = {};

  void add(double rate, const std::string& what) {
    ++all;
    missed += rate < goal ? 1 : 0;
    if (rate < least) {
      least = rate;
      slowest = what;
    }
  }
  void print() const {
    if (all > 0)
      std::printf("%s: %d of %d products are below %.0f%%; the slowest: %s, %.0f%%\n",
                  sources,
                  missed,
                  all,
                  100 * goal,
                  slowest.c_str(),
                  100 * least);
  }
};

class bench {
 public:
  explicit bench(int threads) : threads_(threads) {
    std::printf("%s, threads %d\n\n", kernels::instruction_set().c_str(), threads_);
    std::printf("%-26s %-34s %10s %10s %6s\n", "pass", "shape", "dense ms", "grouped ms", "rate");
  }

  template <class T>
  void products(const shape& s) {
    const auto offsets = offsets_of(s);
    std::vector<std::int32_t> experts;
    for (std::int64_t g = 0; g < s.E * s.sources; ++g)
      experts.push_back(std::int32_t(g / s.sources));
    const kernels::row_groups groups{offsets.data(), experts.data(), s.E * s.sources};
    const std::int64_t R = s.E * s.rows;
    tests::linear_memory<T> m{.R = R, .N = s.N, .K = s.K, .with_bias = false, .with_z = false};
    const auto weight = tests::normal<T>(std::size_t(s.E * s.N * s.K), 9);
    std::vector<float> dweight(weight.size());
    std::string text = std::to_string(s.E) + " x " + std::to_string(s.rows) + " x "
                       + std::to_string(s.N) + " x " + std::to_string(s.K);
    text += std::is_same_v<T, float> ? "" : std::is_same_v<T, kernels::bf16> ? " bf16" : " f16";
    text += s.by == routing::zipf ? " Zipf" : s.by == routing::two_experts ? " two" : "";
    text += s.sources > 1 ? ", " + std::to_string(s.sources) + " sources" : "";
    tally_ = !is_judged(offsets, s.sources) ? nullptr : s.sources == 1 ? &one_ : &several_;
    auto dense = m.backward_weight();
    dense.accumulates = false;
    compare("forward",
            text,
            m.forward(),
            kernels::grouped_linear_forward<T>{.y = m.y.data(),
                                               .x = m.x.data(),
                                               .weight = weight.data(),
                                               .bias = nullptr,
                                               .groups = groups,
                                               .R = R,
                                               .E = s.E,
                                               .N = s.N,
                                               .K = s.K});
    compare("backward I",
            text,
            m.backward_input(),
            kernels::grouped_linear_backward_input<T>{.dx = m.dx.data(),
                                                      .dy = m.dz.data(),
                                                      .weight = weight.data(),
                                                      .groups = groups,
                                                      .R = R,
                                                      .E = s.E,
                                                      .N = s.N,
                                                      .K = s.K});
    compare("backward W",
            text,
            dense,
            kernels::grouped_linear_backward_weight<T>{.dweight = dweight.data(),
                                                       .dbias = nullptr,
                                                       .dy = m.dz.data(),
                                                       .x = m.x.data(),
                                                       .groups = groups,
                                                       .R = R,
                                                       .E = s.E,
                                                       .N = s.N,
                                                       .K = s.K,
                                                       .accumulates = false});
  }

  void end() const {
    std::printf("\n");
    one_.print();
    several_.print();
  }

 private:
  template <class Dense, class Grouped>
  void compare(const char* pass, const std::string& text, const Dense& a, const Grouped& b) {
    double dense = 1e30, grouped = 1e30, all = 0;
    for (int i = 0; i < 3 || (all < 1 && i < 4000); ++i) {
      dense = std::min(dense, seconds(a));
      grouped = std::min(grouped, seconds(b));
      all += dense + grouped;
    }
    const double rate = dense / grouped;
    std::printf("%-26s %-34s %10.3f %10.3f %5.0f%%%s\n",
                pass,
                text.c_str(),
                dense * 1e3,
                grouped * 1e3,
                100 * rate,
                tally_ && rate < goal ? "  misses the goal" : "");
    std::fflush(stdout);
    if (tally_)
      tally_->add(rate, std::string(pass) + ", " + text);
  }

  /// As a stream: the scratch is computed each time.
  template <class Op>
  double seconds(const Op& op) {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    const std::size_t bytes = kernels::scratch(backend::cpu, op, threads_);
    if (bytes > size_) {
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      size_ = bytes;
    }
    kernels::run(backend::cpu, op, {threads_, {memory_.get(), bytes}});
    return std::chrono::duration<double>(clock::now() - start).count();
  }

  struct free_memory {
    void operator()(std::byte* p) const { std::free(p); }
  };

  int threads_;
  std::unique_ptr<std::byte, free_memory> memory_;
  std::size_t size_ = 0;
  tally one_{"one source"}, several_{"several sources"};
  tally* tally_ = nullptr;  ///< of the products in hand; null: no goal
};

// Both products of experts of width 384 with SwiGLU; of Qwen3-30B-A3B on one of 8 expert ranks; of
// width 1,024, also of 8 sources; and many small ones.
template <class T>
void all_shapes(bench& b) {
  for (const auto by : {routing::balanced, routing::zipf})
    for (const std::int64_t rows : {16, 64, 256}) {
      b.products<T>({8, rows, 1536, 384, by});
      b.products<T>({8, rows, 384, 768, by});
      b.products<T>({8, rows, 2048, 1024, by});
      b.products<T>({8, rows, 2048, 1024, by, 8});
      b.products<T>({64, rows, 512, 512, by});
    }
  for (const std::int64_t rows : {64, 256}) {
    b.products<T>({16, rows, 1536, 2048});
    b.products<T>({16, rows, 2048, 768});
    b.products<T>({16, rows, 2048, 768, routing::zipf});
    b.products<T>({8, rows, 1536, 384, routing::two_experts});
    b.products<T>({8, rows, 384, 768, routing::two_experts});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> types(argv + std::min(argc, 2), argv + argc);
  constexpr std::array all{"f32", "bf16", "f16"};
  for (const auto& type : types)
    if (std::find(all.begin(), all.end(), type) == all.end()) {
      std::fprintf(stderr, "bench_grouped: no type '%s': give f32, bf16 or f16\n", type.c_str());
      return 2;
    }
  bench b(argc > 1 ? std::atoi(argv[1]) : 1);
  const auto asks = [&](const char* type) {
    return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
  };
  if (asks("f32"))
    all_shapes<float>(b);
  if (asks("bf16"))
    all_shapes<kernels::bf16>(b);
  if (asks("f16"))
    all_shapes<kernels::f16>(b);
  b.end();
}
