#include "runtime/autograd/tape.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {

void tape::enter(int unit) {
  ensure(unit_ < 0, "TAPE-1: segments do not overlap");
  unit_ = unit;
  store_.acquire(unit);
  segments_.push_back({.unit = unit});
}

void tape::leave() {
  store_.release(std::exchange(unit_, -1));
}

variable tape::make(tensor data) const {
  return {std::move(data), recording_ ? std::make_shared<gradient_slot>() : nullptr};
}

void tape::record(std::unique_ptr<node> x) {
  if (recording_)
    segments_.back().nodes.push_back(std::move(x));
}

void tape::add(gradient_slot& to, tensor part) {
  if (!to.sum) {
    to.sum = std::move(part);
    return;
  }
  // Into a new tensor: the old sum may be the very tensor that another variable was given.
  auto sum = tensor::empty<float>(stream_, part.extents());
  stream_.run(kernels::add<float>{
      sum.data<float>(), to.sum.data<float>(), part.data<float>(), part.size()});
  to.sum = std::move(sum);
}

void tape::input_gradients(int index) {
  auto& s = segments_.at(std::size_t(index));
  ensure(!std::exchange(s.i_done, true), "TAPE-2: a segment gives its input gradients once");
  unit_ = s.unit;
  store_.acquire(unit_);
  for (auto at = s.nodes.rbegin(); at != s.nodes.rend(); ++at)
    (*at)->input_gradients(*this);
  store_.release(std::exchange(unit_, -1));
}

void tape::weight_gradients(int index) {
  auto& s = segments_.at(std::size_t(index));
  ensure(s.i_done && !std::exchange(s.w_done, true),
         "TAPE-3: weight gradients come once, after input gradients");
  unit_ = s.unit;
  store_.acquire(unit_);
  for (auto at = s.nodes.rbegin(); at != s.nodes.rend(); ++at)
    (*at)->weight_gradients(*this);
  s.nodes.clear();
  const bool last = std::none_of(segments_.begin(),
                                 segments_.begin() + index,
                                 [&](const segment& other) { return other.unit == s.unit; });
  if (last)
    store_.emit(unit_);
  store_.release(std::exchange(unit_, -1));
}

}  // namespace troupe::runtime
