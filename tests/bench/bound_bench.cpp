// Compares a training step with the bound of this machine.
//
//   troupe train gpt ... --profile-operations PROFILE       any model, layout and precision
//   bench_bound PROFILE [threads]
//
// Computes each product of the profile alone, with troupe's code and with each variant of oneDNN: a
// matmul with operands in rows, with the second operand packed, with both packed, and an inner
// product. The variants run in turn for several rounds, and the best time of each counts, because
// other load can only make a run slower. The bound of a step is the sum of
//
//   products at the best rate of any variant, with operands packed beforehand
//   + attention at the best rate of all products
//   + the bytes of all other operations at the rate of a copy
//
// The printed share is this bound divided by the time of the profile's steps.

#include "kernels/backend/backend.hpp"
#include "kernels/op/every_op.hpp"
#include "runtime/core/json_text.hpp"
#include "tests/support/ops.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace troupe;
using kernels::bf16;

namespace {

using dimensions = dnnl::memory::dims;
using descriptor = dnnl::memory::desc;
using layout = dnnl::memory::format_tag;
using type = dnnl::memory::data_type;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A prepared variant of a product; `work` is empty if oneDNN lacks it.
struct way {
  std::string name;
  std::function<void()> work;
  double best = 1e30;
};

struct product {
  enum class pass { forward, backward_input, backward_weight } of;
  bool narrow;
  std::int64_t R, N, K;
  double calls, ms_in_step, flops;
};

const dnnl::engine& processor() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

/// A primitive with its own operands, in the layout that it prefers.
template <class Primitive, class Description>
std::function<void()> execution(const Description& chosen,
                                const std::map<int, descriptor>& operands) {
  std::unordered_map<int, dnnl::memory> arguments;
  for (const auto& [which, shape] : operands) {
    dnnl::memory memory(shape, processor());
    auto* const bytes = static_cast<std::uint8_t*>(memory.get_data_handle());
    for (std::size_t i = 0; i < shape.get_size(); ++i)
      bytes[i] = i % 2 == 0 ? std::uint8_t(i * 37) : 0x3c;  // no denormal, infinite or huge numbers
    arguments.emplace(which, std::move(memory));
  }
  return [made = Primitive(chosen), arguments]() mutable {
    dnnl::stream order(processor());
    made.execute(order, arguments);
    order.wait();
  };
}

/// c (M, N) = a (M, K) times b (K, N).
struct shape {
  std::int64_t M, N, K;
  bool a_transposed, b_transposed;
};

shape shape_of(const product& p) {
  switch (p.of) {
    case product::pass::forward:
      return {p.R, p.N, p.K, false, true};
    case product::pass::backward_input:
      return {p.R, p.K, p.N, false, false};
    case product::pass::backward_weight:
      break;
  }
  return {p.N, p.K, p.R, true, false};
}

std::function<void()> matmul(const product& p, bool pack_a, bool pack_b) {
  const auto s = shape_of(p);
  const auto element = p.narrow ? type::bf16 : type::f32;
  const auto sums = p.of == product::pass::backward_weight ? type::f32 : element;
  const auto lies = [](bool packed, bool transposed) {
    return packed ? layout::any : transposed ? layout::ba : layout::ab;
  };
  const descriptor a({s.M, s.K}, element, lies(pack_a, s.a_transposed));
  const descriptor b({s.K, s.N}, element, lies(pack_b, s.b_transposed));
  const descriptor c({s.M, s.N}, sums, layout::ab);
  const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, b, c), processor());
  return execution<dnnl::matmul>(chosen,
                                 {{DNNL_ARG_SRC, chosen.src_desc()},
                                  {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                                  {DNNL_ARG_DST, chosen.dst_desc()}});
}

