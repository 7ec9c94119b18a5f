#include "kernels/cpu/product.hpp"

#include "kernels/cpu/split.hpp"
#include "kernels/cpu/team.hpp"

#include <map>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace troupe::kernels::cpu {

namespace {

// Multiplications below which waking another thread costs more than it saves (5 microseconds here).
constexpr std::int64_t products_worth_a_thread = 1 << 18;
constexpr std::int64_t narrow_products_worth_a_thread = 2 * products_worth_a_thread;

[[noreturn]] void refuse(
    const char* of, std::int64_t M, std::int64_t N, std::int64_t K, dnnl_status_t status) {
  if (status == dnnl_out_of_memory)
    throw std::bad_alloc();
  throw std::logic_error(std::string("oneDNN refused a product of ") + of + ", " + std::to_string(M)
                         + " x " + std::to_string(N) + " x " + std::to_string(K) + ": status "
                         + std::to_string(status));
}

const char* name(narrow_type x) {
  return x == narrow_type::f16 ? "f16" : "bf16";
}

/// A product made ready: kernels written for its shape and team, and where its operands are told.
struct prepared {
  dnnl::matmul product;
  std::unordered_map<int, dnnl::memory> operands;
  std::size_t scratch_bytes = 0;
  bool exists = false;  ///< oneDNN has one on this processor
  std::uint64_t used = 0;
};

const dnnl::engine& processor() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

prepared prepare(const narrow_product& p) {
  using type = dnnl::memory::data_type;
  const auto narrow = p.type == narrow_type::f16 ? type::f16 : type::bf16;
  using layout = dnnl::memory::format_tag;
  const auto in_rows = [](std::int64_t rows, std::int64_t columns, type of, bool transposed) {
    return dnnl::memory::desc({rows, columns}, of, transposed ? layout::ba : layout::ab);
  };
  std::unordered_map<int, dnnl::memory::desc> operands{
      {DNNL_ARG_SRC, in_rows(p.M, p.K, narrow, p.a_transposed)},
      {DNNL_ARG_WEIGHTS, in_rows(p.K, p.N, narrow, p.b_transposed)},
      {DNNL_ARG_DST, in_rows(p.M, p.N, p.to_float ? type::f32 : narrow, false)}};
  if (p.biased)
    operands.emplace(DNNL_ARG_BIAS, in_rows(1, p.N, narrow, false));

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
    refuse(name(p.type), p.M, p.N, p.K, e.status);
  }
  for (const auto& [which, shape] : operands)
    out.operands.emplace(which, dnnl::memory(shape, processor(), nullptr));
  out.exists = true;
  return out;
}

/// The products that a thread has made ready, the least recently used forgotten: to make one ready
/// takes as long as a small one runs (some hundred microseconds). Of a thread, because the operands
/// are told to the product itself.
class preparations {
 public:
  /// `threads`: of the team, whose size is part of a kernel. Valid until the next call.
  prepared& of(const narrow_product& shape, int threads) {
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

  std::map<std::pair<narrow_product, int>, prepared> made_;
  std::uint64_t calls_ = 0;
};

int team_of(const narrow_product& p, int threads) {
  return int(
      std::clamp<std::int64_t>(p.M * p.N * p.K / narrow_products_worth_a_thread, 1, threads));
}

/// Valid until the next call of this thread. The team must have the size `threads`.
prepared& ready(const narrow_product& shape, int threads) {
  static thread_local preparations mine;
  return mine.of(shape, threads);
}

void execute(prepared& p,
             const narrow_product& shape,
             const void* a,
             const void* b,
             const void* bias,
             void* c,
             const context& in) {
  const auto tell = [&](int which, const void* data) {
    p.operands.at(which).set_data_handle(const_cast<void*>(data));
  };
  tell(DNNL_ARG_SRC, a);
  tell(DNNL_ARG_WEIGHTS, b);
  tell(DNNL_ARG_DST, c);
  tell(DNNL_ARG_SCRATCHPAD, scratch_array<std::byte>(in, p.scratch_bytes));
  if (shape.biased)
    tell(DNNL_ARG_BIAS, bias);
  static thread_local dnnl::stream order(processor());
  try {
    p.product.execute(order, p.operands);
    order.wait();
  } catch (const dnnl::error& e) {
    refuse(name(shape.type), shape.M, shape.N, shape.K, e.status);
  }
}

}  // namespace

void multiply(matrix a,
              matrix b,
              float* c,
              std::int64_t M,
              std::int64_t N,
              std::int64_t K,
              float beta,
              int threads) {
  const std::int64_t worth = M * N * K / products_worth_a_thread;
  const team sized(int(std::clamp<std::int64_t>(worth, 1, threads)));
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N',
                                 b.transposed ? 'T' : 'N',
                                 M,
                                 N,
                                 K,
                                 1,
                                 a.data,
                                 a.row,
                                 b.data,
                                 b.row,
                                 beta,
                                 c,
                                 N);
  if (status != dnnl_success)
    refuse("float", M, N, K, status);
}

std::size_t scratch(const narrow_product& shape, int threads) {
  const int size = team_of(shape, threads);
  const team sized(size);
  const prepared& p = ready(shape, size);
  return p.exists ? p.scratch_bytes : widened_scratch(shape);
}

template <class T>
void multiply(
    const narrow_product& shape, const T* a, const T* b, const T* bias, T* c, const context& in) {
  const int size = team_of(shape, in.threads);
  const team sized(size);
  if (prepared& p = ready(shape, size); p.exists)
    execute(p, shape, a, b, bias, c, in);
  else
    widened_multiply(shape, a, b, bias, c, in);
}

template <class T>
void multiply(const narrow_product& shape, const T* a, const T* b, float* c, const context& in) {
  const int size = team_of(shape, in.threads);
  const team sized(size);
  if (prepared& p = ready(shape, size); p.exists)
    execute(p, shape, a, b, nullptr, c, in);
  else
    widened_multiply(shape, a, b, c, in);
}

#define TROUPE_INSTANTIATE(T)                                                                      \
  template void multiply(const narrow_product&, const T*, const T*, const T*, T*, const context&); \
  template void multiply(const narrow_product&, const T*, const T*, float*, const context&);
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
