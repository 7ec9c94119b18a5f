#include "runtime/tensor/reads.hpp"

#include <algorithm>

namespace troupe::runtime {

namespace {

constexpr std::size_t page = std::size_t{64} << 10;
constexpr std::size_t line = 64;

}  // namespace

memory_block reads::there(const tensor& x) {
  auto pool = stream_.pool();
  if (pool.is_shadow()) {
    auto nothing = std::make_shared<std::vector<std::byte>>(x.bytes());
    return {nothing, nothing->data()};
  }
  if (stream_.queue() == nullptr)
    return x.block();
  const auto bytes = (x.bytes() + line - 1) / line * line;
  if (bytes > left_) {
    left_ = std::max(bytes, page);
    page_ = pool.allocate_pinned(left_);
  }
  memory_block out(page_, page_.get());
  stream_.copy(out.get(), x.raw(), x.bytes());
  left_ -= bytes;
  page_ = {page_, page_.get() + bytes};
  return out;
}

void reads::finish() {
  stream_.finish();
  for (const auto& x : std::exchange(begun_, {}))
    x.then(x.at.get());
  page_.reset();
  left_ = 0;
}

}  // namespace troupe::runtime
