// Rates of the operations between matrix products, compared with the memory bandwidth.
//
//   bench_fused [threads]
//
// All of them are bound by memory. The share is relative to a copy with the same number of threads;
// both count bytes read plus bytes written. Large sizes are in memory. Small sizes (a step of a
// 10 million parameter model) are in the last cache and may exceed 100 %. Each figure is the best
// of several runs, because other load can only make a run slower.

#include "kernels/backend/backend.hpp"
#include "kernels/op/every_op.hpp"
#include "tests/support/fingerprinted.hpp"
#include "tests/support/ops.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace troupe;
using kernels::activation;
using kernels::backend;
using kernels::normalization;

namespace {

template <class Work>
double best_seconds(const Work& work) {
  using clock = std::chrono::steady_clock;
  double best = 1e30, all = 0;
  for (int i = 0; i < 5 || (all < 0.5 && i < 200); ++i) {
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
    constexpr std::int64_t n = 1 << 24;
    std::vector<float> from(n, 1), to(n, 2);
    const double s = best_seconds([&] {
#pragma omp parallel for simd num_threads(threads_) schedule(static)
      for (std::int64_t i = 0; i < n; ++i)
        to[std::size_t(i)] = from[std::size_t(i)];
    });
    copy_ = 2.0 * sizeof(float) * n / s / 1e9;
    std::printf(
        "%s, threads %d: copy %.1f GB/s\n\n", kernels::instruction_set().c_str(), threads_, copy_);
    std::printf("%-26s %-22s %10s %8s %7s\n", "op", "shape", "us", "GB/s", "share");
  }

  template <class Op>
  void line(const std::string& name, const std::string& shape, const Op& op) {
    struct alignas(64) cache_line {
      std::byte bytes[64];
    };
    const std::size_t bytes = kernels::scratch(backend::cpu, op, threads_);
    std::vector<cache_line> workspace(bytes / sizeof(cache_line) + 1);
    const kernels::context in{threads_, {workspace.data()->bytes, bytes}};
    const double s = best_seconds([&] { kernels::run(backend::cpu, op, in); });
    const double rate = double(kernels::bytes_moved(op)) / s / 1e9;
    std::printf("%-26s %-22s %10.1f %8.1f %6.0f%%\n",
                name.c_str(),
                shape.c_str(),
                s * 1e6,
                rate,
                100 * rate / copy_);
    std::fflush(stdout);
  }

 private:
  int threads_;
  double copy_ = 0;
};

std::string by(std::int64_t a, std::int64_t b) {
  return std::to_string(a) + " x " + std::to_string(b);
}

template <class T>
std::string in() {
  return std::is_same_v<T, kernels::bf16> ? " bf16" : "";
}

template <class T>
void rows(bench& b, std::int64_t R, std::int64_t C) {
  const auto shape = by(R, C) + in<T>();
  for (const auto kind : {normalization::layer, normalization::rms}) {
    const std::string name = kind == normalization::layer ? "layer norm" : "rms norm";
    tests::norm_memory<T> m{.R = R, .C = C, .kind = kind, .with_residual = true};
    b.line(name + " forward", shape, m.forward());
    b.line(name + " backward I", shape, m.backward_input());
    b.line(name + " backward W", shape, m.backward_weight());
  }
  const auto feed_forward = [&](const std::string& name, activation kind, bool gated = false) {
    tests::activation_memory<T> m{.R = R, .N = C, .kind = kind, .gated = gated};
    b.line(name + " forward", shape, m.forward());
    b.line(name + " backward", shape, m.backward());
  };
  for (const activation kind : kernels::every_activation)
    feed_forward(std::string(text(kind)), kind);
  feed_forward("swiglu", activation::silu, true);
  {
    tests::dropout_memory<T> m{.sequences = R / 256, .T_ = 256, .C = C};
    b.line("dropout forward", shape, m.forward());
    b.line("dropout backward", shape, m.backward());
  }
  {
    tests::embedding_memory<T> m{.R = R, .C = C, .V = 16384, .P = 256};
    b.line("embedding forward", shape, m.forward());
    b.line("embedding backward", shape, m.backward());
  }
  {
    // Queries and keys of heads of 64, in Megatron's layout with equally many values.
    tests::rope_memory<T> m{.R = R, .G = C / 192, .heads = 2, .D = 64, .rotated = 64};
    b.line("rope halves", shape, m.turn());
    m.interleaved = true;
    b.line("rope interleaved", shape, m.turn());
  }
}

template <class T = float>
void losses(bench& b, std::int64_t R, std::int64_t V) {
  tests::cross_entropy_memory<T> m{.R = R, .V = V, .vocabulary = V};
  b.line("cross-entropy forward", by(R, V) + in<T>(), m.forward());
  b.line("cross-entropy backward", by(R, V) + in<T>(), m.backward());
  auto in_place = m.both_passes();
  in_place.dlogits = m.logits.data();  // like the tape: gradients replace the logits
  b.line("cross-entropy both passes", by(R, V) + in<T>(), in_place);
}

/// Norms of queries with heads of 64, which are half of a fused product.
template <class T>
void heads(bench& b, std::int64_t R, std::int64_t H) {
  tests::head_norm_memory<T> m{.R = R, .G = H / 2, .heads = 2, .D = 64};
  const auto shape = by(R, H) + " x 64" + in<T>();
  b.line("head norm forward", shape, m.forward());
  b.line("head norm backward I", shape, m.backward_input());
  b.line("head norm backward W", shape, m.backward_weight());
}

template <class T>
void sums(bench& b, std::int64_t n) {
  const auto shape = std::to_string(n) + in<T>();
  tests::sum_memory<T> m{.n = n, .sources = 4};
  b.line("add", shape, m.add());
  b.line("ordered sum of 4", shape, m.ordered_sum());
}

void flat(bench& b, std::int64_t n) {
  sums<float>(b, n);
  sums<kernels::bf16>(b, n);
  const auto shape = std::to_string(n);
  tests::sum_memory<float> one{.n = n, .sources = 1};
  b.line("square norm", shape, one.square_norm());
  tests::adamw_memory<float> parameters{.n = n};
  b.line("adamw", shape, parameters.step());
  std::vector all{parameters};
  tests::fingerprinted with(all, 65536);
  b.line("adamw, fingerprints too", shape, with.step());
  tests::adamw_memory<float> written{.n = n};
  auto beside = with.step();
  for (auto& piece : with.pieces) {
    piece.from = {piece.x, piece.m, piece.v};
    piece.x = written.x.data();
    piece.m = written.m.data();
    piece.v = written.v.data();
  }
  b.line("adamw, beside the old", shape, beside);
  const kernels::fingerprint<float>::piece piece{parameters.x.data(), n, with.keys.data()};
  b.line("fingerprint", shape, kernels::fingerprint<float>{with.results.data(), &piece, 1, 65536});
  parameters.rounded.resize(std::size_t(n));
  b.line("adamw, rounded too", shape, parameters.step());
}

void draws(std::int64_t vocabulary) {
  tests::sample_memory<float> m{.logits = tests::normal<float>(std::size_t(vocabulary), 7)};
  m.uniform = 0.7;
  std::vector<double> memory(std::size_t(2 * vocabulary));
  const kernels::context in{1, std::as_writable_bytes(std::span(memory))};
  const auto time = [&](const char* name) {
    const double s = best_seconds([&] { kernels::run(backend::cpu, m.draw(), in); });
    std::printf("%-26s %-22lld %10.1f\n", name, static_cast<long long>(vocabulary), s * 1e6);
  };
  time("sample");
  m.top_k = 1;
  time("sample, greedy");
  m.top_k = 0;
  m.top_p = 0.9f;
  time("sample, top-p 0.9");
  m.top_k = 50;
  time("sample, top-k 50, top-p");
}

}  // namespace

int main(int argc, char** argv) {
  bench b(argc > 1 ? std::atoi(argv[1]) : 1);
  rows<float>(b, 3072, 384);
  rows<kernels::bf16>(b, 3072, 384);
  losses(b, 3072, 65);
  flat(b, 1 << 20);
  draws(50304);

  rows<float>(b, 16384, 768);
  rows<kernels::bf16>(b, 16384, 768);
  losses(b, 262144, 65);
  losses(b, 512, 50304);
  losses<kernels::bf16>(b, 512, 50304);
  heads<float>(b, 8192, 16);
  heads<kernels::bf16>(b, 8192, 16);
  flat(b, 1 << 25);
}
