// Rates of the operations of the cpu backend, compared with the rates of the machine.
//
//   bench_kernels [threads]
//
// The matrix rate is that of a square product of 256 in float; some machines do twice that in bf16.
// The memory rate is that of adding arrays of 128 MiB. Both are measured first, in the same process
// and with the same number of threads. Each figure is the best of many runs, because other load can
// only make a run slower.

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

template <class Work>
double best_seconds(Work work) {
  using clock = std::chrono::steady_clock;
  double best = 1e30, all = 0;
  for (int i = 0; i < 3 || (all < 1 && i < 4000); ++i) {
    const auto start = clock::now();
    work();
    const double seconds = std::chrono::duration<double>(clock::now() - start).count();
    best = std::min(best, seconds);
    all += seconds;
  }
  return best;
}

class bench {
 public:
  explicit bench(int threads) : threads_(threads) {
    tests::linear_memory<float> square{.R = 256, .N = 256, .K = 256, .with_bias = false};
    square.with_z = false;
    matrix_rate_ = rate(square.forward());
    tests::sum_memory<float> long_sum{.n = 1 << 25, .sources = 2};
    const auto add = long_sum.add();
    memory_rate_ = double(kernels::bytes_moved(add)) / seconds(add) / 1e9;
    std::printf("%s, threads %d: matrix rate %.1f GFLOP/s, memory rate (add) %.1f GB/s\n\n",
                kernels::instruction_set().c_str(),
                threads_,
                matrix_rate_,
                memory_rate_);
    std::printf("%-24s %-28s %9s %9s %6s %8s\n", "op", "shape", "ms", "GFLOP/s", "share", "GB/s");
  }

  template <class Op>
  void line(const char* name, const std::string& shape, const Op& op) {
    const double s = seconds(op), gflops = double(kernels::flops(op)) / s / 1e9;
    std::printf("%-24s %-28s %9.3f %9.1f %5.0f%% %8.1f\n",
                name,
                shape.c_str(),
                s * 1e3,
                gflops,
                100 * gflops / matrix_rate_,
                double(kernels::bytes_moved(op)) / s / 1e9);
    std::fflush(stdout);
  }

 private:
  template <class Op>
  double seconds(const Op& op) {
    const std::size_t bytes = kernels::scratch(backend::cpu, op, threads_);
    if (bytes > size_) {
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      size_ = bytes;
    }
    const kernels::context in{threads_, {memory_.get(), bytes}};
    return best_seconds([&] { kernels::run(backend::cpu, op, in); });
  }
  template <class Op>
  double rate(const Op& op) {
    return double(kernels::flops(op)) / seconds(op) / 1e9;
  }

  struct free_memory {
    void operator()(std::byte* p) const { std::free(p); }
  };

  int threads_;
  double matrix_rate_ = 0, memory_rate_ = 0;
  std::unique_ptr<std::byte, free_memory> memory_;
  std::size_t size_ = 0;
};

template <class T>
const char* type_text() {
  return std::is_same_v<T, kernels::bf16> ? " bf16" : std::is_same_v<T, kernels::f16> ? " f16" : "";
}

template <class T>
void products(bench& b, std::int64_t R, std::int64_t N, std::int64_t K, kernels::epilogue e) {
  tests::linear_memory<T> m{.R = R, .N = N, .K = K, .activation = e};
  const bool plain = e == kernels::epilogue::none;
  m.with_z = !plain;
  auto shape = std::to_string(R) + " x " + std::to_string(N) + " x " + std::to_string(K);
  shape += type_text<T>();
  b.line(plain ? "linear forward" : "linear forward + gelu", shape, m.forward());
  b.line("linear backward I", shape, m.backward_input());
  b.line("linear backward W", shape, m.backward_weight());
}

// Layers of width 384 and 1,024, the output layer of a vocabulary, a small layer. Then layers for
// one token and for eight, with weights that exceed all caches.
template <class T>
void layers(bench& b) {
  using kernels::epilogue;
  products<T>(b, 3072, 1152, 384, epilogue::none);
  products<T>(b, 3072, 384, 384, epilogue::none);
  products<T>(b, 3072, 1536, 384, epilogue::gelu_tanh);
  products<T>(b, 3072, 384, 1536, epilogue::none);
  products<T>(b, 2048, 3072, 1024, epilogue::none);
  products<T>(b, 2048, 4096, 1024, epilogue::gelu_tanh);
  products<T>(b, 2048, 1024, 4096, epilogue::none);
  products<T>(b, 3072, 65, 384, epilogue::none);
  products<T>(b, 2048, 50304, 384, epilogue::none);
  products<T>(b, 64, 64, 64, epilogue::none);
  products<T>(b, 1, 1536, 384, epilogue::none);
  products<T>(b, 1, 50304, 768, epilogue::none);
  products<T>(b, 8, 50304, 768, epilogue::none);
}

template <class T = float>
void attention(bench& b,
               std::int64_t S,
               std::int32_t queries,
               std::int32_t keys,
               std::int64_t H,
               std::int64_t G,
               std::int64_t D,
               float p_drop,
               std::int32_t window = -1) {
  tests::attention_memory<T> m{.H = H,
                               .G = G,
                               .D = D,
                               .query_lengths = std::vector<std::int32_t>(std::size_t(S), queries),
                               .key_lengths = std::vector<std::int32_t>(std::size_t(S), keys),
                               .fused = queries == keys,
                               .p_drop = p_drop,
                               .window = window};
  auto shape = std::to_string(S) + " x " + std::to_string(queries) + "/" + std::to_string(keys)
               + ", " + std::to_string(H) + "/" + std::to_string(G) + " x " + std::to_string(D);
  if (p_drop > 0)
    shape += " dropout";
  if (window >= 0)
    shape += " window " + std::to_string(window);
  shape += type_text<T>();
  b.line("attention forward", shape, m.forward());
  if (queries == keys)
    b.line("attention backward", shape, m.backward());
}

}  // namespace

int main(int argc, char** argv) {
  bench b(argc > 1 ? std::atoi(argv[1]) : 1);

  layers<float>(b);
  layers<kernels::bf16>(b);
  layers<kernels::f16>(b);

  attention(b, 12, 256, 256, 6, 6, 64, 0);
  attention(b, 12, 256, 256, 6, 6, 64, 0.1f);
  attention(b, 12, 256, 256, 6, 6, 32, 0);
  attention(b, 4, 1024, 1024, 12, 4, 64, 0);
  attention(b, 4, 512, 512, 8, 8, 128, 0);
  attention(b, 1, 2048, 2048, 1, 1, 64, 0);
  attention(b, 8, 1, 1024, 12, 12, 64, 0);
  attention(b, 1, 1, 4096, 6, 6, 64, 0);
  attention(b, 1, 4096, 4096, 4, 2, 64, 0);
  attention(b, 1, 4096, 4096, 4, 2, 64, 0, 512);
  attention<kernels::bf16>(b, 12, 256, 256, 6, 6, 64, 0);
  attention<kernels::bf16>(b, 4, 1024, 1024, 12, 4, 64, 0);
  attention<kernels::bf16>(b, 8, 1, 1024, 12, 12, 64, 0);
  attention<kernels::f16>(b, 4, 1024, 1024, 12, 4, 64, 0);
}