std::function<void()> inner_product(const product& p) {
  const auto element = p.narrow ? type::bf16 : type::f32;
  const auto any
      = [](dimensions extents, type of) { return descriptor(std::move(extents), of, layout::any); };
  const auto x = any({p.R, p.K}, element), weight = any({p.N, p.K}, element),
             y = any({p.R, p.N}, element);
  using forward = dnnl::inner_product_forward;
  const forward::primitive_desc hint(forward::desc(dnnl::prop_kind::forward_training, x, weight, y),
                                     processor());
  if (p.of == product::pass::forward)
    return execution<forward>(hint,
                              {{DNNL_ARG_SRC, hint.src_desc()},
                               {DNNL_ARG_WEIGHTS, hint.weights_desc()},
                               {DNNL_ARG_DST, hint.dst_desc()}});
  if (p.of == product::pass::backward_input) {
    using pass = dnnl::inner_product_backward_data;
    const pass::primitive_desc chosen(pass::desc(x, weight, y), processor(), hint);
    return execution<pass>(chosen,
                           {{DNNL_ARG_DIFF_SRC, chosen.diff_src_desc()},
                            {DNNL_ARG_WEIGHTS, chosen.weights_desc()},
                            {DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()}});
  }
  using pass = dnnl::inner_product_backward_weights;
  const pass::primitive_desc chosen(
      pass::desc(x, any({p.N, p.K}, type::f32), y), processor(), hint);
  return execution<pass>(chosen,
                         {{DNNL_ARG_SRC, chosen.src_desc()},
                          {DNNL_ARG_DIFF_WEIGHTS, chosen.diff_weights_desc()},
                          {DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()}});
}

/// Memory aligned to a cache line, like that of a run's pools.
class lines {
 public:
  explicit lines(std::size_t bytes) : all_(bytes / sizeof(line) + 1) {}
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(all_.data());
  }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };
  std::vector<line> all_;
};

/// A product by the cpu backend; the function owns the operands.
template <class T>
std::function<void()> as_troupe_does(const product& p, int threads) {
  const auto m = std::make_shared<tests::linear_memory<T>>(
      tests::linear_memory<T>{.R = p.R, .N = p.N, .K = p.K, .with_bias = false});
  m->with_z = false;
  const auto most = std::size_t(std::max({p.R * p.N, p.R * p.K, p.N * p.K}));
  const auto result = std::make_shared<lines>(most * sizeof(kernels::accumulator<T>));
  const auto running = [m, result, threads](const auto& op) {
    const auto bytes = kernels::scratch(kernels::backend::cpu, op, threads);
    const std::shared_ptr<lines> memory = std::make_shared<lines>(bytes);
    return [m, result, op, memory, bytes, threads] {
      kernels::run(kernels::backend::cpu, op, {threads, {memory->template as<std::byte>(), bytes}});
    };
  };
  if (p.of == product::pass::forward) {
    auto op = m->forward();
    op.y = result->template as<T>();
    return running(op);
  }
  if (p.of == product::pass::backward_input) {
    auto op = m->backward_input();
    op.dx = result->template as<T>();
    return running(op);
  }
  auto op = m->backward_weight();
  op.dweight = result->template as<kernels::accumulator<T>>();
  op.accumulates = false;
  return running(op);
}

std::vector<way> ways_of(const product& p, int threads) {
  std::vector<way> out;
  const auto add = [&](const char* name, const std::function<std::function<void()>()>& make) {
    try {
      out.push_back({name, make()});
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented)
        throw;
    }
  };
  add("troupe", [&] {
    return p.narrow ? as_troupe_does<bf16>(p, threads) : as_troupe_does<float>(p, threads);
  });
  add("matmul", [&] { return matmul(p, false, false); });
  add("matmul, b packed", [&] { return matmul(p, false, true); });
  add("matmul, packed", [&] { return matmul(p, true, true); });
  add("inner product", [&] { return inner_product(p); });
  return out;
}

/// Runs all variants in rounds, for about a second each.
void try_in_turn(std::vector<way>& ways) {
  double all = 0;
  for (int round = 0; round < 5 || (round < 200 && all < double(ways.size())); ++round)
    for (auto& x : ways) {
      const double s = seconds_of(x.work);
      x.best = std::min(x.best, s);
      all += s;
    }
}

/// Bytes per second, read plus written, of a copy that exceeds all caches.
double copy_rate(int threads) {
  constexpr std::int64_t n = 1 << 25;
  std::vector<float> from(n, 1), to(n, 2);
  double best = 1e30;
  for (int i = 0; i < 10; ++i)
    best = std::min(best, seconds_of([&] {
                      const float* const x = from.data();
                      float* const y = to.data();
#pragma omp parallel for simd num_threads(threads) schedule(static)
                      for (std::int64_t j = 0; j < n; ++j)
                        y[j] = x[j];
                    }));
  return 2.0 * sizeof(float) * double(n) / best;
}

