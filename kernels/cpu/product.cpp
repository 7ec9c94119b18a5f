#include "kernels/cpu/product.hpp"

#include "kernels/cpu/split.hpp"
#include "kernels/cpu/team.hpp"

#include <atomic>
#include <compare>
#include <map>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace troupe::kernels::cpu {

namespace {

// Multiply-adds below which waking another thread costs more than it saves (5 microseconds here).
constexpr std::int64_t products_worth_a_thread = 1 << 18;
constexpr std::int64_t narrow_products_worth_a_thread = 2 * products_worth_a_thread;
/// Minimum row count for estimates. Fewer rows take as long: memory bandwidth of b limits them.
constexpr std::int64_t waiting_rows = 8;

[[noreturn]] void refuse(
    const char* of, std::int64_t M, std::int64_t N, std::int64_t K, dnnl_status_t status) {
  if (status == dnnl_out_of_memory)
    throw std::bad_alloc();
  throw std::logic_error(std::string("oneDNN refused a product of ") + of + ", " + std::to_string(M)
                         + " x " + std::to_string(N) + " x " + std::to_string(K) + ": status "
                         + std::to_string(status));
}

/// Key of a oneDNN kernel.
struct product_shape {
  std::int64_t M, N, K;
  bool a_transposed, b_transposed;
  bool biased;
  bool in_float;  ///< c is float, without bias
  bool accumulated;

  friend auto operator<=>(const product_shape&, const product_shape&) = default;
};

product_shape shape_of(const product<bf16>& p) {
  return {.M = p.M,
          .N = p.N,
          .K = p.K,
          .a_transposed = p.a.transposed,
          .b_transposed = p.b.transposed,
          .biased = p.bias != nullptr,
          .in_float = p.c != nullptr,
          .accumulated = p.accumulated};
}

/// A oneDNN product in bf16: kernels generated for its shape and team, and operands to be set.
struct prepared {
  dnnl::matmul product;
  std::unordered_map<int, dnnl::memory> operands;
  std::size_t scratch_bytes = 0;
  bool exists = false;  ///< oneDNN supports it on this processor
  std::uint64_t used = 0;
};

const dnnl::engine& processor() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

prepared prepare(const product_shape& p) {
  using type = dnnl::memory::data_type;
  using layout = dnnl::memory::format_tag;
  const auto in_rows = [](std::int64_t rows, std::int64_t columns, type of, bool transposed) {
    return dnnl::memory::desc({rows, columns}, of, transposed ? layout::ba : layout::ab);
  };
  std::unordered_map<int, dnnl::memory::desc> operands{
      {DNNL_ARG_SRC, in_rows(p.M, p.K, type::bf16, p.a_transposed)},
      {DNNL_ARG_WEIGHTS, in_rows(p.K, p.N, type::bf16, p.b_transposed)},
      {DNNL_ARG_DST, in_rows(p.M, p.N, p.in_float ? type::f32 : type::bf16, false)}};
  if (p.biased)
    operands.emplace(DNNL_ARG_BIAS, in_rows(1, p.N, type::bf16, false));

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulated) {
    dnnl::post_ops added;
    added.append_sum(1);
    attributes.set_post_ops(added);
  }
  prepared out;
  try {
    const dnnl::matmul::primitive_desc chosen(
        p.biased ? dnnl::matmul::desc(operands[DNNL_ARG_SRC],
                                      operands[DNNL_ARG_WEIGHTS],
                                      operands[DNNL_ARG_BIAS],
                                      operands[DNNL_ARG_DST])
                 : dnnl::matmul::desc(
                     operands[DNNL_ARG_SRC], operands[DNNL_ARG_WEIGHTS], operands[DNNL_ARG_DST]),
        attributes,
        processor());
    out.product = dnnl::matmul(chosen);
    operands.emplace(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc());
    out.scratch_bytes = chosen.scratchpad_desc().get_size();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented)
      return out;
    refuse("bf16", p.M, p.N, p.K, e.status);
  }
  for (const auto& [which, shape] : operands)
    out.operands.emplace(which, dnnl::memory(shape, processor(), nullptr));
  out.exists = true;
  return out;
}

/// Per-thread LRU cache of prepared products: preparing one takes as long as running a small one
/// (some hundred microseconds). Per thread, because a run sets the operands in the prepared
/// product.
class preparations {
 public:
  /// `threads` is the team size, which is part of a kernel. The result is valid until the next
  /// call.
  prepared& of(const product_shape& shape, int threads) {
    auto found = made_.find({shape, threads});
    if (found == made_.end()) {
      make_room();
      found = made_.emplace(std::pair{shape, threads}, prepare(shape)).first;
    }
    found->second.used = ++calls_;
    return found->second;
  }

 private:
  static constexpr std::size_t most = 256;

  void make_room() {
    if (made_.size() >= most)
      made_.erase(std::min_element(made_.begin(), made_.end(), [](const auto& a, const auto& b) {
        return a.second.used < b.second.used;
      }));
  }

  std::map<std::pair<product_shape, int>, prepared> made_;
  std::uint64_t calls_ = 0;
};

