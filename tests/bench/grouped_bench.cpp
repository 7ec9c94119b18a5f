// Rates of the grouped products of experts, compared with dense products of as many FLOPs.
//
//   bench_grouped [threads [type...]]           types: f32, bf16, f16; default: all
//
// All run in turn in the same process. One dense product has the weight of one expert and the rows
// of all, so a weight is read for many rows. The other has the weights of all experts and the rows
// of one, so it moves as many bytes as the experts do. Rows are balanced, or follow Zipf's law:
// expert e has a share of 1 / (e + 1), or all are those of two experts. Each figure is the best of
// many runs, because other load can only make a run slower. With several sources, the rows of an
// expert are as many groups, as where ranks share experts.
//
// The goal is 85 % of a dense rate if each expert with rows has at least 64. The last lines count
// the products that miss it and name the slowest one, beside each of the two dense products.

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
  std::string of;
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
                  of.c_str(),
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
    std::printf("%-11s %-38s %8s %8s %8s %9s %9s\n",
                "pass",
                "shape",
                "rows ms",
                "wide ms",
                "experts",
                "of rows",
                "of wide");
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
    is_judged_ = is_judged(offsets, s.sources);
    tests::linear_memory<T> wide{
        .R = s.rows, .N = s.E * s.N, .K = s.K, .with_bias = false, .with_z = false};
    const auto overwriting = [](auto op) {
      op.accumulates = false;
      return op;
    };
    compare("forward",
            text,
            m.forward(),
            wide.forward(),
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
            wide.backward_input(),
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
            overwriting(m.backward_weight()),
            overwriting(wide.backward_weight()),
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
    rows_.print();
    wide_.print();
  }

 private:
  template <class Dense, class Grouped>
  void compare(const char* pass,
               const std::string& text,
               const Dense& rows,
               const Dense& wide,
               const Grouped& grouped) {
    double best[3] = {1e30, 1e30, 1e30}, all = 0;
    for (int i = 0; i < 3 || (all < 1 && i < 4000); ++i) {
      best[0] = std::min(best[0], seconds(rows));
      best[1] = std::min(best[1], seconds(wide));
      best[2] = std::min(best[2], seconds(grouped));
      all += best[0] + best[1] + best[2];
    }
    std::printf("%-11s %-38s %8.3f %8.3f %8.3f %8.0f%% %8.0f%%\n",
                pass,
                text.c_str(),
                best[0] * 1e3,
                best[1] * 1e3,
                best[2] * 1e3,
                100 * best[0] / best[2],
                100 * best[1] / best[2]);
    std::fflush(stdout);
    if (!is_judged_)
      return;
    rows_.add(best[0] / best[2], std::string(pass) + ", " + text);
    wide_.add(best[1] / best[2], std::string(pass) + ", " + text);
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
  tally rows_{"beside all rows with one weight"}, wide_{"beside few rows with all weights"};
  bool is_judged_ = false;  ///< whether the products in hand have the goal
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
