// Rates of the grouped products of experts, compared with dense products of as many FLOPs.
//
//   bench_grouped [threads [type|text...]]      types: f32, bf16, f16; default: all
//
// A text selects the shapes whose name has it: "x 64 x 2048", "sources".
//
// All run in turn in the same process. One dense product has the weight of one expert and the rows
// of all, so a weight is read for many rows. The other has the weights of all experts and the rows
// of one, so it moves as many bytes as the experts do. Rows are balanced, or follow Zipf's law:
// expert e has a share of 1 / (e + 1), or all are those of two experts. With several sources, the
// rows of an expert are as many groups, as where ranks share experts.
//
// Figures are medians of rounds, and a share is the median of the shares of the rounds. The bound
// is the time that the machine needs at least: of computing, at the rate of a dense product of
// 1,024 x 1,024 x 1,024, and of moving the bytes, at the rate at which the threads read all weights
// or write all gradients in the same round.
//
// The goal is 85 % of a dense rate if each expert with rows has at least 64. The last lines count
// the products that miss it and name the slowest one, beside each of the two dense products.

#include "kernels/backend/backend.hpp"
#include "kernels/op/every_op.hpp"
#include "tests/support/ops.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace troupe;
using kernels::backend;

// Memory as that of the product's pool: aligned, in huge pages.
void* operator new(std::size_t bytes) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const at = std::aligned_alloc(alignment, rounded);
  if (at == nullptr)
    throw std::bad_alloc();
  if (alignment == huge_page)
    ::madvise(at, rounded, MADV_HUGEPAGE);
  return at;
}
void operator delete(void* at) noexcept {
  std::free(at);
}
void operator delete(void* at, std::size_t) noexcept {
  std::free(at);
}

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

using times = std::vector<double>;