/// Valid until this thread's next call. The team must have `threads` threads.
prepared& ready(const product_shape& shape, int threads) {
  static thread_local preparations mine;
  return mine.of(shape, threads);
}

void execute(prepared& by, const product<bf16>& p, const context& in) {
  const auto tell = [&](int which, const void* data) {
    by.operands.at(which).set_data_handle(const_cast<void*>(data));
  };
  tell(DNNL_ARG_SRC, p.a.data);
  tell(DNNL_ARG_WEIGHTS, p.b.data);
  tell(DNNL_ARG_DST, p.c ? static_cast<void*>(p.c) : p.rounded);
  tell(DNNL_ARG_SCRATCHPAD, scratch_array<std::byte>(in, by.scratch_bytes));
  if (p.bias)
    tell(DNNL_ARG_BIAS, p.bias);
  static thread_local dnnl::stream order(processor());
  try {
    by.product.execute(order, by.operands);
    order.wait();
  } catch (const dnnl::error& e) {
    refuse("bf16", p.M, p.N, p.K, e.status);
  }
}

void multiply_by_onednn(const product<float>& p) {
  const auto status = dnnl_sgemm(p.a.transposed ? 'T' : 'N',
                                 p.b.transposed ? 'T' : 'N',
                                 p.M,
                                 p.N,
                                 p.K,
                                 1,
                                 p.a.data,
                                 p.a.row,
                                 p.b.data,
                                 p.b.row,
                                 p.accumulated ? 1 : 0,
                                 p.c ? p.c : p.rounded,
                                 p.N);
  if (status != dnnl_success)
    refuse("float", p.M, p.N, p.K, status);
}

template <class T>
int team_of(const product<T>& p, int threads) {
  const auto worth
      = std::is_same_v<T, float> ? products_worth_a_thread : narrow_products_worth_a_thread;
  return int(std::clamp<std::int64_t>(std::max(p.M, waiting_rows) * p.N * p.K / worth, 1, threads));
}

// Measured on two cores: splitting one float element takes 0.3 ns, and a multiply-add with tiles
// saves 1.9 ps against oneDNN. Splitting (M + N) K elements costs more than M N K multiply-adds
// save if M N / (M + N) is below 160.
constexpr std::int64_t rows_worth_splitting = 160;

std::atomic<int> tests_of_small_products = 0;

}  // namespace

small_products_in_tiles::small_products_in_tiles() {
  ++tests_of_small_products;
}
small_products_in_tiles::~small_products_in_tiles() {
  --tests_of_small_products;
}

template <class T>
bool in_tiles(const product<T>& p) {
  if (std::is_same_v<T, float> && p.row_invariant)
    return false;
  if (std::is_same_v<T, float> && tests_of_small_products == 0
      && (p.K < 32 || p.M * p.N < rows_worth_splitting * (p.M + p.N)))
    return false;
  return has_tiles_of<T>();
}

template <class T>
std::size_t scratch(const product<T>& p, int threads) {
  const int size = team_of(p, threads);
  if constexpr (!std::is_same_v<T, f16>)
    if (in_tiles(p))
      return tiles_scratch(p, size);
  if constexpr (std::is_same_v<T, float>) {
    return 0;  // oneDNN allocates its own scratch
  } else {
    if constexpr (std::is_same_v<T, bf16>) {
      const team sized(size);
      if (const prepared& by = ready(shape_of(p), size); by.exists)
        return by.scratch_bytes;
    }
    return packed_scratch(p, size);
  }
}

template <class T>
void multiply(const product<T>& p, const context& in) {
  const int size = team_of(p, in.threads);
  if constexpr (!std::is_same_v<T, f16>)
    if (in_tiles(p))
      return multiply_in_tiles(p, {size, in.workspace});
  if constexpr (std::is_same_v<T, float>) {
    const team sized(size);
    multiply_by_onednn(p);
  } else {
    if constexpr (std::is_same_v<T, bf16>) {
      const team sized(size);
      if (prepared& by = ready(shape_of(p), size); by.exists)
        return execute(by, p, in);
    }
    multiply_packed(p, {size, in.workspace});
  }
}

template <class T>
std::size_t part_scratch(const product<T>& p, bool tiles) {
  if constexpr (!std::is_same_v<T, f16>)
    if (tiles)
      return tiles_part_scratch(p);
  return packed_part_scratch(p);
}

template <class T>
void multiply_part(product_series<T> all, const product_part& part, bool tiles, const context& in) {
  if constexpr (!std::is_same_v<T, f16>)
    if (tiles)
      return multiply_part_in_tiles<T>(all, part, in);
  multiply_packed_part<T>(all, part, in);
}

#define TROUPE_INSTANTIATE(T)                                 \
  template bool in_tiles(const product<T>&);                  \
  template std::size_t scratch(const product<T>&, int);       \
  template void multiply(const product<T>&, const context&);  \
  template std::size_t part_scratch(const product<T>&, bool); \
  template void multiply_part(product_series<T>, const product_part&, bool, const context&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
