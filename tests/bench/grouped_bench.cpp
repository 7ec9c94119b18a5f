// Rates of the grouped products of experts, compared with one dense product of as many rows.
//
//   bench_grouped [threads]
//
// Both run in turn in the same process: the dense product has the weight of one expert and the rows
// of all. Rows are balanced, or follow Zipf's law: expert e has a share of 1 / (e + 1). Each figure
// is the best of many runs, because other load can only make a run slower. With several sources,
// the rows of an expert are as many groups, as where ranks share experts.

#include "kernels/backend/backend.hpp"
#include "kernels/op/every_op.hpp"
#include "tests/support/ops.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

using namespace troupe;
using kernels::backend;

namespace {

struct shape {
  std::int64_t E, rows, N, K;  ///< rows: of an expert, on average
  bool zipf;
  std::int64_t sources = 1;  ///< groups of an expert
};

std::vector<std::int64_t> offsets_of(const shape& s) {
  double all = 0;
  for (std::int64_t e = 0; e < s.E; ++e)
    all += s.zipf ? 1 / double(e + 1) : 1;
  std::vector<std::int64_t> out{0};
  double sum = 0;
  for (std::int64_t e = 0; e < s.E; ++e) {
    sum += s.zipf ? 1 / double(e + 1) : 1;
    const std::int64_t begin = out.back();
    const auto end = std::int64_t(double(s.E * s.rows) * sum / all + 0.5);
    for (std::int64_t i = 1; i <= s.sources; ++i)
      out.push_back(begin + (end - begin) * i / s.sources);
  }
  return out;
}

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
    text += s.zipf ? " Zipf" : "";
    text += s.sources > 1 ? ", " + std::to_string(s.sources) + " sources" : "";
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

 private:
  template <class Dense, class Grouped>
  void compare(const char* pass, const std::string& text, const Dense& a, const Grouped& b) {
    double dense = 1e30, grouped = 1e30, all = 0;
    for (int i = 0; i < 3 || (all < 1 && i < 4000); ++i) {
      dense = std::min(dense, seconds(a));
      grouped = std::min(grouped, seconds(b));
      all += dense + grouped;
    }
    std::printf("%-26s %-34s %10.3f %10.3f %5.0f%%\n",
                pass,
                text.c_str(),
                dense * 1e3,
                grouped * 1e3,
                100 * dense / grouped);
    std::fflush(stdout);
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
};

// Experts of width 384 and 1,024, both products of each with SwiGLU, and many small ones.
template <class T>
void all_shapes(bench& b) {
  for (const bool zipf : {false, true})
    for (const std::int64_t rows : {16, 64, 256}) {
      b.products<T>({8, rows, 1536, 384, zipf});
      b.products<T>({8, rows, 384, 768, zipf});
      b.products<T>({8, rows, 2048, 1024, zipf});
      b.products<T>({8, rows, 2048, 1024, zipf, 8});
      b.products<T>({64, rows, 512, 512, zipf});
    }
}

}  // namespace

int main(int argc, char** argv) {
  bench b(argc > 1 ? std::atoi(argv[1]) : 1);
  all_shapes<float>(b);
  all_shapes<kernels::bf16>(b);
  all_shapes<kernels::f16>(b);
}