double median(times of) {
  const auto middle = of.begin() + std::ptrdiff_t(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}
/// The median of the shares of the rounds.
double share(const times& of, const times& by) {
  times out;
  for (std::size_t i = 0; i < of.size(); ++i)
    out.push_back(of[i] / by[i]);
  return median(out);
}

/// Calls part(begin, bytes) for the part of each thread.
template <class Part>
void split_bytes(int threads, std::int64_t bytes, const Part& part) {
#pragma omp parallel for num_threads(threads)
  for (int i = 0; i < threads; ++i)
    part(bytes / 64 * i / threads * 64, bytes / 64 / threads * 64);
}
void read_all(int threads, const void* from, std::int64_t bytes) {
  split_bytes(threads, bytes, [=](std::int64_t begin, std::int64_t n) {
    std::uint64_t sums[8] = {}, line[8];
    for (const char* at = static_cast<const char*>(from) + begin; n > 0; n -= 64, at += 64) {
      std::memcpy(line, at, 64);
      for (int i = 0; i < 8; ++i)
        sums[i] += line[i];
    }
    static std::atomic<std::uint64_t> all;
    for (const auto sum : sums)
      all += sum;
  });
}
void write_all(int threads, void* to, std::int64_t bytes) {
  split_bytes(threads, bytes, [=](std::int64_t begin, std::int64_t n) {
    std::memset(static_cast<char*>(to) + begin, 0, std::size_t(n));
  });
}

class bench {
 public:
  bench(int threads, std::vector<std::string> texts) : texts_(std::move(texts)), threads_(threads) {
    std::printf("%s, threads %d\n", kernels::instruction_set().c_str(), threads_);
  }

  template <class T>
  void begin() {
    tests::linear_memory<T> m{.R = 1024, .N = 1024, .K = 1024, .with_bias = false, .with_z = false};
    times of;
    for (int i = 0; i < 60; ++i)
      of.push_back(i % 2 == 0 ? seconds(m.forward()) : seconds(m.backward_input()));
    peak_ = double(flops(m.forward())) / median(of);
    std::printf("\ndense product: %.0f GFLOP/s\n\n%-11s %-38s %8s %8s %8s %8s %8s %8s %8s %8s\n",
                peak_ / 1e9,
                "pass",
                "shape",
                "rows ms",
                "wide ms",
                "experts",
                "GB/s",
                "bound ms",
                "of rows",
                "of wide",
                "of bound");
  }

  template <class T>
  void products(const shape& s) {
    const auto offsets = offsets_of(s);
    std::vector<std::int32_t> experts;
    for (std::int64_t g = 0; g < s.E * s.sources; ++g)
      experts.push_back(std::int32_t(g / s.sources));
    const kernels::row_groups groups{offsets.data(), experts.data(), s.E * s.sources};
    std::string text = std::to_string(s.E) + " x " + std::to_string(s.rows) + " x "
                       + std::to_string(s.N) + " x " + std::to_string(s.K);
    text += std::is_same_v<T, float> ? "" : std::is_same_v<T, kernels::bf16> ? " bf16" : " f16";
    text += s.by == routing::zipf ? " Zipf" : s.by == routing::two_experts ? " two" : "";
    text += s.sources > 1 ? ", " + std::to_string(s.sources) + " sources" : "";
    if (std::none_of(texts_.begin(), texts_.end(), [&](const std::string& one) {
          return text.find(one) != std::string::npos;
        }))
      return;
    is_judged_ = is_judged(offsets, s.sources);
    const std::int64_t R = s.E * s.rows;
    tests::linear_memory<T> m{.R = R, .N = s.N, .K = s.K, .with_bias = false, .with_z = false};
    const auto weight = tests::normal<T>(std::size_t(s.E * s.N * s.K), 9);
    std::vector<float> dweight(weight.size());
    const auto bytes = std::int64_t(weight.size() * sizeof(T));
    const auto reads = [&] { read_all(threads_, weight.data(), bytes); };
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
            reads,
            bytes,
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
            reads,
            bytes,
            kernels::grouped_linear_backward_input<T>{.dx = m.dx.data(),
                                                      .dy = m.dz.data(),
                                                      .weight = weight.data(),
                                                      .groups = groups,
                                                      .R = R,
                                                      .E = s.E,
                                                      .N = s.N,
                                                      .K = s.K});
    compare(
        "backward W",
        text,
        overwriting(m.backward_weight()),
        overwriting(wide.backward_weight()),
        [&] { write_all(threads_, dweight.data(), 4 * s.E * s.N * s.K); },
        4 * s.E * s.N * s.K,
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
  template <class Dense, class Grouped, class Stream>
  void compare(const char* pass,
               const std::string& text,
               const Dense& rows,
               const Dense& wide,
               const Stream& stream,
               std::int64_t bytes_of_stream,
               const Grouped& grouped) {
    times of_rows, of_wide, of_experts, of_stream;
    double all = 0;
    for (int i = 0; i < 5 || (all < 1.5 && i < 4000); ++i) {
      of_rows.push_back(seconds(rows));
      of_wide.push_back(seconds(wide));
      of_stream.push_back(elapsed(stream));
      of_experts.push_back(seconds(grouped));
      all += of_rows.back() + of_wide.back() + of_stream.back() + of_experts.back();
    }
    const double moved = double(bytes_moved(grouped)) / double(bytes_of_stream);
    times bound;
    for (const double time : of_stream)
      bound.push_back(std::max(double(flops(grouped)) / peak_, moved * time));
    const double by_rows = share(of_rows, of_experts), by_wide = share(of_wide, of_experts);
    std::printf("%-11s %-38s %8.3f %8.3f %8.3f %8.1f %8.3f %7.0f%% %7.0f%% %7.0f%%\n",
                pass,
                text.c_str(),
                median(of_rows) * 1e3,
                median(of_wide) * 1e3,
                median(of_experts) * 1e3,
                double(bytes_of_stream) / median(of_stream) / 1e9,
                median(bound) * 1e3,
                100 * by_rows,
                100 * by_wide,
                100 * share(bound, of_experts));
    std::fflush(stdout);
    if (!is_judged_)
      return;
    rows_.add(by_rows, std::string(pass) + ", " + text);
    wide_.add(by_wide, std::string(pass) + ", " + text);
  }

  /// Seconds that work takes: of one thread on its processor, so that other load counts less.
  template <class Work>
  double elapsed(const Work& work) const {
    const auto now = [this] {
      timespec at{};
      ::clock_gettime(threads_ == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &at);
      return double(at.tv_sec) + 1e-9 * double(at.tv_nsec);
    };
    const double start = now();
    work();
    return now() - start;
  }

  /// The scratch is computed each time, as by a stream.
  template <class Op>
  double seconds(const Op& op) {
    return elapsed([&] {
      const std::size_t bytes = kernels::scratch(backend::cpu, op, threads_);
      memory_.resize(std::max(bytes, memory_.size()));
      kernels::run(backend::cpu, op, {threads_, {memory_.data(), bytes}});
    });
  }

  std::vector<std::string> texts_;
  int threads_;
  double peak_ = 0;  ///< FLOP/s of a dense product
  std::vector<std::byte> memory_;
  tally rows_{"beside all rows with one weight"}, wide_{"beside few rows with all weights"};
  bool is_judged_ = false;  ///< whether the products in hand have the goal
};

// Both products of experts of width 384 with SwiGLU; of Qwen3-30B-A3B on one of 8 expert ranks; of
// width 1,024, also of 8 sources; and many small ones.
template <class T>
void all_shapes(bench& b) {
  b.begin<T>();
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
  std::vector<std::string> types, texts;
  for (int i = 2; i < argc; ++i) {
    const std::string one = argv[i];
    (one == "f32" || one == "bf16" || one == "f16" ? types : texts).push_back(one);
  }
  if (texts.empty())
    texts.emplace_back();
  bench b(argc > 1 ? std::atoi(argv[1]) : 1, texts);
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