std::optional<product> product_of(const nlohmann::json& x) {
  const auto name = x.at("name").get<std::string>();
  product out{};
  if (name.starts_with("linear_forward<"))
    out.of = product::pass::forward;
  else if (name.starts_with("linear_backward_input<"))
    out.of = product::pass::backward_input;
  else if (name.starts_with("linear_backward_weight<"))
    out.of = product::pass::backward_weight;
  else
    return std::nullopt;
  if (name.ends_with("<f16>"))
    throw std::runtime_error("no way but troupe's multiplies fp16 on processors");
  out.narrow = name.ends_with("<bf16>");
  out.R = x.at("extents").at(0);
  out.N = x.at("extents").at(1);
  out.K = x.at("extents").at(2);
  out.calls = x.at("calls_per_step");
  out.ms_in_step = x.at("ms_per_step");
  out.flops = 2.0 * double(out.R) * double(out.N) * double(out.K);
  return out;
}

void print_bound(const nlohmann::json& profile, int threads) {
  const double copied = copy_rate(threads);
  std::printf("%s, threads %d: copy %.1f GB/s\n\n",
              kernels::instruction_set().c_str(),
              threads,
              copied / 1e9);
  std::printf("%-42s %6s %9s %9s %9s  %-18s %6s\n",
              "product, R x N x K",
              "calls",
              "in step",
              "alone",
              "best",
              "by",
              "share");
  std::printf("%-42s %6s %29s\n", "", "", "GFLOP/s");
  double in_step = 0, alone = 0, bound = 0, best_rate = 0;
  for (const auto& x : profile.at("operations")) {
    const auto p = product_of(x);
    if (!p)
      continue;
    auto ways = ways_of(*p, threads);
    try_in_turn(ways);
    const auto best = std::min_element(
        ways.begin(), ways.end(), [](const way& a, const way& b) { return a.best < b.best; });
    const auto extents
        = std::to_string(p->R) + " x " + std::to_string(p->N) + " x " + std::to_string(p->K);
    const double now = p->ms_in_step / p->calls / 1e3;
    std::printf("%-22s %-19s %6.0f %9.1f %9.1f %9.1f  %-18s %5.0f%%\n",
                x.at("name").get<std::string>().substr(7).c_str(),
                extents.c_str(),
                p->calls,
                p->flops / now / 1e9,
                p->flops / ways.front().best / 1e9,
                p->flops / best->best / 1e9,
                best->name.c_str(),
                100 * best->best / now);
    std::fflush(stdout);
    in_step += p->ms_in_step;
    alone += p->calls * ways.front().best * 1e3;
    bound += p->calls * best->best * 1e3;
    best_rate = std::max(best_rate, p->flops / best->best);
  }
  double attention = 0, attention_bound = 0, others = 0, others_bound = 0;
  for (const auto& x : profile.at("operations")) {
    if (product_of(x))
      continue;
    const double ms = x.at("ms_per_step"), calls = x.at("calls_per_step");
    if (x.at("name").get<std::string>().starts_with("attention_")) {
      attention += ms;
      attention_bound += calls * double(x.at("flops")) / best_rate * 1e3;
    } else {
      others += ms;
      others_bound += calls * double(x.at("bytes")) / copied * 1e3;
    }
  }
  const double step = profile.at("step_ms");
  const double all = bound + attention_bound + others_bound;
  std::printf("\n%-42s %12s %12s %6s\n", "ms a step", "profile", "bound", "share");
  const auto line = [](const char* name, double now, double at_best) {
    std::printf("%-42s %12.1f %12.1f %5.0f%%\n", name, now, at_best, 100 * at_best / now);
  };
  line("products", in_step, bound);
  std::printf("%-42s %12.1f\n", "  the same, each alone", alone);
  line("attention, at the best rate of a product", attention, attention_bound);
  line("other operations, at the rate of a copy", others, others_bound);
  std::printf("%-42s %12.1f\n", "between operations", step - in_step - attention - others);
  line("step", step, all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(
        "usage: bench_bound PROFILE [threads]; PROFILE is written by `troupe train ... "
        "--profile-operations PROFILE`\n",
        stderr);
    return 2;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : omp_get_max_threads();
  omp_set_num_threads(threads);
  try {
    std::ifstream file(argv[1]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    print_bound(runtime::json_value(text), threads);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_bound: cannot compare '%s': %s\n", argv[1], e.what());
    return 1;
  }
  return 0;
}
